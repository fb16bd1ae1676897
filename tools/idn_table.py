r"""Write constrained/schema/strings/idn.txt again: the automaton of internationalised host names (IDNA 2008).

    python tools/idn_table.py          half a minute

What a label may hold is derived from Unicode's properties (`unicodedata` of the Python that runs this, and
constrained/regex/unicode.txt) by the rules of RFC 5892, contextual rules and the rule for right-to-left names (RFC
5893) included.  Each rule excludes the labels that break it; the language is what no rule excludes.

The sets involved have thousands of ranges, but tell no more than a few dozen kinds of character apart.  The rules are a
language over one letter for each kind, whose 14,500 derivatives are 900 states.  The form of the file stands in
`schema.strings.idn`, which counts the lengths.

Tested in tests/test_string_formats.py: the file and these rules take the same names.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import groupby

from constrained.regex import ANY, ANY_TEXT, Expr, char_class, complement, concat, intersect, optional, repeat, union
from constrained.regex.charset import Ranges, contains, joining_type, negate, normal, of_points, unicode_property
from constrained.regex.charset import intersect as both
from constrained.regex.charset import union as either
from constrained.schema.strings.idn import FILE

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


class CharacterKinds:
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


def valid_characters() -> Ranges:
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


# ======================================================================================================================
# The table
# ======================================================================================================================


def rules() -> tuple[CharacterKinds, Expr]:
    """Return the kinds of character, and the names of any length as texts of kinds."""
    valid = valid_characters()
    sets: list[Ranges] = []

    def collect(ranges: Ranges) -> Expr:
        sets.append(ranges)
        return ANY

    _names(valid, collect)
    kinds = CharacterKinds(sets)
    return kinds, _names(valid, kinds.one)


def _derived(start: Expr) -> tuple[list[dict[int, int]], list[bool]]:
    """Return the edges of all derivatives, by kind, and which accept; the start is number 0."""
    numbers, states, edges = {start: 0}, [start], []
    for state in states:
        targets = {}
        for low, high, target in state.edges():
            if target not in numbers:
                numbers[target] = len(states)
                states.append(target)
            targets.update(dict.fromkeys(range(low, high + 1), numbers[target]))
        edges.append(targets)
    return edges, [state.accepts for state in states]


def _minimal(edges: list[dict[int, int]], accepts: list[bool]) -> tuple[list[dict[int, int]], list[bool]]:
    """Return the least automaton of the same language (Moore's refinement)."""
    block, count = [int(accepting) for accepting in accepts], 0
    while count < (count := len(set(block))):
        signs: dict[object, int] = {}
        told = [tuple(sorted((kind, block[target]) for kind, target in targets.items())) for targets in edges]
        block = [signs.setdefault(sign, len(signs)) for sign in zip(block, told, strict=True)]
    first = {number: at for at, number in reversed([*enumerate(block)])}
    chosen = [first[number] for number in range(len(first))]
    renamed = [{kind: block[target] for kind, target in edges[at].items()} for at in chosen]
    return renamed, [accepts[at] for at in chosen]


def _missing(edges: list[dict[int, int]], accepts: list[bool]) -> list[int]:
    """Return how many characters each state is from one that accepts."""
    found, before = [0 if accepting else len(edges) for accepting in accepts], list[int]()
    while found != before:
        before = found
        found = [min([own, *(1 + before[at] for at in to.values())]) for own, to in zip(before, edges, strict=True)]
    return found


def lines() -> Iterator[str]:
    """Yield the lines of the file."""
    kinds, start = rules()
    edges, accepts = _minimal(*_derived(start))
    missing = _missing(edges, accepts)
    columns: dict[int, list[int]] = {
        kind: [targets.get(kind, -1) for targets in edges] for _, _, kind in kinds.pieces
    }
    order = {kind: at for at, kind in enumerate(sorted(columns, key=columns.__getitem__))}
    ranges: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for low, high, kind in kinds.pieces:
        ranges[order[kind]].append((low, high))
    yield f"# Internationalised host names, Unicode {unicodedata.unidata_version}; written by tools/idn_table.py."
    yield from (_coded(ranges[kind]) for kind in range(len(order)))
    yield ""
    for short, targets in zip(missing, edges, strict=True):
        runs: list[list[int]] = []
        for kind, target in sorted((order[kind], target) for kind, target in targets.items()):
            if runs and runs[-1][1:] == [kind - 1, target]:
                runs[-1][1] = kind
            else:
                runs.append([kind, kind, target])
        words = _coded([(low, high) for low, high, _ in runs]).split()
        yield " ".join([base36(short), *(f"{word}>{base36(to)}" for word, (_, _, to) in zip(words, runs, strict=True))])


def _coded(ranges: Iterable[tuple[int, int]]) -> str:
    """Return ranges as unicode.txt writes them: how far each begins behind the last one, and how long it goes on."""
    words, at = [], 0
    for low, high in ranges:
        words.append(base36(low - at) + (f"+{base36(high - low)}" if high > low else ""))
        at = high + 1
    return " ".join(words)


def base36(number: int) -> str:
    digits = ""
    while number or not digits:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits


if __name__ == "__main__":
    FILE.write_text("\n".join(lines()) + "\n", "ascii")
