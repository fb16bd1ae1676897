"""Plans: the keywords of a schema sorted by the types they are about; the dispatch table, keyword → function.

`_KEYWORDS` is the dispatch table, one function per keyword.  `rules` of the dialect decide which entries count for a
schema, so there is one table per dialect, cut from this one.  Keywords of one type narrow a sketch; keywords that apply
subschemas to the same instance (`allOf`, `if`, …) become operations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from constrained.schema.normal import arrays, objects, scalars
from constrained.schema.normal.arrays import FULL as FULL_ARRAY
from constrained.schema.normal.arrays import ArraySketch
from constrained.schema.normal.objects import FULL as FULL_OBJECT
from constrained.schema.normal.objects import ObjectSketch
from constrained.schema.normal.scalars import (
    ARRAY,
    EVERY_TYPE,
    INTEGER,
    NULL,
    NUMBER,
    OBJECT,
    SCALAR,
    TYPE_BITS,
    Scalars,
    ScalarSketch,
    of_types,
    types_of,
)
from constrained.schema.number_sets import plainly_written
from constrained.schema.reading.keywords import Dialect
from constrained.schema.strings.sets import ALL_TEXTS, Texts
from constrained.schema.values import ALWAYS, Conj
from constrained.work import spend

if TYPE_CHECKING:
    from constrained.schema.reading.document import Node

class JoinKind(IntEnum):
    """How an operation joins its operands."""

    ALL = 0
    ANY = 1
    ONE = 2  # exactly one
    NOT = 3
    IF = 4  # operands: condition, then, else
    WHEN = 5  # an object with `key` satisfies the operand


@dataclass(frozen=True, slots=True)
class Operation:
    """A keyword's operands (of one signed node at most) and how they are joined.  Outside `types` it says nothing."""

    kind: JoinKind
    operands: tuple[Conj, ...]
    keyword: str  # as it is in the schema, for messages
    types: int = EVERY_TYPE
    key: str = ""


def reference(_: str, node: Node, keyword: str) -> list[Operation]:
    return [Operation(JoinKind.ALL, (node.referent(keyword),), keyword)]


def all_of(value: list[Any], node: Node, keyword: str) -> list[Operation]:
    return [Operation(JoinKind.ALL, node.listed(value, keyword), keyword)]


def any_of(value: list[Any], node: Node, keyword: str) -> list[Operation]:
    return [Operation(JoinKind.ANY, node.listed(value, keyword), keyword)]


def one_of(value: list[Any], node: Node, keyword: str) -> list[Operation]:
    return [Operation(JoinKind.ONE, node.listed(value, keyword), keyword)]


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
    `objects.dependent_required`.
    """
    return [
        Operation(JoinKind.WHEN, (node.below(schema, keyword, key),), keyword, OBJECT, key)
        for key, schema in value.items() if type(schema) is not list
    ]


def composites(values: list[Any], node: Node, keyword: str) -> list[Operation]:
    """Return the union of the arrays and the union of the objects among the values of "enum" or "const"."""
    unions = []
    kinds = set(map(type, values))
    for kind, bit in ((list, ARRAY), (dict, OBJECT)):
        if kind not in kinds:
            continue
        constants = tuple(
            node.document.constant(value, ((node.where, keyword), index))
            for index, value in enumerate(values)
            if type(value) is kind
        )
        unions.append(Operation(JoinKind.ANY, constants, keyword, bit))
    return unions


class Group(IntEnum):
    """What a keyword's function narrows."""

    SCALARS = 0
    ARRAYS = 1
    OBJECTS = 2
    TYPE = 3
    LOGIC = 4  # the function returns operations
    LISTED = 5  # enum and const: types, scalars and composite values
    NAMES = 6
    UNEVALUATED = 7  # in place of a function: of which type


_TYPE, _LOGIC, _NAMES = Group.TYPE.value, Group.LOGIC.value, Group.NAMES.value
_UNEVALUATED = Group.UNEVALUATED.value


Function = Callable[..., Any]

