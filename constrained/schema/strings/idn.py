r"""Internationalised host names (IDNA 2008) as an automaton that is written down in `idn.txt`.

A name is a list of labels; what a label may hold is derived from Unicode's properties by the rules of RFC 5892,
contextual rules and the rule for right-to-left names (RFC 5893) included.  The rules tell a few dozen kinds of
character apart, and are an automaton of some 900 states over these kinds, which `tools/idn_table.py` derives.  Lengths
are counted beside it, and the ranges of a state are spelled out when it is reached.

Narrower than the specification: labels that start with "xn--" are refused, and a label must be in normal form C (UAX
#15), of which some rare texts are left out.  Wider in one point: the 63 octets of a label's Punycode are only bounded
by its length, 57 characters.

The table, one line each: the characters of each kind, as in `regex/unicode.txt`; an empty line; and of each state how
many characters are missing to a complete name, and its edges, as runs of kinds (GAP[+EXTENT]) with the state after
them.  All numbers are in base 36.

Tested in tests/test_string_formats.py against the rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import ClassVar, NamedTuple

from constrained.machine import Outline
from constrained.regex import Expr
from constrained.regex.algebra import lazy
from constrained.regex.charset import decoded
from constrained.regex.expr import RawEdges
from constrained.work import spend

FILE = Path(__file__).with_name("idn.txt")
_LONGEST_LABEL = 57  # "xn--", at least one digit a character, two more for the first: 63 octets
_LONGEST_ASCII = 63
_LONGEST_NAME = 253

_Sort = Enum("_Sort", "DOT ASCII OTHER")  # what the lengths tell apart


def idn_hostname() -> Expr:
    """Return the host names of IDNA 2008 (RFC 5890 to 5893).

    >>> from constrained.regex import matches
    >>> [matches(idn_hostname(), name) for name in ("bücher.example", "l·l", "a·b", "실례.테스트")]
    [True, True, False, True]
    """
    return lazy(_Name(0, 0, 0))


class _Edges(NamedTuple):  # of a state of the rules, which knows no lengths
    ranges: tuple[tuple[int, int, int], ...]  # (low, high, way): sorted and disjoint
    ways: tuple[tuple[_Sort, int], ...]  # what a character of some ranges is, the state after it


@cache
def _table() -> tuple[tuple[tuple[int, int, int], ...], list[str]]:
    """Return the ranges of characters with their kinds, and the lines of the states."""
    kinds, _, states = FILE.read_text("ascii").partition("\n\n")
    pieces = [(*ends, kind) for kind, line in enumerate(kinds.splitlines()[1:]) for ends in decoded(line)]
    return tuple(sorted(pieces)), states.splitlines()


@cache
def _sorts() -> dict[int, _Sort]:
    """Return what each kind is; its first characters tell, as a dot of ASCII stands before its kin."""
    sorts = {}
    for low, high, kind in reversed(_table()[0]):
        sorts[kind] = _Sort.DOT if low <= ord(".") <= high else _Sort.ASCII if high < 0x80 else _Sort.OTHER
    return sorts


@cache
def _missing(state: int) -> int:
    """Return how many characters make what has been read a name, within its last label."""
    return int(_table()[1][state].partition(" ")[0], 36)


@cache
def _edges(state: int) -> _Edges:
    """Return the edges of a state of the rules; neighbouring ranges of one way are one."""
    pieces, lines = _table()
    ways: dict[tuple[_Sort, int], int] = {}
    way_of: dict[int, int] = {}
    for edge in lines[state].split()[1:]:
        run, _, target = edge.partition(">")
        (first, last), = decoded(run, max(way_of, default=-1) + 1)
        for kind in range(first, last + 1):
            way_of[kind] = ways.setdefault((_sorts()[kind], int(target, 36)), len(ways))
    ranges: list[tuple[int, int, int]] = []
    for low, high, kind in pieces:
        way = way_of.get(kind)
        if way is not None and ranges and ranges[-1][1:] == (low - 1, way):
            ranges[-1] = (ranges[-1][0], high, way)
        elif way is not None:
            ranges.append((low, high, way))
    return _Edges(tuple(ranges), tuple(ways))


@dataclass(frozen=True, slots=True)
class _Name:
    """A state of the rules with the lengths counted.

    label: characters of the label so far, less than 0 where they are all ASCII.
    Invariant: as many further characters as the rules miss, of ASCII if the others are, keep within the lengths.
    """

    rules: int
    label: int
    total: int
    uses_no_witness: ClassVar[bool] = True

    @property
    def accepts(self) -> bool:
        return not _missing(self.rules)

    @property
    def short(self) -> int:
        return 0 if self.accepts else 1

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
        ranges, ways = _edges(self.rules)
        spend(len(ways))
        return ranges, tuple([self._after(sort, rules) for sort, rules in ways])

    def _after(self, sort: _Sort, rules: int) -> Expr | None:
        if sort is _Sort.DOT:
            label = 0
        elif sort is _Sort.ASCII and self.label <= 0:
            label = self.label - 1
        else:
            label = abs(self.label) + 1
        missing, longest = _missing(rules), _LONGEST_LABEL if label > 0 else _LONGEST_ASCII
        if missing + abs(label) > longest or self.total + 1 + missing > _LONGEST_NAME:
            return None
        return lazy(_Name(rules, label, self.total + 1))
