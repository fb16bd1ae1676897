"""Many shapes read together: one machine over those that agree with what has been read.

A union of n object shapes is otherwise n readings of every key and value, each with its edges and its masks.  Here the
shapes that offer a key are found by the key, and those that ask for a constant (the tag of a tagged union) by its text:
behind it, few are left.

    Union ─ key ─► Entered ─ ":" ─► DiscriminatorValue ─ text ─► Union ─ "," ─► …
                                                                  one shape left: its own `ObjectPosition`

Arrays are joined in the same way (`ArrayUnion`): items that are constants tell them apart.

A key that no shape names is read by each of the cells' languages; a text of two of them is read twice.
Cost: per position, some 10 µs for each shape that is left.

Tested in tests/test_schema_machines.py, and by tests/fuzz/schemas.py against jsonschema.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from constrained.errors import LimitExceeded
from constrained.machine import END, Dispatch, Edges, LiteralSet, Quoting, State, Text
from constrained.regex import Expr, matches
from constrained.regex.expr import LITERAL
from constrained.schema.key_masks import bits, mask_of
from constrained.schema.machines.array import ArrayMachine, ArrayPosition
from constrained.schema.machines.object import AFTER, FIRST, NEXT, ObjectMachine, ObjectPosition
from constrained.schema.normal.unions import of_conj
from constrained.schema.number_sets import constant, exact, number_key
from constrained.schema.number_texts import canonical_text, number_language
from constrained.schema.reading.document import located
from constrained.schema.values import Conj
from constrained.work import spend

if TYPE_CHECKING:
    from constrained.schema.machines.value import Values


MOST_APART = 8  # shapes; from so many on they are read together
_FEW_TEXTS = 64  # that a tag may have
Call: TypeAlias = tuple[State, "State | Dispatch"]
Position: TypeAlias = ObjectPosition | ArrayPosition
Option: TypeAlias = tuple[Conj, Position]


def joinable(machine: ObjectMachine | ArrayMachine) -> bool:
    """Say whether a machine may be one of a union: no set of written keys uses its cells up, and items may be equal."""
    return machine.distinct is None if isinstance(machine, ArrayMachine) else all(
        cell.endless for cell in machine.cells)


class _Home:
    """What the positions of one union share."""

    def __init__(self, values: Values, starts: Sequence[Position]) -> None:
        self.values, self.marks = values, starts[0].machine.punctuation
        self.names = tuple(sorted({name for start in starts for name in getattr(start.machine, "names", ())}))
        self.special = frozenset(self.names)
        self.index = {name: at for at, name in enumerate(self.names)}
        self.everything = (1 << len(self.names)) - 1
        self._within: dict[Expr, frozenset[str]] = {}
        self._places: dict[ObjectMachine, list[int] | None] = {}
        self._tags: dict[Conj, list[tuple[bool, Any]] | None] = {}

    def lifted(self, machine: ObjectMachine, names: int) -> int:
        """Return which of all names some of a machine's are."""
        if machine not in self._places:
            spend(1 + len(machine.names) // 8)
            self._places[machine] = (
                None if machine.names == self.names else [self.index[name] for name in machine.names]
            )
        places = self._places[machine]
        return names if places is None else mask_of([places[bit] for bit in bits(names)], len(self.names))

    def free(self, language: Expr, offers: list[tuple[ObjectPosition, int]]) -> int:
        """Return the names that some of the positions take as keys of a cell."""
        within = self._within.get(language)
        if within is None:
            spend(len(self.names))
            within = self._within[language] = frozenset(name for name in self.names if matches(language, name))
        left, names_free = set(within), 0
        for part, _ in offers:
            blocked = {name for name in left if name in part.machine.special or name in part.others}
            spend(len(left) // 16)
            names_free |= mask_of([self.index[name] for name in left - blocked], len(self.names))
            left = blocked
            if not left:
                break
        return names_free

    def tags(self, conj: Conj) -> list[tuple[bool, Any]] | None:
        """Return the few texts (False) or numbers (True) that a conjunction allows, None if they are not few or there
        is more.
        """
        known = self._tags.get(conj, ...)
        if known is ...:
            known = self._tags[conj] = self._tags_of(conj)
        return known

    def _tags_of(self, conj: Conj) -> list[tuple[bool, Any]] | None:
        constant = of_conj(conj)
        if constant is not None and type(constant[0]) not in (str, list, dict):
            return None if constant[0] is None or type(constant[0]) is bool else [(True, exact(constant[0]))]
        value = self.values.value(conj) if conj and self.marks.quote is None else None  # else no text stands alone
        if value is None or value.null or value.booleans or value.numbers or value.arrays or value.objects:
            return None
        if value.strings.kind == LITERAL:
            return [(False, value.strings.args[0])]
        few = value.strings.literal_set
        return [(False, text) for text in few.members()] if few is not None and len(few.texts) <= _FEW_TEXTS else None


def union(values: Values, starts: Sequence[Position]) -> list[State]:
    """Return the states behind the opening bracket of an object, or an array, of one of some shapes."""
    together = [start for start in starts if joinable(start.machine)] if len(starts) >= MOST_APART else []
    apart = [start for start in starts if not together or not joinable(start.machine)]
    return [*([joined(_Home(values, together), together)] if together else []), *apart]


def joined(home: _Home, parts: Iterable[Position]) -> State:
    members = tuple(dict.fromkeys(parts))
    if len(members) == 1:
        return members[0]
    return (ArrayUnion if isinstance(members[0], ArrayPosition) else Union)(home, members)  # type: ignore[arg-type]


class ArrayUnion(NamedTuple):
    """A position in several arrays, in the same phase; items that are constants tell them apart."""

    home: _Home
    parts: tuple[ArrayPosition, ...]

    def expand(self) -> Edges:
        options: list[Option] = []
        ranges: dict[tuple[int, int, State], None] = {}
        ends: dict[Call, None] = {}
        further: dict[State, list[ArrayPosition]] = {}  # behind the same call
        for part in self.parts:
            edges = part.edges(options=options)
            ranges.update(dict.fromkeys(edges.ranges))
            for called, after in edges.calls:
                if isinstance(after, ArrayPosition):
                    further.setdefault(called, []).append(after)
                else:
                    ends[called, after] = None
        calls = [*ends, *[(called, joined(self.home, behind)) for called, behind in further.items()]]
        return Edges(tuple(ranges), (*calls, *(told(self.home, options).expand().calls if options else ())))


class Union:
    """A position in several shapes, in the same phase.  Equal ones read the same."""

    __slots__ = ("_hash", "home", "parts")

    def __init__(self, home: _Home, parts: tuple[ObjectPosition, ...]) -> None:
        self.home, self.parts = home, parts
        self._hash = hash(parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or isinstance(other, Union) and self._hash == other._hash and self.parts == other.parts

    def expand(self) -> Edges:
        try:
            return self._edges()
        except LimitExceeded as error:
            raise located(error, self.parts[0].machine.place) from None

    def _edges(self) -> Edges:
        home, marks = self.home, self.home.marks
        first = self.parts[0]
        spend(6 + 2 * len(self.parts), first.machine)
        calls: list[Call] = []
        closing = any(part.machine.closable(part) for part in self.parts)
        if first.phase == AFTER:
            going = [part for part in self.parts if part.machine.continues(part)]
            behind = (
                [part for part in self.parts if part in going or part.machine.closable(part)]
                if marks.objects.trailing
                else going
            )
            if behind:
                calls.append((marks.comma, joined(home, [part._replace(phase=NEXT, padded=False) for part in behind])))
        else:
            calls += self._entries()
            closing = closing and (first.phase == FIRST or marks.objects.trailing)
        if first.padded:
            assert marks.gap is not None
            calls.append((marks.gap, joined(home, [part._replace(padded=False) for part in self.parts])))
        byte = marks.objects.closing
        return Edges(ranges=((byte, byte, END),) if closing else (), calls=tuple(calls))

    def _entries(self) -> list[Call]:
        home, quoting = self.home, self.home.marks.keys.quoting
        calls: list[Call] = []
        named = [(part, part.machine.offered(part)) for part in self.parts]
        offered = 0
        cells: dict[Expr, list[tuple[ObjectPosition, int]]] = {}
        for part, names in named:
            offered |= home.lifted(part.machine, names)
            for number in part.machine.offered_cells(part):
                cells.setdefault(part.machine.cells[number].language, []).append((part, number))
        spend(3 * len(self.parts) + (len(self.parts) * len(home.names) >> 9))
        for language, offers in cells.items():
            offered |= home.free(language, offers)
        if offered:
            keys = _ShapesByKey(home, named, cells)
            calls.append((Text(quoting, LiteralSet(home.names, home.everything & ~offered)), keys))
        special = home.special.union(*(part.others for part in self.parts)) if cells else home.special
        calls += [(Text(quoting, language), _Other(home, offers, special)) for language, offers in cells.items()]
        return calls


class _ShapesByKey(Dispatch):
    """What follows a key that some shape names."""

    def __init__(
        self, home: _Home, named: list[tuple[ObjectPosition, int]], cells: dict[Expr, list[tuple[ObjectPosition, int]]]
    ) -> None:
        self._home, self._named, self._cells = home, named, cells

    def after(self, label: int) -> State | None:
        name = self._home.names[label]
        spend(len(self._named) // 4)
        options: list[Option] = []
        for part, names in self._named:
            bit = part.machine.index.get(name)
            if bit is not None and names >> bit & 1:
                options += part.machine.named_options(part, bit)
        for language, offers in self._cells.items():
            if matches(language, name):
                options += _others(offers, name)
        return entered(self._home, options)


class _Other(Dispatch):
    """What follows a key that no shape names."""

    records = alike = keyed = True

    def __init__(self, home: _Home, offers: list[tuple[ObjectPosition, int]], special: frozenset[str]) -> None:
        self._home, self._offers, self.special = home, offers, special

    def after_text(self, text: str | None) -> State | None:
        return None if text in self._home.special else entered(self._home, _others(self._offers, text))


def _others(offers: list[tuple[ObjectPosition, int]], text: str | None) -> list[Option]:
    return [option for part, number in offers if text not in part.machine.special and text not in part.others
            for option in part.machine.other_options(part, number, text)]


def entered(home: _Home, options: list[Option]) -> State | None:
    """Return what follows a key, None if nothing does."""
    return Entered(home, told(home, options)) if options else None


def told(home: _Home, options: list[Option]) -> DiscriminatorValue:
    """Return what reads the value of one of some options."""
    spend(4 * len(options))
    by_value: dict[Conj, list[Position]] = {}
    for conj, after in options:
        by_value.setdefault(conj, []).append(after)
    return DiscriminatorValue(home, tuple([(conj, tuple(parts)) for conj, parts in by_value.items()]))


class Entered:
    """A key has been read; the separator and one of several values follow.  Compared by identity: it is made once for
    each key.
    """

    def __init__(self, home: _Home, value: DiscriminatorValue) -> None:
        self._edges = Edges(calls=((home.marks.keys.colon, value),))

    def expand(self) -> Edges:
        return self._edges


class DiscriminatorValue:
    """A value of one of several conjunctions; a tag tells which shapes are left."""

    def __init__(self, home: _Home, options: tuple[tuple[Conj, tuple[Position, ...]], ...]) -> None:
        self._home, self._options = home, options

    def expand(self) -> Edges:
        home, marks = self._home, self._home.marks
        texts: dict[str, list[Position]] = {}
        numbers: dict[Any, list[Position]] = {}
        calls: list[Call] = []
        for conj, parts in self._options:
            spend(4 + len(parts) // 8)
            tags = home.tags(conj) if len(self._options) > 1 else None
            if tags is None:
                calls.append((home.values.state(conj), joined(home, parts)))
            for is_number, tag in tags or ():
                (numbers if is_number else texts).setdefault(tag, []).extend(parts)
        if texts:
            order = tuple(sorted(texts))
            calls.append((Text(marks.strings, LiteralSet(order)), _ShapesByText(home, [texts[text] for text in order])))
        if numbers:
            spend(20 * len(numbers))
            language = number_language(tuple(map(constant, numbers)), marks.numbers)
            spelled = {canonical_text(number): parts for number, parts in numbers.items()}
            after = (
                _ShapesByText(home, [spelled[text] for text in language.texts])
                if isinstance(language, LiteralSet)
                else _ShapesByNumber(home, spelled)
            )
            calls.append((Text(Quoting.RAW, language), after))
        return Edges(calls=tuple(calls))


class _ShapesByText(Dispatch):
    """What follows a text: the shapes that ask for it."""

    refuses = False

    def __init__(self, home: _Home, parts: list[list[Position]]) -> None:
        self._home, self._parts = home, parts

    def after(self, label: int) -> State:
        return joined(self._home, self._parts[label])


class _ShapesByNumber(Dispatch):
    """What follows a number in any spelling; there are none but those that shapes ask for."""

    records = True

    def __init__(self, home: _Home, parts: dict[str, list[Position]]) -> None:
        self._home, self.special = home, frozenset(parts)
        self._parts = {number_key(text): part for text, part in parts.items()}

    def after_text(self, text: str | None) -> State | None:
        parts = self._parts.get(number_key(text)) if text is not None else None
        return None if parts is None else joined(self._home, parts)
