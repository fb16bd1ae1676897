"""The subschemas in a value of a keyword as conjunctions, each as `Node.below` has it; compiled where plain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from constrained.schema.values import Conj

try:
    from constrained.schema._scan import each_named, each_of_list
except ImportError:  # no compiler
    each_named = each_of_list = None

if TYPE_CHECKING:
    from constrained.schema.reading.nodes import Node


def under_names(node: Node, value: dict[str, Any], keyword: str) -> dict[str, Conj]:
    """Return the subschemas by the names that they stand under."""
    found: dict[str, Conj] = (each_named or plain_under_names)(node, value, keyword)
    return found


def in_list(node: Node, value: list[Any], keyword: str) -> tuple[Conj, ...]:
    """Return the subschemas of a list."""
    found: tuple[Conj, ...] = (each_of_list or plain_in_list)(node, value, keyword)
    return found


def plain_under_names(node: Node, value: dict[str, Any], keyword: str) -> dict[str, Conj]:
    """As `under_names`, in Python."""
    return node.each_below(value.items(), keyword)


def plain_in_list(node: Node, value: list[Any], keyword: str) -> tuple[Conj, ...]:
    """As `in_list`, in Python."""
    return tuple(node.each_below(enumerate(value), keyword).values())
