"""The keywords that combine subschemas on the same instance, one function each; a function returns operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from constrained.schema.keywords.subschemas import in_list
from constrained.schema.sketches.operations import JoinKind, Operation
from constrained.schema.sketches.scalars import ARRAY, OBJECT
from constrained.schema.values import ALWAYS

if TYPE_CHECKING:
    from constrained.schema.reading.nodes import Node


def reference(_: str, node: Node, keyword: str) -> list[Operation]:
    return [Operation(JoinKind.ALL, (node.referent(keyword),), keyword)]


def all_of(value: list[Any], node: Node, keyword: str) -> list[Operation]:
    return [Operation(JoinKind.ALL, in_list(node, value, keyword), keyword)]


def any_of(value: list[Any], node: Node, keyword: str) -> list[Operation]:
    return [Operation(JoinKind.ANY, in_list(node, value, keyword), keyword)]


def one_of(value: list[Any], node: Node, keyword: str) -> list[Operation]:
    return [Operation(JoinKind.ONE, in_list(node, value, keyword), keyword)]


def not_(value: Any, node: Node, keyword: str) -> list[Operation]:
    return [Operation(JoinKind.NOT, (node.bare.below(value, keyword),), keyword)]


def if_(value: Any, node: Node, keyword: str) -> list[Operation]:
    """SPEC: "then" and "else" are ignored without "if", and a missing one always holds."""
    then, otherwise = (
        node.below(node.schema[name], name) if name in node.schema else ALWAYS for name in ("then", "else")
    )
    return [Operation(JoinKind.IF, (node.bare.below(value, keyword), then, otherwise), keyword)]


def dependent_schemas(value: dict[str, Any], node: Node, keyword: str) -> list[Operation]:
    """Return one conditional per key; the lists of names in draft 7's "dependencies" are
    `keywords.objects.dependent_required`.
    """
    return [
        Operation(JoinKind.WHEN, (node.below(schema, keyword, key),), keyword, OBJECT, key)
        for key, schema in value.items() if type(schema) is not list
    ]


def composites(values: list[Any], node: Node, keyword: str) -> list[Operation]:
    """Return the union of the arrays and the union of the objects among the values of "enum" or "const"."""
    found = []
    kinds = set(map(type, values))
    for kind, bit in ((list, ARRAY), (dict, OBJECT)):
        if kind not in kinds:
            continue
        constants = tuple(
            node.document.constant(value, ((node.where, keyword), index))
            for index, value in enumerate(values)
            if type(value) is kind
        )
        found.append(Operation(JoinKind.ANY, constants, keyword, bit))
    return found
