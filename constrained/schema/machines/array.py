"""Arrays as machines over the position, with lazily counted states.

A position is (how many items are written, how often each `Count` is met, which clauses are open, and for distinct items
their values) and a phase, as for objects:

    FIRST ─ item ─► AFTER ─ "," ─► NEXT ─ item ─► …          "]" where `closable`

The number of items is exact only as far as something depends on it, so that an array without bounds has four states and
``maxItems: 100000`` costs nothing until somebody writes so many.  Counts and clauses are met by nondeterminism: an item
is read as one that meets them and as one that does not.  An item is offered only if the array can still be completed
(`completable`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from constrained.errors import LimitExceeded
from constrained.machine import END, Dispatch, Edges, State
from constrained.once import once
from constrained.schema.key_masks import bits
from constrained.schema.machines.distinct import NOTHING_WRITTEN, Distinct, Item, Written
from constrained.schema.machines.object import beyond, claims, constants_apart, empty, reads_simply
from constrained.schema.normal.satisfiable import can_complete
from constrained.schema.reading.document import both, located, pointer_of
from constrained.schema.values import (
    ALWAYS,
    ArrayShape,
    Conj,
    ItemAt,
    ItemFrom,
    LengthAtLeast,
    LengthBelow,
    negation,
)
from constrained.work import spend

if TYPE_CHECKING:
    from constrained.schema.machines.object import MemberValues
    from constrained.schema.surfaces.punctuation import Punctuation

FIRST, AFTER, NEXT = range(3)


class Progress(NamedTuple):
    """What the items so far mean for the rest: everything that a search for a completion needs to know."""

    length: int  # no further than the machine counts
    counts: tuple[int, ...]  # items that met each count, no further than its bound
    clauses: int  # bit i: clause i is still open


class ArrayPosition(NamedTuple):
    """A position between the brackets; equal positions have equal continuations."""

    machine: ArrayMachine
    phase: int
    padded: bool  # whitespace may come
    brackets: int  # which of the surface's
    progress: Progress
    written: Written  # the values so far where they must be distinct

    def expand(self) -> Edges:
        return self.edges()

    def way_out(self) -> Edges:
        """Return the edges of `State.way_out`: the bracket where it may come, else the comma or an item."""
        return self.edges(hurried=True)

    def edges(self, *, hurried: bool = False, options: list[tuple[Conj, Any]] | None = None) -> Edges:
        """Return the edges, those of items as options where somebody asks for these."""
        try:
            return self._edges(hurried, options)
        except LimitExceeded as error:
            raise located(error, self.machine.place) from None

    def equal_ways(self) -> ArrayPosition | None:
        """Return the position without the values so far, where all items are of one kind: if these are as short as so
        many distinct values can be, what is left is as long whichever they are.
        """
        shape = self.machine.shape
        if self.phase != AFTER or shape.unique is None or shape.prefix or shape.counts:
            return None
        return self._replace(written=NOTHING_WRITTEN)

    def shared(self, way_of: Callable[[State], str | None]) -> tuple[str, State] | None:
        """Return a way out that all positions share which lead on alike, and the position that it was searched from,
        see `State.shared`: where no number was written, nor a string but those that the way before it writes.
        """
        distinct, kept = self.machine.distinct, frozenset[Item]()
        for _ in range(2):
            forgotten = kept if distinct is None else distinct.forgotten(self.written) - kept
            if distinct is None or not forgotten:
                return None
            wider = self._replace(written=Written(self.written.scalars - forgotten, self.written.composites))
            way = way_of(wider)
            again = None if way is None else distinct.written_again(way, forgotten)
            if not again:
                return None if way is None else (way, wider)
            kept |= again
        return None

    def _tight(self, phase: int) -> ArrayPosition:
        """Return the position in a phase where no whitespace may come.

        `_replace` takes 1 µs more, a fifth of all edges.
        """
        machine, _, _, brackets, progress, written = self
        return ArrayPosition(machine, phase, False, brackets, progress, written)

    def _edges(self, hurried: bool, options: list[tuple[Conj, Any]] | None) -> Edges:
        machine, phase, padded, kind, progress, _ = self  # all at once; one by one they are found by their names
        spend(6, machine)
        marks = machine.punctuation
        brackets = marks.arrays[kind]
        calls: list[tuple[State, State | Dispatch]] = []
        closing = machine.closable(progress)
        if phase == AFTER or (brackets.leading and phase == FIRST):
            closes = closing and not (brackets.lonely and progress.length == 1)
            if not (hurried and closes) and (hurried or (closing and brackets.trailing) or machine.continues(self)):
                calls.append((marks.comma, self._tight(NEXT)))
        else:
            closes = closing and (phase == FIRST or brackets.trailing)
            if options is not None:
                options += machine.options(self)
            elif not (hurried and closes):
                calls += machine.items(self, hurried=hurried)
        if padded and not hurried:
            assert marks.gap is not None
            calls.append((marks.gap, self._tight(phase)))
        end, byte = brackets.bare if phase == FIRST and brackets.bare else brackets.end, brackets.closing
        if closes and end is not None:
            calls.append((end, END))
        return Edges(((byte, byte, END),) if closes and end is None else (), tuple(calls))


class _ItemReading(NamedTuple):
    """What an item may be: it is what it has `met`, without what would meet one of the counts that it `missed`."""

    met: Conj
    missed: tuple[int, ...]
    clauses: int  # that stay open
    raised: int  # the counts that it meets

    def counts(self, progress: Progress) -> tuple[int, ...]:
        """Return how many items meet each count, with this one."""
        return tuple([number + (self.raised >> at & 1) for at, number in enumerate(progress.counts)])


class ArrayMachine:
    """The machine of one shape; compared by identity."""

    def __init__(
        self, values: MemberValues, shape: ArrayShape, conj: Conj = ALWAYS, punctuation: Punctuation | None = None
    ) -> None:
        self.values, self.shape, self._conj = values, shape, conj
        self.punctuation = punctuation or values.punctuation
        compared = shape.unique is not None and shape.max not in (0, 1)  # never between tags, see `tags.nests`
        self.distinct = Distinct(values, shape) if compared else None  # type: ignore[arg-type]
        self._padded = self.punctuation.gap is not None
        self._counts_to = self._told_apart() if shape.max is None else shape.max
        self._completable: dict[Progress, bool] = {}
        self._live: dict[Conj, bool] = {}
        self._overlaps: dict[Conj, int] = {}
        self._lengths: dict[int, tuple[int, int]] = {}  # see `_met_by`

    def _told_apart(self) -> int:
        """Return the length from which on all are alike."""
        shape = self.shape
        lonely = True in [brackets.lonely for brackets in self.punctuation.arrays]
        lengths = [len(shape.prefix), shape.min, 2 if lonely else 0]
        for clause in shape.clauses:
            for part in clause:
                if isinstance(part, (ItemAt, ItemFrom)):
                    lengths.append(part.index + 1)
                elif isinstance(part, (LengthBelow, LengthAtLeast)):
                    lengths.append(part.length)
        return max(lengths)

    @property
    def place(self) -> str:
        """The pointer of the schema, for messages."""
        return pointer_of(self._conj)

    def start(self, brackets: int) -> ArrayPosition:
        shape = self.shape
        progress = Progress(0, (0,) * len(shape.counts), (1 << len(shape.clauses)) - 1)
        return ArrayPosition(self, FIRST, self._padded, brackets, progress, NOTHING_WRITTEN)

    @once
    def limit(self) -> int | None:
        """The length that no array exceeds, because of maxItems or of a position without a value; None: unlimited."""
        for index, conj in enumerate(self.shape.prefix):
            if empty(self.values, conj):
                return index
        return len(self.shape.prefix) if empty(self.values, self.shape.rest) else self.shape.max

    def closable(self, progress: Progress) -> bool:
        length, counts, clauses = progress
        if length < self.shape.min:
            return False
        if not counts and not clauses:
            return True
        return all(
            number >= count.min for number, count in zip(counts, self.shape.counts, strict=True)
        ) and not clauses & ~self._met_by(length)[0]

    def _met_by(self, length: int) -> tuple[int, int]:
        """Return the clauses that an array of this length meets if it ends, and those that it meets for good."""
        met = self._lengths.get(length)
        if met is None:
            spend(1 + len(self.shape.clauses))
            ends = going = 0
            for number, clause in enumerate(self.shape.clauses):
                if any(isinstance(part, LengthBelow) and length < part.length for part in clause):
                    ends |= 1 << number
                if any(isinstance(part, LengthAtLeast) and part.length <= length for part in clause):
                    going |= 1 << number
            met = self._lengths[length] = ends, going
        return met

    # -- items ---------------------------------------------------------------------------------------------------------

    def items(self, at: ArrayPosition, *, hurried: bool) -> list[tuple[State, State | Dispatch]]:
        """Return the calls that read the next item; hurried: see `Distinct.items`."""
        if self.distinct is not None and self.shape.counts:
            return [
                call
                for conj, counts in self._kinds_of_next(at)
                for call in self.distinct.of_kind(
                    conj, at.written, self._after(at, self._progress(at.progress, counts, 0)), hurried=hurried
                )
            ]
        if self.distinct is not None:
            after = self._after(at, self._progress(at.progress, at.progress.counts, at.progress.clauses))
            if not self._may_grow(at.progress):
                return []
            return self.distinct.items(at.written, at.progress.length, after, hurried=hurried)
        state = self.values.state
        return [(state(conj), after) for conj, after in self.options(at)]

    def options(self, at: ArrayPosition) -> list[tuple[Conj, ArrayPosition]]:
        """Return what the next item may be where items need not be distinct, and the position behind it."""
        return [(conj, self._after(at, progress)) for conj, progress in self._options(at.progress)]

    def continues(self, at: ArrayPosition) -> bool:
        """Say whether one more item may come."""
        if self.distinct is not None and self.shape.counts:
            return next(self._kinds_of_next(at), None) is not None
        if self.distinct is not None:
            return self._may_grow(at.progress) and self.distinct.continues(
                at.written,
                at.progress.length,
                self._after(at, self._progress(at.progress, at.progress.counts, at.progress.clauses)),
            )
        if not self.shape.counts and not at.progress.clauses:
            return self._may_grow(at.progress) and self.completable(at.progress)
        return bool(self._options(at.progress))

    def _kinds_of_next(self, at: ArrayPosition) -> Iterator[tuple[Conj, tuple[int, ...]]]:
        """Yield what the next item may be where items are distinct and some are counted; see `Distinct.counted`."""
        assert self.distinct is not None
        if self._may_grow(at.progress):
            yield from self.distinct.counted(at.written, at.progress.counts, at.progress.length)

    def _may_grow(self, progress: Progress) -> bool:
        limit = self.shape.max if self.distinct else self.limit
        return limit is None or progress.length < limit

    def _after(self, at: ArrayPosition, progress: Progress) -> ArrayPosition:
        return ArrayPosition(self, AFTER, self._padded, at.brackets, progress, at.written)

    def _options(self, progress: Progress) -> list[tuple[Conj, Progress]]:
        """Return what the next item may be, with the progress it makes, as far as the array can then be completed."""
        if not self._may_grow(progress):
            return []
        shape, index = self.shape, progress.length
        conj = shape.at(index)
        if not shape.counts and not progress.clauses:
            return [(conj, self._progress(progress, (), 0))] if self.completable(progress) else []
        return [option for option in self._ways(conj, progress) if self.completable(option[1])]

    def _ways(self, conj: Conj, progress: Progress) -> list[tuple[Conj, Progress]]:
        shape, index = self.shape, progress.length
        demands = {
            1 << number: [part.item for part in shape.clauses[number] if isinstance(part, ItemAt)
                          and part.index == index or isinstance(part, ItemFrom) and part.index <= index]
            for number in bits(progress.clauses)
        }
        entries = constants_apart(self.values, conj, progress.clauses, demands)
        for clause, demanded in demands.items():
            entries = claims(self.values, entries, clause, demanded)
        ways = [_ItemReading(conj, (), clauses, 0) for conj, clauses in entries]
        for number, (reached, count) in enumerate(zip(progress.counts, shape.counts, strict=True)):
            spend(1 + 4 * len(ways))
            if count.max is not None or reached < count.min:
                ways = [grown for way in ways for grown in (
                    self._counted(way, number, reached) if self._overlapping(way.met) >> number & 1 else (way,))]
        items = ((way, self._item(way)) for way in ways)
        return [(conj, self._progress(progress, way.counts(progress), way.clauses))
                for way, conj in items if conj is not None]

    def _overlapping(self, conj: Conj) -> int:
        """Return the counts that some item of a conjunction meets, as a bitmask."""
        counts = self._overlaps.get(conj)
        if counts is None:
            counts = sum([self._has_value(both(conj, count.item)) << at for at, count in enumerate(self.shape.counts)])
            self._overlaps[conj] = counts
        return counts

    def _counted(self, way: _ItemReading, number: int, reached: int) -> list[_ItemReading]:
        """Return the item that meets a count, and the one that does not."""
        missed = [way._replace(missed=(*way.missed, number))]
        count = self.shape.counts[number]
        if reached == count.max:
            return missed
        met = way._replace(met=both(way.met, count.item), raised=way.raised | 1 << number)
        return [met, *missed] if not met.missed or self._has_value(self._outside(met, met.missed)) else missed

    def _outside(self, way: _ItemReading, counts: Sequence[int]) -> Conj:
        """Return an item without those that meet some counts.

        Nothing is said of counts that it cannot meet: so the item that is a certain constant is the same behind
        whatever came before.  Else 60 constants take 60 conjunctions of up to 60 signed nodes behind each item.
        """
        conj, overlapping = way.met, self._overlapping(way.met)
        spend(2 * len(counts))
        for number in counts:
            if overlapping >> number & 1:
                conj = both(conj, negation(self.shape.counts[number].item))
        return conj

    def _item(self, way: _ItemReading) -> Conj | None:
        """Return the item of a way, None if there is none.  Counts without a maximum may be met more often than they
        must, so that items that meet them are left out only where that is no more work, see `beyond`.
        """
        counts = self.shape.counts
        outside = self._outside(way, way.missed)
        if not self._has_value(outside):
            return None
        free = [number for number in way.missed if counts[number].max is None]
        if not free or reads_simply(self.values, outside):
            return outside
        conj: Conj | None = self._outside(way, [number for number in way.missed if counts[number].max is not None])
        for number in free:
            conj = None if conj is None else beyond(self.values, conj, counts[number].item)
        return conj

    def _progress(self, progress: Progress, counts: tuple[int, ...], clauses: int) -> Progress:
        before, _, open_ = progress
        length = before + 1 if before < self._counts_to else before
        if clauses:
            clauses &= ~self._met_by(length)[1]
        unchanged = length == before and clauses == open_ and counts == progress.counts
        return progress if unchanged else Progress(length, counts, clauses)

    # -- liveness ------------------------------------------------------------------------------------------------------

    def completable(self, progress: Progress) -> bool:
        """Say whether some continuation closes the array."""
        if not progress.clauses and not self.shape.counts:
            return self.limit is None or self.shape.min <= self.limit
        known = self._completable.get(progress)
        if known is None:
            open_ = tuple([self.shape.clauses[number] for number in bits(progress.clauses)])
            known = can_complete(self.shape, open_, self._has_value, progress.length, progress.counts)
            self._completable[progress] = known
        return known

    def _has_value(self, conj: Conj) -> bool:
        known = self._live.get(conj)
        if known is None:
            known = self._live[conj] = not empty(self.values, conj)
        return known
