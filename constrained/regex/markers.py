"""Markers → an automaton that finds them, and the language of texts without them.

A marker is a text that nothing but a format's own structure may spell, as readers of a finished text look for special
tokens and tags by their spelling.  Free text must not spell one (`without`); a string with escapes may hold one, if the
character that would complete its spelling is escaped (`Markers.step`).

Source: Aho and Corasick 1975, Efficient string matching.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import itemgetter
from typing import TypeAlias

from constrained.caches import cached
from constrained.regex.algebra import concat, literals
from constrained.regex.boolean import complement, intersect
from constrained.regex.expr import ANY_TEXT, Expr

_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}|.)|(.)", re.DOTALL)


Ranges: TypeAlias = tuple[tuple[int, int], ...]
Special: TypeAlias = tuple[tuple[int, "int | None"], ...]


class Markers:
    """An automaton of some markers; compared by identity, see `markers_of`.

    A state is the longest end of the text that begins a marker: a number, 0 for none.
    Invariant: no marker is a part of another.
    """

    __slots__ = ("_beginnings", "_search", "_special", "_steps", "texts")

    def __init__(self, texts: tuple[str, ...]) -> None:
        self.texts = texts
        self._beginnings = [""]  # by state
        known = {"": 0}
        for text in texts:
            for end in range(1, len(text)):
                if text[:end] not in known:
                    known[text[:end]] = len(self._beginnings)
                    self._beginnings.append(text[:end])
        self._steps: list[dict[int, int | None]] = [self._found(read, known) for read in self._beginnings]
        self._special: dict[tuple[int, int], tuple[Ranges, Special]] = {}  # by id of the ranges, and state
        self._search = re.compile("|".join(map(re.escape, texts)) or "(?!)").search

    def _found(self, read: str, known: dict[str, int]) -> dict[int, int | None]:
        ends = [read[at:] for at in range(len(read) + 1)]  # longest first
        steps: dict[int, int | None] = {}
        for char in {text[len(end)] for end in ends for text in self.texts if text.startswith(end)}:
            longer = [end + char for end in ends]
            steps[ord(char)] = (
                None if any(end in self.texts for end in longer) else next(known[end] for end in longer if end in known)
            )
        return steps

    def steps(self, state: int) -> dict[int, int | None]:
        """Return the states after the characters that do not lead to 0; None: the character would complete a marker."""
        return self._steps[state]

    def special(self, state: int, raw: Ranges) -> Special:
        """Return the characters of some ranges, those of a spelling, that do not lead to 0, with the states after
        them.
        """
        known = self._special.get((id(raw), state))
        if known is None:
            found = tuple([step for step in sorted(self._steps[state].items()) if _holds(raw, step[0])])
            known = self._special[id(raw), state] = raw, found
        return known[1]

    def step(self, state: int, point: int) -> int | None:
        """Return the state after a character as it stands, None where it must not stand."""
        return self._steps[state].get(point, 0)

    def spelled_in(self, text: str) -> bool:
        """Say whether a marker stands in a text."""
        return self._search(text) is not None

    def ending(self, ends: tuple[str, ...]) -> frozenset[int]:
        """Return the states of texts that end with one of some beginnings of markers."""
        return frozenset(state for state, read in enumerate(self._beginnings) if read.endswith(ends))

    def escaped(self, spelled: str, escape: Callable[[str], str]) -> str:
        r"""Return the spelling of a text, between its quotes, in which no marker stands; escapes in it begin with a
        backslash.

        >>> markers_of(["<|end|>"]).escaped(r"\n<|end|>", lambda char: f"\\u{ord(char):04x}")
        '\\n<|end|\\u003e'
        """
        state, found = 0, []
        for part in _ESCAPE.finditer(spelled):
            after = self.step(state, ord(part[1])) if part[1] else 0
            found.append(part[0] if after is not None else escape(part[0]))
            state = after or 0
        return "".join(found)


def _holds(ranges: Ranges, point: int) -> bool:
    """Say whether some ranges hold a code point."""
    at = bisect_left(ranges, point, key=itemgetter(1))
    return at < len(ranges) and ranges[at][0] <= point


def markers_of(texts: Iterable[str]) -> Markers:
    """Return the automaton of some markers, the same for the same ones."""
    return _markers_of(tuple(texts))


@lru_cache(maxsize=256)
def _markers_of(texts: tuple[str, ...]) -> Markers:
    every = set(texts)
    return _markers(
        tuple(sorted(text for text in every if text and not any(other in text for other in every - {text, ""})))
    )


@lru_cache(maxsize=256)
def _markers(texts: tuple[str, ...]) -> Markers:
    return Markers(texts)


@cached(256)
def without(texts: tuple[str, ...], ends: tuple[str, ...] = ()) -> Expr:
    """Return the texts that hold none of some markers, and end with none of some texts."""
    held = complement(concat(ANY_TEXT, literals(texts), ANY_TEXT))
    return intersect(held, complement(concat(ANY_TEXT, literals(ends)))) if ends else held
