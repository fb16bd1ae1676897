"""The answers of the normalisation to "which values of this type?", worked off request by request.

`scalars_of` and `sketches_of` answer for conjunctions.  Schemas nested in place to any depth are walked by a stack of
generators (see `requests`); a schema without operations, the common case, is answered directly.  `surely_never` looks a
few levels down for a contradiction, so that alternatives that cannot be are dropped before they multiply.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from threading import local
from typing import Any

from constrained.errors import SchemaError, UnsupportedSchema
from constrained.schema.keywords.by_type import SortedKeywords, own_array, own_object, own_scalars, plan_of
from constrained.schema.keywords.objects import evaluated, named
from constrained.schema.normal.combine import Combination
from constrained.schema.normal.combine_scalars import scalar_steps
from constrained.schema.normal.naming import named_within
from constrained.schema.normal.requests import Mode, Query, Steps
from constrained.schema.normal.switches import Tags
from constrained.schema.numeric.ranges import exact
from constrained.schema.reading.nodes import NOTHING, Node, ordered
from constrained.schema.sketches import arrays
from constrained.schema.sketches.constants import of_conj
from constrained.schema.sketches.discriminators import all_others, rivals
from constrained.schema.sketches.domains import ARRAYS, OBJECTS, Sketch, Sketches
from constrained.schema.sketches.objects import ObjectSketch, closed
from constrained.schema.sketches.scalars import ALL_SCALARS, ARRAY, EVERY_TYPE, OBJECT, SCALAR, STRING, Scalars
from constrained.schema.strings.sets import ALL_TEXTS
from constrained.schema.values import ALWAYS, Conj, SignedNode
from constrained.work import spend

_GROUP = 64  # signed nodes that are combined before they meet the others
_MOST_DEPTH = 3  # of required values that `surely_never` looks at


class Busy(Exception):
    """A request is already being worked on further out; who asked does without the answer."""


def scalars_of(conj: Conj) -> Scalars:
    """Return the scalars that belong to a conjunction."""
    parts = ordered(conj)
    if len(parts) < 3:
        found = ALL_SCALARS
        for signed in parts:
            found = found & _solve(Query(signed, SCALAR))
        return found
    spend(4 + len(parts) // 2)
    # PERF: the conjunctions of n conditions and their complements, as arrays with `contains` ask for them, share their
    # beginnings.
    begun: dict[Any, Any] = parts[0].node.document.memo.setdefault("begun", {})
    known: Scalars | None = None
    keys: list[Any] = parts
    if len(parts) > _GROUP:
        keys = [tuple(parts[at : at + _GROUP]) for at in range(0, len(parts), _GROUP)]
    for key in keys:
        entry = begun.get(key)
        if entry is None:
            own = _together(key) if type(key) is tuple else _solve(Query(key, SCALAR))
            entry = begun[key] = (own if known is None else known & own, {})
        known, begun = entry
    assert known is not None
    return known


def _together(parts: Sequence[SignedNode]) -> Scalars:
    """Return the scalars that all of these allow, halves first: a thousand excluded numbers are cut out of few ranges
    most of the time.
    """
    if len(parts) == 1:
        return _solve(Query(parts[0], SCALAR))  # type: ignore[no-any-return]
    middle = len(parts) // 2
    return _together(parts[:middle]) & _together(parts[middle:])


def sketches_of(conj: Conj, type_: int) -> Sketches:
    """Return the arrays (or the objects) that belong to a conjunction, as a union of sketches."""
    parts = ordered(conj)
    if type_ == OBJECT and any(signed.positive and signed.node.document.closed for signed in parts):
        return _closed(parts)
    return _together_of(parts, type_, Mode.PLAIN)


def _together_of(parts: list[SignedNode], type_: int, mode: Mode) -> Sketches:
    combination = _COMBINATIONS[type_]
    found: Sketches = (combination.domain.full,)
    spend(len(parts) + len(parts) // 2)
    for signed in parts:
        found = combination.conjoin(found, _solve(Query(signed, type_, mode)), signed.node)
    return found


def _closed(parts: list[SignedNode]) -> Sketches:
    """Return the objects without keys that no subschema names which holds; where these cannot be told apart, without
    keys that none names at all.
    """
    nodes = [signed.node for signed in parts if signed.positive]
    try:
        found = _together_of(parts, OBJECT, Mode.ALONE if len(parts) == 1 else Mode.NAMED)
        if len(parts) > 1 and found and named_within(nodes)[1]:
            found = tuple([replace(sketch, describes=True) for sketch in found])
    except UnsupportedSchema:
        seen, describes = named_within(nodes)
        found = _together_of(parts, OBJECT, Mode.PLAIN)
        found = tuple([replace(sketch, seen=seen, describes=describes) for sketch in found])
    return tuple([closed(sketch) for sketch in found])


def _solve(request: Query) -> Any:
    """Return the answer to a request, from the memo or by working off the requests that it leads to.

    Raises: SchemaError: a subschema applies itself in place, so that no value decides whether it is valid.
    Busy: the request is under way in a call further out.
    """
    memo = request.signed.node.document.memo
    known = memo.get(request)
    if known is not None:
        if known is _PENDING:
            raise Busy
        return known
    direct = _direct(request)
    if direct is not None:
        memo[request] = direct
        return direct
    memo[request] = _PENDING
    return _answered([(request, _steps(request))])


def _answered(stack: list[tuple[Query, Steps]]) -> Any:
    """Return the answer to the only request of a stack.

    A function of its own, and short: where memory ends inside a handler behind the 256th instruction of a function,
    CPython 3.11 tries to note the instruction for ever (tests/test_memory.py).
    """
    try:
        return _worked_off(stack)
    finally:
        for current, _ in stack:
            current.signed.node.document.memo.pop(current, None)


def _worked_off(stack: list[tuple[Query, Steps]]) -> Any:
    answer: Any = None
    while stack:
        current, steps = stack[-1]
        spend(4)
        try:
            wanted = steps.send(answer)
        except StopIteration as stop:
            answer = current.signed.node.document.memo[current] = stop.value
            stack.pop()
            continue
        memo = wanted.signed.node.document.memo
        answer = memo.get(wanted)
        if answer is _PENDING:
            if any(wanted == other for other, _ in stack):
                raise SchemaError(
                    "schema applies itself to the same value", where=wanted.signed.node.pointer,
                    because="no value decides whether it is valid", instead="break the cycle",
                )
            raise Busy
        if answer is None:
            answer = _direct(wanted)
            if answer is None:
                memo[wanted] = _PENDING
                stack.append((wanted, _steps(wanted)))
            else:
                memo[wanted] = answer
    return answer


_PENDING = object()


def _direct(request: Query) -> Any:
    """Return the answer for a positive schema without operations, None otherwise: the common case needs no
    generator.
    """
    signed, type_, mode = request
    plan = plan_of(signed.node)
    if signed.positive and (plan.plain or not plan.types & type_):
        if type_ == SCALAR:
            return own_scalars(signed.node, plan)
        return (_own(signed.node, plan, type_, mode),) if plan.types & type_ else ()
    return None


def _own(node: Node, plan: SortedKeywords, type_: int, mode: Mode) -> Sketch:
    if type_ == ARRAY:
        items = own_array(node, plan)
        if not mode and items is not arrays.FULL:
            items.seen, items.seen_items = 0, ()
        return items
    sketch = own_sketch(node, plan)
    if not mode or not plan.objects:
        return sketch
    if mode < Mode.NAMED:
        return replace(sketch, seen=evaluated(node))
    seen, describes = named(node)
    return replace(sketch, seen=seen, describes=describes)


def own_sketch(node: Node, plan: SortedKeywords) -> ObjectSketch:
    """Return the objects that the keywords of the schema itself allow, `propertyNames` included."""
    return own_object(node, plan, ALL_TEXTS if plan.names is ALWAYS else scalars_of(plan.names).strings)


def own_closed(node: Node, plan: SortedKeywords) -> ObjectSketch:
    """As `own_sketch`, without keys that the schema does not name."""
    return closed(_own(node, plan, OBJECT, Mode.ALONE))


def _steps(request: Query) -> Steps:
    signed, type_, mode = request
    if type_ == SCALAR:
        return scalar_steps(signed)
    combination = _COMBINATIONS[type_]
    return combination.positive(signed.node, mode) if signed.positive else combination.negative(signed.node)


def surely_never(conj: Conj) -> bool:
    """Return True if certainly no value belongs to a conjunction; looks a few levels of required values deep.

    False may mean "not seen": the answer prunes alternatives, while `satisfiability.shapes` decides.
    """
    if not conj or conj == NOTHING:
        return bool(conj)
    memo = next(iter(conj)).node.document.memo
    key = "surely never", conj, _depth.level
    known: bool | None = memo.get(key)
    if known is not None or _depth.level == _MOST_DEPTH:
        return bool(known)
    spend(4)
    found = _seems_empty_below(conj)
    if found is not None:
        memo[key] = found
    return bool(found)


def _seems_empty_below(conj: Conj) -> bool | None:
    """Return the answer of `surely_never` a level further down; None: it is being worked on further out."""
    _depth.level += 1
    try:
        return _seems_empty(conj)
    except Busy:
        return None
    finally:
        _depth.level -= 1


class _Depth(local):
    level = 0  # of nested questions, per thread


_depth = _Depth()


def _seems_empty(conj: Conj) -> bool:
    types = EVERY_TYPE
    for signed in conj:
        if signed.positive:
            types &= plan_of(signed.node).types
    if types & SCALAR and scalars_of(conj):
        return False
    return not any(types & type_ and sketches_of(conj, type_) for type_ in (OBJECT, ARRAY))


def _texts(conj: Conj) -> frozenset[str] | None:
    """Return the values of a conjunction if its keywords show that they are a finite set of strings."""
    types = EVERY_TYPE
    for signed in conj:
        if signed.positive:
            types &= plan_of(signed.node).types
    return scalars_of(conj).strings.only if types == STRING else None


def _object_rivals(members: list[Sketches]) -> list[list[int]]:
    return rivals(members, _texts)


def _tags(conj: Conj) -> Tags | None:
    """Return the values of a conjunction if its keywords show that they are a few scalars."""
    found = of_conj(conj)
    if found is None or type(found[0]) is str:
        return _texts(conj)
    (value,) = found
    return (
        None
        if isinstance(value, (list, dict))
        else frozenset({value if value is None or type(value) is bool else (exact(value),)})
    )


_COMBINATIONS = {
    ARRAY: Combination(ARRAY, ARRAYS, _own, surely_never, _tags, all_others),
    OBJECT: Combination(OBJECT, OBJECTS, _own, surely_never, _tags, _object_rivals),
}
