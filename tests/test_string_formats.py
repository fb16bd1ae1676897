"""String formats: a table of texts, the calendar and the leap seconds in full, and other implementations where there
are some.
"""

from __future__ import annotations

import calendar
import importlib.util
import ipaddress
import itertools
import json
import random
import tomllib
import unicodedata
import uuid
from pathlib import Path

import pytest

from constrained import Grammar, Vocabulary, compile
from constrained.errors import GrammarError, Rejected
from constrained.regex import Expr, example, is_empty, matches, parse_ecma
from constrained.schema.strings import idn
from constrained.schema.strings.formats import (
    _FORMATS,
    INEXACT,
    NARROWED,
    format_expr,
    format_hull,
)

EVERY_BYTE = Vocabulary([bytes([byte]) for byte in range(256)], special={"<end>": 256}, stop=[256], size=257)
TABLE = tomllib.loads((Path(__file__).parent / "corpus" / "formats_string.toml").read_text("utf-8"))
ROWS = [
    (name, text, verdict == "valid")
    for name, texts in TABLE.items()
    for verdict in ("valid", "invalid")
    for text in texts[verdict]
]


@pytest.mark.parametrize(("name", "text", "valid"), ROWS)
def test_table(name, text, valid):
    assert matches(format_expr(name), text) is valid


def test_every_format_has_rows():
    aliases = {"host-name", "ip-address"}
    assert set(TABLE) == set(_FORMATS) - aliases
    assert INEXACT - aliases <= set(TABLE)
    assert format_expr("no-such-format") is None


def test_the_calendar_in_full():
    date = format_expr("date")
    for year in (*range(1, 10), *range(1890, 2110), 2400, 4000, 9900, 9999):
        for month in range(14):
            last = calendar.monthrange(year, month)[1] if 1 <= month <= 12 else 0
            for day in (0, 1, 9, 10, 28, 29, 30, 31, 32):
                assert matches(date, f"{year:04}-{month:02}-{day:02}") is (1 <= day <= last), (year, month, day)


# Starters that compose and that do not, with marks of many classes behind them: 220 and 230, 9, 7, 30 and 33, 0.
NORMAL = [
    "eé\u1eb9qɔ\u0301\u0323\u0328", "ক\u09c7\u09be\u09d7\u09bc\u09cd", "ش\u0627\u064e\u0651\u0653\u0655", "うか\u3099\u309aと\u0301",
    "\u0d46\u0d47\u0d3e\u0d57ක\u0dca\u0dd9\u0dcf\u0ddd", "ວ\u0eb8\u0ec9\u0301\u0323é",
]  # fmt: skip


@pytest.mark.parametrize("letters", NORMAL, ids=ascii)
def test_international_labels_are_in_normal_form(letters):
    """None is taken that is not; of those that are, only ones with two marks near one another or a mark behind a letter
    that composes.
    """
    language, marks = format_expr("idn-hostname"), {char for char in letters if unicodedata.category(char)[0] == "M"}
    assert marks
    for text in ("".join(chars) for length in (1, 2, 3, 4) for chars in itertools.product(letters, repeat=length)):
        taken = matches(language, text)
        assert not taken or unicodedata.is_normalized("NFC", text), ascii(text)
        if sum(char in marks for char in text) == 0:
            assert taken is unicodedata.is_normalized("NFC", text) or text.isascii(), ascii(text)
        elif not taken and text[0] not in marks and unicodedata.is_normalized("NFC", text):
            near = any(one in marks and other in marks for one, other in itertools.pairwise(text))
            behind = any(other in marks and _composes(one, letters) for one, other in itertools.pairwise(text))
            assert near or behind, ascii(text)


def _composes(char: str, letters: str) -> bool:
    decomposed = unicodedata.normalize("NFD", char)
    every = "\u0301\u0323\u0328\u0304\u0302\u09be\u0653\u3099\u0d3e\u0dcf\u0dca"
    return any(unicodedata.normalize("NFC", decomposed + mark) != char + mark for mark in every + letters)


def test_leap_seconds_in_full():
    time = format_expr("time")
    offsets = [
        (sign, hour, minute) for sign in (1, -1) for hour in (0, 1, 5, 9, 13, 23) for minute in (0, 1, 30, 45, 59)
    ]
    for local in range(1440):
        for sign, hour, minute in offsets:
            offset = f"{'+' if sign > 0 else '-'}{hour:02}:{minute:02}"
            utc = (local - sign * (hour * 60 + minute)) % 1440
            assert matches(time, f"{local // 60:02}:{local % 60:02}:60{offset}") is (utc == 1439)
    assert matches(time, "23:59:60.999Z")


def test_addresses_agree_with_the_standard_library():
    chosen = random.Random(1)
    v6 = format_expr("ipv6")
    for _ in range(3000):
        text = "".join(
            chosen.choice([":", ":", "::", "0", "ff", "1a2b", "1.2.3.4", "12345"]) for _ in range(chosen.randint(1, 17))
        )
        try:
            ipaddress.IPv6Address(text)
            valid = True
        except ValueError:
            valid = False
        assert matches(v6, text) is valid, text
    for number in range(200):
        assert matches(v6, str(ipaddress.IPv6Address(chosen.getrandbits(128) & chosen.getrandbits(128)))), number
        assert matches(format_expr("uuid"), str(uuid.UUID(int=chosen.getrandbits(128))))


def test_lengths_of_host_names():
    host = format_expr("hostname")
    assert matches(host, "a" * 63)
    assert not matches(host, "a" * 64)
    assert matches(host, ".".join(["a" * 63] * 3) + "." + "a" * 61)
    assert not matches(host, ".".join(["a" * 63] * 3) + "." + "a" * 62)
    for prefix in ("xn", "xna", "xn-", "xn-a", "x", "n"):
        for size in (62, 63, 64):
            name = prefix + "b" * (size - len(prefix))
            assert matches(host, name) is (size <= 63), name


