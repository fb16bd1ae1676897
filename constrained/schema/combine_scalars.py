"""The scalars of a signed subschema: a boolean algebra, evaluated operand by operand."""

from __future__ import annotations

from constrained.schema.documents import Node
from constrained.schema.operations import Kind, Operation
from constrained.schema.plans import own_scalars, plan_of
from constrained.schema.questions import Request, Steps, ask
from constrained.schema.scalars import ALL_SCALARS, NO_SCALARS, SCALAR
from constrained.schema.values import Literal


def scalar_steps(literal: Literal) -> Steps:
    if not literal.positive:
        return ~(yield Request(literal.node.positive, SCALAR))
    plan = plan_of(literal.node)
    found = own_scalars(literal.node, plan)
    for operation in plan.operations:
        if found is NO_SCALARS:
            break
        if operation.types & SCALAR:
            found = found & (yield from _scalar_operation(operation, literal.node))
    return found


def _scalar_operation(operation: Operation, node: Node) -> Steps:
    parts = []
    for operand in operation.operands:
        parts.append((yield from ask(operand, SCALAR, ALL_SCALARS)))
    if operation.kind is Kind.NOT:
        return ~parts[0]
    if operation.kind is Kind.IF:
        condition, then, otherwise = parts
        if then is ALL_SCALARS and otherwise is ALL_SCALARS:
            return ALL_SCALARS
        return (condition & then) | (~condition & otherwise)
    found = ALL_SCALARS if operation.kind is Kind.ALL else NO_SCALARS
    twice = NO_SCALARS
    for part in parts:
        if operation.kind is Kind.ALL:
            found = found & part
        else:
            if operation.kind is Kind.ONE:
                twice = twice | (found & part)
            found = found | part
    return found & ~twice if twice else found
