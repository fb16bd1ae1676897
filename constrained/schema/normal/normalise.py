"""`normalise`: a conjunction of signed subschemas → the values that it allows; `is_never`: whether there are none.

Lazy: a conjunction is looked at when somebody asks, and its children stay conjunctions, so recursion costs nothing.
Exact: every shape that is returned has a value.  Whether it has is a least fixpoint (a value is finite, so an object
that requires itself for ever does not exist), computed over the conjunctions that a shape cannot do without; see
`normal.satisfiable`.

Threads: one document is normalised by one thread at a time, under its lock; finished answers are shared.
Bounds: `alternatives.MOST_ALTERNATIVES` shapes per conjunction; beyond it UnsupportedSchema names the subschema.
"""

from __future__ import annotations

from functools import cache

from constrained.errors import LimitExceeded
from constrained.regex import ANY_TEXT, NEVER
from constrained.schema.normal import arrays, objects
from constrained.schema.normal.alternatives import scalars_of, sketches_of
from constrained.schema.normal.arrays import Never
from constrained.schema.normal.counts import FewValues, values_below
from constrained.schema.normal.plans import mere_types, plan_of
from constrained.schema.normal.quick import surely_satisfiable
from constrained.schema.normal.satisfiable import Ask, is_live_array, is_live_object
from constrained.schema.normal.scalars import ARRAY, EVERY_TYPE, NO_SCALARS, OBJECT, SCALAR, of_types
from constrained.schema.reading.document import NOTHING, Document, located, ordered, pointer_of
from constrained.schema.values import ALWAYS, ArrayShape, Conj, ObjectShape, Value
from constrained.work import spend


@cache
def _of_types(types: int) -> Value:
    """Return all values of some types."""
    scalars = of_types(types & SCALAR)
    return Value(
        scalars.null, scalars.booleans, scalars.numbers, scalars.strings.expr() if scalars.strings else NEVER,
        (ArrayShape(),) if types & ARRAY else (),
        (ObjectShape(cells=((ANY_TEXT, ALWAYS),)),) if types & OBJECT else (),
    )


ANYTHING = _of_types(EVERY_TYPE)
NO_VALUE = Value()
(_nothing,) = NOTHING  # in a document of its own, where it is looked up as all others are
_nothing.node.document.memo[NOTHING] = NO_VALUE
_nothing.node.document.live[NOTHING] = False


def normalise(conj: Conj) -> Value:
    """Return the values that belong to a conjunction.

    Cost: tens of microseconds for a plain schema, once; then a dictionary lookup.
    Raises: UnsupportedSchema, LimitExceeded: it cannot be done exactly within bounds; SchemaError: a schema applies
    itself in place.
    """
    if not conj:
        return ANYTHING
    document = next(iter(conj)).node.document
    normal: Value | None = document.memo.get(conj)
    if normal is None:
        with document.lock:
            try:
                normal = document.memo[conj] = _pruned(conj, _raw(conj))
            except LimitExceeded as error:
                raise located(error, pointer_of(conj)) from None
    return normal


def is_live(conj: Conj) -> bool:
    """Return whether some value belongs to a conjunction, however long it takes to find out; errors as of
    `normalise`.
    """
    if not conj:
        return True
    document = next(iter(conj)).node.document
    known = _at_a_glance(conj, document.live)
    if known is None:
        with document.lock:
            try:
                known = _decide(conj, document)
            except LimitExceeded as error:
                raise located(error, pointer_of(conj)) from None
    return known


def is_never(conj: Conj) -> bool:
    """Return whether no value belongs to a conjunction; errors as of `normalise`."""
    return not is_live(conj)


def _raw(conj: Conj) -> Value:
    """Return the value with shapes that may turn out to be empty, because their children are not looked at."""
    raw: dict[Conj, Value] = next(iter(conj)).node.document.raw
    value = raw.get(conj)
    if value is None:
        value = raw[conj] = _raw_anew(conj)
    return value


def _raw_anew(conj: Conj) -> Value:
    types, mere = EVERY_TYPE, True
    for signed in conj:
        if signed.positive:
            plan = plan_of(signed.node)
            types &= plan.types
            mere = mere and plan is mere_types(plan.types)
        else:
            mere = False
    spend(2 if mere else 18)
    if mere:
        return _of_types(types)
    scalars = scalars_of(conj) if types & SCALAR else NO_SCALARS
    return Value(
        scalars.null,
        scalars.booleans,
        scalars.numbers,
        scalars.strings.expr() if scalars.strings else NEVER,
        _array_shapes(conj, _is_nothing) if types & ARRAY else (),
        _object_shapes(conj, _is_nothing) if types & OBJECT else (),
    )


def _array_shapes(conj: Conj, never: Never) -> tuple[ArrayShape, ...]:
    node = ordered(conj)[0].node
    shapes = [shape for sketch in sketches_of(conj, ARRAY) for shape in arrays.shapes(sketch, node, never)]
    return tuple(shapes) if len(shapes) < 2 else tuple(dict.fromkeys(shapes))


