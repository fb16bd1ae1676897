"""Many constant arrays or objects (of an ``enum``, of a ``oneOf``) as one machine over those that are still possible.

As machines of their own, 3,000 constants would be 3,000 readings of every text.  Here a position knows which constants
agree with what has been read, so that it is deterministic: a key or a value leads to the constants that have it.

    Position ─ key ─► Keyed ─ text ─► Position ─ "," ─► …   a bracket inside goes down a `OpenBracket`, its end up again

Constants that are read inside an array or object are not called, as the rest depends on them; only texts are.
Cost: per position, 1 µs for each constant that is left; the positions of a generation leave ever fewer.
Tested in tests/test_schema_machines.py (rows of enums) and by tests/fuzz/schemas.py against jsonschema.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from constrained.errors import LimitExceeded
from constrained.machine import END, Bytes, Dispatch, Edges, LiteralSet, Quoting, State, Text
from constrained.schema.normal.unions import of_array, of_object
from constrained.schema.numeric import ranges
from constrained.schema.numeric.keys import number_key
from constrained.schema.numeric.language import canonical_text, number_language
from constrained.schema.reading.document import located, pointer_of
from constrained.schema.strings.sets import is_spelled
from constrained.schema.values import ArrayShape, Conj, ObjectShape
from constrained.work import spend

if TYPE_CHECKING:
    from constrained.schema.machines.value import Values

WORTH_IT = 8  # constants from which on they are read together
_APART = 8  # numbers that are read by machines of their own
_OBJECT = -1  # in place of the index of an array's brackets
FIRST, AFTER, NEXT = range(3)
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
                    Text(Quoting.RAW, number_language((ranges.constant(number),), self.marks.numbers)),
                    self.after(mask, frame),
                )
                for number, mask in numbers.items()
            ]
        language = number_language(tuple(map(ranges.constant, numbers)), self.marks.numbers)
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
            number = ranges.exact(value)
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
