"""Every way to spell one character in a quoting: both kernels and the patterns printed for Lark, against `json`, `ast`
and `repr`.
"""

from __future__ import annotations

import ast
import itertools
import json
import re
import warnings
from collections.abc import Callable, Iterator

import pytest
from constrained.export.schema_rules import ways
from schema_words import VOCABULARY, accepts

from constrained import caches
from constrained.engine.compiled import kernel_class
from constrained.engine.spelling import variants
from constrained.machine import Language, LiteralSet, Quoting, Text
from constrained.regex import ANY_TEXT, Expr, char_class

# where something begins, ends or changes: controls, quotes, widths of UTF-8 and of escapes, blocks of surrogate pairs
EDGES = (
    0, 8, 9, 0xA, 0xB, 0xD, 0x1F, 0x20, 0x22, 0x27, 0x2F, 0x30, 0x5B, 0x5C, 0x5D, 0x7E, 0x7F, 0x80, 0xA0, 0xFF, 0x100,
    0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x103FF, 0x10400, 0x10401, 0x107FF, 0x10800, 0x10FBFF, 0x10FC00,
    0x10FFFF,
)  # fmt: skip
AHEAD = 3  # edges further on, at which a range may end
LETTERS = [chr(point) for point in range(0x21, 0x7F) if chr(point) not in "uUxN"]


def read_json(text: str) -> str | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if not re.search("[\ud800-\udfff]", value) else None


ONE_STRING = re.compile(r"""(['"])(?:\\(?s:.)|(?!\1)[^\\])*\1""")  # not two beside each other, no triple quotes


def read_python(text: str) -> str | None:
    if not ONE_STRING.fullmatch(text):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # an unknown escape
        try:
            value = ast.literal_eval(text)
        except (SyntaxError, ValueError):
            return None
    return value if isinstance(value, str) and not re.search("[\ud800-\udfff]", value) else None


def canonical_json(text: str) -> str | None:
    value = read_json(text)
    return value if value is not None and text == json.dumps(value, ensure_ascii=False) else None


def canonical_python(text: str) -> str | None:
    value = read_python(text)
    return value if value is not None and text == repr(value) else None


READERS: dict[Quoting, Callable[[str], str | None]] = {
    Quoting.JSON: read_json,
    Quoting.JSON_CANONICAL: canonical_json,
    Quoting.PYTHON: read_python,
    Quoting.PYTHON_CANONICAL: canonical_python,
}


def escapes(point: int) -> Iterator[str]:
    """Yield what stands between the quotes: the character, and its escapes in every form that is wide enough or not."""
    yield chr(point)
    yield "\\" + chr(point)
    yield from ("\\x", "\\u", "\\U")
    for form in ("\\x{:02x}", "\\u{:04x}", "\\U{:08x}", "\\u{:05x}"):
        yield form.format(point)
        yield form[:2] + form[2:].replace("x", "X").format(point)
    if point < 0x100:
        yield from ("\\" + form.format(point) for form in ("{:o}", "{:02o}", "{:03o}"))
        yield from (f"\\{point >> 3:o}{digit}" for digit in "789")
    if point >= 0x10000:
        halves = 0xD800 + (point - 0x10000 >> 10), 0xDC00 + (point & 0x3FF)
        for form in ("\\u{:04x}\\u{:04x}", "\\u{:04X}\\u{:04x}", "\\U{:08x}\\U{:08x}"):
            yield form.format(*halves)
        yield f"\\u{halves[0]:04x}"
        yield "\\u{1:04x}\\u{0:04x}".format(*halves)


def kernels(quoting: Quoting, language: Language) -> list[object]:
    return [
        kernel_class(engine)(VOCABULARY, Text(quoting, language), nullable=False, specials={})
        for engine in ("compiled", "plain")
    ]


def quoted(quoting: Quoting, inner: str) -> list[str]:
    return [f'"{inner}"'] + ([f"'{inner}'"] if quoting in (Quoting.PYTHON, Quoting.PYTHON_CANONICAL) else [])


@pytest.mark.parametrize("quoting", READERS, ids=lambda quoting: quoting.name)
def test_every_escape_of_a_range_is_one_that_readers_read(quoting):
    """Asked of ranges between edges, about the characters at and around their ends."""
    read = READERS[quoting]
    for at, low in enumerate(EDGES):
        around = EDGES[max(at - 1, 0) : at + AHEAD + 1]
        texts = [text for point in around for inner in escapes(point) for text in quoted(quoting, inner)]
        for high in EDGES[at : at + AHEAD]:
            ranges = [(low, high)] if high < 0xD800 or low > 0xDFFF else [(low, 0xD7FF), (0xE000, high)]
            engines = kernels(quoting, char_class(tuple(ranges)))
            spelled = [way.quote + way.spell(tuple(ranges)) + way.quote for way in ways(quoting)]
            pattern = re.compile("|".join(spelled[: 1 if quoting is Quoting.PYTHON_CANONICAL else None]))
            for text in texts:
                value = read(text)
                expected = value is not None and len(value) == 1 and low <= ord(value) <= high
                for engine in engines:
                    assert accepts(engine, text) == expected, (engine, text, hex(low), hex(high))
                if quoting is not Quoting.PYTHON_CANONICAL or "'" not in text[1:-1]:  # which choose the quotes
                    assert bool(pattern.fullmatch(text)) == expected, (pattern, text)


@pytest.mark.parametrize("quoting", READERS, ids=lambda quoting: quoting.name)
def test_every_letter_behind_a_backslash(quoting):
    engines = kernels(quoting, ANY_TEXT)
    for letter in LETTERS:
        for text in quoted(quoting, f"\\{letter}"):
            expected = READERS[quoting](text) is not None
            assert [accepts(engine, text) for engine in engines] == [expected] * len(engines), text


@pytest.mark.parametrize("quoting", READERS, ids=lambda quoting: quoting.name)
def test_both_quotes_in_short_texts(quoting):
    """repr() takes the quotes that the text has not, and escapes the single ones of a text that has both."""
    texts = ["".join(chosen) for size in range(4) for chosen in itertools.product("a'\"\\\n", repeat=size)]
    everything = kernels(quoting, ANY_TEXT)
    for text in texts:
        written = {repr(text), json.dumps(text), *quoted(quoting, text), *quoted(quoting, text.replace("'", "\\'"))}
        for spelled in written:
            value = READERS[quoting](spelled)
            for engine in (*everything, *kernels(quoting, LiteralSet((text,)))):
                expected = value is not None and (engine in everything or value == text)
                assert accepts(engine, spelled) == expected, (engine, spelled)


def test_what_repr_quotes_is_not_forgotten():
    """Its automaton is the same for all; whoever empties the caches does not pay for it again."""
    parts = [part for _, part in variants(Quoting.PYTHON_CANONICAL, ANY_TEXT)]
    edges = [part.edges() for part in parts if isinstance(part, Expr)]
    assert len(edges) == 2
    caches.clear()
    again = [part for _, part in variants(Quoting.PYTHON_CANONICAL, ANY_TEXT)]
    assert all(known is part for known, part in zip(again, parts, strict=True))
    assert all(part.edges() is known for part, known in zip(again, edges, strict=True) if isinstance(part, Expr))
