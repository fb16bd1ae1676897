r"""Markers → an automaton that finds them, the language of texts without them, and texts spelled without them.

A marker is a text that nothing but a format's own structure may spell, as readers of a finished text look for special
tokens and tags by their spelling.  Free text must not spell one (`without`); a string with escapes may hold one, if the
character that would complete its spelling is escaped (`Markers.step`).

`Guarded` are the texts that are spelled so that no marker stands in them: what `machine.MarkerSafe` means to a kernel.
Which character has to be escaped depends on those before it as they are spelled, not on the text.  So the language
reads an alphabet twice as large: a character is its code point, and one that is escaped though it could stand is
`ESCAPED` more.  A kernel adds this number for each such escape that it reads on a spelling that is `guarded`, and knows
nothing else about markers.

    "<" ──► 1 ──"|"──► 2 ── … ──"d"──► 6        (after "<|end" a ">" has no edge as it stands, but one as "\\u003e")

A character is escaped where it would complete a marker, and where the surface cannot write it otherwise: each text has
one spelling.  The latter is said by the spelling, as of other languages, so that a language has as many edges as
without markers and a few more: what repr() leaves as it is are 700 ranges.

Source: Aho and Corasick 1975, Efficient string matching.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from constrained.caches import cached
from constrained.machine import Language, LiteralSet
from constrained.regex.algebra import complement, concat, intersect, literals, repeat
from constrained.regex.expr import ANY_TEXT, Expr

_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}|.)|(.)", re.DOTALL)


Ranges: TypeAlias = tuple[tuple[int, int], ...]
Special: TypeAlias = tuple[tuple[int, "int | None"], ...]


class Markers:
    """An automaton of some markers; compared by identity, see `markers_of`.

    A state is the longest end of the text that begins a marker: a number, 0 for none.
    Invariant: no marker is a part of another.
    """

    __slots__ = ("_search", "_special", "_steps", "texts")

    def __init__(self, texts: tuple[str, ...]) -> None:
        self.texts = texts
        known = {"": 0}  # beginnings -> states
        for text in texts:
            for end in range(1, len(text)):
                known.setdefault(text[:end], len(known))
        # after the characters that do not lead to 0; None: the character would complete a marker
        self._steps: list[dict[int, int | None]] = [self._found(read, known) for read in known]
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

    def special(self, state: int, raw: Ranges) -> Special:
        """Return the characters of some ranges, those of a spelling, that do not lead to 0, with the states after
        them.
        """
        known = self._special.get((id(raw), state))
        if known is None:
            steps = tuple([step for step in sorted(self._steps[state].items()) if _holds(raw, step[0])])
            known = self._special[id(raw), state] = raw, steps
        return known[1]

    def step(self, state: int, point: int) -> int | None:
        """Return the state after a character as it stands, None where it must not stand."""
        return self._steps[state].get(point, 0)

    def spelled_in(self, text: str) -> bool:
        """Say whether a marker stands in a text."""
        return self._search(text) is not None

    def escaped(self, spelled: str, escape: Callable[[str], str]) -> str:
        r"""Return the spelling of a text, between its quotes, in which no marker stands; escapes in it begin with a
        backslash.

        >>> markers_of(["<|end|>"]).escaped(r"\n<|end|>", lambda char: f"\\u{ord(char):04x}")
        '\\n<|end|\\u003e'
        """
        state, pieces = 0, []
        for part in _ESCAPE.finditer(spelled):
            after = self.step(state, ord(part[1])) if part[1] else 0
            pieces.append(part[0] if after is not None else escape(part[0]))
            state = after or 0
        return "".join(pieces)


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


ESCAPED = 0x110000


class Guarded(NamedTuple):
    """What may follow in a text of `language`, if what stands before it leads the markers to `state`; `raw`: what can
    stand as it is.

    Invariant: between two characters of the text that is read; a marker can always be avoided, so there are no dead
    ends.
    A tuple takes 0.3 µs to make and less to compare, a frozen dataclass 1 µs.
    """

    language: Language
    markers: Markers
    raw: Ranges
    state: int = 0

    def __hash__(self) -> int:
        """Leave out what is nearly always the same.  `raw` has hundreds of ranges for repr()."""
        return hash((self.language, self.state))

    @property
    def accepts(self) -> bool:
        return self.language.accepts

    @property
    def label(self) -> int:
        """As of the language: of a set of texts."""
        return self.language.label if isinstance(self.language, LiteralSet) else 0

    @property
    def labelled(self) -> bool:
        return isinstance(self.language, LiteralSet)

    @property
    def short(self) -> int:
        """As of expressions: at least so many characters are missing."""
        missing: int = getattr(self.language, "short", 0)
        return missing

    def edges(self) -> tuple[tuple[int, int, Guarded], ...]:
        markers, raw = self.markers, self.raw
        special = markers.special(self.state, raw)
        stands: list[tuple[int, int, Guarded]] = []
        escaped: list[tuple[int, int, Guarded]] = []
        after = self
        for low, high, target in self.language.edges():
            if after.state or after.language is not target:
                after = Guarded(target, markers, raw)
            for point, state in special:
                if low <= point <= high:
                    if low < point:
                        stands.append((low, point - 1, after))
                    if state is None:
                        escaped.append((point + ESCAPED, point + ESCAPED, after))
                    else:
                        stands.append((point, point, Guarded(target, markers, raw, state)))
                    low = point + 1
            if low <= high:
                stands.append((low, high, after))
        return (*stands, *escaped)

    def mask_key(self, horizon: int) -> Hashable:
        key = self.language.mask_key(horizon)
        if type(key) is type(self.language):
            return Guarded(key, self.markers, self.raw, self.state)
        return Guarded, key, self.markers, self.raw, self.state

    @property
    def counted(self) -> tuple[Endless, int, int | None] | None:
        """As of expressions: the repeated class of characters and its bounds; None: the language is not of this
        kind.
        """
        repeat = self.language.counted if isinstance(self.language, Expr) and not self.state else None
        return None if repeat is None else (Endless(repeat[0], self.markers, self.raw), repeat[1], repeat[2])


class Endless(NamedTuple):
    """A class of characters that is repeated in a guarded text."""

    characters: Expr
    markers: Markers
    raw: Ranges

    def __hash__(self) -> int:
        return hash((self.characters, self.markers))  # as of `Guarded`


def endless(characters: Expr | Endless) -> Language:
    """Return the language of any number of characters of a class."""
    if isinstance(characters, Endless):
        return Guarded(repeat(characters.characters, 0, None), characters.markers, characters.raw)
    return repeat(characters, 0, None)
