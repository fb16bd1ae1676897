r"""Small finite facts in full: the calendar, the clock, addresses, escapes, classes, against oracles that list them.

A table of samples lets one wrong entry live; here every case is asked.  Where a case is the state of an automaton, all
prefixes that lead to the state are one case.
"""

from __future__ import annotations

import calendar
import itertools
import json
import re
import shutil
import subprocess
import unicodedata

import pytest
from constrained.export.schema_rules import hexadecimals

from constrained.errors import GrammarError
from constrained.formats.binding.rules import _left_of
from constrained.grammar import Pattern
from constrained.regex import Expr, char_class, concat, matches, parse_ecma, parse_python
from constrained.regex.charset import MAX, category, contains, unicode_property
from constrained.regex.expr import single, step
from constrained.schema.reading.keywords import KEYWORDS
from constrained.schema.strings.formats import format_expr

TWO = [f"{number:02}" for number in range(100)]


def after(language: Expr, text: str) -> Expr:
    for char in text:
        language = step(language, ord(char))
    return language


def test_every_year_is_a_leap_year_or_not():
    """All 10,000 years lead to two states, and the two know every month and day."""
    states: dict[Expr, set[int]] = {}
    for thousands in TWO:
        century = after(format_expr("date"), thousands)
        for rest in TWO:
            states.setdefault(after(century, f"{rest}-"), set()).add(int(thousands + rest))
    assert sorted(map(sorted, states.values())) == sorted(
        [year for year in range(10_000) if (year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)) is leap]
        for leap in (True, False)
    )
    assert all(calendar.isleap(year) is (0 in years) for years in states.values() for year in years)
    for state, years in states.items():
        days = {
            f"{month:02}-{day:02}"
            for month in range(1, 13)
            for day in range(1, calendar.monthrange(2000 if 0 in years else 1900, month)[1] + 1)
        }
        if 0 not in years:
            assert "02-29" not in days
        assert {text for pair in itertools.product(TWO, TWO) if matches(state, text := "-".join(pair))} == days


def test_every_time_of_day():
    for hour in TWO:
        at_hour = after(format_expr("time"), f"{hour}:")
        for minute in TWO:
            state = after(at_hour, f"{minute}:")
            assert matches(state, "00Z") is (int(hour) < 24 and int(minute) < 60), (hour, minute)
    noon = after(format_expr("time"), "12:00:")
    assert [second for second in TWO if matches(noon, f"{second}Z")] == TWO[:60]
    assert {(hour, minute) for hour in TWO for minute in TWO if matches(noon, f"00+{hour}:{minute}")} == set(
        itertools.product(TWO[:24], TWO[:60])
    )
    assert {(hour, minute) for hour in TWO for minute in TWO if matches(noon, f"00-{hour}:{minute}")} == set(
        itertools.product(TWO[:24], TWO[:60])
    )


def texts_of(language: Expr) -> list[str]:
    found, todo = [], [("", language)]
    while todo:
        text, state = todo.pop()
        if state.accepts:
            found.append(text)
        todo += [
            (text + chr(point), target)
            for low, high, target in state.edges()
            if chr(low) != "."
            for point in range(low, high + 1)
        ]
    return found


def test_every_leap_second():
    """The offsets that a second 60 may have, at each of the 1,440 times, are those that make it 23:59 in UTC."""
    wanted: dict[int, set[str]] = {local: set() for local in range(1440)}
    wanted[1439] |= {"z", "Z"}
    for sign, minutes in itertools.product((1, -1), range(1440)):
        wanted[(1439 + sign * minutes) % 1440].add(f"{'+' if sign > 0 else '-'}{minutes // 60:02}:{minutes % 60:02}")
    for local, offsets in wanted.items():
        assert set(texts_of(after(format_expr("time"), f"{local // 60:02}:{local % 60:02}:60"))) == offsets, local


def test_every_octet():
    for before, behind in (("", ".0.0.0"), ("1.22.", ".3"), ("255.255.255.", "")):
        state = after(format_expr("ipv4"), before)
        numbers = (
            [f"{number}" for number in range(1100)]
            + [f"0{number}" for number in range(260)]
            + ["", "00", "000", "+1", " 1", "1 "]
        )
        assert [text for text in numbers if matches(state, text + behind)] == [str(number) for number in range(256)]
    assert not matches(format_expr("ipv4"), "1.2.3")
    assert not matches(format_expr("ipv4"), "1.2.3.4.5")