def _object_shapes(conj: Conj, never: Never) -> tuple[ObjectShape, ...]:
    node = ordered(conj)[0].node
    shapes = [
        shape for sketch in sketches_of(conj, OBJECT) if (shape := objects.shape(sketch, node, never)) is not None
    ]
    return tuple(shapes) if len(shapes) < 2 else tuple(dict.fromkeys(shapes))


def _is_nothing(conj: Conj) -> bool:
    return conj == NOTHING


def _pruned(conj: Conj, raw: Value) -> Value:
    """Return the value with live shapes only, and only live obligations in their clauses."""
    array_shapes, shapes = raw.arrays, raw.objects
    if not array_shapes and not shapes:
        return raw
    together: tuple[ArrayShape | ObjectShape, ...] = (*array_shapes, *shapes)
    for shape in together:
        if shape.clauses:
            array_shapes = _array_shapes(conj, is_never) if array_shapes else ()
            shapes = _object_shapes(conj, is_never) if shapes else ()
            break
    if array_shapes:
        array_shapes = tuple([shape for shape in array_shapes if is_live_array(shape, is_live, _distinct)])
    if shapes:
        shapes = tuple([shape for shape in shapes if is_live_object(shape, is_live)])
    if array_shapes == raw.arrays and shapes == raw.objects:
        return raw
    return Value(raw.null, raw.booleans, raw.numbers, raw.strings, array_shapes, shapes)


def _distinct(conj: Conj, limit: int) -> FewValues:
    return values_below(conj, limit, _raw)


def _has_value(conj: Conj, ask: Ask, settle: Ask) -> bool:
    raw = _raw(conj)
    if raw.null or raw.booleans or raw.numbers or raw.strings is not NEVER:
        return True
    return any(is_live_object(shape, settle if shape.clauses else ask) for shape in raw.objects) or any(
        is_live_array(shape, settle if shape.clauses or shape.counts else ask, _distinct) for shape in raw.arrays
    )


def _at_a_glance(conj: Conj, live: dict[Conj, bool]) -> bool | None:
    """Return whether a conjunction has a value, if that is known or plain."""
    if not conj or conj == NOTHING:
        return not conj
    known = live.get(conj)
    if known is None and len(conj) == 1:
        (signed,) = conj
        node = signed.node  # of a union, it has no schema
        if signed.positive and node.schema and surely_satisfiable(node.schema, node.document.library.targets):
            known = live[conj] = True
    return known


_DEEPEST = 16  # searches inside searches; further in, they do with the answers there are


def _decide(conj: Conj, document: Document) -> bool:
    """Return whether a conjunction has a value, and settle all that this depends on."""
    live = document.live
    decision = _Decision(conj, live)
    decision.work_off(0)
    for child in decision.queued:
        live.setdefault(child, False)
    return live[conj]


class _Decision:
    """A least fixpoint in the making: which conjunctions have a value.

    Where the answer is no, every question of every shape was asked, so that no child is missed.
    Invariant: `waiting[c]` are the conjunctions whose last answer asked for c; an answer is revised when c turns out to
    be live. What is still open when nothing is left to do has no finite value.
    Searches (`settle`) look for an answer first that nobody has looked for yet: without it, they would try everything
    in vain.
    """

    __slots__ = ("again", "asked", "live", "queued", "todo", "tried", "waiting")

    def __init__(self, conj: Conj, live: dict[Conj, bool]) -> None:
        self.live = live
        self.waiting: dict[Conj, dict[Conj, None]] = {}
        self.todo, self.queued = [conj], {conj}
        self.tried: set[Conj] = set()
        # to be looked at again when nothing else is left, as many answers change little by little
        self.again: dict[Conj, None] = {}
        self.asked: list[list[Conj]] = []  # by the evaluations under way, the innermost last

    def ask(self, child: Conj) -> bool:
        known = _at_a_glance(child, self.live)
        if known is None:
            self.asked[-1].append(child)
        return bool(known)

    def settle(self, child: Conj) -> bool:
        if self.ask(child):
            return True
        if child in self.live or child == NOTHING or child in self.tried or len(self.asked) > _DEEPEST:
            return False
        self.queued.add(child)
        self.todo.append(child)
        self.work_off(len(self.todo) - 1)
        return self.live.get(child, False)

    def work_off(self, base: int) -> None:
        todo, again = self.todo, self.again
        while len(todo) > base or again:
            current = todo.pop() if len(todo) > base else again.popitem()[0]
            if current not in self.live:
                self._look_at(current)

    def _look_at(self, current: Conj) -> None:
        """Ask whether a conjunction has a value, by what is known of others; whom it asks for is queued."""
        spend(4)
        self.tried.add(current)
        self.asked.append([])
        try:
            verdict = _has_value(current, self.ask, self.settle)
        except LimitExceeded as error:
            raise located(error, pointer_of(current)) from None
        children = self.asked.pop()
        if verdict:
            self.live[current] = True
            self.again.update(dict.fromkeys(self.waiting.pop(current, ())))
            return
        for child in children:
            self.waiting.setdefault(child, {})[current] = None
            if child not in self.queued:
                self.queued.add(child)
                self.todo.append(child)
        if any(self.live.get(child) for child in children):
            self.again[current] = None  # an answer came while it was being looked at
