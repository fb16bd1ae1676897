"""Which keys the schemas name that take part in the description of a value, whether they hold or not."""

from __future__ import annotations

from collections.abc import Iterable

from constrained.schema.keywords.by_type import plan_of
from constrained.schema.keywords.objects import named
from constrained.schema.reading.nodes import Node
from constrained.schema.sketches.operations import JoinKind
from constrained.schema.sketches.property_names import ALL_KEYS, NO_KEYS, PropertyNames
from constrained.schema.sketches.scalars import OBJECT
from constrained.work import spend


def named_within(nodes: Iterable[Node]) -> tuple[PropertyNames, bool]:
    """Return the keys that some schemas name and those that these apply to the same value, and whether any describes
    objects by their keys; a condition only names keys.
    """
    seen, describes = NO_KEYS, False
    met = dict.fromkeys(nodes, True)  # whether it describes the value
    queue = list(met)
    for node in queue:
        plan = plan_of(node)
        spend(2)
        names, here = named(node) if plan.objects else (NO_KEYS, False)
        seen, describes = seen | (ALL_KEYS if OBJECT in plan.unevaluated else names), describes or here and met[node]
        for operation in plan.operations:
            for number, operand in enumerate(operation.operands if operation.kind is not JoinKind.NOT else ()):
                for signed in operand:
                    if signed.node not in met:
                        met[signed.node] = met[node] and (number > 0 or operation.kind is not JoinKind.IF)
                        queue.append(signed.node)
    return seen, describes
