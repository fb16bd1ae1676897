"""Many shapes read together: one machine over those that agree with what has been read.

A union of n object shapes is otherwise n readings of every key and value, each with its edges and its masks.  Here the
shapes that offer a key are found by the key, and those that ask for a constant (the tag of a tagged union) by its text:
behind it, few are left.

    Union ─ key ─► Entered ─ ":" ─► Told ─ text ─► Union ─ "," ─► …    one shape left: its own `ObjectPosition`

A key that no shape names is read by each of the cells' languages; a text of two of them is read twice.
Cost: per position, some 10 µs for each shape that is left.

Constant arrays or objects (of an ``enum``, of a ``oneOf``) are read by a position that knows which constants are left,
so that it is deterministic: a key or a value leads to the constants that have it.  As machines of their own, 3,000
constants would be 3,000 readings of every text.

    ListPosition ─ key ─► Keyed ─ text ─► ListPosition ─ "," ─► …    a bracket opens an `OpenBracket`

Constants that are read inside an array or object are not called, as the rest depends on them; only texts are.
Cost: per position, 1 µs for each constant that is left; the positions of a generation leave ever fewer.

Tested in tests/test_schema_machines.py, and by tests/fuzz/schemas.py against jsonschema.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from constrained.errors import LimitExceeded
from constrained.machine import END, Bytes, Dispatch, Edges, LiteralSet, Quoting, State, Text
from constrained.once import once
from constrained.regex import NEVER, Expr, matches
from constrained.schema.key_masks import bits, mask_of
from constrained.schema.machines.object import AFTER, FIRST, NEXT, ObjectMachine, ObjectPosition
from constrained.schema.normal.unions import of_array, of_conj, of_object
from constrained.schema.number_sets import constant, exact, number_key
from constrained.schema.number_texts import canonical_text, number_language
from constrained.schema.reading.document import located, pointer_of
from constrained.schema.strings.sets import is_spelled
from constrained.schema.values import ArrayShape, Conj, ObjectShape
from constrained.work import spend

if TYPE_CHECKING:
    from constrained.schema.machines.value import Values


# ======================================================================================================================
# Object shapes
# ======================================================================================================================

MOST_APART = 50  # shapes; from so many on they are read together
_FEW_TEXTS = 64  # that a tag may have
Option: TypeAlias = tuple[Conj, ObjectPosition]


def joinable(machine: ObjectMachine) -> bool:
    """Say whether a machine may be one of a union: no set of written keys uses its cells up."""
    return all(cell.endless for cell in machine.cells)


class _Home:
    """What the positions of one union share."""

    def __init__(self, values: Values, machines: Sequence[ObjectMachine]) -> None:
        self.values, self.marks = values, machines[0].punctuation
        self.names = tuple(sorted({name for machine in machines for name in machine.names}))
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
        left, found = set(within), 0
        for part, _ in offers:
            blocked = {name for name in left if name in part.machine.special or name in part.others}
            spend(len(left) // 16)
            found |= mask_of([self.index[name] for name in left - blocked], len(self.names))
            left = blocked
            if not left:
                break
        return found

    def tags(self, conj: Conj) -> list[tuple[bool, Any]] | None:
        """Return the few texts (False) or numbers (True) that a conjunction allows, None if they are not few or there
        is more.
        """
        known = self._tags.get(conj, ...)
        if known is ...:
            known = self._tags[conj] = self._tags_of(conj)
        return known

    def _tags_of(self, conj: Conj) -> list[tuple[bool, Any]] | None:
        found = of_conj(conj)
        if found is None or isinstance(found[0], (list, dict)) or type(found[0]) is str:
            value = self.values.value(conj) if conj else None
            plain = value is not None and not (
                value.null or value.booleans or value.numbers or value.arrays or value.objects
            )
            few = value.strings.literal_set if value is not None and plain and value.strings is not NEVER else None
            return (
                [(False, text) for text in few.texts]
                if few is not None and len(few.texts) <= _FEW_TEXTS and not few.excluded
                else None
            )
        return None if found[0] is None or type(found[0]) is bool else [(True, exact(found[0]))]


def union(values: Values, machines: Sequence[ObjectMachine]) -> State:
    """Return the state behind the opening bracket of an object of one of the shapes."""
    return joined(_Home(values, machines), [machine.start for machine in machines])


def joined(home: _Home, parts: Iterable[ObjectPosition]) -> State:
    found = tuple(dict.fromkeys(parts))
    return found[0] if len(found) == 1 else Union(home, found)


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
    spend(4 * len(options))
    by_value: dict[Conj, list[ObjectPosition]] = {}
    for conj, after in options:
        by_value.setdefault(conj, []).append(after)
    return Entered(home, tuple([(conj, tuple(parts)) for conj, parts in by_value.items()])) if options else None


class Entered:
    """A key has been read; the separator and one of several values follow.  Compared by identity: it is made once for
    each key.
    """

    def __init__(self, home: _Home, options: tuple[tuple[Conj, tuple[ObjectPosition, ...]], ...]) -> None:
        self._home, self._options = home, options

    def expand(self) -> Edges:
        return Edges(calls=((self._home.marks.keys.colon, self._told),))

    @once
    def _told(self) -> State:
        return Told(self._home, self._options)


class Told:
    """A value of one of several conjunctions; a tag tells which shapes are left."""

    def __init__(self, home: _Home, options: tuple[tuple[Conj, tuple[ObjectPosition, ...]], ...]) -> None:
        self._home, self._options = home, options

    def expand(self) -> Edges:
        home, marks = self._home, self._home.marks
        texts: dict[str, list[ObjectPosition]] = {}
        numbers: dict[Any, list[ObjectPosition]] = {}
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

    def __init__(self, home: _Home, parts: list[list[ObjectPosition]]) -> None:
        self._home, self._parts = home, parts

    def after(self, label: int) -> State:
        return joined(self._home, self._parts[label])


class _ShapesByNumber(Dispatch):
    """What follows a number in any spelling; there are none but those that shapes ask for."""

    records = True

    def __init__(self, home: _Home, parts: dict[str, list[ObjectPosition]]) -> None:
        self._home, self.special = home, frozenset(parts)
        self._parts = {number_key(text): part for text, part in parts.items()}

    def after_text(self, text: str | None) -> State | None:
        parts = self._parts.get(number_key(text)) if text is not None else None
        return None if parts is None else joined(self._home, parts)


# ======================================================================================================================
# Constants
# ======================================================================================================================

WORTH_IT = 8  # constants from which on they are read together
_APART = 8  # numbers that are read by machines of their own
_OBJECT = -1  # in place of the index of an array's brackets
Mask: TypeAlias = int  # bit i: constant i is still possible
Call: TypeAlias = tuple[State, "State | Dispatch"]


def constants(shapes: Iterable[ArrayShape | ObjectShape]) -> tuple[list[Any], list[Any]]:
    """Return the values of the shapes that have one value each, and the other shapes."""
    values, others = [], []
    for shape in shapes:
        spend(1)
        value: Any = of_object(shape) if isinstance(shape, ObjectShape) else of_array(shape)
        if value is not None and _is_written(value):
            values.append(value)
        else:
            others.append(shape)
    return values, others


def _is_written(value: Any) -> bool:
    """Say whether a value is of the usual types and has no lone surrogates."""
    todo = [value]
    for part in todo:
        spend(1)
        if type(part) is str:
            if not is_spelled(part):
                return False
        elif type(part) is list:
            todo.extend(part)
        elif type(part) is dict:
            todo.extend(part)
            todo.extend(part.values())
    return True


class _Place:
    """Where arrays (or objects) of the constants stand: at the end of some steps.  parts: by constant."""

    __slots__ = ("below", "parts")

    def __init__(self, parts: dict[int, Any]) -> None:
        self.parts = parts
        self.below: dict[tuple[str | int, type], _Place] = {}

    def at(self, step: str | int, kind: type) -> _Place:
        """Return the place of the arrays (objects) one step further."""
        found = self.below.get((step, kind))
        if found is None:
            spend(len(self.parts) // 4)
            if isinstance(step, str):
                inner = {at: part[step] for at, part in self.parts.items() if step in part}
            else:
                inner = {at: part[step] for at, part in self.parts.items() if len(part) > step}
            found = self.below[step, kind] = _Place({at: part for at, part in inner.items() if type(part) is kind})
        return found


class OpenBracket:
    """An array or object that is open.  Equal ones have the same constants behind them; compared without recursion."""

    __slots__ = ("_hash", "brackets", "parent", "place", "written")

    def __init__(self, place: _Place, brackets: int, written: frozenset[str] | int, parent: OpenBracket | None) -> None:
        self.place, self.brackets, self.written, self.parent = place, brackets, written, parent
        self._hash: int = hash((id(place), brackets, written, parent._hash if parent is not None else 0))

    def with_written(self, written: frozenset[str] | int) -> OpenBracket:
        return OpenBracket(self.place, self.brackets, written, self.parent)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        one: object = self
        while isinstance(one, OpenBracket) and isinstance(other, OpenBracket) and one is not other:
            if (one._hash, one.place, one.brackets) != (
                other._hash,
                other.place,
                other.brackets,
            ) or one.written != other.written:
                return False
            one, other = one.parent, other.parent
        return one is other


class Listed:
    """Constants that are read together, all arrays or all objects."""

    def __init__(self, values: Values, items: Sequence[Any], conj: Conj) -> None:
        self.marks, self.ordered, self._conj = values.punctuation, values.ordered, conj
        self._root = _Place(dict(enumerate(items)))

    @property
    def place(self) -> str:
        """The pointer of the schema, for messages."""
        return pointer_of(self._conj)

    def start(self, brackets: int = _OBJECT) -> ListPosition:
        """Return the position behind the opening bracket."""
        return self._opened(self._root, brackets, (1 << len(self._root.parts)) - 1, None)

    def _opened(self, place: _Place, brackets: int, left: Mask, parent: OpenBracket | None) -> ListPosition:
        return ListPosition(
            self,
            FIRST,
            self.marks.gap is not None,
            left,
            OpenBracket(place, brackets, frozenset() if brackets == _OBJECT else 0, parent),
        )

    def next_keys(self, left: Mask, frame: OpenBracket) -> dict[str, Mask]:
        """Return the keys that may come next, each with the constants that have it."""
        found: dict[str, Mask] = {}
        written = frame.written
        assert isinstance(written, frozenset)
        for at in _bits(left):
            part = frame.place.parts[at]
            spend(1 + len(part) // 8)
            keys: Collection[str] = [list(part)[len(written)]] if self.ordered else part.keys() - written
            for key in keys:
                found[key] = found.get(key, 0) | 1 << at
        return found

    def values(self, left: Mask, frame: OpenBracket, step: str | int) -> list[Call]:
        """Return the calls that read what the constants have at a step; frame: with the step among what is written."""
        marks, kinds = self.marks, _ConstantsByType()
        for at in _bits(left):
            kinds.add(frame.place.parts[at][step], 1 << at)
        spend(left.bit_count() + 20 * len(kinds.numbers))
        calls: list[Call] = [
            (Bytes({None: marks.null, False: marks.false, True: marks.true}[word], END), self.after(mask, frame))
            for word, mask in kinds.words.items()
        ]
        if kinds.texts:
            texts = tuple(sorted(kinds.texts))
            found = _ConstantsByText(self, frame, [kinds.texts[text] for text in texts])
            calls.append((Text(marks.strings, LiteralSet(texts)), found))
        calls += self._numbers(kinds.numbers, frame)
        if kinds.arrays:
            place = frame.place.at(step, list)
            calls += [
                (Bytes(brackets.opening, END), self._opened(place, index, kinds.arrays, frame))
                for index, brackets in enumerate(marks.arrays)
            ]
        if kinds.objects:
            calls.append(
                (
                    Bytes(marks.objects.opening, END),
                    self._opened(frame.place.at(step, dict), _OBJECT, kinds.objects, frame),
                )
            )
        return calls

    def _numbers(self, numbers: dict[Fraction, Mask], frame: OpenBracket) -> list[Call]:
        if len(numbers) <= _APART:
            return [
                (
                    Text(Quoting.RAW, number_language((constant(number),), self.marks.numbers)),
                    self.after(mask, frame),
                )
                for number, mask in numbers.items()
            ]
        language = number_language(tuple(map(constant, numbers)), self.marks.numbers)
        if isinstance(language, LiteralSet):
            spelled = {canonical_text(number): mask for number, mask in numbers.items()}
            found = _ConstantsByText(self, frame, [spelled[text] for text in language.texts])
            return [(Text(Quoting.RAW, language), found)]
        return [(Text(Quoting.RAW, language), _ConstantsByNumber(self, frame, numbers))]

    def after(self, left: Mask, frame: OpenBracket) -> ListPosition:
        """Return the position behind an entry."""
        return ListPosition(self, AFTER, self.marks.gap is not None, left, frame)

    def closed(self, left: Mask, frame: OpenBracket) -> State:
        """Return what follows a closing bracket."""
        return END if frame.parent is None else self.after(left, frame.parent)


class _ConstantsByType:
    """Values by type, each with the constants that have it."""

    __slots__ = ("arrays", "numbers", "objects", "texts", "words")

    def __init__(self) -> None:
        self.texts: dict[str, Mask] = {}
        self.numbers: dict[Fraction, Mask] = {}
        self.words: dict[bool | None, Mask] = {}
        self.arrays = self.objects = 0

    def add(self, value: Any, mask: Mask) -> None:
        if type(value) is str:
            self.texts[value] = self.texts.get(value, 0) | mask
        elif value is None or type(value) is bool:
            self.words[value] = self.words.get(value, 0) | mask
        elif isinstance(value, list):
            self.arrays |= mask
        elif isinstance(value, dict):
            self.objects |= mask
        else:
            number = exact(value)
            self.numbers[number] = self.numbers.get(number, 0) | mask


class _ConstantsByText(Dispatch):
    """What follows a text (a number in canonical spelling): the constants that have it."""

    __slots__ = ("_frame", "_home", "_masks")
    refuses = False

    def __init__(self, home: Listed, frame: OpenBracket, masks: list[Mask]) -> None:
        self._home, self._frame, self._masks = home, frame, masks

    def after(self, label: int) -> State:
        return self._home.after(self._masks[label], self._frame)


class _ConstantsByNumber(Dispatch):
    """What follows a number in any spelling; there are none but those of the constants."""

    records = True

    def __init__(self, home: Listed, frame: OpenBracket, numbers: dict[Fraction, Mask]) -> None:
        self._home, self._frame = home, frame
        texts = {canonical_text(number): mask for number, mask in numbers.items()}
        self.special = frozenset(texts)
        self._masks = {number_key(text): mask for text, mask in texts.items()}

    def after_text(self, text: str | None) -> State | None:
        mask = self._masks.get(number_key(text)) if text is not None else None
        return None if mask is None else self._home.after(mask, self._frame)


class _Keys(Dispatch):
    """What follows a key: the constants that have it."""

    __slots__ = ("_frame", "_home", "_keys")
    refuses = False

    def __init__(self, home: Listed, frame: OpenBracket, keys: list[tuple[str, Mask]]) -> None:
        self._home, self._frame, self._keys = home, frame, keys

    def after(self, label: int) -> State:
        key, mask = self._keys[label]
        assert isinstance(self._frame.written, frozenset)
        return Keyed(self._home, mask, self._frame.with_written(self._frame.written | {key}), key, False)


class Keyed(NamedTuple):
    """A key has been read; the separator and its value follow."""

    home: Listed
    left: Mask
    frame: OpenBracket
    key: str
    is_separated: bool

    def expand(self) -> Edges:
        if self.is_separated:
            return Edges(calls=tuple(self.home.values(self.left, self.frame, self.key)))
        return Edges(calls=((self.home.marks.keys.colon, self._replace(is_separated=True)),))


class ListPosition(NamedTuple):
    """A position between brackets; equal ones read the same."""

    home: Listed
    phase: int
    padded: bool  # whitespace may come
    left: Mask
    frame: OpenBracket

    def expand(self) -> Edges:
        try:
            return self._edges()
        except LimitExceeded as error:
            raise located(error, self.home.place) from None

    def _edges(self) -> Edges:
        home, phase, frame, marks = self.home, self.phase, self.frame, self.home.marks
        is_object = frame.brackets == _OBJECT
        brackets = marks.objects if is_object else marks.arrays[frame.brackets]
        number = len(frame.written) if isinstance(frame.written, frozenset) else frame.written
        done = 0
        for at in _bits(self.left):
            done |= (len(frame.place.parts[at]) == number) << at
        more = self.left & ~done
        spend(6 + self.left.bit_count() // 4, home)
        calls: list[Call] = []
        closing = bool(done)
        if phase == AFTER:
            if more or (closing and brackets.trailing):
                calls.append(
                    (
                        marks.comma,
                        self._replace(phase=NEXT, padded=False, left=self.left if brackets.trailing else more),
                    )
                )
            closing = closing and not (brackets.lonely and number == 1)
        else:
            calls += self._entries(more) if more else []
            closing = closing and (phase == FIRST or brackets.trailing)
        if self.padded:
            assert marks.gap is not None
            calls.append((marks.gap, self._replace(padded=False)))
        end = brackets.closing
        return Edges(ranges=((end, end, home.closed(done, frame)),) if closing else (), calls=tuple(calls))

    def _entries(self, more: Mask) -> list[Call]:
        home, frame = self.home, self.frame
        if not isinstance(frame.written, frozenset):
            return home.values(more, frame.with_written(frame.written + 1), frame.written)
        keys = sorted(home.next_keys(more, frame).items())
        texts = LiteralSet(tuple([key for key, _ in keys]))
        return [(Text(home.marks.keys.quoting, texts), _Keys(home, frame, keys))]


def _bits(mask: Mask) -> list[int]:
    text = bin(mask)[:1:-1]
    found, at = [], text.find("1")
    while at >= 0:
        found.append(at)
        at = text.find("1", at + 1)
    return found