def walk(language: Expr, chosen: random.Random) -> str:
    """Return a random text: a walk along the edges, then the shortest way to an end."""
    text = ""
    for _ in range(chosen.randint(0, 25)):
        edges = language.edges()
        if not edges:
            break
        low, high, language = chosen.choice(edges)
        text += chr(chosen.randint(low, min(high, low + 100)))
    return text + (example(language) or "")


@pytest.mark.parametrize("name", sorted(_FORMATS))
def test_every_walk_ends_in_the_language(name):
    language, chosen = format_expr(name), random.Random(2)
    assert not is_empty(language)
    for _ in range(40):
        assert matches(language, walk(language, chosen))


@pytest.mark.parametrize("name", sorted(set(_FORMATS)))
def test_a_narrowed_format_has_a_hull(name):
    language, hull = format_expr(name), format_hull(name)
    assert (hull is not None) is (name in NARROWED)
    if hull is None:
        return
    for text in TABLE.get(name, {"valid": ["a", "a.b-c"]})["valid"]:
        assert matches(hull, text), text
    chosen = random.Random(5)
    for _ in range(10 if name == "idn-hostname" else 100):
        assert matches(hull, walk(language, chosen))


@pytest.mark.parametrize(("schema", "valid", "invalid"), [
    ({"not": {"format": "hostname"}}, ["", "-", "a..b", "a b"], ["a", "1.2.3.4", "xn--mnchen-3ya.de"]),
    ({"not": {"format": "regex"}}, ["*", ")a"], ["a", "(?<n>a)", "[a-b]"]),
    ({"not": {"format": "idn-hostname"}}, ["", "a b", "a_b"], ["a", "bücher.example", "xn--a"]),
    ({"not": {"not": {"format": "hostname"}}}, ["a"], ["", "-"]),
    ({"oneOf": [{"format": "hostname"}, {"format": "ipv4"}, {"format": "ipv6"}]}, ["a.b", "::1"], ["1.2.3.4", "", "-"]),
    ({"if": {"format": "hostname"}, "then": {"maxLength": 3}, "else": {"maxLength": 1}}, ["abc", "-"], ["abcd", "--"]),
])
def test_complements_of_narrowed_formats(schema, valid, invalid):
    constraint = compile(Grammar.from_json_schema({"type": "string", **schema}, whitespace="compact"), EVERY_BYTE)
    for text, expected in [(text, True) for text in valid] + [(text, False) for text in invalid]:
        matcher = constraint.matcher()
        try:
            for byte in json.dumps(text, ensure_ascii=False).encode():
                matcher.advance(byte)
        except Rejected:
            assert not expected, text
        else:
            assert matcher.is_accepting() is expected, text


def test_regex_texts_are_patterns():
    chosen = random.Random(4)
    for _ in range(300):
        pattern = walk(format_expr("regex"), chosen)
        try:
            parse_ecma(pattern)
        except GrammarError as error:
            assert "look-behind" in str(error)  # a pattern of ECMA-262 that we cannot compile


def test_a_bound_on_the_length_of_a_regex_costs_little():
    """The language is plain, so that nobody has to find out in each state whether a text is left that is short enough."""
    schema = {"type": "string", "format": "regex", "maxLength": 1000}
    constraint = compile(Grammar.from_json_schema(schema), EVERY_BYTE, max_work=150_000)
    matcher = constraint.matcher()
    for byte in b'"(?:[a-z]+|\\\\d{2,})x*|(a(b(c|d)?)+)':
        matcher.advance(byte)
    assert matcher.accepts(ord('"'))
    assert format_expr("regex").plain


def test_a_date_time_visits_few_states():
    state, seen = format_expr("date-time"), set()
    for char in "2024-02-29T23:59:60.123456+00:00":
        state = next(target for low, high, target in state.edges() if low <= ord(char) <= high)
        seen.add(state)
    assert len(seen) <= 30


@pytest.fixture(scope="module")
def idn_table():
    """What derives the table of international names from Unicode's properties."""
    table = Path(idn.__file__).with_suffix(".txt").read_text(encoding="ascii")
    if f"Unicode {unicodedata.unidata_version};" not in table[:100]:
        pytest.skip("the running Python has another Unicode than the table")
    spec = importlib.util.spec_from_file_location("idn_table", Path(__file__).parents[1] / "tools" / "idn_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_character_that_international_names_may_hold(idn_table):
    """As the package `idna` has it, of what the running Python knows."""
    classes = pytest.importorskip("idna.idnadata").codepoint_classes
    theirs = {point for runs in classes.values() for run in runs for point in range(run >> 32, run & 0xFFFFFFFF)}
    ours = {point for low, high in idn_table.valid_characters() for point in range(low, high + 1)}
    known = {point for point in theirs | {ord("-")} if unicodedata.category(chr(point)) != "Cn"}
    assert ours == known


def test_the_table_of_international_names_is_what_the_rules_say(idn_table):
    """Of walks through the table, and of these with one character changed."""
    kinds, language = idn_table.rules()
    kind_of = {point: kind for low, high, kind in kinds.pieces for point in range(low, high + 1)}
    chosen, every = random.Random(7), [*kind_of]
    for _ in range(300):
        text = walk(format_expr("idn-hostname"), chosen)[:57]
        at = chosen.randrange(len(text))
        for name in (text, f"{text[:at]}{chr(chosen.choice(every))}{text[at + 1 :]}"):
            as_kinds = "".join(chr(kind_of[ord(char)]) for char in name)
            assert matches(format_expr("idn-hostname"), name) is matches(language, as_kinds), ascii(name)
