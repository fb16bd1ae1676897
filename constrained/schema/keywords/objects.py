"""The keywords of objects, one function each; a function narrows the sketch of its schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from constrained.caches import cached
from constrained.regex import ANY_TEXT, Expr
from constrained.schema.keywords.subschemas import under_names
from constrained.schema.reading.keywords import OTHER_KEYS
from constrained.schema.reading.nodes import NOTHING
from constrained.schema.sketches.objects import ObjectSketch
from constrained.schema.sketches.property_names import ALL_KEYS, PropertyNames
from constrained.schema.strings import sets as texts
from constrained.schema.strings.sets import Texts
from constrained.schema.values import Absent, Present

if TYPE_CHECKING:
    from constrained.schema.reading.nodes import Node

_REQUIRING = ("dependentRequired", "dependencies")
_FEW_NAMES = 16  # keys of a pattern that are named one by one


def properties(sketch: ObjectSketch, value: dict[str, Any], node: Node) -> None:
    sketch.named = under_names(node, value, "properties")


def pattern_properties(sketch: ObjectSketch, value: dict[str, Any], node: Node) -> None:
    sketch.regions += tuple(
        (PropertyNames(False, *_matching(pattern)), conj)
        for pattern, conj in under_names(node, value, "patternProperties").items() if conj
    )


def additional_properties(sketch: ObjectSketch, value: Any, node: Node) -> None:
    """SPEC: applies to the keys that neither "properties" nor "patternProperties" of the same schema name."""
    conj = node.below(value, "additionalProperties")
    if conj:
        sketch.regions += ((PropertyNames(True, *_mentioned(node)), conj),)


def _mentioned(node: Node) -> tuple[frozenset[str], tuple[Expr, ...]]:
    matching = [_matching(pattern) for pattern in node.schema.get("patternProperties", ())]
    return frozenset(node.schema.get("properties", ())).union(*(names for names, _ in matching)), tuple(
        part for _, languages in matching for part in languages
    )


@cached(4096)
def _matching(pattern: str) -> tuple[frozenset[str], tuple[Expr, ...]]:
    """Return the keys that a pattern finds: by name if they are few, as with ``^name$``, else as a language."""
    language = texts.of_pattern(pattern)
    few = texts.listed(language, _FEW_NAMES)
    return (frozenset(), (language,)) if few is None else (frozenset(few), ())


def evaluated(node: Node) -> PropertyNames:
    """Return the keys that the keywords of the schema itself evaluate."""
    if "additionalProperties" in node.schema:
        return ALL_KEYS
    return PropertyNames(False, *_mentioned(node))


def named(node: Node) -> tuple[PropertyNames, bool]:
    """Return the keys that the schema itself names, all of them where it says what others are, and whether it describes
    objects by their keys.

    A key that is required without a word about its value is named, too.
    """
    schema, rules = node.schema, node.resource.dialect.rules
    if any(word in schema and word in rules for word in OTHER_KEYS):
        return ALL_KEYS, True
    keys, languages = _mentioned(node)
    wanted = [schema.get("required", ())]
    for word in _REQUIRING:
        if word in schema and word in rules:
            wanted += [keys for keys in schema[word].values() if type(keys) is list]
    if type(schema.get("const")) is dict and "const" in rules:
        wanted.append(schema["const"])
    patterns = schema.get("patternProperties", {})
    describes = "properties" in schema or any(part is not False for part in patterns.values())
    return PropertyNames(False, keys.union(*wanted), languages), describes


def property_names(sketch: ObjectSketch, names: Texts) -> None:
    """Forbid all keys outside a set of names; the caller normalises the subschema."""
    if names.only is not None:
        sketch.regions += ((PropertyNames(True, names.only), NOTHING),)
    elif names.language is ANY_TEXT:
        if names.barred:
            sketch.regions += ((PropertyNames(False, names.barred), NOTHING),)
    else:
        sketch.regions += ((PropertyNames(True, languages=(names.expr(),)), NOTHING),)


def required(sketch: ObjectSketch, value: list[str], node: Node) -> None:
    sketch.required.update(dict.fromkeys(value))


def dependent_required(sketch: ObjectSketch, value: dict[str, Any], node: Node) -> None:
    """Draft 7's "dependencies" may have schemas among its values, see `keywords.logic.dependent_schemas`."""
    sketch.clauses += tuple(
        frozenset((Absent(key), Present(name)))
        for key, names in value.items() if type(names) is list for name in dict.fromkeys(names) if name != key
    )


def min_properties(sketch: ObjectSketch, value: Any, node: Node) -> None:
    sketch.min = int(value)


def max_properties(sketch: ObjectSketch, value: Any, node: Node) -> None:
    sketch.max = int(value)


def constant(sketch: ObjectSketch, value: dict[str, Any], node: Node) -> None:
    """The object itself, for `const`."""
    for key, part in value.items():
        sketch.named[key] = node.document.constant(part, ((node.where, "const"), key))
    sketch.required = dict.fromkeys(value)
    sketch.regions += ((PropertyNames(True, frozenset(value)), NOTHING),)