def test_every_shape_of_an_ipv6_address():
    """Groups before and behind "::", with and without an IPv4 address, against the counts of RFC 4291."""
    v6 = format_expr("ipv6")
    for before, behind, v4, gap in itertools.product(range(10), range(10), (False, True), (False, True)):
        if not gap and behind:
            continue
        left, right = ["1"] * before, ["2"] * behind
        (right if gap else left).extend(["1.2.3.4"] if v4 else [])
        text = ":".join(left) + ("::" if gap else "") + ":".join(right)
        groups = before + behind + 2 * v4
        assert matches(v6, text) is (groups <= 7 if gap else groups == 8), text
    for group in ("0", "00", "000", "0000", "00000", "g", "F", "aBcD", "-1"):
        assert matches(v6, f"1:2:3:{group}:5:6:7:8") is (
            0 < len(group) <= 4 and set(group) <= set("0123456789abcdefABCDEF")
        ), group


def durations() -> set[str]:
    """The sequences of designators of RFC 3339, appendix A, rule by rule."""
    second = {"S"}
    minute = {"M"} | {"M" + rest for rest in second}
    hour = {"H"} | {"H" + rest for rest in minute}
    time = {"T" + rest for rest in hour | minute | second}
    day = {"D"}
    month = {"M"} | {"M" + rest for rest in day}
    year = {"Y"} | {"Y" + rest for rest in month}
    date = {first + rest for first in day | month | year for rest in {""} | time}
    return date | time | {"W"}


def test_every_duration():
    duration, valid = format_expr("duration"), durations()
    for size in range(6):
        for letters in itertools.product("YMWDTHS", repeat=size):
            text = "".join(letters)
            assert matches(duration, "P" + re.sub("[^T]", r"1\g<0>", text)) is (text in valid), text


def is_pointer(text: str) -> bool:
    return (text == "" or text.startswith("/")) and all(rest[:1] in ("0", "1") and rest for rest in text.split("~")[1:])


def test_every_short_json_pointer():
    pointer, relative = format_expr("json-pointer"), format_expr("relative-json-pointer")
    for size in range(6):
        for chars in itertools.product("/~012#", repeat=size):
            text = "".join(chars)
            assert matches(pointer, text) is is_pointer(text), text
            digits = re.match("0|[12][012]*", text)
            rest = text[digits.end() :] if digits else ""
            assert matches(relative, text) is (digits is not None and (rest == "#" or is_pointer(rest))), text


def test_every_place_of_a_uuid():
    text = "0aF1b2c3-d4e5-f607-1829-3a4b5c6d7e8f"
    for at, char in itertools.product(range(36), "0-gG {"):
        changed = text[:at] + char + text[at + 1 :]
        assert matches(format_expr("uuid"), changed) is ((char == "-") is (text[at] == "-") and char in "0-"), changed


# The escapes of ECMA-262 with the u flag and, of Annex B, punctuation; None: an error, or a class tested elsewhere.
ECMA_ESCAPES = {char: ord(char) for char in map(chr, range(33, 127)) if not char.isalnum()}
ECMA_ESCAPES |= {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "0": 0}
CLASSES = {
    "d": r"[0-9]",
    "D": r"[^0-9]",
    "w": r"[0-9A-Za-z_]",
    "W": r"[^0-9A-Za-z_]",
    "s": "[\t-\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]",
    "S": "[^\t-\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]",
}


@pytest.mark.parametrize("form", ["^\\{}$", "^[\\{}]$"])
def test_every_escape_of_ecma(form):
    for char in map(chr, range(33, 127)):
        if char in "bBcxupP" or char in CLASSES:
            continue
        try:
            found = parse_ecma(form.format(char))
        except GrammarError:
            assert char not in ECMA_ESCAPES, char
        else:
            assert single(found) == ((ECMA_ESCAPES[char],) * 2,), char
    assert single(parse_ecma(r"^[\b]$")) == ((8, 8),)
    for letter in map(chr, (*range(65, 91), *range(97, 123))):
        assert single(parse_ecma(form.format("c" + letter))) == ((ord(letter) % 32,) * 2,)
    for point in range(256):
        assert (
            single(parse_ecma(form.format(f"x{point:02x}")))
            == single(parse_ecma(form.format(f"u{{{point:X}}}")))
            == ((point, point),)
        )


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_every_character_of_an_ecma_class(name):
    wanted = parse_python(CLASSES[name])
    assert parse_ecma(f"^\\{name}$") is wanted
    assert parse_ecma(f"^[\\{name}]$") is wanted