_KEYWORDS: dict[str, tuple[Group, Any]] = {
    "type": (Group.TYPE, None),
    "$ref": (Group.LOGIC, reference),
    "$dynamicRef": (Group.LOGIC, reference),
    "$recursiveRef": (Group.LOGIC, reference),
    "allOf": (Group.LOGIC, all_of),
    "anyOf": (Group.LOGIC, any_of),
    "oneOf": (Group.LOGIC, one_of),
    "not": (Group.LOGIC, not_),
    "if": (Group.LOGIC, if_),
    "dependentSchemas": (Group.LOGIC, dependent_schemas),
    "enum": (Group.LISTED, None),
    "const": (Group.LISTED, None),
    "minimum": (Group.SCALARS, scalars.minimum),
    "maximum": (Group.SCALARS, scalars.maximum),
    "exclusiveMinimum": (Group.SCALARS, scalars.exclusive_minimum),
    "exclusiveMaximum": (Group.SCALARS, scalars.exclusive_maximum),
    "multipleOf": (Group.SCALARS, scalars.multiple_of),
    "minLength": (Group.SCALARS, scalars.min_length),
    "maxLength": (Group.SCALARS, scalars.max_length),
    "pattern": (Group.SCALARS, scalars.pattern),
    "format": (Group.SCALARS, scalars.format_),
    "items": (Group.ARRAYS, arrays.items),
    "prefixItems": (Group.ARRAYS, arrays.prefix_items),
    "additionalItems": (Group.ARRAYS, arrays.additional_items),
    "minItems": (Group.ARRAYS, arrays.min_items),
    "maxItems": (Group.ARRAYS, arrays.max_items),
    "uniqueItems": (Group.ARRAYS, arrays.unique_items),
    "contains": (Group.ARRAYS, arrays.contains),
    "properties": (Group.OBJECTS, objects.properties),
    "patternProperties": (Group.OBJECTS, objects.pattern_properties),
    "additionalProperties": (Group.OBJECTS, objects.additional_properties),
    "propertyNames": (Group.NAMES, None),
    "required": (Group.OBJECTS, objects.required),
    "dependentRequired": (Group.OBJECTS, objects.dependent_required),
    "dependencies": (Group.OBJECTS, objects.dependent_required),
    "minProperties": (Group.OBJECTS, objects.min_properties),
    "maxProperties": (Group.OBJECTS, objects.max_properties),
    "unevaluatedItems": (Group.UNEVALUATED, ARRAY),
    "unevaluatedProperties": (Group.UNEVALUATED, OBJECT),
}


NONE: Mapping[int, Conj] = MappingProxyType({})


@dataclass(slots=True, eq=False)  # a frozen one takes three times as long to make
class SortedKeywords:
    """The keywords of one schema, sorted; never changed.  `scalars` are for numbers and strings; each entry is a
    function and the keyword's value.
    """

    types: int
    scalars: tuple[tuple[Function, Any], ...] = ()
    arrays: tuple[tuple[Function, Any], ...] = ()
    objects: tuple[tuple[Function, Any], ...] = ()
    operations: tuple[Operation, ...] = ()
    names: Conj = ALWAYS  # what propertyNames asks of every key
    unevaluated: Mapping[int, Conj] = field(default_factory=lambda: NONE)  # by ARRAY and OBJECT
    plain: bool = True  # no operations, nothing unevaluated


@cache
def mere_types(types: int) -> SortedKeywords:
    """Return what stands for schemas that say no more than their types: most are such, and share it."""
    return SortedKeywords(types)


def _table(dialect: Dialect) -> dict[str, tuple[int, Any]]:
    """Return the entries of a dialect's keywords.  Groups as numbers, which compare in a third of the time."""
    table = {word: (entry[0].value, entry[1]) for word, entry in _KEYWORDS.items() if word in dialect.rules}
    dialect.tables["by type"] = table
    return table


def plan_of(node: Node) -> SortedKeywords:
    """Return the sorted keywords of a node.  Cost: 1 µs and 0.2 µs per keyword, once."""
    plan: SortedKeywords | None = node.plan
    if plan is None:
        plan = node.plan = _sort(node)
    return plan


