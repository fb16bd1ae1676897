"""The keywords of arrays, one function each; a function narrows the draft of its schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from constrained.schema.drafts.arrays import ArrayDraft
from constrained.schema.values import Conj, Count

if TYPE_CHECKING:
    from constrained.schema.reading.nodes import Node


def items(draft: ArrayDraft, value: Any, node: Node) -> None:
    """SPEC 2020-12: "applies its subschema to all instance elements at indexes greater than the length of the
    "prefixItems" array".

    Until 2019-09 a list of schemas is what "prefixItems" is now.
    """
    if type(value) is list:
        draft.prefix = _each(value, "items", node)
        if draft.seen is not None:
            draft.seen = len(value)
    else:
        draft.rest = node.below(value, "items")
        draft.seen = None


def prefix_items(draft: ArrayDraft, value: Any, node: Node) -> None:
    draft.prefix = _each(value, "prefixItems", node)
    if draft.seen is not None:
        draft.seen = len(value)


def _each(value: list[Any], keyword: str, node: Node) -> tuple[Conj, ...]:
    return tuple(node.below(schema, keyword, index) for index, schema in enumerate(value))


def additional_items(draft: ArrayDraft, value: Any, node: Node) -> None:
    """SPEC 2019-09: ignored unless "items" is a list."""
    if type(node.schema.get("items")) is list:
        draft.rest = node.below(value, "additionalItems")
        draft.seen = None


def min_items(draft: ArrayDraft, value: Any, node: Node) -> None:
    draft.min = max(draft.min, int(value))


def max_items(draft: ArrayDraft, value: Any, node: Node) -> None:
    draft.max = int(value)


def unique_items(draft: ArrayDraft, value: Any, node: Node) -> None:
    if value:
        draft.unique = True


def contains(draft: ArrayDraft, value: Any, node: Node) -> None:
    """SPEC: at least one item by default; "minContains": 0 makes it vacuous.  2020-12: an item that matches is
    evaluated.
    """
    rules = node.resource.dialect.rules
    least = node.schema.get("minContains", 1) if "minContains" in rules else 1
    most = node.schema.get("maxContains") if "maxContains" in rules else None
    item = node.below(value, "contains")
    draft.counts = (Count(item, int(least), None if most is None else int(most)),)
    if "prefixItems" in rules:
        draft.seen_items = (item,)


def constant(draft: ArrayDraft, value: list[Any], node: Node) -> None:
    """The array itself, for `const`."""
    draft.prefix = tuple(
        node.document.constant(part, ((node.where, "const"), index)) for index, part in enumerate(value)
    )
    draft.min = draft.max = len(value)
