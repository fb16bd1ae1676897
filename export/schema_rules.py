r"""The machine of a schema as Lark rules.

Generic: a machine state becomes a rule, its edges alternatives, a call the callee before what follows it; a text
becomes one terminal where its language is a counted class of characters, else a rule per state of its automaton.  So
everything that has finitely many states is printed exactly.  Three things have not, or too many, and are printed with a
comment that says so:

- keys that are not named: that none comes twice is left out;
- numbers in every spelling, unless all numbers are allowed: printed in canonical spelling;
- strings with bounds: that they spell no marker is left out.

Objects in any order have a state for each set of written keys.  Past `MOST_RULES` there is an error that names the
remedy.

The spellings of characters are patterns of their own (`Way`), as the engine's tables read bytes;
`tests/test_schema_lark.py` compares the two through Lark.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from json.encoder import encode_basestring
from typing import TypeAlias

from constrained.caches import cached
from constrained.errors import GrammarError
from constrained.machine import END, Bytes, Dispatch, Edges, Language, LiteralSet, MarkerSafe, Quoting, State, Text
from constrained.regex import ANY_TEXT, Expr, complement, concat, intersect, is_empty, literal, markers_of, matches
from constrained.regex.charset import intersect as meet
from constrained.regex.markers import ESCAPED, Guarded
from constrained.regex.runs import ClosedRun
from constrained.regex.show import pattern_text
from constrained.schema.key_masks import bits
from constrained.schema.machines.text import cut
from constrained.schema.number_texts import CANONICAL_NUMBERS, NumberTexts, number_language
from constrained.schema.values import NumberRange
from constrained.work import spend

# ======================================================================================================================
# Spellings of one character in each quoting, as a Python regular expression.
#
#     ways(Quoting.JSON) ──► [Way('"', …)]    Way.spell(((0x61, 0x7A),)) ──► '(?:[a-z]|\\u00(?:6[1-9a-fA-F]|7[0-9aA]))'
# ======================================================================================================================

Ranges: TypeAlias = tuple[tuple[int, int], ...]  # inclusive code points, sorted and disjoint

_BEFORE_SURROGATES, _AFTER_SURROGATES = (0, 0xD7FF), (0xE000, 0x10FFFF)
SCALARS: Ranges = (_BEFORE_SURROGATES, _AFTER_SURROGATES)
_MANY = 50  # ranges
_JSON_SHORT = {0x22: '"', 0x5C: "\\", 0x08: "b", 0x0C: "f", 0x0A: "n", 0x0D: "r", 0x09: "t"}
_PYTHON_SHORT = {
    0x5C: "\\",
    0x27: "'",
    0x22: '"',
    0x07: "a",
    0x08: "b",
    0x0C: "f",
    0x0A: "n",
    0x0D: "r",
    0x09: "t",
    0x0B: "v",
}


def clip(ranges: Ranges, low: int, high: int) -> Ranges:
    return tuple((max(a, low), min(b, high)) for a, b in ranges if a <= high and b >= low)


def outside(ranges: Ranges) -> Ranges:
    """Return the scalar values that are not in the ranges."""
    gaps, start = [], 0
    for low, high in sorted(ranges):
        gaps.append((start, low - 1))
        start = high + 1
    gaps.append((start, 0x10FFFF))
    return meet(SCALARS, tuple((low, high) for low, high in gaps if low <= high))


def char_class(ranges: Ranges) -> str:
    """Return a pattern of one character in the ranges.

    >>> char_class(((0x30, 0x39), (0x5D, 0x5D)))
    '[0-9\\\\]]'
    """
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return _char(ranges[0][0])
    return "[" + "".join(_char(low) if low == high else f"{_char(low)}-{_char(high)}" for low, high in ranges) + "]"


def _char(point: int) -> str:
    if 0x20 < point < 0x7F:
        char = chr(point)
        return char if char.isalnum() else "\\" + char
    return f"\\x{point:02x}" if point < 0x100 else f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def quoted(text: str) -> str:
    """Return a pattern of one text without characters that Lark reads itself."""
    return "".join(_char(ord(char)) for char in text)


def _digit(low: int, high: int, *, upper: bool) -> str:
    chars = "0123456789abcdef"[low : high + 1]
    if len(chars) == 1 and (chars.isdigit() or not upper):
        return chars
    numbers, letters = [c for c in chars if c.isdigit()], [c for c in chars if c.isalpha()]
    spans = [(part[0], part[-1]) for part in (numbers, letters, [c.upper() for c in letters] if upper else []) if part]
    return "[" + "".join(a if a == b else f"{a}-{b}" for a, b in spans) + "]"


@lru_cache(maxsize=1024)
def hexadecimals(ranges: Ranges, digits: int, *, upper: bool) -> str:
    """Return a pattern of the numbers in some ranges in a fixed number of hexadecimal digits, no two alternatives of
    which begin alike.

    >>> hexadecimals(((0x07, 0x08), (0x17, 0x18), (0x20, 0x2F)), 2, upper=False)
    '(?:[0-1][7-8]|2[0-9a-f])'
    """
    unit = 16 ** (digits - 1)
    groups: dict[Ranges, list[int]] = {}
    for digit in range(16):
        rest = tuple(
            (low - digit * unit, high - digit * unit)
            for low, high in clip(ranges, digit * unit, (digit + 1) * unit - 1)
        )
        if rest:
            groups.setdefault(rest, []).append(digit)
    found = []
    for rest, values in groups.items():
        runs = [value for value in values if value - 1 not in values]
        spans = [(low, next(high for high in range(low, 16) if high + 1 not in values)) for low in runs]
        head = "[" + "".join(_digit(low, high, upper=upper).strip("[]") for low, high in spans) + "]"
        head = head if len(values) > 1 or len(head) > 3 else head[1:-1]
        found.append(head + (hexadecimals(rest, digits - 1, upper=upper) if digits > 1 else ""))
    return found[0] if len(found) == 1 else f"(?:{'|'.join(found)})"


def fixed(text: str) -> str:
    """Return a pattern of one text, as it stands between slashes."""
    return re.escape(text).replace("/", r"\/")


@dataclass(frozen=True, slots=True)
class Way:
    """One way to write a text.  `hexes`: (letter, digits, which code points, upper case allowed) of each form of
    escape.
    """

    quote: str
    raw: Ranges
    short: dict[int, str] = field(default_factory=dict, hash=False)
    hexes: tuple[tuple[str, int, Ranges, bool], ...] = ()
    pairs: bool = False  # code points above U+FFFF as two escapes
    octal: bool = False
    markers: tuple[str, ...] = ()  # what no text spells
    skipped: str = ""  # a pattern of what may stand before any character and the closing quote and means nothing

    def __hash__(self) -> int:
        """Leave out long tables: what is left tells nearly all ways apart."""
        return hash((self.quote, self.markers, self.skipped, self.pairs, self.octal))

    def apart(self, ranges: Ranges) -> list[Ranges]:
        """Return the ranges, where they are written as long classes in two parts: beyond ASCII they are the same nearly
        everywhere.
        """
        return (
            [part for part in (clip(ranges, 0, 0x7F), clip(ranges, 0x80, 0x10FFFF)) if part]
            if len(self.raw) > _MANY
            else [ranges]
        )

    def loosely(self, ranges: Ranges) -> str:
        """Return a pattern of the spellings of the characters in the ranges, wherever markers are."""
        ends = {marker[-1] for marker in self.markers if clip(meet(self.raw, ranges), ord(marker[-1]), ord(marker[-1]))}
        return (
            f"(?:{'|'.join([self.spell(ranges), *(fixed(self.escape(ord(end))) for end in sorted(ends))])})"
            if ends
            else self.spell(ranges)
        )

    def escape(self, point: int) -> str:
        """Return the escape of a character that need not be escaped."""
        if self.quote == '"' and not self.hexes[1:]:
            return r"\/" if point == 0x2F else f"\\u{point:04x}"
        return f"\\x{point:02x}" if point < 0x100 else f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"

    @lru_cache(maxsize=4096)  # noqa: B019  # the few ways there are live as long as the process
    def spell(self, ranges: Ranges) -> str:
        """Return a pattern of the spellings of the characters in the ranges."""
        parts = []
        raw = meet(self.raw, ranges)
        if raw:
            parts.append(char_class(raw))
        short = "".join(letter for point, letter in self.short.items() if clip(ranges, point, point))
        if short:
            parts.append(r"\\[" + "".join("\\" + c if not c.isalnum() else c for c in short) + "]")
        for letter, digits, allowed, upper in self.hexes:
            if numbers := meet(allowed, ranges):
                parts.append(r"\\" + letter + hexadecimals(numbers, digits, upper=upper))
        if self.pairs:
            parts += [_pair(low - 0x10000, high - 0x10000) for low, high in clip(ranges, 0x10000, 0x10FFFF)]
        if self.octal:
            parts += [r"\\" + octal for low, high in clip(ranges, 0, 0o777) for octal in _octal(low, high)]
        return self.skipped + (parts[0] if len(parts) == 1 and "|" not in parts[0] else "(?:" + "|".join(parts) + ")")


def _pair(low: int, high: int) -> str:
    """Return a pattern of the surrogate pairs of some code points, counted from U+10000."""
    first, last = low >> 10, high >> 10

    def escaped(a: int, b: int, c: int, d: int) -> str:
        leading, trailing = (
            hexadecimals(((base + x, base + y),), 4, upper=True) for base, x, y in ((0xD800, a, b), (0xDC00, c, d))
        )
        return rf"\\u{leading}\\u{trailing}"

    if first == last:
        return escaped(first, last, low & 0x3FF, high & 0x3FF)
    parts = [escaped(first, first, low & 0x3FF, 0x3FF)] if low & 0x3FF else []
    first += bool(low & 0x3FF)
    whole = last if high & 0x3FF == 0x3FF else last - 1
    if first <= whole:
        parts.append(escaped(first, whole, 0, 0x3FF))
    if whole < last:
        parts.append(escaped(last, last, 0, high & 0x3FF))
    return parts[0] if len(parts) == 1 else "(?:" + "|".join(parts) + ")"


def _octal(low: int, high: int) -> list[str]:
    """Return patterns of octal escapes; a shorter one only where no further octal digit follows."""
    return [f"{point:0{digits}o}" + ("(?![0-7])" if digits < 3 else "")
            for point in range(low, high + 1) for digits in (1, 2, 3) if point < 8**digits]


@lru_cache(maxsize=1)
def _printable() -> Ranges:
    """Return what repr() leaves raw."""
    ranges, start = [], None
    for point in range(0x110001):
        if point < 0x110000 and chr(point).isprintable():
            start = point if start is None else start
        elif start is not None:
            ranges.append((start, point - 1))
            start = None
    return meet(SCALARS, tuple(ranges))


def _json() -> tuple[Way, ...]:
    return (Way('"', _json_raw(), {**_JSON_SHORT, 0x2F: "/"}, (("u", 4, clip(SCALARS, 0, 0xFFFF), True),), pairs=True),)


def _json_raw() -> Ranges:
    return meet(SCALARS, outside(((0, 0x1F), (0x22, 0x22), (0x5C, 0x5C))))


def _json_canonical() -> tuple[Way, ...]:
    controls = meet(((0, 0x1F),), outside(tuple((point, point) for point in sorted(_JSON_SHORT))))
    return (Way('"', _json_raw(), dict(_JSON_SHORT), (("u", 4, controls, False),)),)


def _python() -> tuple[Way, ...]:
    forms = tuple(
        (letter, digits, clip(SCALARS, 0, 16**digits - 1), True) for letter, digits in (("x", 2), ("u", 4), ("U", 8))
    )
    taken = ((0, 0), (0x0A, 0x0A), (0x0D, 0x0D))
    return tuple(
        Way(
            quote,
            outside(tuple(sorted((*taken, (0x5C, 0x5C), (ord(quote), ord(quote)))))),
            dict(_PYTHON_SHORT),
            forms,
            octal=True,
            skipped=r"(?:\\\n)*",
        )
        for quote in "'\""
    )


def _python_canonical() -> tuple[Way, ...]:
    hidden = meet(outside(_printable()), outside(((9, 10), (13, 13))))
    forms = (
        ("x", 2, clip(hidden, 0, 0xFF), False),
        ("u", 4, clip(hidden, 0x100, 0xFFFF), False),
        ("U", 8, clip(hidden, 0x10000, 0x10FFFF), False),
    )
    short = {0x5C: "\\", 10: "n", 13: "r", 9: "t"}
    quoted = {
        quote: meet(_printable(), outside(tuple(sorted(((0x5C, 0x5C), (ord(quote), ord(quote))))))) for quote in "'\""
    }
    return Way("'", quoted["'"], {**short, 0x27: "'"}, forms), Way('"', quoted['"'], short, forms)


_WAYS: dict[Quoting, Callable[[], tuple[Way, ...]]] = {
    Quoting.RAW: lambda: (Way("", SCALARS),),
    Quoting.JSON: _json,
    Quoting.JSON_CANONICAL: _json_canonical,
    Quoting.PYTHON: _python,
    Quoting.PYTHON_CANONICAL: _python_canonical,
}


@lru_cache(maxsize=64)
def ways(quoting: Quoting | MarkerSafe) -> tuple[Way, ...]:
    """Return the ways to write a text; where there are two, they differ in their quotes, as those of repr()."""
    if isinstance(quoting, MarkerSafe):
        return tuple(replace(way, markers=quoting.markers) for way in ways(quoting.base))
    return _WAYS[quoting]()


# ======================================================================================================================
# Strings of a counted class of characters that spell no marker, and runs between tags, as patterns.
#
#     "(?=(?:[^"\\]|\\(?:u[0-9a-f]{4}|[^u])){0,100}")(?!(?:…)*<\|end\|>)(?:[^"\\…]|\\[bfnrt"\\]|<\|end\|\\u003e)*"
#
# A character that would complete a marker is escaped there and nowhere else: the marker as it stands is forbidden, and
# its escaped form is a unit of its own.  Such a unit is several characters of the text, so the count is a condition
# apart.  `regex.runs` reads these shapes back without working out their automata.
# ======================================================================================================================

_APOSTROPHE, _QUOTATION = 0x27, 0x22
_IN_ESCAPES = set("'\"\\/")  # and all letters and digits


def closed(run: ClosedRun, *, ahead: bool) -> str | None:
    """Return a pattern of a run and its closing text, or if `ahead` of the run before that text; None for a run with
    conditions that are no patterns, or that can be empty where Lark has no terminal for it.
    """
    if (ahead and not run.least) or not all(head.plain for head in (*run.inside, *run.outside)):
        return None
    closing = quoted(run.closing)
    heads = [
        f"(?{sign}(?:{pattern_text(head).replace('/', chr(92) + '/')}){closing})"
        for sign, part in (("=", run.inside), ("!", run.outside))
        for head in part
    ]
    ranges = tuple((low, high) for low, high, _ in run.char.edges())
    char = r"[\s\S]" if ranges == SCALARS else char_class(ranges)
    guards = "|".join(map(quoted, run.guards))
    closed_by = f"(?={closing})" if ahead else closing
    return f"{''.join(heads)}(?:(?!{guards}){char}){_count(run.least, run.most)}{closed_by}"


@cached(256, 10_000)
def strings(quoting: Quoting | MarkerSafe, ranges: Ranges, least: int, most: int | None) -> tuple[str, ...] | None:
    """Return patterns of the strings of a class of characters, one of which holds each; None where a marker begins with
    what an escape can end with.
    """
    options = ways(quoting)
    if Quoting(int(quoting)) is not Quoting.PYTHON_CANONICAL:
        found = [_string(way, ranges, least, most) for way in options]
        return None if None in found else tuple([pattern for pattern in found if pattern is not None])
    single, double = options  # repr() takes double quotes for texts with ' and without "
    calm, plain = ((meet(ranges, outside(((point, point),)))) for point in (_APOSTROPHE, _QUOTATION))
    patterns = [_string(single, calm, least, most)]
    if calm != ranges:
        unit = _unit(double)
        patterns.append(_string(double, plain, least, most, f"(?={unit}*')"))
        if plain != ranges:
            unit = _unit(single)
            patterns.append(_string(single, ranges, least, most, f"(?={unit}*\")(?={unit}*\\\\')"))
    return None if None in patterns else tuple([pattern for pattern in patterns if pattern is not None])


def _string(way: Way, ranges: Ranges, least: int, most: int | None, conditions: str = "") -> str | None:
    alone = tuple(sorted((ord(marker), ord(marker)) for marker in way.markers if len(marker) == 1))
    alone = meet(meet(alone, way.raw), ranges)
    raw = meet(way.raw, outside(alone)) if alone else way.raw
    possible = meet(raw, ranges)
    markers = [
        marker for marker in way.markers
        if len(marker) > 1 and all(any(low <= ord(char) <= high for low, high in possible) for char in marker)
    ]
    if any(marker[0].isalnum() or marker[0] in _IN_ESCAPES for marker in markers):
        return None
    units = [replace(way, raw=raw, markers=()).spell(ranges)]
    units += [fixed(way.escape(point)) for point, _ in alone]
    units += [quoted(marker[:-1]) + fixed(way.escape(ord(marker[-1]))) for marker in markers]
    count, unit = _count(least, most), _unit(way)
    if markers:
        conditions += "" if count == "*" else f"(?={unit}{count}{way.quote})"
        conditions += f"(?!{unit}*(?:{'|'.join(map(quoted, markers))}))"
        count = "*"
    body = units[0] if len(units) == 1 else f"(?:{'|'.join(units)})"
    return f"{way.quote}{conditions}{body}{count}{way.quote}"


def _unit(way: Way) -> str:
    """Return a pattern of one character or escape, whichever; the rest of a pattern says which there are."""
    forms = [rf"{letter}[0-9a-f]{{{digits}}}" for letter, digits, _, _ in way.hexes]
    letters = "".join(letter for letter, *_ in way.hexes)
    return rf"(?:[^{way.quote}\\]|\\(?:{'|'.join([*forms, f'[^{letters}]'])}))"


def _count(least: int, most: int | None) -> str:
    return "*" if (least, most) == (0, None) else f"{{{least},{'' if most is None else most}}}"


# ======================================================================================================================
# Rules
# ======================================================================================================================

MOST_RULES = 5_000
MOST_SYMBOLS = 16_000  # once the rules that are used once have gone into their places
_SHORT = 20  # characters of a pattern that is written where it stands
_LONG = 200  # characters of one that is repeated as a rule, which the library and we read in a fraction of the time

_NUMBER = r"/-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/"
_INTEGER = r"/0|-?[1-9][0-9]*/"
_WHOLE = NumberRange(integer=True)
_REPEATS = "// wider: keys that are not named may come twice, and so may the items of uniqueItems"
_CANONICAL = "// narrower: numbers with bounds are printed in their canonical spelling"
MARKERS = "// wider: strings may spell markers of the format"
"""Comments, once per embedded schema."""


_WRITERS: dict[Quoting, Callable[[str], str]] = {  # the quotings that write a text in one way only
    Quoting.RAW: str,
    Quoting.JSON_CANONICAL: encode_basestring,
    Quoting.PYTHON_CANONICAL: repr,
}


class _Fixed(str):
    """A symbol that is a plain text, in quotes: two in a row are one."""

    @classmethod
    def of(cls, text: str) -> _Fixed:
        return cls(_quoted(text))


_Sequence: TypeAlias = tuple[str, ...]  # symbols: texts, patterns and names


class LarkRules:
    """The rules of one schema."""

    def __init__(self, prefix: str, *, lookahead: bool = True) -> None:
        self._prefix, self._lookahead = prefix, lookahead
        self._names: dict[object, str] = {}
        self._queue: list[tuple[str, Callable[[], list[_Sequence]]]] = []
        self._terminals: dict[str, str] = {}  # long patterns -> their names
        self._notes, self._long = dict[str, None](), 0  # characters of the terminals

    def write(self, start: State) -> list[str]:
        """Return the definitions; the first one defines the prefix.

        Raises: GrammarError: there are too many.
        """
        self._name("start", lambda: self._alternatives(start), self._prefix)
        bodies: dict[str, list[_Sequence]] = {}
        for name, body in self._queue:
            spend(100)
            bodies[name] = list(dict.fromkeys(body()))
        placed = _put_in_place(bodies, self._prefix)
        size = (
            sum(3 + sum(1 + len(sequence) for sequence in alternatives) for alternatives in placed.values())
            + self._long // 8
        )
        _check_size(size)
        rules = [f"{name}: " + "\n    | ".join(map(" ".join, alternatives)) for name, alternatives in placed.items()]
        return [*rules, *(f"{name}: /{pattern}/" for pattern, name in self._terminals.items()), *self._notes]

    def _name(self, key: object, body: Callable[[], list[_Sequence]], name: str | None = None) -> str:
        """Return the name of a rule, which is written when its turn comes."""
        known = self._names.get(key)
        if known is None:
            known = self._names[key] = name or f"{self._prefix}_{len(self._names)}"
            self._queue.append((known, body))
            if len(self._queue) > MOST_RULES:
                raise _too_large(f"more than {MOST_RULES:,} Lark rules", "that is too long to read")
        return known

    # -- machine states ------------------------------------------------------------------------------------------------

    def _alternatives(self, state: State) -> list[_Sequence]:
        if isinstance(state, (Text, Bytes)):
            return [self._reading(state)]
        edges = state.expand()
        found = [self._reading(target, bytes([low])) for low, _, target in edges.ranges]
        for callee, after in edges.calls:
            if not isinstance(after, Dispatch):
                if (run := self._closed(callee, after)) is not None:
                    found.append(run)
                    continue
                found.append((*self._reading(callee), *self._reading(after)))
                continue
            assert isinstance(callee, Text)
            found += self._dispatched(callee, after)
        found += [(_quoted(name), *self._reading(target)) for name, target in edges.tokens]
        return [*found, ()] if edges.accepting else found

    def _dispatched(self, callee: Text, after: Dispatch) -> list[_Sequence]:
        language = callee.language
        if isinstance(language, LiteralSet) and not after.records:
            everything = (1 << len(language.texts)) - 1
            followed = ((label, after.after(label)) for label in bits(everything & ~language.excluded))
            return [
                (self._literal(callee.quoting, language.texts[label]), *self._reading(state))
                for label, state in followed
                if state is not None
            ]
        self._notes[_REPEATS] = None
        found: list[_Sequence] = []
        if isinstance(language, Expr) and after.special:
            spend(1 + (sum(map(len, after.special)) >> 3))
            apart = {text: after.after_text(text) for text in sorted(after.special) if matches(language, text)}
            found = [
                (self._literal(callee.quoting, text), *self._reading(state))
                for text, state in apart.items()
                if state is not None
            ]
            rest = cut(language, list(apart))
            if rest is None:
                return found
            language = rest
        state = after.after_text(None)
        if state is None:
            raise GrammarError(
                "cannot print the schema as Lark",
                because="under uniqueItems, which numbers may follow depends on the values of those before",
                instead="the schema without uniqueItems, or items that are texts",
            )
        return [*found, (*self._reading(Text(callee.quoting, language)), *self._reading(state))]

    def _reading(self, state: State, fixed: bytes = b"") -> _Sequence:
        """Return the symbols that read `fixed` and then what a state reads: fixed bytes in place, everything else by
        name.
        """
        while isinstance(state, Bytes):
            fixed, state = fixed + state.data, state.then
        first = (_Fixed.of(fixed.decode()),) if fixed else ()
        if isinstance(state, Text):
            return (*first, *self._text(state))
        if state is END:
            return first
        rule = state
        return (*first, self._name(rule, lambda: self._alternatives(rule)))

    # -- texts ---------------------------------------------------------------------------------------------------------

    def _text(self, text: Text) -> _Sequence:
        language = text.language
        if isinstance(language, NumberTexts):
            return (self._number(language),)
        if isinstance(language, LiteralSet):
            members = [member for label, member in enumerate(language.texts) if not language.excluded >> label & 1]
            return (self._name(text, lambda: [(self._literal(text.quoting, member),) for member in members]),)
        patterns = self._guarded(text.quoting, language)
        if patterns is not None:
            return (patterns[0],) if len(patterns) == 1 else (self._name(text, lambda: [(part,) for part in patterns]),)
        options = _variants(text.quoting, language)
        if len(options) == 1 and (symbols := self._counted(*options[0])) is not None:
            return symbols
        return (self._name(text, lambda: [self._way(way, part) for way, part in options]),)

    def _guarded(self, quoting: Quoting | MarkerSafe, language: Language) -> list[str] | None:
        """Return terminals that read a counted class of characters, between quotes and without markers."""
        if not self._lookahead or not isinstance(language, Expr) or language.counted is None:
            return None
        if not isinstance(quoting, MarkerSafe) and quoting is not Quoting.PYTHON_CANONICAL:
            return None
        char, least, most = language.counted
        patterns = strings(quoting, tuple((low, high) for low, high, _ in char.edges()), least, most)
        return None if patterns is None else [self._pattern(pattern) for pattern in patterns]

    def _closed(self, text: State, after: State) -> _Sequence | None:
        """Return a run of a character without markers and what closes it, as one terminal; None for other texts."""
        if not self._lookahead or not isinstance(text, Text) or text.quoting is not Quoting.RAW:
            return None
        if not isinstance(text.language, Expr):
            return None
        before, then = "", after
        while isinstance(then, Bytes):
            before, then = before + then.data.decode(), then.then
        options = [(before, False, (), then)]
        edges = Edges() if isinstance(then, Text) else then.expand()
        if len(edges.tokens) == 1 and edges == Edges(tokens=edges.tokens):  # of which no terminal can be a part
            token, target = edges.tokens[0]
            options.append((before + token, True, (*([_Fixed.of(before)] if before else ()), _quoted(token)), target))
        for closing, ahead, symbols, target in options:
            run = ClosedRun.of_language(text.language, closing) if closing else None
            if run is not None and (pattern := closed(run, ahead=ahead)) is not None:
                return (self._pattern(pattern), *symbols, *self._reading(target))
        return None

    def _way(self, way: Way, language: Language) -> _Sequence:
        symbols = self._counted(way, language)
        if symbols is not None:
            return symbols
        quote = (_Fixed.of(way.quote),) if way.quote else ()
        read = Guarded(language, markers_of(way.markers), way.raw) if way.markers else language
        return (*quote, self._spelled(way, read))

    def _spelled(self, way: Way, language: Language) -> str:
        """Return the rule of the rest of a text and its closing quote."""
        def body() -> list[_Sequence]:
            found: list[_Sequence] = [
                (self._pattern(part), self._spelled(way, target))
                for target, ranges in _by_target(language)
                for part in _parts(way, ranges)
            ]
            if not language.accepts:
                return found
            closing = way.skipped + way.quote
            end = self._pattern(closing) if way.skipped else _Fixed.of(closing)
            return [*found, (end,) if closing else ()]

        return self._name((way, language), body)

    def _counted(self, way: Way, language: Language) -> _Sequence | None:
        """Return a terminal, or one between quotes, if the language is a repeated class of characters that the way
        writes in one piece.
        """
        if not isinstance(language, Expr) or language.counted is None:
            return None
        char, least, most = language.counted
        ranges = tuple((low, high) for low, high, _ in char.edges())
        if not way.quote and least == 0:
            return None
        count = (
            "*"
            if (least, most) == (0, None)
            else ""
            if (least, most) == (1, 1)
            else f"{{{least},{'' if most is None else most}}}"
        )
        if way.markers and count == "*":
            return None
        if way.markers:
            self._notes[MARKERS] = None
        spelled = way.loosely(ranges)
        if len(spelled) > _LONG and not way.skipped and way.quote:
            names, quote = [self._pattern(way.loosely(part)) for part in way.apart(ranges)], _Fixed.of(way.quote)
            name = names[0] if len(names) == 1 else f"({' | '.join(names)})"
            return (
                quote,
                f"{name}~{least}..{most}" if most is not None else f"{name}~{least} {name}*" if least else f"{name}*",
                quote,
            )
        char_pattern = f"(?:{spelled})" if way.skipped else spelled
        return (self._pattern(f"{way.quote}{char_pattern}{count}{way.skipped}{way.quote}"),)

    def _pattern(self, pattern: str) -> str:
        """Return a terminal; what is long is written once and has a name."""
        if len(pattern) <= _SHORT:
            return f"/{pattern}/"
        known = self._terminals.get(pattern)
        if known is None:
            known = self._terminals[pattern] = f"{self._prefix.upper()}_T{len(self._terminals)}"
            self._long += len(pattern)
            _check_size(self._long // 8)
        return known

    def _literal(self, quoting: Quoting | MarkerSafe, text: str) -> str:
        if isinstance(quoting, MarkerSafe):
            spelled = _WRITERS[quoting.base](text)
            way = next(way for way in ways(quoting) if way.quote == spelled[0])
            inner = markers_of(quoting.markers).escaped(spelled[1:-1], lambda char: way.escape(ord(char)))
            return _Fixed.of(spelled[0] + inner + spelled[-1])
        if quoting in _WRITERS:
            return _Fixed.of(_WRITERS[quoting](text))
        spend(len(text) >> 1)
        options = [
            way.quote + "".join(way.spell(((ord(char), ord(char)),)) for char in text) + way.skipped + way.quote
            for way in ways(quoting)
        ]
        return self._pattern("|".join(options))

    def _number(self, numbers: NumberTexts) -> str:
        ranges, spelling = numbers.ranges, numbers.spelling
        if spelling.canonical:
            return _INTEGER if ranges == (_WHOLE,) else self._automaton(numbers)
        if ranges == (NumberRange(),) and not spelling.bare_point:
            return _NUMBER
        self._notes[_CANONICAL] = None
        spend(2 * len(ranges))  # they are hashed
        return self._automaton(number_language(ranges, CANONICAL_NUMBERS))

    def _automaton(self, language: Language) -> str:
        def body() -> list[_Sequence]:
            found: list[_Sequence] = [
                (self._pattern(char_class(ranges)), *((self._automaton(target),) if target.edges() else ()))
                for target, ranges in _by_target(language)]
            return [*found, ()] if language.accepts else found

        return self._name(language, body)


def _parts(way: Way, ranges: Ranges) -> list[str]:
    """Return patterns of the spellings of letters: code points or, of guarded languages, ones escaped for a marker."""
    raw = tuple((low, high) for low, high in ranges if low < ESCAPED)
    found = [way.spell(part) for part in way.apart(raw)] if raw else []
    return found + [fixed(way.escape(low - ESCAPED)) for low, _ in ranges if low >= ESCAPED]


def _check_size(size: int) -> None:
    if size > MOST_SYMBOLS:
        raise _too_large(f"{size:,} Lark symbols", f"more than {MOST_SYMBOLS:,} take a second or longer to read")


def _too_large(size: str, because: str) -> GrammarError:
    return GrammarError(
        f"schema needs {size}",
        because=f"{because}; objects in any order have a rule for each set of keys, counted items one for each number",
        instead='property_order="schema", whitespace="canonical" and smaller bounds',
    )


def _put_in_place(bodies: dict[str, list[_Sequence]], start: str) -> dict[str, list[_Sequence]]:
    """Return rules with those that have one alternative, and are used in one place, written there."""
    uses = Counter(symbol for alternatives in bodies.values() for sequence in alternatives for symbol in sequence)
    single = {
        name for name, alternatives in bodies.items() if len(alternatives) == 1 and uses[name] == 1 and name != start
    }

    def whole(sequence: _Sequence) -> _Sequence:
        found: list[str] = []
        rest = list(reversed(sequence))
        while rest:
            symbol = rest.pop()
            if symbol in single:
                rest += reversed(bodies[symbol][0])
            elif isinstance(symbol, _Fixed) and found and isinstance(found[-1], _Fixed):
                found.append(_Fixed(found.pop()[:-1] + symbol[1:]))
            else:
                found.append(symbol)
        return tuple(found)

    return {
        name: [whole(sequence) for sequence in alternatives]
        for name, alternatives in bodies.items()
        if name not in single
    }


def _by_target(language: Language) -> Iterable[tuple[Language, Ranges]]:
    """Return what follows the first character of a text, and the characters that it follows."""
    found: dict[Language, list[tuple[int, int]]] = {}
    edges = language.edges()
    spend(len(edges))
    for low, high, target in edges:
        found.setdefault(target, []).append((low, high))
    return ((target, tuple(ranges)) for target, ranges in found.items())


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _variants(quoting: Quoting | MarkerSafe, language: Language) -> list[tuple[Way, Language]]:
    """Return the ways to write the texts of a language; repr() takes double quotes for texts with ' and without "."""
    options = ways(quoting)
    if Quoting(int(quoting)) is not Quoting.PYTHON_CANONICAL:
        return [(way, language) for way in options]
    assert isinstance(language, Expr)
    apostrophe, quotation = (concat(ANY_TEXT, literal(char), ANY_TEXT) for char in "'\"")
    doubled = intersect(apostrophe, complement(quotation))
    parts = (intersect(language, complement(doubled)), intersect(language, doubled))
    return [(way, part) for way, part in zip(options, parts, strict=True) if not is_empty(part)]
