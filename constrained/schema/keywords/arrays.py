"""The keywords of arrays, one function each; a function narrows the sketch of its schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from constrained.schema.keywords.subschemas import in_list
from constrained.schema.sketches.arrays import ArraySketch
from constrained.schema.values import Count

if TYPE_CHECKING:
    from constrained.schema.reading.nodes import Node


def items(sketch: ArraySketch, value: Any, node: Node) -> None:
    """SPEC 2020-12: "applies its subschema to all instance elements at indexes greater than the length of the
    "prefixItems" array".

    Until 2019-09 a list of schemas is what "prefixItems" is now.
    """
    if type(value) is list:
        sketch.prefix = in_list(node, value, "items")
        if sketch.seen is not None:
            sketch.seen = len(value)
    else:
        sketch.rest = node.below(value, "items")
        sketch.seen = None


def prefix_items(sketch: ArraySketch, value: Any, node: Node) -> None:
    sketch.prefix = in_list(node, value, "prefixItems")
    if sketch.seen is not None:
        sketch.seen = len(value)


def additional_items(sketch: ArraySketch, value: Any, node: Node) -> None:
    """SPEC 2019-09: ignored unless "items" is a list."""
    if type(node.schema.get("items")) is list:
        sketch.rest = node.below(value, "additionalItems")
        sketch.seen = None


def min_items(sketch: ArraySketch, value: Any, node: Node) -> None:
    sketch.min = max(sketch.min, int(value))


def max_items(sketch: ArraySketch, value: Any, node: Node) -> None:
    sketch.max = int(value)


def unique_items(sketch: ArraySketch, value: Any, node: Node) -> None:
    if value:
        sketch.unique = True


def contains(sketch: ArraySketch, value: Any, node: Node) -> None:
    """SPEC: at least one item by default; "minContains": 0 makes it vacuous.  2020-12: an item that matches is
    evaluated.
    """
    rules = node.resource.dialect.rules
    least = node.schema.get("minContains", 1) if "minContains" in rules else 1
    most = node.schema.get("maxContains") if "maxContains" in rules else None
    item = node.bare.below(value, "contains")
    sketch.counts = (Count(item, int(least), None if most is None else int(most)),)
    if "prefixItems" in rules:
        sketch.seen_items = (item,)


def constant(sketch: ArraySketch, value: list[Any], node: Node) -> None:
    """The array itself, for `const`."""
    sketch.prefix = tuple(
        node.document.constant(part, ((node.where, "const"), index)) for index, part in enumerate(value)
    )
    sketch.min = sketch.max = len(value)
