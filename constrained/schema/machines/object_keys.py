"""What follows the keys of objects: the separator and a value, for `object`.

A key leads to an `Entry`, which is one state for all ways to read its value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from constrained.errors import LimitExceeded
from constrained.machine import Dispatch, Edges, State
from constrained.schema.reading.document import located
from constrained.schema.values import Conj

if TYPE_CHECKING:
    from constrained.schema.machines.clauses import MemberValues
    from constrained.schema.machines.object import ObjectPosition


class Entry(NamedTuple):
    """A key has been read; the separator and one of several values follow."""

    values: MemberValues
    colon: State
    options: tuple[tuple[Conj, ObjectPosition], ...]

    def expand(self) -> Edges:
        return Edges((), ((self.colon, Begin(self.values, self.options)),))


class Begin(NamedTuple):
    """A value of one of several conjunctions, each with what follows it."""

    values: MemberValues
    options: tuple[tuple[Conj, ObjectPosition], ...]

    def expand(self) -> Edges:
        state = self.values.state
        return Edges((), tuple([(state(conj), after) for conj, after in self.options]))


class NamedKey(Dispatch):
    """What follows the key names[label]."""

    __slots__ = ("at",)

    def __init__(self, at: ObjectPosition) -> None:
        self.at = at

    @property
    def wanted(self) -> int:  # type: ignore[override]  # only asked for
        return self.at.machine.required & ~self.at.written

    def after(self, label: int) -> State | None:
        try:
            return self.at.machine.named_entry(self.at, label)
        except LimitExceeded as error:
            raise located(error, self.at.machine.place) from None


class OtherKey(Dispatch):
    """What follows a key of a cell; keys in `special` are named or written and refused."""

    __slots__ = ("at", "cell", "refused", "special")
    records = alike = keyed = True
    compared = str

    def __init__(self, at: ObjectPosition, cell: int, special: frozenset[str]) -> None:
        self.at, self.cell = at, cell
        self.special = self.refused = special

    @property
    def tells_from(self) -> int | None:  # type: ignore[override]  # only asked for
        return self.at.machine.tells_from(len(self.special) + 1)

    def after_text(self, text: str | None) -> State | None:
        if text in self.special:
            return None
        try:
            return self.at.machine.other_entry(self.at, self.cell, text)
        except LimitExceeded as error:
            raise located(error, self.at.machine.place) from None
