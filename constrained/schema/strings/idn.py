r"""Internationalised host names (IDNA 2008) as a regular language.

A name is a list of labels; what a label may hold is derived from Unicode's properties by the rules of RFC 5892,
contextual rules and the rule for right-to-left names (RFC 5893) included.  Each rule excludes the labels that break it;
the language is what no rule excludes.

Narrower than the specification: labels that start with "xn--" are refused, and a label must be in normal form C (UAX
#15), of which some rare texts are left out.  Wider in one point: the 63 octets of a label's Punycode are only bounded
by its length, 57 characters.

The sets involved have thousands of ranges, but tell no more than a few dozen kinds of character apart.  The rules are a
language over one letter for each kind, of some 2,500 states that are kept once they are reached; lengths are counted
beside them, and a state's ranges are spelled out when it is reached.

Computed from `unicodedata` on first use, about 0.1 s.  Tested in tests/test_string_formats.py.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import groupby
from typing import ClassVar, NamedTuple

from constrained.machine import Outline
from constrained.regex import ANY, ANY_TEXT, Expr, char_class, complement, concat, intersect, optional, repeat, union
from constrained.regex.algebra import lazy
from constrained.regex.charset import Ranges, contains, joining_type, negate, normal, of_points, unicode_property
from constrained.regex.charset import intersect as both
from constrained.regex.charset import union as either
from constrained.regex.expr import RawEdges
from constrained.work import Budget, metered, spend

# ======================================================================================================================
# Normal form C: between two starters, marks stand in the order of their combining classes, and no mark composes with
# the starter before it.
#
#     a U+0301 U+0323      wrong: the classes are 230, 220
#     U+09C7 U+09BE        wrong: that is U+09CB
#     U+0995 U+09BE        right: no character is composed of these
#     é U+0323             wrong: é is e U+0301, and e composes with U+0323 before it
#
# Exactly that would be 106 kinds of starter and 54 classes of mark, with states for each of both, and masks of fifty
# times the cost.  So kinds are joined: starters that compose with any mark are one, marks that compose with any starter
# are one, and classes are compared in the steps that scripts ask for.  The language here is thereby larger than what is
# not in normal form C, and never lacks any of that.
# ======================================================================================================================

One = Callable[[Ranges], Expr]  # an expression for one character out of a set
# The first combining class of each step: nuktas, viramas, vowels of Hebrew and Arabic, shadda, vowels of Thai and Lao,
# tones of Lao and what stands below and above.
_STEPS = (1, 9, 10, 33, 107, 122)


def not_normal(valid: Ranges, marks: list[int], one: One) -> Expr:
    """Return the texts of valid characters that are not in normal form C, and some that are.

    marks: those among the valid characters.
    """
    ordered = [point for point in marks if unicodedata.combining(chr(point))]
    wrong = []
    for low, high in zip(_STEPS, (*_STEPS[1:], 255), strict=True):
        step = of_points(point for point in ordered if low <= unicodedata.combining(chr(point)) < high)
        until = of_points(point for point in ordered if unicodedata.combining(chr(point)) < high)
        wrong.append(concat(one(step), one(until)))
    starters, composing = _composing(valid)
    wrong.append(concat(one(starters), repeat(one(of_points(ordered))), one(composing)))
    return concat(ANY_TEXT, union(*wrong), ANY_TEXT)


def _composing(valid: Ranges) -> tuple[Ranges, Ranges]:
    """Return the starters that compose with some mark, and the marks."""
    pairs = list(_pairs())
    marks = {mark for _, _, mark in pairs if contains(valid, mark)}
    starters = {
        point for pair in pairs for point in pair[:2]
        if contains(valid, point) and any(_compose(chr(point), chr(mark)) for mark in marks)
    }  # fmt: skip
    return of_points(starters), of_points(marks)


def _pairs() -> Iterator[tuple[int, int, int]]:
    """Yield the characters that normal form C composes of two, each with these."""
    points = range(0xC0, 0x30000)
    for point, mapping in zip(points, map(unicodedata.decomposition, map(chr, points)), strict=True):
        parts = mapping.split() if mapping else ()
        if len(parts) == 2 and not parts[0].startswith("<") and unicodedata.is_normalized("NFC", chr(point)):
            yield point, int(parts[0], 16), int(parts[1], 16)


def _compose(starter: str, mark: str) -> bool:
    return unicodedata.combining(starter) == 0 and not unicodedata.is_normalized("NFC", starter + mark)


# ======================================================================================================================
# Names
# ======================================================================================================================

_LONGEST_LABEL = 57  # "xn--", at least one digit a character, two more for the first: 63 octets
_LONGEST_ASCII = 63
_LONGEST_NAME = 253
_ASCII: Ranges = ((0x2D, 0x2D), (0x30, 0x39), (0x61, 0x7A))
_LETTERS_DIGITS: Ranges = ((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A))
_HYPHEN: Ranges = ((0x2D, 0x2D),)
# SPEC: RFC 5892 §2.6 and appendix A: exceptions that are PVALID; characters that need a context; exceptions that are
# DISALLOWED.
_EXTRA = (0xDF, 0x3C2, 0x6FD, 0x6FE, 0xF0B, 0x3007)
_CONTEXTUAL = (0xB7, 0x375, 0x5F3, 0x5F4, 0x30FB, 0x200C, 0x200D, *range(0x660, 0x66A), *range(0x6F0, 0x6FA))
_BARRED = frozenset((0x640, 0x7FA, 0x302E, 0x302F, 0x303B, *range(0x3031, 0x3036)))
# SPEC: §2.3 and §2.4 (ignorable blocks), §2.9 (old Hangul Jamo)
_BARRED_BLOCKS = ((0x1100, 0x11FF), (0x20D0, 0x20FF), (0xA960, 0xA97C), (0xD7B0, 0xD7FB), (0x1D100, 0x1D24F))
_LETTER_CATEGORIES = frozenset(("Ll", "Lu", "Lo", "Nd", "Lm", "Mn", "Mc"))


@lru_cache(maxsize=1)
def idn_hostname() -> Expr:
    """Return the host names of IDNA 2008 (RFC 5890 to 5893).

    >>> from constrained.regex import matches
    >>> [matches(idn_hostname(), name) for name in ("bücher.example", "l·l", "a·b", "실례.테스트")]
    [True, True, False, True]
    """
    valid = _valid()
    sets: list[Ranges] = []

    def collect(ranges: Ranges) -> Expr:
        sets.append(ranges)
        return ANY

    _names(valid, collect)
    kinds = _CharacterKinds(sets)
    return lazy(_Name(_LabelStates(kinds), _names(valid, kinds.one), 0, 0))


class _CharacterKinds:
    """The kinds of character that some sets tell apart; kind k is written as the character number k.

    Invariant: `pieces` are (low, high, kind), sorted and disjoint; within a piece no set changes.
    """

    def __init__(self, sets: Iterable[Ranges]) -> None:
        distinct = list(dict.fromkeys(sets))
        cuts = sorted({cut for ranges in distinct for low, high in ranges for cut in (low, high + 1)})
        signs = dict.fromkeys(cuts, 0)
        for bit, ranges in enumerate(distinct):
            for low, high in ranges:
                signs[low] ^= 1 << bit
                signs[high + 1] ^= 1 << bit
        known: dict[int, int] = {}
        self.pieces: list[tuple[int, int, int]] = []
        self.members: dict[Ranges, Expr] = {}
        sign = 0
        for at, end in zip(cuts, cuts[1:], strict=False):
            sign ^= signs[at]
            if sign:
                self.pieces.append((at, end - 1, known.setdefault(sign, len(known))))
        for bit, ranges in enumerate(distinct):
            self.members[ranges] = char_class((kind, kind) for sign, kind in known.items() if sign >> bit & 1)

    def one(self, ranges: Ranges) -> Expr:
        return self.members[ranges]


_Sort = Enum("_Sort", "DOT ASCII OTHER")  # what the lengths tell apart


class _LabelEdges(NamedTuple):  # the edges of a state of the rules, without lengths
    ranges: tuple[tuple[int, int, int], ...]  # (low, high, way): sorted and disjoint
    ways: list[tuple[_Sort, Expr, int]]  # what a character of some ranges is, the rules after it, what these miss


class _LabelStates:
    """What the states of names share: the edges of each state of the rules, and how far each is from a complete name.

    The states of the rules belong to the process, and cost 0.8 s if names meet them all; no budget pays for what
    the next one has free.
    """

    def __init__(self, kinds: _CharacterKinds) -> None:
        self._pieces = kinds.pieces
        # the first characters of a kind tell: a dot of ASCII stands before its kin
        self._sorts = {kind: _sort(low, high) for low, high, kind in reversed(kinds.pieces)}
        self._missing: dict[Expr, int] = {}
        self._ways: dict[Expr, _LabelEdges] = {}

    def ways(self, rules: Expr) -> _LabelEdges:
        """Return the edges of a state of the rules, without lengths."""
        found = self._ways.get(rules)
        if found is None:
            ways: dict[tuple[_Sort, Expr, int], int] = {}
            way_of: dict[int, int] = {}
            for low, high, target in rules.edges():
                for kind in range(low, high + 1):
                    way = self._sorts[kind], target, self._missing_of(target)
                    way_of[kind] = ways.setdefault(way, len(ways))
            found = self._ways[rules] = _LabelEdges(self._ranges(way_of), list(ways))
        return found

    def _ranges(self, way_of: dict[int, int]) -> tuple[tuple[int, int, int], ...]:
        """Return the ranges of characters of each way; neighbours of the same way are one."""
        found: list[tuple[int, int, int]] = []
        for low, high, kind in self._pieces:
            way = way_of.get(kind)
            if way is not None and found and found[-1][1:] == (low - 1, way):
                found[-1] = (found[-1][0], high, way)
            elif way is not None:
                found.append((low, high, way))
        return tuple(found)

    def _missing_of(self, rules: Expr) -> int:
        """Return how many characters make what has been read a name, within its last label."""
        found = self._missing.get(rules)
        if found is None:
            found, layer, seen = 0, [rules], {rules}
            while not any(state.accepts for state in layer):
                layer = list(
                    dict.fromkeys(target for state in layer for _, _, target in state.edges() if target not in seen)
                )
                seen.update(layer)
                found += 1
            self._missing[rules] = found
        return found


def _sort(low: int, high: int) -> _Sort:
    if low <= ord(".") <= high:
        return _Sort.DOT
    return _Sort.ASCII if high < 0x80 else _Sort.OTHER


@dataclass(frozen=True, slots=True)
class _Name:
    """A state over kinds, as a state over characters, with the lengths counted.

    rules: where the rules are, which know no lengths.  label: characters of the label so far, less than 0 where they
    are all ASCII.
    Invariant: as many further characters as the rules miss, of ASCII if the others are, keep within the lengths.
    """

    home: _LabelStates
    rules: Expr
    label: int
    total: int
    uses_no_witness: ClassVar[bool] = True

    @property
    def accepts(self) -> bool:
        return self.rules.accepts

    @property
    def short(self) -> int:
        return 0 if self.rules.accepts else 1

    @property
    def long(self) -> int:
        return _LONGEST_NAME - self.total

    def outline(self) -> Outline:
        return Outline(*self._spread())

    def edges(self) -> RawEdges:
        ranges, targets = self._spread()
        spend(len(ranges) >> 4)
        return tuple([(low, high, target) for low, high, way in ranges if (target := targets[way]) is not None])

    def _spread(self) -> tuple[tuple[tuple[int, int, int], ...], tuple[Expr | None, ...]]:
        with metered(Budget(None)):
            ranges, ways = self.home.ways(self.rules)
        spend(len(ways))
        return ranges, tuple([self._after(sort, rules, missing) for sort, rules, missing in ways])

    def _after(self, sort: _Sort, rules: Expr, missing: int) -> Expr | None:
        if sort is _Sort.DOT:
            label = 0
        elif sort is _Sort.ASCII and self.label <= 0:
            label = self.label - 1
        else:
            label = abs(self.label) + 1
        longest = _LONGEST_LABEL if label > 0 else _LONGEST_ASCII
        if missing + abs(label) > longest or self.total + 1 + missing > _LONGEST_NAME:
            return None
        return lazy(_Name(self.home, rules, label, self.total + 1))


def _names(valid: Ranges, one: One) -> Expr:
    """Return the names of any length, with `one` for each character."""
    classes = _bidi_classes(valid)
    right_to_left = either(classes["R"], classes["AL"], classes["AN"])
    ascii_label = intersect(_ascii_label(one), complement(_reserved(one)))
    label = intersect(repeat(one(valid), 1), complement(_wrong_labels(valid, one)))
    without = intersect(label, repeat(one(both(valid, negate(right_to_left)))))
    left, right = _directed(classes, one)
    dot = one(of_points(map(ord, ".。．｡")))
    names = []
    for item in (
        union(ascii_label, without),
        union(intersect(ascii_label, left), intersect(label, union(left, right))),
    ):
        names.append(concat(item, repeat(concat(dot, item))))
    return union(*names)


def _ascii_label(one: One) -> Expr:
    letter, inner = one(_LETTERS_DIGITS), one(either(_LETTERS_DIGITS, _HYPHEN))
    return concat(letter, optional(concat(repeat(inner), letter)))


def _reserved(one: One) -> Expr:
    """Return the labels with hyphens in the third and fourth place: A-labels and what is reserved."""
    return concat(ANY, ANY, one(_HYPHEN), one(_HYPHEN), ANY_TEXT)


def _valid() -> Ranges:
    """Return the characters that a label may hold in some context.  SPEC: RFC 5892 §3."""
    ignorable = either(
        *(
            unicode_property(name) or ()
            for name in ("Default_Ignorable_Code_Point", "White_Space", "Noncharacter_Code_Point")
        )
    )
    found = of_points(point for point in _stable_letters() if point not in _BARRED)
    found = both(found, negate(either(ignorable, _BARRED_BLOCKS)))
    return either(_ASCII, found, of_points((*_EXTRA, *_CONTEXTUAL)))


def _stable_letters() -> Iterator[int]:
    """Return the letters, digits and marks beyond ASCII that NFKC(casefold(NFKC(c))) leaves alone."""
    points = range(0x80, 0x32000)
    categories = map(unicodedata.category, map(chr, points))
    for point, category in zip(points, categories, strict=True):
        if category in _LETTER_CATEGORIES and unicodedata.is_normalized("NFKC", chr(point)):
            folded = chr(point).casefold()
            if folded == chr(point) or unicodedata.normalize("NFKC", folded) == chr(point):
                yield point


@lru_cache(maxsize=1)
def _bidi_classes(valid: Ranges) -> dict[str, Ranges]:
    runs: dict[str, list[tuple[int, int]]] = {
        name: [] for name in ("L", "R", "AL", "AN", "EN", "ES", "CS", "ET", "ON", "BN", "NSM")
    }
    for low, high in valid:
        at = low
        for name, run in groupby(map(unicodedata.bidirectional, map(chr, range(low, high + 1)))):
            end = at + sum(1 for _ in run)
            runs.setdefault(name, []).append((at, end - 1))
            at = end
    runs["L"].append((0x41, 0x5A))
    return {name: normal(members) for name, members in runs.items()}


def _directed(classes: dict[str, Ranges], one: One) -> tuple[Expr, Expr]:
    """Return the labels that may stand in a name with right-to-left characters, by direction.  SPEC: RFC 5893 §2."""

    def of(names: str) -> Expr:
        return one(either(*(classes[name] for name in names.split())))

    def label(first: str, inner: str, neutral: Ranges) -> Expr:
        within = one(either(neutral, *(classes[name] for name in inner.split())))
        return concat(of(first), optional(concat(repeat(within), of(inner))), repeat(of("NSM")))

    neutral = either(*(classes[name] for name in ("ES", "CS", "ET", "ON", "BN", "NSM")))
    # their neighbours are left-to-right: no such label could be completed
    unsupported = of_points((0xB7, 0x375, 0x30FB))
    beside_right = both(neutral, negate(unsupported))
    return label("L", "L EN", neutral), union(
        label("R AL", "R AL EN", beside_right), label("R AL", "R AL AN", beside_right)
    )


def _wrong_labels(valid: Ranges, one: One) -> Expr:
    """Return the labels that break a rule about the place of a character.  SPEC: RFC 5891 §4.2.3, RFC 5892 appendix
    A.
    """
    some, hyphen = ANY_TEXT, one(_HYPHEN)
    marks = _marks(valid)
    script = {
        name: unicode_property(f"Script={name}") or () for name in ("Greek", "Hebrew", "Hiragana", "Katakana", "Han")
    }
    japanese = either(script["Hiragana"], script["Katakana"], script["Han"])
    no_japanese = repeat(one(both(valid, negate(japanese))))
    arabic, extended = one(((0x660, 0x669),)), one(((0x6F0, 0x6F9),))
    return union(
        repeat(one(_ASCII)),  # an ASCII label has its own rules
        concat(hyphen, some),
        concat(some, hyphen),
        _reserved(one),
        concat(one(of_points(marks)), some),
        _not_after(of_points([ord("l")]), of_points([ord("·")]), valid, one),
        _not_before(of_points([ord("·")]), of_points([ord("l")]), valid, one),
        _not_before(of_points([0x375]), script["Greek"], valid, one),
        _not_after(script["Hebrew"], of_points([0x5F3, 0x5F4]), valid, one),
        concat(no_japanese, one(of_points([0x30FB])), no_japanese),
        concat(some, arabic, some, extended, some),
        concat(some, extended, some, arabic, some),
        *_wrong_joiners(marks, valid, one),
        not_normal(valid, marks, one),
    )


@lru_cache(maxsize=1)
def _marks(valid: Ranges) -> list[int]:
    return [
        point for low, high in valid for point in range(low, high + 1) if unicodedata.category(chr(point))[0] == "M"
    ]


def _not_after(before: Ranges, char: Ranges, valid: Ranges, one: One) -> Expr:
    """Return the texts where a character stands at the start or after something else than `before`."""
    return concat(optional(concat(ANY_TEXT, one(both(valid, negate(before))))), one(char), ANY_TEXT)


def _not_before(char: Ranges, after: Ranges, valid: Ranges, one: One) -> Expr:
    """Return the texts where a character stands at the end or before something else than `after`."""
    return concat(ANY_TEXT, one(char), optional(concat(one(both(valid, negate(after))), ANY_TEXT)))


def _wrong_joiners(marks: list[int], valid: Ranges, one: One) -> list[Expr]:
    """Return the texts with a zero width joiner not after a virama, or a non-joiner neither there nor between joining
    letters.
    """
    virama = of_points(point for point in marks if unicodedata.combining(chr(point)) == 9)
    left, right, dual, through = (
        both(valid, joining_type(name)) for name in ("Left_Joining", "Right_Joining", "Dual_Joining", "Transparent")
    )
    non_joiner, transparent = one(of_points([0x200C])), repeat(one(through))
    after_virama = concat(ANY_TEXT, one(virama))
    after_letter = concat(ANY_TEXT, one(either(left, dual)), transparent)
    before_letter = concat(transparent, one(either(right, dual)), ANY_TEXT)
    return [
        _not_after(virama, of_points([0x200D]), valid, one),
        concat(complement(union(after_virama, after_letter)), non_joiner, ANY_TEXT),
        concat(complement(after_virama), non_joiner, complement(before_letter)),
    ]
