"""Languages of texts that are spelled so that no marker stands in them: what `machine.MarkerSafe` means to a kernel.

Which character has to be escaped depends on those before it as they are spelled, not on the text.  So the language
reads an alphabet twice as large: a character as it stands is its code point, an escaped one is `ESCAPED` more.  A
kernel adds this number for each escape that it reads on a spelling that is `guarded`, and knows nothing else about
markers.

    "<" ──► 1 ──"|"──► 2 ── … ──"d"──► 6        (after "<|end" a ">" has no edge as it stands, but one as "\\u003e")

A character is escaped where it would complete a marker, and where the surface cannot write it otherwise: each text has
one spelling.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeAlias

from constrained.caches import cached
from constrained.machine import Language, LiteralSet
from constrained.regex.algebra import repeat
from constrained.regex.expr import Expr
from constrained.regex.markers import Markers
from constrained.work import spend

ESCAPED = 0x110000

Ranges = tuple[tuple[int, int], ...]
Edges: TypeAlias = "list[tuple[int, int, Guarded]]"


@dataclass(frozen=True, slots=True)
class Guarded:
    """What may follow in a text of `language`, if what stands before it leads the markers to `state`; `raw`: what need
    not be escaped.

    Invariant: between two characters of the text that is read; a marker can always be avoided, so there are no dead
    ends.
    """

    language: Language
    markers: Markers
    raw: Ranges
    state: int = 0

    def __hash__(self) -> int:
        """Leave out what is nearly always the same.  PERF: `raw` has hundreds of ranges for repr()."""
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
        found: int = getattr(self.language, "short", 0)
        return found

    def edges(self) -> tuple[tuple[int, int, Guarded], ...]:
        stands, escaped = self._spelled(0, ESCAPED - 1)
        return (*stands, *escaped)

    def between(self, low: int, high: int) -> Edges:
        """Return the edges of a range of characters, all as they stand or all escaped, cut to it.

        PERF: a surface that escapes what cannot be printed has 1,400 edges; whoever asks about one character does not
        need them.
        """
        return self._spelled(low - ESCAPED, high - ESCAPED)[1] if low >= ESCAPED else self._spelled(low, high)[0]

    def _spelled(self, least: int, most: int) -> tuple[Edges, Edges]:
        """Return the edges of characters from `least` to `most`: as they stand, and escaped."""
        stands: Edges = []
        escaped: Edges = []
        special = sorted(self.markers.steps(self.state).items())
        for low, high, target in self.language.edges():
            if low > most or high < least:
                continue
            after = Guarded(target, self.markers, self.raw)
            for first, last, inside in _split(self.raw, max(low, least), min(high, most)):
                if not inside:
                    escaped.append((first + ESCAPED, last + ESCAPED, after))
                    continue
                for point, state in special:
                    if first <= point <= last:
                        if first < point:
                            stands.append((first, point - 1, after))
                        if state is None:
                            escaped.append((point + ESCAPED, point + ESCAPED, after))
                        else:
                            stands.append((point, point, Guarded(target, self.markers, self.raw, state)))
                        first = point + 1
                if first <= last:
                    stands.append((first, last, after))
        escaped.sort(key=itemgetter(0))
        return stands, escaped

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
        found = self.language.counted if isinstance(self.language, Expr) and not self.state else None
        return None if found is None else (Endless(found[0], self.markers, self.raw), found[1], found[2])


@dataclass(frozen=True, slots=True)
class Cleared:
    """The texts of a language of finitely many states that hold no marker, and do not end with a beginning of one among
    `ends`.

    For languages that are no expressions, which `intersect` knows.  Invariant: some text is left.
    """

    language: Language
    markers: Markers
    ends: frozenset[int]  # states of the markers in which a text must not end
    state: int = 0

    @property
    def accepts(self) -> bool:
        return self.language.accepts and self.state not in self.ends

    def edges(self) -> tuple[tuple[int, int, Cleared], ...]:
        return tuple([(low, high, target) for low, high, target in self._steps() if _lives(target)])

    def _steps(self) -> Iterator[tuple[int, int, Cleared]]:
        special = sorted(self.markers.steps(self.state).items())
        for low, high, target in self.language.edges():
            plain = Cleared(target, self.markers, self.ends)
            for point, state in special:
                if low <= point <= high:
                    if low < point:
                        yield low, point - 1, plain
                    if state is not None:
                        yield point, point, Cleared(target, self.markers, self.ends, state)
                    low = point + 1
            if low <= high:
                yield low, high, plain

    def mask_key(self, horizon: int) -> Hashable:
        return self


@cached(4096)
def _lives(language: Cleared) -> bool:
    """Return whether a language has a text."""
    seen, work = {language}, [language]
    while work:
        at = work.pop()
        if at.accepts:
            return True
        spend(8)
        new = {target for _, _, target in at._steps()} - seen
        seen |= new
        work += new
    return False


@dataclass(frozen=True, slots=True)
class Endless:
    """A class of characters that is repeated in a guarded text."""

    characters: Expr
    markers: Markers
    raw: Ranges


def endless(characters: Expr | Endless) -> Language:
    """Return the language of any number of characters of a class."""
    if isinstance(characters, Endless):
        return Guarded(repeat(characters.characters, 0, None), characters.markers, characters.raw)
    return repeat(characters, 0, None)


def _split(ranges: Ranges, low: int, high: int) -> Iterator[tuple[int, int, bool]]:
    """Yield the parts of [low, high] inside and outside of some ranges."""
    for at in range(bisect_left(ranges, low, key=itemgetter(1)), len(ranges)):
        first, last = ranges[at]
        if first > high:
            break
        if low < first:
            yield low, first - 1, False
            low = first
        yield low, min(last, high), True
        low = last + 1
    if low <= high:
        yield low, high, False
