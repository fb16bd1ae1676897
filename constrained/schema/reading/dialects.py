"""The drafts of JSON Schema: which keywords each knows, what their values must look like, and where subschemas are.

A dialect here is data.  What a keyword *means* is in the `keywords_*` modules; this table is all that reading a document and checking it
need, so both cost a dictionary lookup per keyword.  A keyword that a draft does not know is an annotation in that draft and ignored, as
the specification says: ``prefixItems`` in a draft-7 schema constrains nothing.

Drafts 3 and older are refused.  A schema without ``$schema`` is 2020-12, and additionally knows OpenAPI's ``nullable``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import IntEnum
from typing import Any, NamedTuple

NUMERIC = (int, float, Decimal)
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
_ONLY_STR = frozenset({str})


class Holds(IntEnum):
    """Where the subschemas are in a keyword's value."""

    NOTHING = 0
    SCHEMA = 1
    LIST = 2
    MAP = 3
    SCHEMA_OR_LIST = 4
    SCHEMA_OR_STRINGS_MAP = 5


class Rule(NamedTuple):
    """The form of a keyword's value."""

    fits: Callable[[Any], bool]
    expected: str
    holds: Holds = Holds.NOTHING


def _is_type(value: object) -> bool:
    if type(value) is str:
        return value in TYPES
    names = value if type(value) is list else [value]
    return bool(names) and all(type(name) is str and name in TYPES for name in names)


def _is_number(value: object) -> bool:
    return type(value) in NUMERIC


def _is_positive(value: Any) -> bool:
    return type(value) in NUMERIC and value > 0


def _is_count(value: Any) -> bool:
    return type(value) in NUMERIC and value >= 0 and value == int(value)


def _are_strings(value: object) -> bool:
    return type(value) is list and _ONLY_STR.issuperset(map(type, value))


def _are_string_lists(value: object) -> bool:
    return type(value) is dict and all(map(_are_strings, value.values()))


def _are_dependencies(value: object) -> bool:
    return type(value) is dict and all(type(item) in (dict, bool) or _are_strings(item) for item in value.values())


def _is(*kinds: type) -> Callable[[object], bool]:
    return lambda value: type(value) in kinds


def _is_list_of_schemas(value: object) -> bool:
    return type(value) is list and len(value) > 0


_STRING = Rule(_is(str), "a string")
_BOOLEAN = Rule(_is(bool), "true or false")
_NUMBER = Rule(_is_number, "a number")
_COUNT = Rule(_is_count, "a whole number that is not negative")
_SCHEMA = Rule(_is(dict, bool), "a schema (an object, true or false)", Holds.SCHEMA)
_SCHEMAS = Rule(_is_list_of_schemas, "a list of one schema or more", Holds.LIST)
_SCHEMA_MAP = Rule(_is(dict), "an object of schemas", Holds.MAP)
_EXCLUSIVE_4 = Rule(_is(bool), "true or false (a boolean in draft 4)")

DRAFT_4_RULES: Mapping[str, Rule] = {
    "$ref": _STRING,
    "type": Rule(_is_type, f"one of {', '.join(TYPES)}, or a list of them"),
    "enum": Rule(_is(list), "a list of values"),
    "multipleOf": Rule(_is_positive, "a number greater than 0"),
    "minimum": _NUMBER,
    "maximum": _NUMBER,
    "exclusiveMinimum": _EXCLUSIVE_4,
    "exclusiveMaximum": _EXCLUSIVE_4,
    "minLength": _COUNT,
    "maxLength": _COUNT,
    "pattern": _STRING,
    "format": _STRING,
    "items": Rule(_is(dict, bool, list), "a schema or a list of schemas", Holds.SCHEMA_OR_LIST),
    "additionalItems": _SCHEMA,
    "minItems": _COUNT,
    "maxItems": _COUNT,
    "uniqueItems": _BOOLEAN,
    "properties": _SCHEMA_MAP,
    "patternProperties": _SCHEMA_MAP,
    "additionalProperties": _SCHEMA,
    "required": Rule(_are_strings, "a list of strings"),
    "minProperties": _COUNT,
    "maxProperties": _COUNT,
    "dependencies": Rule(_are_dependencies, "an object of schemas or lists of strings", Holds.SCHEMA_OR_STRINGS_MAP),
    "allOf": _SCHEMAS,
    "anyOf": _SCHEMAS,
    "oneOf": _SCHEMAS,
    "not": _SCHEMA,
    "definitions": _SCHEMA_MAP,
}

DRAFT_6_RULES: Mapping[str, Rule] = {
    **DRAFT_4_RULES,
    "exclusiveMinimum": _NUMBER,
    "exclusiveMaximum": _NUMBER,
    "const": Rule(lambda value: True, "any value"),
    "contains": _SCHEMA,
    "propertyNames": _SCHEMA,
}

DRAFT_7_RULES: Mapping[str, Rule] = {**DRAFT_6_RULES, "if": _SCHEMA, "then": _SCHEMA, "else": _SCHEMA}

