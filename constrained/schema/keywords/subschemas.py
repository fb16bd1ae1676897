"""The subschemas in a value of a keyword as conjunctions, each as `Node.below` has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from constrained.schema.values import Conj

if TYPE_CHECKING:
    from constrained.schema.reading.nodes import Node


def under_names(node: Node, value: dict[str, Any], keyword: str) -> dict[str, Conj]:
    """Return the subschemas by the names that they stand under."""
    return node.each_below(value.items(), keyword)


def in_list(node: Node, value: list[Any], keyword: str) -> tuple[Conj, ...]:
    """Return the subschemas of a list."""
    return tuple(node.each_below(enumerate(value), keyword).values())
