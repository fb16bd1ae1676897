"""From conjunctions to machine states: the value machine, one per schema and surface.

A value state is a union of type machines.  Whatever starts with a byte of its own is one state with byte edges (``{``,
``[``, ``t``…); strings and numbers are calls of shared text states.  Nothing is normalised before a generation gets to
it, and nothing is kept here but one start state per conjunction: positions inside objects and arrays are compared by
content, and live in the kernels that met them.

    Values.state(conj) ──► Text | Bytes | Choice ──"{"──► machine_object   ──"["──► machine_array
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from constrained.caches import cached
from constrained.errors import UnsupportedSchema
from constrained.machine import END, Bytes, Edges, LiteralSet, Quoting, State, Text
from constrained.regex import NEVER, Expr, intersect
from constrained.regex.expr import LITERAL
from constrained.schema.machines.array import ArrayMachine
from constrained.schema.machines.object import ObjectMachine, beyond, empty
from constrained.schema.machines.union import MOST_APART, joinable, union
from constrained.schema.normal.normalise import is_never, normalise
from constrained.schema.number_texts import number_language
from constrained.schema.reading.document import At, both
from constrained.schema.surfaces.punctuation import Punctuation, string_between
from constrained.schema.values import ALWAYS, ArrayShape, Conj, HasNamed, HasOther, ObjectShape, Value
from constrained.work import spend

try:
    from constrained.schema._values import PlainObjects
except ImportError:  # no compiler
    PlainObjects = None

_MOST_PLACES = 400  # kinds of places inside a value that are looked at for texts
_MOST_TEXTS = 16  # languages of texts in a value
_MOST_DEMANDS = 3  # of clauses that one member may meet


class Choice(NamedTuple):
    """Any of several states.  Invariant: edges on the same byte lead to the same state."""

    states: tuple[State, ...]

    def expand(self) -> Edges:
        ranges: dict[tuple[int, int, State], None] = {}
        calls: list[tuple[State, State]] = []
        tokens: dict[tuple[str, State], None] = {}
        for state in self.states:
            if isinstance(state, Text):
                calls.append((state, END))
            else:
                edges = state.expand()
                ranges.update(dict.fromkeys(edges.ranges))
                calls += edges.calls  # type: ignore[arg-type]  # shared shape of both
                tokens.update(dict.fromkeys(edges.tokens))
        return Edges(ranges=tuple(ranges), calls=tuple(calls), tokens=tuple(tokens))


def choice(states: list[State]) -> State:
    return states[0] if len(states) == 1 else Choice(tuple(states))


class Values:
    """The value machines of one schema on one surface.  `value` and `never` answer what a conjunction allows."""

    def __init__(self, punctuation: Punctuation, *, ordered: bool,
                 value: Callable[[Conj], Value] = normalise, never: Callable[[Conj], bool] = is_never) -> None:
        self.punctuation, self.ordered, self.value, self.never = punctuation, ordered, value, never
        self.states: dict[Conj, State] = {}  # by conjunction, those that were asked for
        # Without it the median request takes 1.09 times as long (250 schemas of MaskBench)
        self._plain: Any = None if PlainObjects is None else PlainObjects(self)

    def state(self, conj: Conj) -> State:
        """Return the state that reads a value of a conjunction.  Invariant: not never(conj)."""
        state = self.states.get(conj)
        if state is None:
            state = self.states.setdefault(conj, self._made(conj))
        return state

    def named(self, name: str) -> Values:
        """Return what writes the values of a member: this, whatever its name."""
        return self

    def _made(self, conj: Conj) -> State:
        spend(1, At(conj))
        return choice(self.alternatives(self.value(conj), conj))

    def object_written_as(self, outer: Punctuation, conj: Conj) -> State:
        """Return the state that reads an object in a punctuation of its own, such as keyword arguments; its values are
        as ever.
        """
        return Bytes(outer.objects.opening, self.opened_object(self.value(conj).objects, outer, conj))

    def alternatives(self, value: Value, conj: Conj = ALWAYS) -> list[State]:
        """Return one state per type, and per spelling of a type that starts with another byte; conj: what the value was
        made of, for messages.
        """
        marks = self.punctuation
        null, booleans, numbers, strings, arrays, objects = value
        found: list[State] = []
        if objects:
            found.append(Bytes(marks.objects.opening, self.opened_object(objects, marks, conj)))
        if arrays:
            for index, brackets in enumerate(marks.arrays):
                found.append(Bytes(brackets.opening, self.opened_array(arrays, index, conj)))
        if strings is not NEVER:
            found.append(self.string(strings))
        if numbers:
            found.append(Text(Quoting.RAW, number_language(numbers, marks.numbers)))
        if booleans:
            found += [Bytes(marks.true if boolean else marks.false, END) for boolean in sorted(booleans)]
        if null:
            found.append(Bytes(marks.null, END))
        return found

    def texts_within(self, conj: Conj) -> tuple[Text, ...] | None:
        """Return the texts that can stand in values of a conjunction, keys and strings; None: they are too many."""
        return _texts_within(self, conj)

    def string(self, language: Expr) -> State:
        if self.punctuation.quote is not None:
            return string_between(self.punctuation.quote, self.punctuation.avoid, language)
        finite = _only(language.args[0]) if language.kind == LITERAL else language.literal_set
        return Text(self.punctuation.strings, finite or language)

    def opened_object(self, shapes: tuple[ObjectShape, ...], punctuation: Punctuation, conj: Conj = ALWAYS) -> State:
        """Return the state after the opening bracket of an object; conj: what it was made of, for messages."""
        if len(shapes) == 1 and self._plain is not None and punctuation is self.punctuation:
            plain: State | None = self._plain.opened(shapes[0], conj)
            if plain is not None:
                return plain
        machines = [ObjectMachine(self, shape, punctuation, conj) for shape in shapes]
        together: list[ObjectMachine] = []
        if len(machines) >= MOST_APART and punctuation is self.punctuation:
            together = [machine for machine in machines if joinable(machine)]
            machines = [machine for machine in machines if not joinable(machine)]
        joined = [union(self, together)] if together else []
        return choice([*joined, *[machine.start for machine in machines]])

    def opened_array(self, shapes: tuple[ArrayShape, ...], brackets: int, conj: Conj = ALWAYS) -> State:
        return choice([ArrayMachine(self, shape, conj).start(brackets) for shape in shapes])


@cached(4096)
def _only(text: str) -> LiteralSet:
    """Return the set of one text.  Kernels read sets natively, but literals character by character, as states."""
    return LiteralSet((text,))


def _texts_within(values: Values, items: Conj) -> tuple[Text, ...] | None:
    """As `Values.texts_within`.

    Where a clause may be met by a member, all that its value may have to be is looked at, and some that it never has.
    """
    found, seen, queue = dict[Text, None](), {items}, [items]
    try:
        for conj in queue:
            spend(4)
            value = values.value(conj)
            parts = _parts(values, value)
            if parts is None or len(seen) > _MOST_PLACES:
                return None
            texts = [values.string(value.strings)] if value.strings is not NEVER else []
            for text in (*texts, *_keys(values, value)):
                if not isinstance(text, Text):
                    return None
                found[text] = None
            fresh = [part for part in dict.fromkeys(parts) if part not in seen]
            seen.update(fresh)
            queue += fresh
    except UnsupportedSchema:
        return None
    return tuple(found) if len(found) <= _MOST_TEXTS else None


def _keys(values: Values, value: Value) -> Iterator[Text]:
    keys = values.punctuation.keys
    for shape in value.objects:
        if shape.named:
            yield Text(keys.quoting, LiteralSet(tuple(sorted(name for name, _ in shape.named))))
        for language, _ in shape.cells:
            yield Text(keys.quoting, language if keys.within is None else intersect(language, keys.within))


def _parts(values: Values, value: Value) -> list[Conj] | None:
    """Return what the parts of arrays and objects may have to be; None: that is too much."""
    found: list[Conj] = []
    if len(value.objects) >= MOST_APART:
        return None  # some may be read together
    for array in value.arrays:
        if array.clauses or array.counts:
            return None
        found += [*array.prefix, array.rest]
    for shape in value.objects:
        parts = [part for clause in shape.clauses for part in clause]
        others = [part.value for part in parts if isinstance(part, HasOther)]
        members = [(conj, others) for _, conj in shape.cells]
        for key, conj in shape.named:
            members.append((conj, [part.value for part in parts if isinstance(part, HasNamed) and part.key == key]))
        for conj, demands in members:
            if len(demands) > _MOST_DEMANDS:
                return None
            readings = [conj]
            for demand in demands:
                outside = [beyond(values, reading, demand) for reading in readings]
                readings += [both(reading, demand) for reading in readings]
                readings += [reading for reading in outside if reading is not None]
            found += readings
    return [conj for conj in found if not empty(values, conj)]
