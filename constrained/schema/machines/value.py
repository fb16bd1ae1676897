"""From conjunctions to machine states: the value machine, one per schema and surface.

A value state is a union of type machines.  Whatever starts with a byte of its own is one state with byte edges (``{``,
``[``, ``t``…); strings and numbers are calls of shared text states.  Nothing is normalised before a generation gets to
it, and nothing is kept here but one start state per conjunction: positions inside objects and arrays are compared by
content, and live in the kernels that met them.

    Values.state(conj) ──► Text | Bytes | Choice ──"{"──► machine_object   ──"["──► machine_array
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from constrained.caches import cached
from constrained.machine import END, Bytes, Edges, LiteralSet, Quoting, State, Text
from constrained.regex import NEVER, Expr
from constrained.regex.expr import LITERAL
from constrained.schema.machines.array import ArrayMachine
from constrained.schema.machines.object import ObjectMachine
from constrained.schema.machines.union import union
from constrained.schema.normal.normalise import is_never, normalise
from constrained.schema.number_texts import number_language
from constrained.schema.reading.document import At
from constrained.schema.surfaces.punctuation import Punctuation, string_between
from constrained.schema.values import ALWAYS, ArrayShape, Conj, ObjectShape, Value
from constrained.work import spend

try:
    from constrained.schema._values import PlainObjects
except ImportError:  # no compiler
    PlainObjects = None


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
        states: list[State] = []
        if objects:
            states.append(Bytes(marks.objects.opening, self.opened_object(objects, marks, conj)))
        if arrays:
            for index, brackets in enumerate(marks.arrays):
                states.append(Bytes(brackets.opening, self.opened_array(arrays, index, conj)))
        if strings is not NEVER:
            states.append(self.string(strings))
        if numbers:
            states.append(Text(Quoting.RAW, number_language(numbers, marks.numbers)))
        if booleans:
            states += [Bytes(marks.true if boolean else marks.false, END) for boolean in sorted(booleans)]
        if null:
            states.append(Bytes(marks.null, END))
        return states

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
        starts = [ObjectMachine(self, shape, punctuation, conj).start for shape in shapes]
        return choice(union(self, starts) if punctuation is self.punctuation else [*starts])

    def opened_array(self, shapes: tuple[ArrayShape, ...], brackets: int, conj: Conj = ALWAYS) -> State:
        return choice(union(self, [ArrayMachine(self, shape, conj).start(brackets) for shape in shapes]))


@cached(4096)
def _only(text: str) -> LiteralSet:
    """Return the set of one text.  Kernels read sets natively, but literals character by character, as states."""
    return LiteralSet((text,))