@pytest.mark.parametrize("flags", ["", "i", "a", "ia"])
@pytest.mark.parametrize("form", ["\\{}", "[\\{}]", "[^\\{}]", "[x\\{}]"])
def test_every_escape_of_python(form, flags):
    text = "".join(map(chr, [*range(0x250), 0x370, 0x3A9, 0x660, 0x1680, 0x2028, 0x212A, 0x3000]))
    for char in map(chr, range(33, 127)):
        pattern, numbers = form.format(char), sum({"i": re.I, "a": re.A}[letter] for letter in flags)
        try:
            oracle = re.compile(pattern, numbers)
        except re.error:
            with pytest.raises(GrammarError):
                parse_python(pattern, flags)
            continue
        if char in "AbBZz" and form == "\\{}":
            continue
        language = parse_python(pattern, flags)
        assert [found for found in text if matches(language, found)] == oracle.findall(text), (pattern, flags)


@pytest.mark.parametrize(
    "text",
    [
        "[a-z]",
        "[^a-z]",
        "[K-\u0131]",
        "ſ",
        "[^ſk]",
        "[\u0370-\u03ff]",
        "[\u1c80-\u1fff]",
        "[\u2100-\u2130]",
        "[\U00010400-\U0001e943]",
    ],
)
@pytest.mark.parametrize("flags", ["i", "ia"])
def test_every_character_of_a_class_without_case(text, flags):
    oracle = re.compile(text, sum({"i": re.I, "a": re.A}[letter] for letter in flags))
    language = parse_python(text, flags)
    everything = "".join(
        map(
            chr,
            [
                *range(0x3000),
                *range(0xA640, 0xABFF),
                *range(0xFF00, 0xFFFF),
                *range(0x10400, 0x10600),
                *range(0x1E900, 0x1E950),
            ],
        )
    )
    assert [char for char in everything if contains(single(language), ord(char))] == oracle.findall(everything)


def test_every_character_has_its_category():
    """`unicodedata` and the committed table may be of different versions: what both know has one category, but for a
    few that moved.
    """
    names = sorted({unicodedata.category(chr(point)) for point in range(MAX + 1)} - {"Cs", "Cn"})
    moved = 0
    for name in names:
        ours, running = unicode_property(name), category(name)
        moved += sum(high - low + 1 for low, high in running) - sum(
            max(0, min(high, top) - max(low, bottom) + 1)
            for low, high in running
            for bottom, top in ours
            if bottom <= high and low <= top
        )
        assert char_class(ours) is parse_ecma(rf"^\p{{{name}}}$")
    assert moved <= 30


EDGES = (0, 1, 9, 10, 15, 16, 17, 0x2E, 0x2F, 0x30, 0x9F, 0xA0, 0xEF, 0xF0, 0xFE, 0xFF)


@pytest.mark.parametrize("upper", [False, True])
def test_every_range_of_hexadecimal_numbers(upper):
    """All numbers of two digits, asked of ranges that begin and end at, before and behind what a digit changes."""
    for low, high in itertools.combinations_with_replacement(EDGES, 2):
        pattern = re.compile(hexadecimals(((low, high),), 2, upper=upper))
        for number in range(256):
            small, large = f"{number:02x}", f"{number:02X}"
            assert bool(pattern.fullmatch(small)) == (low <= number <= high), (pattern, small)
            assert bool(pattern.fullmatch(large)) == (low <= number <= high and (upper or small == large))


ALWAYS = """$ref definitions type enum multipleOf minimum maximum minLength maxLength pattern format minItems maxItems
    uniqueItems properties patternProperties additionalProperties required minProperties maxProperties allOf anyOf oneOf
    not"""