DRAFT_2019_RULES: Mapping[str, Rule] = {
    **{keyword: rule for keyword, rule in DRAFT_7_RULES.items() if keyword != "dependencies"},
    "$defs": _SCHEMA_MAP,
    "$anchor": _STRING,
    "$recursiveRef": _STRING,
    "$recursiveAnchor": _BOOLEAN,
    "dependentSchemas": _SCHEMA_MAP,
    "dependentRequired": Rule(_are_string_lists, "an object of lists of strings"),
    "minContains": _COUNT,
    "maxContains": _COUNT,
    "unevaluatedItems": _SCHEMA,
    "unevaluatedProperties": _SCHEMA,
}

DRAFT_2020_RULES: Mapping[str, Rule] = {
    **{keyword: rule for keyword, rule in DRAFT_2019_RULES.items()
       if keyword not in ("$recursiveRef", "$recursiveAnchor", "additionalItems")},
    "items": Rule(_is(dict, bool), 'a schema (since 2020-12 a list of schemas is "prefixItems")', Holds.SCHEMA),
    "prefixItems": _SCHEMAS,
    "$dynamicRef": _STRING,
    "$dynamicAnchor": _STRING,
}


_FORMATS_4 = frozenset({"date-time", "email", "hostname", "ipv4", "ipv6", "uri"})
_FORMATS_6 = _FORMATS_4 | {"uri-reference", "uri-template", "json-pointer"}
_FORMATS_7 = _FORMATS_6 | {"idn-email", "idn-hostname", "iri", "iri-reference", "regex", "relative-json-pointer", "date", "time"}
_FORMATS_2019 = _FORMATS_7 | {"duration", "uuid"}


@dataclass(frozen=True, slots=True)
class Dialect:
    """One draft, or a vocabulary made from one by a metaschema of its own."""

    name: str
    rules: Mapping[str, Rule]
    formats: frozenset[str]  # the names that `format` knows; others are annotations
    identifier: str = "$id"
    reference_stands_alone: bool = False  # siblings of $ref are ignored
    asserts_formats: bool = False  # whatever the caller says
    nullable: bool = False  # OpenAPI's keyword adds null to `type`

    def without(self, keywords: frozenset[str]) -> Dialect:
        """Return this dialect where `keywords` are mere annotations."""
        return replace(self, rules={keyword: rule for keyword, rule in self.rules.items() if keyword not in keywords})


DRAFT_4 = Dialect("draft4", DRAFT_4_RULES, _FORMATS_4, identifier="id", reference_stands_alone=True)
DRAFT_6 = Dialect("draft6", DRAFT_6_RULES, _FORMATS_6, reference_stands_alone=True)
DRAFT_7 = Dialect("draft7", DRAFT_7_RULES, _FORMATS_7, reference_stands_alone=True)
DRAFT_2019 = Dialect("2019-09", DRAFT_2019_RULES, _FORMATS_2019)
DRAFT_2020 = Dialect("2020-12", DRAFT_2020_RULES, _FORMATS_2019)
UNDECLARED = replace(DRAFT_2020, nullable=True)

_BY_ADDRESS: Mapping[str, Dialect] = {
    "json-schema.org/draft-04/schema": DRAFT_4,
    "json-schema.org/draft-06/schema": DRAFT_6,
    "json-schema.org/draft-07/schema": DRAFT_7,
    "json-schema.org/schema": DRAFT_2020,
    "json-schema.org/draft/2019-09/schema": DRAFT_2019,
    "json-schema.org/draft/2020-12/schema": DRAFT_2020,
}


def by_uri(uri: str) -> Dialect | None:
    """Return the draft whose metaschema has this URI; http or https, with or without "#"."""
    return _BY_ADDRESS.get(uri.rstrip("#").partition("://")[2])


_CORE = frozenset(keyword for keyword in {**DRAFT_2019_RULES, **DRAFT_2020_RULES} if keyword.startswith("$"))
_VALIDATION = frozenset(
    "type enum const multipleOf minimum maximum exclusiveMinimum exclusiveMaximum minLength maxLength pattern minItems maxItems uniqueItems"
    " minContains maxContains required minProperties maxProperties dependentRequired".split()
)
_UNEVALUATED = frozenset({"unevaluatedItems", "unevaluatedProperties"})
_FORMAT = frozenset({"format"})
_APPLICATOR = frozenset({**DRAFT_2019_RULES, **DRAFT_2020_RULES}) - _CORE - _VALIDATION - _UNEVALUATED - _FORMAT - {"definitions"}


def of_metaschema(base: Dialect, vocabularies: Mapping[str, object]) -> Dialect:
    """Return the dialect of a metaschema derived from `base` that declares these vocabularies (2019-09 and later).

    2019-09 has the unevaluated keywords in its applicator vocabulary.
    """
    names = {uri.rsplit("/", 1)[-1] for uri in vocabularies}
    absent = frozenset[str]()
    if "validation" not in names:
        absent |= _VALIDATION
    if "applicator" not in names:
        absent |= _APPLICATOR
    if "unevaluated" not in names and (base.name != "2019-09" or "applicator" not in names):
        absent |= _UNEVALUATED
    if not names & {"format", "format-annotation", "format-assertion"}:
        absent |= _FORMAT
    return replace(base.without(absent), asserts_formats="format-assertion" in names)
