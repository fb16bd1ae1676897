"""The scalars of a signed subschema: a boolean algebra, evaluated operand by operand."""

from __future__ import annotations

from functools import lru_cache

from constrained.errors import LimitExceeded
from constrained.schema.keywords.by_type import own_scalars, plan_of
from constrained.schema.normal.requests import Query, Steps, ask
from constrained.schema.reading.nodes import Node
from constrained.schema.reading.places import at_keyword
from constrained.schema.sketches.operations import JoinKind, Operation
from constrained.schema.sketches.scalars import ALL_SCALARS, NO_SCALARS, SCALAR, Scalars, of_types
from constrained.schema.values import SignedNode
from constrained.work import NO_LIMIT, Budget, metered, spend


def scalar_steps(signed: SignedNode) -> Steps:
    if not signed.positive:
        return ~(yield Query(signed.node.positive, SCALAR))
    plan = plan_of(signed.node)
    found = own_scalars(signed.node, plan)
    for operation in plan.operations:
        if found is NO_SCALARS:
            break
        if operation.types & SCALAR:
            try:
                found = found & (yield from _scalar_operation(operation, signed.node))
            except LimitExceeded as error:
                raise at_keyword(error, signed.node, operation.keyword) from None
    return found


def _scalar_operation(operation: Operation, node: Node) -> Steps:
    parts = []
    for operand in operation.operands:
        parts.append((yield from ask(operand, SCALAR, ALL_SCALARS)))
    if operation.kind is JoinKind.NOT:
        return ~parts[0]
    if operation.kind is JoinKind.IF:
        condition, then, otherwise = parts
        if then is ALL_SCALARS and otherwise is ALL_SCALARS:
            return ALL_SCALARS
        return (condition & then) | (~condition & otherwise)
    if operation.kind is JoinKind.ALL:
        found = ALL_SCALARS
        for part in parts:
            found = found & part
        return found
    found, twice = _some_and_several(parts, overlaps=operation.kind is JoinKind.ONE)
    return found & ~twice if twice else found


@lru_cache(maxsize=1024)
def joined_types(types: tuple[int, ...], kind: JoinKind) -> tuple[Scalars, int]:
    """Return the scalars of a union whose members are of these types and say no more, and the units of work that it
    takes to join them.
    """
    with metered(Budget(None)) as budget:
        found, twice = _some_and_several([of_types(bits) for bits in types], overlaps=kind is JoinKind.ONE)
        found = found & ~twice if twice else found
    return found, NO_LIMIT - budget.left


def _some_and_several(parts: list[Scalars], *, overlaps: bool) -> tuple[Scalars, Scalars]:
    """Return the values in some part, and those in two or more if asked; joined by halves, so that n constants cost n
    log n.
    """
    joined = [(part, NO_SCALARS) for part in parts]
    while len(joined) > 1:
        spend(4 * len(joined))
        halves = zip(joined[::2], joined[1::2], strict=False)
        rest = joined[-1:] if len(joined) % 2 else []
        joined = [
            (one | other, twice | again | (one & other) if overlaps else NO_SCALARS)
            for (one, twice), (other, again) in halves
        ] + rest
    return joined[0] if joined else (NO_SCALARS, NO_SCALARS)
