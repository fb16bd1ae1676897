"""Objects as machines over the set of properties already written: any order, no duplicates, no dead ends.

A position is (which named keys are written, which other keys are, how many, which clauses are still open, which named
keys are behind in schema order) and a phase:

    FIRST ─ key ─► Entry ─ ":" value ─► AFTER ─ "," ─► NEXT ─ key ─► …          "}" where `closable`

A key is offered only if the object can still be completed with it (`completable`).  The named keys are one `LiteralSet`
whose bitmask excludes what may not come now; every other key is read by its cell's language and recorded, so that it
cannot come twice.

Clauses ("a is absent, or b has a value in C") are met by nondeterminism: where a value could meet one, there is an
entry that demands it and one that does not.  `}` asks for what only the whole set can show.

Cost: per position one `Edges` of at most 1 + cells + 2 calls, about 5 µs, whatever the number of named keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from constrained.errors import LimitExceeded
from constrained.machine import (
    END,
    Dispatch,
    Edges,
    LiteralSet,
    MarkerSafe,
    ObjectPlace,
    ObjectTable,
    Quoting,
    State,
    Text,
)
from constrained.once import once
from constrained.regex import ANY_TEXT, Expr, intersect, is_empty
from constrained.schema.key_masks import KeyOrder, bits, mask_of
from constrained.schema.machines.clauses import Clauses, MemberValues, Reading
from constrained.schema.machines.object_keys import Entry, NamedKey, OtherKey
from constrained.schema.machines.punctuation import Punctuation, unmarked
from constrained.schema.machines.texts import never_runs_dry, without_dead_ends
from constrained.schema.reading.document import located, pointer_of
from constrained.schema.strings.scarcity import scarce_from
from constrained.schema.values import ALWAYS, Conj, ObjectShape
from constrained.work import spend

FIRST, AFTER, NEXT = range(3)
_NO_KEYS: frozenset[str] = frozenset()
TABLE_QUOTINGS = Quoting.JSON, Quoting.JSON_CANONICAL, Quoting.PYTHON  # quotings of keys that kernels read by a table


class Cell(NamedTuple):
    """Keys that are not named.  endless: infinitely many of them follow every prefix, so that no set of written keys
    uses them up.
    """

    language: Expr
    value: Conj
    endless: bool


_ANY_OTHER = ((ANY_TEXT, ALWAYS),)  # as most objects have it
_ANY_CELLS = (Cell(ANY_TEXT, ALWAYS, True),)


class ObjectPosition(NamedTuple):
    """A position between the brackets; equal positions have equal continuations."""

    machine: ObjectMachine
    phase: int
    padded: bool  # whitespace may come
    written: int  # bit i: names[i]
    others: frozenset[str]
    size: int  # number of written keys, no further than the machine counts
    clauses: int  # bit i: clause i is still open
    rank: int  # named keys of a smaller rank are behind (schema order)

    def expand(self) -> Edges:
        try:
            return self._edges()
        except LimitExceeded as error:
            raise located(error, self.machine.place) from None

    def _tight(self, phase: int) -> ObjectPosition:
        """Return the position in a phase where no whitespace may come.  PERF: `_replace` takes 1 µs more."""
        return ObjectPosition(self.machine, phase, False, *self[3:])

    def _edges(self) -> Edges:
        machine, phase, padded, _, _, _, _, _ = self  # PERF: all at once; one by one they are found by their names
        spend(6, machine)
        marks = machine.punctuation
        calls: list[tuple[State, State | Dispatch]] = []
        closing = machine.closable(self)
        if phase == AFTER or (marks.objects.leading and phase == FIRST):
            if machine.continues(self) or (closing and marks.objects.trailing):
                calls.append((marks.comma, self._tight(NEXT)))
        else:
            calls += machine.entries(self)
            closing = closing and (phase == FIRST or marks.objects.trailing)
        if padded:
            assert marks.gap is not None
            calls.append((marks.gap, self._tight(phase)))
        end = marks.objects.bare if phase == FIRST and marks.objects.bare else marks.objects.end
        if closing and end is not None:
            calls.append((end, END))
        byte = marks.objects.closing
        return Edges(((byte, byte, END),) if closing and end is None else (), tuple(calls))

    def way_out(self) -> Edges:
        """Return the edges that a shortest way out takes: the object is closed, or the nearest required key comes next.

        The members' order does not change a word's length, so that one order of the required ones stands for all.
        """
        machine, marks = self.machine, self.machine.punctuation
        opening = self.phase == AFTER or (marks.objects.leading and self.phase == FIRST)
        if self.padded:
            return self._replace(padded=False).way_out()
        if opening or machine.closable(self):
            return self.expand()
        return Edges(calls=tuple(machine.entries(self, nearest=True)))

    @property
    def object_table(self) -> ObjectTable | None:
        """The facts from which a kernel runs the object natively, at its start; None where it cannot."""
        return self._table() if self.phase == FIRST and not (self.written or self.others) else None

    def _table(self) -> ObjectTable | None:
        """Return the facts; None: a clause is open of which they say nothing."""
        return self.machine.table if not self.clauses or self.machine.clauses.choices else None

    @property
    def object_place(self) -> ObjectPlace | None:
        """The same further on: where one shape of several is left, or the last clause is met."""
        table = self._table()
        return None if table is None else ObjectPlace(
            table, self.phase, self.padded, self.written, self.others, self.size, self.rank
        )


class ObjectMachine:
    """The machine of one shape; compared by identity."""

    def __init__(
        self, values: MemberValues, shape: ObjectShape, punctuation: Punctuation, conj: Conj = ALWAYS,
        *, paid: bool = False,
    ) -> None:
        self.values, self.shape = values, shape
        self.punctuation, self._conj = punctuation, conj
        if not paid:
            spend(4 + len(shape.named), self)
        # PERF: a comprehension is a call of Python, and most objects are read for the first time
        self.names: tuple[str, ...] = ()
        self.conjs: tuple[Conj, ...] = ()
        if shape.named:
            self.names, self.conjs = zip(*sorted(shape.named), strict=True)
        self.index = dict(zip(self.names, range(len(self.names)), strict=True))
        self.required = mask_of(map(self.index.__getitem__, shape.required), len(self.names)) if shape.required else 0
        self.special = frozenset(self.names)
        self._most = shape.max
        self.counts_to = shape.min if shape.max is None else shape.max

    @property
    def start(self) -> ObjectPosition:
        padded = self.punctuation.gap is not None
        return ObjectPosition(self, FIRST, padded, 0, _NO_KEYS, 0, (1 << len(self.shape.clauses)) - 1, 0)

    @property
    def place(self) -> str:
        """The pointer of the schema, for messages."""
        return pointer_of(self._conj)

    # -- what depends on the values; computed when the object is entered -----------------------------------------------

    @once
    def usable(self) -> int:
        """The named keys that may be written at all."""
        never, count = self.values.never, len(self.conjs)
        dead = []
        for at, conj in enumerate(self.conjs):  # PERF: a comprehension is a call of Python
            if conj and never(conj):
                dead.append(at)
        return (1 << count) - 1 ^ (mask_of(dead, count) if dead else 0)

    @once
    def cells(self) -> tuple[Cell, ...]:
        if self.shape.cells == _ANY_OTHER and self.punctuation.keys.within is None:
            return _ANY_CELLS
        found = []
        for language, conj in self.shape.cells:
            if self.punctuation.keys.within is not None:
                language = intersect(language, self.punctuation.keys.within)
            if not is_empty(language) and not (conj and self.values.never(conj)):
                found.append(Cell(language, conj, never_runs_dry(language)))
        return tuple(found)

    @once
    def clauses(self) -> Clauses:
        return Clauses(self)

    @once
    def order(self) -> KeyOrder:
        """The order of the schema."""
        return KeyOrder([self.index[name] for name, _ in self.shape.named])

    @once
    def table(self) -> ObjectTable | None:
        """What `machine.ObjectTable` says where no clause is open but those; trailing commas, cells that may run dry,
        and names in order that could be too few need the positions here.
        """
        marks, ordered = self.punctuation, self.values.ordered
        if marks.objects.trailing or marks.objects.leading:
            return None
        quoting = marks.keys.quoting if self.cells else unmarked(marks.keys.quoting, self.names)
        languages, others, endless = zip(*self.cells, strict=True) if self.cells else ((), (), ())
        if False in endless or isinstance(quoting, MarkerSafe) or quoting not in TABLE_QUOTINGS:
            return None
        if ordered and not self.cells and self.shape.min > self.required.bit_count():
            return None
        conjs = (*self.conjs, *others)
        return ObjectTable(
            self.names, self.required, self.usable, self.special, languages,
            lambda which: self.values.state(conjs[which]),
            tuple([None if conj else (marks, ordered) for conj in others]),
            self.shape.min, self.shape.max, quoting, marks.comma, marks.keys.colon, marks.gap, marks.objects.closing,
            self.order.keys if ordered else None,
            self.clauses.choices if self.shape.clauses else (),
        )

    # -- predicates on the set written so far --------------------------------------------------------------------------

    def ahead(self, at: ObjectPosition) -> int:
        """Return the named keys that have not been written and still may be, as far as order and values say."""
        left = self.usable & ~at.written
        return left & self.order.behind(at.rank) if self.values.ordered else left

    def closable(self, at: ObjectPosition) -> bool:
        enough = not self.required & ~at.written and at.size >= self.shape.min
        return enough and (not at.clauses or self.clauses.met(at))

    def completable(self, at: ObjectPosition) -> bool:
        """Say whether some continuation closes the object."""
        needed = self.required & ~at.written
        ahead = self.ahead(at)
        if needed & ~ahead:
            return False
        least = at.size + needed.bit_count()
        if self._most is not None and least > self._most:
            return False
        if least < self.shape.min and not self.cells and at.size + ahead.bit_count() < self.shape.min:
            return False
        return not at.clauses or self.clauses.can_be_met(at, ahead, needed)

    def offered(self, at: ObjectPosition) -> int:
        """Return the named keys that may come now."""
        ahead = self.ahead(at)
        needed = self.required & ~at.written
        if self.values.ordered and needed:
            ahead &= ~self.order.behind(self.order.nearest(needed) + 1)
        if self._most is not None and at.size + needed.bit_count() >= self._most:
            ahead &= needed
        doubtful = self.clauses.doubtful(at, needed) if at.clauses else 0
        if self.values.ordered and (at.size < self.shape.min or at.clauses):
            doubtful = ahead
        if at.clauses and self._most is not None:
            doubtful = ahead
        for bit in bits(ahead & doubtful):
            if not any(self.named_options(at, bit)):
                ahead &= ~(1 << bit)
        return ahead

    def _offers_other(self, at: ObjectPosition) -> bool:
        needed = self.required & ~at.written
        if not self.cells or (self.values.ordered and needed):
            return False
        return self._most is None or at.size + needed.bit_count() < self._most

    def continues(self, at: ObjectPosition) -> bool:
        """Say whether a key may come."""
        return bool(self.offered(at)) or bool(self.offered_cells(at))

    def offered_cells(self, at: ObjectPosition) -> list[int]:
        """Return the cells of which a key may come now."""
        cells = range(len(self.cells)) if self._offers_other(at) else ()
        return [cell for cell in cells if any(self.other_options(at, cell)) and self._language(at, cell) is not None]

    # -- keys ----------------------------------------------------------------------------------------------------------

    def entries(self, at: ObjectPosition, *, nearest: bool = False) -> list[tuple[State, State | Dispatch]]:
        """Return the calls that read the next key; nearest: of required ones only the first, if one is missing."""
        quoting = self.punctuation.keys.quoting
        calls: list[tuple[State, State | Dispatch]] = []
        offers = self.offered(at)
        needed = offers & self.required & ~at.written if nearest else 0
        if needed:
            spend(len(self.names) >> 11)  # masks of all the names
            first = self.order.keys[self.order.nearest(needed)]
            return [(Text(quoting, LiteralSet(self.names, ~(1 << first) & ((1 << len(self.names)) - 1))), NamedKey(at))]
        if offers:
            excluded = ~offers & ((1 << len(self.names)) - 1)
            calls.append((Text(quoting, LiteralSet(self.names, excluded)), NamedKey(at)))
        if self._offers_other(at):
            for number in range(len(self.cells)):
                language = self._language(at, number)
                if language is not None and any(self.other_options(at, number)):
                    calls.append((Text(quoting, language), OtherKey(at, number, self.special | at.others)))
        return calls

    def _language(self, at: ObjectPosition, number: int) -> Expr | None:
        cell = self.cells[number]
        return cell.language if cell.endless else without_dead_ends(cell.language, self.special | at.others)

    def tells_from(self, used: int) -> int | None:
        """Return how many bytes it takes to tell whether a key of a cell is one of those that are used; see
        `Dispatch.tells_from`.
        """
        if self.cells is _ANY_CELLS:
            return None
        numbers = [scarce_from(cell.language, used) for cell in self.cells if not cell.endless]
        characters = min((number for number in numbers if number is not None), default=None)
        return None if characters is None else 3 + characters  # behind colon, value and comma

    def named_entry(self, at: ObjectPosition, bit: int) -> State | None:
        options = tuple(self.named_options(at, bit))
        return Entry(self.values.named(self.names[bit]), self.punctuation.keys.colon, options) if options else None

    def other_entry(self, at: ObjectPosition, cell: int, text: str | None) -> State | None:
        options = tuple(self.other_options(at, cell, text))
        return Entry(self.values, self.punctuation.keys.colon, options) if options else None

    def named_options(self, at: ObjectPosition, bit: int) -> Iterator[tuple[Conj, ObjectPosition]]:
        rank = self.order.rank_of[bit] + 1 if self.values.ordered else 0
        written = at.written | 1 << bit
        if self.values.ordered:  # what is behind cannot come: only clauses ask whether it was written
            written |= ~self.order.behind(rank) & ~self.clauses.touched & ((1 << len(self.names)) - 1)
        after = ObjectPosition(
            self, AFTER, self.punctuation.gap is not None, written, at.others, self.counted(at.size), at.clauses, rank
        )
        return self._options(
            self.clauses.named(bit, self.conjs[bit], after) if at.clauses else ((self.conjs[bit], 0),), after
        )

    def other_options(
        self, at: ObjectPosition, cell: int, text: str | None = None
    ) -> Iterator[tuple[Conj, ObjectPosition]]:
        others = at.others if text is None else at.others | {text}
        rank = len(self.names) if self.values.ordered else 0
        after = ObjectPosition(
            self, AFTER, self.punctuation.gap is not None, at.written, others, self.counted(at.size), at.clauses, rank
        )
        conj = self.cells[cell].value
        return self._options(self.clauses.other(cell, conj, after) if at.clauses else ((conj, 0),), after)

    def _options(self, readings: Iterable[Reading], after: ObjectPosition) -> Iterator[tuple[Conj, ObjectPosition]]:
        for conj, clauses in readings:
            option = after if after.clauses == clauses else ObjectPosition(*after[:6], clauses, after.rank)
            if self.completable(option):
                yield conj, option

    def counted(self, count: int) -> int:
        return count + 1 if count < self.counts_to else count
