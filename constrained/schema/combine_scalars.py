"""The scalars of a signed subschema: a boolean algebra, evaluated operand by operand."""

from __future__ import annotations

from constrained.errors import UnsupportedSchema
from constrained.schema.documents import Node
from constrained.schema.operations import Kind, Operation
from constrained.schema.plans import own_scalars, plan_of
from constrained.schema.questions import Request, Steps, ask
from constrained.schema.scalars import ALL_SCALARS, NO_SCALARS, SCALAR, Scalars
from constrained.schema.values import Literal


def scalar_steps(literal: Literal) -> Steps:
    if not literal.positive:
        return _outside((yield Request(literal.node.positive, SCALAR)), literal.node)
    plan = plan_of(literal.node)
    found = own_scalars(literal.node, plan)
    for operation in plan.operations:
        if found is NO_SCALARS:
            break
        if operation.types & SCALAR:
            found = found & (yield from _scalar_operation(operation, literal.node))
    return found


def _outside(scalars: Scalars, node: Node) -> Scalars:
    """Return the complement; not of a format whose language leaves texts out, because the wrong ones would be let in."""
    if scalars.strings.inexact:
        raise UnsupportedSchema(
            f"cannot compile the complement of format {scalars.strings.inexact!r}", where=node.pointer,
            because="the language of this format is not complete", instead='state what is allowed, or use "pattern"',
        )
    return ~scalars


def _scalar_operation(operation: Operation, node: Node) -> Steps:
    parts = []
    for operand in operation.operands:
        parts.append((yield from ask(operand, SCALAR, ALL_SCALARS)))
    if operation.kind is Kind.NOT:
        return _outside(parts[0], node)
    if operation.kind is Kind.IF:
        condition, then, otherwise = parts
        if then is ALL_SCALARS and otherwise is ALL_SCALARS:
            return ALL_SCALARS
        return (condition & then) | (_outside(condition, node) & otherwise)
    found = ALL_SCALARS if operation.kind is Kind.ALL else NO_SCALARS
    twice = NO_SCALARS
    for part in parts:
        if operation.kind is Kind.ALL:
            found = found & part
        else:
            if operation.kind is Kind.ONE:
                twice = twice | (found & part)
            found = found | part
    return found & _outside(twice, node) if twice else found
