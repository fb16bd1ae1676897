"""Languages of texts that are spelled so that no marker stands in them: what `machine.MarkerSafe` means to a kernel.

Which character has to be escaped depends on those before it as they are spelled, not on the text.  So the language
reads an alphabet twice as large: a character is its code point, and one that is escaped though it could stand is
`ESCAPED` more.  A kernel adds this number for each such escape that it reads on a spelling that is `guarded`, and knows
nothing else about markers.

    "<" ──► 1 ──"|"──► 2 ── … ──"d"──► 6        (after "<|end" a ">" has no edge as it stands, but one as "\\u003e")

A character is escaped where it would complete a marker, and where the surface cannot write it otherwise: each text has
one spelling.  The latter is said by the spelling, as of other languages, so that a language has as many edges as
without markers and a few more: what repr() leaves as it is are 700 ranges.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from constrained.caches import cached
from constrained.machine import Language, LiteralSet
from constrained.regex.algebra import repeat
from constrained.regex.expr import Expr
from constrained.regex.markers import Markers, Ranges
from constrained.work import spend

ESCAPED = 0x110000


class Guarded(NamedTuple):
    """What may follow in a text of `language`, if what stands before it leads the markers to `state`; `raw`: what can
    stand as it is.

    Invariant: between two characters of the text that is read; a marker can always be avoided, so there are no dead
    ends.
    PERF: a tuple takes 0.3 µs to make and less to compare, a frozen dataclass 1 µs.
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
