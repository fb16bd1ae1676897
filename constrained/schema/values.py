"""The normal form of a schema: which values it allows, by JSON type, without a word about syntax.

A `Conj` is a conjunction of signed subschemas; `normalise` turns one into a `Value`, a union of shapes per type whose
children are again conjunctions.  Nothing below a value is looked at before somebody asks, so recursive schemas need no
special treatment and a schema of 5,000 definitions costs what is used of it.  Machines are built from these classes
alone: no keyword is known past this point.

Why shapes and not a boolean formula: a machine reads a value once, from left to right, and needs to know what may come
next.  Why clauses inside the shapes: multiplying out "some item is …" and "a is absent or b is present" doubles the
shapes each time, while a machine keeps track of a clause with one bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from constrained.regex import NEVER, Expr

if TYPE_CHECKING:
    from constrained.schema.reading.document import Node


@dataclass(slots=True, eq=False, repr=False)  # a frozen one takes three times as long to make
class SignedNode:
    """A subschema, which is its own node, or its negation; never changed.  Interned, so that equality is identity."""

    node: Node
    positive: bool  # True: valid against the node; False: not valid against it


Conj: TypeAlias = frozenset[SignedNode]
ALWAYS: Conj = frozenset()  # every JSON value


@dataclass(frozen=True, slots=True)
class NumberRange:
    """The numbers x with low <= x <= high (< where open), x/m whole for m in `multiples`, x/m not whole for m in
    `not_multiples`.

    Invariant: some number lies in the range; all multiples are > 0.
    """

    integer: bool | None = None  # True: whole numbers (1.0 is one), False: all others, None: both
    low: Fraction | None = None
    low_open: bool = False
    high: Fraction | None = None
    high_open: bool = False
    multiples: tuple[Fraction, ...] = ()
    not_multiples: tuple[Fraction, ...] = ()
    plain: bool = False  # written without a point and an exponent, as integers of draft 4 are


@dataclass(frozen=True, slots=True)
class ItemAt:
    """The array is longer than `index` and that item belongs to `item`."""

    index: int
    item: Conj


@dataclass(frozen=True, slots=True)
class ItemFrom:
    """Some item at `index` or later belongs to `item`."""

    index: int
    item: Conj


@dataclass(frozen=True, slots=True)
class LengthBelow:
    """The array has fewer than `length` items."""

    length: int


@dataclass(frozen=True, slots=True)
class LengthAtLeast:
    """The array has `length` items or more."""

    length: int


@dataclass(frozen=True, slots=True)
class HasNamed:
    """The key is present and its value belongs to `value`.  Invariant: `key` is among the shape's named keys."""

    key: str
    value: Conj


@dataclass(frozen=True, slots=True)
class HasOther:
    """Some key that is not named, and is a text of `keys`, is present and its value belongs to `value`.

    Invariant: each cell of the shape lies inside `keys` or outside it.
    """

    keys: Expr
    value: Conj


@dataclass(frozen=True, slots=True)
class Absent:
    """The (named) key is not present."""

    key: str


@dataclass(frozen=True, slots=True)
class Present:
    """The (named) key is present, whatever its value."""

    key: str


Obligation: TypeAlias = ItemAt | ItemFrom | LengthBelow | LengthAtLeast | HasNamed | HasOther | Absent | Present
Clause: TypeAlias = frozenset[Obligation]  # at least one of them holds


@dataclass(frozen=True, slots=True)
class Count:
    """Between `min` and `max` items of the array belong to `item`.  Invariant: `item` has exactly one signed node, see
    `negation`.
    """

    item: Conj
    min: int
    max: int | None


class ArrayShape(NamedTuple):
    """The arrays a with

    a[i] in prefix[i] for i < len(prefix), a[i] in rest for the others, min <= len(a) <= max, every count and every
    clause holds, and the items are pairwise different (unique = True), not pairwise different (False) or either (None).

    Invariants: some array has the shape; a clause of one obligation is an `ItemFrom`; max is None or >= len(prefix).
    """

    prefix: tuple[Conj, ...] = ()
    rest: Conj = ALWAYS
    min: int = 0
    max: int | None = None
    counts: tuple[Count, ...] = ()
    clauses: tuple[Clause, ...] = ()
    unique: bool | None = None

    def at(self, index: int) -> Conj:
        """Return what the item at an index is."""
        return self.prefix[index] if index < len(self.prefix) else self.rest


class ObjectShape(NamedTuple):
    """The objects whose named keys have values in their conjunction, and each of whose other keys lies in a cell with
    its value there.

    A key that is neither named nor in a cell is forbidden.  `named` is in the order in which the schema first names the
    keys; a named key may be forbidden (its conjunction is empty, see `is_never`).  min <= number of keys <= max; every
    clause holds.

    Invariants: some object has the shape; required is a subset of named; each clause has two obligations or more; the
    cells' languages are disjoint, may contain named keys (which do not belong to the cell), and hold some other key
    each; a cell with a finite language has more other keys than `min` plus the number of clauses (smaller ones are
    spelled out as named keys).
    """

    named: tuple[tuple[str, Conj], ...] = ()
    required: frozenset[str] = frozenset()
    cells: tuple[tuple[Expr, Conj], ...] = ()
    min: int = 0
    max: int | None = None
    clauses: tuple[Clause, ...] = ()


class Value(NamedTuple):
    """A set of JSON values; the tuples are unions, and their members may overlap.  Nothing at all: no value is
    allowed.
    """

    null: bool = False
    booleans: frozenset[bool] = frozenset()
    numbers: tuple[NumberRange, ...] = ()
    strings: Expr = NEVER
    arrays: tuple[ArrayShape, ...] = ()
    objects: tuple[ObjectShape, ...] = ()

    def __bool__(self) -> bool:
        """Whether some value is allowed."""
        return (
            self.null or bool(self.booleans or self.numbers or self.arrays or self.objects) or self.strings is not NEVER
        )


def negation(item: Conj) -> Conj:
    """Return the complement of a conjunction of one, for the items of a `Count` that must lie outside it."""
    (signed,) = item
    return frozenset((signed.node.negative if signed.positive else signed.node,))