DRAFTS_OF = {
    (4, 4): "exclusiveMinimum exclusiveMaximum",  # true or false, beside the bound
    (4, 7): "dependencies",
    (4, 2019): "items additionalItems",
    (4, 2020): ALWAYS,
    (6, 2020): "const exclusiveMinimum exclusiveMaximum contains propertyNames",
    (7, 2020): "if then else",
    (2019, 2019): "$recursiveRef $recursiveAnchor",
    (2019, 2020): "$anchor $defs unevaluatedItems unevaluatedProperties minContains maxContains dependentRequired"
    " dependentSchemas",
    (2020, 2020): "$dynamicRef $dynamicAnchor items prefixItems",
}


def test_every_keyword_belongs_to_the_drafts_that_define_it():
    found = sorted((record.since, record.until, record.name) for record in KEYWORDS)
    assert found == sorted((*drafts, name) for drafts, names in DRAFTS_OF.items() for name in names.split())


@pytest.mark.parametrize("point", [0, 0x20, 0x2C, 0x7E, 0xD7FF, 0xE000, MAX])
def test_a_pattern_left_of_a_character_takes_both_ends_of_a_range(point):
    """The prompt ends with a character that the turn's grammar begins with."""
    for low, high in ((point, point), (max(point - 1, 0), point), (point, min(point + 1, MAX))):
        pattern = Pattern(concat(char_class(((low, high),)), parse_python("x")), "")
        left = _left_of(pattern, chr(point), ())
        assert left is not None
        assert matches(left[0].language, "x")
    assert _left_of(Pattern(char_class(((0x21, 0x22),)), ""), "\x20", ()) is None


# Characters that simple case folding makes equal to others of a set, by code point.
WITHOUT_CASE = {
    r"\w": {0x17F, 0x212A},  # and the word characters of ASCII
    "s": {0x53, 0x73, 0x17F},
    "k": {0x4B, 0x6B, 0x212A},
    "\u03b9": {0x345, 0x399, 0x3B9, 0x1FBE},
    "\u00df": {0xDF, 0x1E9E, 0x1DF95},
    "\u00e5": {0xC5, 0xE5, 0x212B},
    "\u03c9": {0x3A9, 0x3C9, 0x2126},
    "\u03c3": {0x3A3, 0x3C3, 0x3C2},
    "\u00b5": {0xB5, 0x39C, 0x3BC},
    "\u0130": {0x130},  # full folding makes it two characters
    "\u0131": {0x131},
    "\ufb05": {0xFB05, 0xFB06},
    "\u1f80": {0x1F80, 0x1F88},
}


@pytest.mark.parametrize("text", WITHOUT_CASE)
def test_every_character_of_an_ecma_class_without_case(text):
    """ECMA-262's Canonicalize with the flags i and u is simple case folding; a class is closed before it is negated."""
    word = {point for point in range(128) if chr(point).isalnum() or chr(point) == "_"} if text == r"\w" else set()
    for form, inside in ((f"(?i)^{text}$", True), (f"(?i)^[{text}]$", True), (f"(?i)^[^{text}]$", False)):
        language = parse_ecma(form)
        listed = {point for point in range(0x20000) if not 0xD800 <= point < 0xE000 and step(language, point).accepts}
        assert (listed if inside else {*range(0xD800), *range(0xE000, 0x20000)} - listed) == WITHOUT_CASE[text] | word


NODE = r"""
const patterns = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const known = /\p{Assigned}/u, found = [];
for (let point = 0; point <= 0x10ffff; point++) {
  if (point >= 0xd800 && point < 0xe000) continue;
  const char = String.fromCodePoint(point);
  if (known.test(char)) found.push([point, patterns.map(p => new RegExp('^' + p + '$', 'iu').test(char) ? 1 : 0)]);
}
console.log(JSON.stringify(found));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_every_character_without_case_is_as_in_javascript():
    patterns = [r"\w", r"\W", r"\d", r"\s", "[^a-z]", r"[^\W]", r"[\w-]", "\u0345", "[^K]", "[\u0391-\u03a9]", "\ufb06"]
    ours = [parse_ecma(f"(?i)^{pattern}$") for pattern in patterns]
    said = subprocess.run(["node", "-e", NODE], input=json.dumps(patterns), capture_output=True, text=True, check=True)
    differing = [
        point for point, verdicts in json.loads(said.stdout)
        if [int(step(language, point).accepts) for language in ours] != verdicts
    ]
    assert differing == []