def _sort(node: Node) -> SortedKeywords:
    schema = node.schema
    if isinstance(schema, bool):
        return mere_types(EVERY_TYPE if schema else 0)
    dialect = node.resource.dialect
    table: dict[str, tuple[int, Any]] = dialect.tables.get("by type") or _table(dialect)
    if dialect.reference_stands_alone and "$ref" in schema:
        schema = {"$ref": schema["$ref"]}
    spend(1 + (len(schema) >> 2))
    types, names, unevaluated = EVERY_TYPE, ALWAYS, NONE
    parts: list[tuple[tuple[Function, Any], ...]] = [(), (), ()]  # of scalars, arrays and objects, by group
    operations: tuple[Operation, ...] = ()
    for keyword, value in schema.items():
        entry = table.get(keyword)
        if entry is None:
            continue
        group, function = entry
        if group == _TYPE:
            bits = TYPE_BITS[value] if type(value) is str else _types(value)
            types &= bits | NULL if dialect.nullable and schema.get("nullable") is True else bits
        elif group < _TYPE:
            parts[group] += ((function, value),)
        elif group == _LOGIC:
            operations += tuple(function(value, node, keyword))
        elif group == _NAMES:
            names = node.below(value, keyword)
        elif group == _UNEVALUATED:
            unevaluated = {**unevaluated, function: node.below(value, keyword)}
        else:
            values = value if keyword == "enum" else [value]
            types &= types_of(values)
            parts[Group.SCALARS] += ((scalars.enum, values),)
            constant = _CONSTANTS.get(type(value)) if keyword == "const" and len(schema) == 1 else None
            if constant is not None:  # a sketch of its own instead of a union of one
                parts[constant[0]] += ((constant[1], value),)
            else:
                operations += tuple(composites(values, node, keyword))
        if keyword == "dependencies":
            operations += tuple(dependent_schemas(value, node, keyword))
    if not (operations or unevaluated or names) and parts == _NO_PARTS:
        plain = dialect.plain_integers and types & NUMBER == INTEGER  # see `own_scalars`
        return SortedKeywords(types) if plain else mere_types(types)
    plain = not operations and not unevaluated
    return SortedKeywords(types, parts[0], parts[1], parts[2], operations, names, unevaluated, plain)


_NO_PARTS = [(), (), ()]
_CONSTANTS: dict[type, tuple[Group, Function]] = {
    list: (Group.ARRAYS, arrays.constant),
    dict: (Group.OBJECTS, objects.constant),
}


def _types(names: list[str]) -> int:
    bits = 0
    for name in names:
        bits |= TYPE_BITS[name]
    return bits


def own_scalars(node: Node, plan: SortedKeywords) -> Scalars:
    """Return the scalars that the keywords of the schema itself allow."""
    bits = plan.types & SCALAR
    if not bits or not plan.scalars:
        scalars = of_types(bits)
    else:
        sketch = ScalarSketch()
        for function, value in plan.scalars:
            function(sketch, value, node)
        scalars = sketch.scalars(bits)
    if bits & NUMBER == INTEGER and node.resource.dialect.plain_integers and "integer" in node.schema.get("type", ()):
        scalars = Scalars(scalars.null, scalars.booleans, plainly_written(scalars.numbers), scalars.strings)
    return scalars


def own_array(node: Node, plan: SortedKeywords) -> ArraySketch:
    """Return the arrays that the keywords of the schema itself allow, if it allows arrays."""
    if not plan.arrays:
        return FULL_ARRAY
    sketch = ArraySketch()
    for function, value in plan.arrays:
        function(sketch, value, node)
    return sketch


def own_object(node: Node, plan: SortedKeywords, names: Texts) -> ObjectSketch:
    """Return the objects that the keywords of the schema itself allow, if it allows objects; `names` are the allowed
    keys.
    """
    if not plan.objects and names is ALL_TEXTS:
        return FULL_OBJECT
    sketch = ObjectSketch()
    for function, value in plan.objects:
        function(sketch, value, node)
    if names is not ALL_TEXTS:
        objects.property_names(sketch, names)
    return sketch
