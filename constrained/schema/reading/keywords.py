"""The keywords of JSON Schema, one entry each, and the drafts (dialects), which are cut from these entries.

What a keyword *means* is a function in `schema.normal`, under its name in the table of `plans`.  Everything else that
some module has to know is in its entry: `check` asks for the form, `notes` for what describes an object, `quick` for
what may leave a type without a value, `limits` for what may be out of reach, and `formats.tools` for where subschemas
are.  A keyword that is not told to be any of this is none of it, so the fields say what is special about it:

    keyword             drafts    applies     says
    "allOf"             4 …       AS_PART     demanding, risky: its normal form may be out of bounds; describes
    "properties"        4 …       INSIDE      about objects
    "additionalItems"   4 … 2019  INSIDE      about arrays, the rest of their items

`KEYWORDS` has two entries for a keyword whose form a draft has changed.

A dialect is data, cut from the entries; reading a document and checking it cost a dictionary lookup
per keyword.  A keyword that a draft does not know is an annotation in that draft and ignored, as the specification
says: ``prefixItems`` in a draft-7 schema constrains nothing.

Drafts 3 and older are refused.  A schema without ``$schema`` is 2020-12, and additionally knows OpenAPI's ``nullable``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any, NamedTuple

NUMERIC = (int, float, Decimal)
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
_LATEST = 2020
_ONLY_STR = frozenset({str})


class Holds(IntEnum):
    """Where the subschemas are in a keyword's value."""

    NOTHING = 0
    SCHEMA = 1
    LIST = 2
    MAP = 3
    SCHEMA_OR_LIST = 4
    SCHEMA_OR_STRINGS_MAP = 5


class Applies(Enum):
    """To what the subschemas of a keyword apply."""

    NOTHING = "it has none"
    AS_PART = "the same value, always"
    AS_BRANCH = "the same value, as one of several"
    AS_CONDITION = "the same value, depending on something"
    INSIDE = "values inside, which they describe"
    AS_PROBE = "values inside, of which they only ask something"
    BY_REFERENCE = "whatever refers to them"


class KeywordGroup(Enum):
    """The vocabulary of 2019-09 and later that a keyword belongs to."""

    CORE = "core"
    VALIDATION = "validation"
    APPLICATOR = "applicator"
    UNEVALUATED = "unevaluated"
    FORMAT = "format"
    NONE = ""


class Keyword(NamedTuple):
    """What there is to know about a keyword besides its meaning."""

    name: str
    expected: str  # of its value, in words
    fits: Callable[[Any], bool]
    group: KeywordGroup = KeywordGroup.VALIDATION
    holds: Holds = Holds.NOTHING
    applies: Applies = Applies.NOTHING
    since: int = 4
    until: int = _LATEST
    counts: bool = False  # characters, items or keys
    measures: bool = False  # numbers: its value must be a number that can be computed with
    about: str = ""  # the type that it says something of, as in `TYPES`; "number" for both kinds; "": any type
    rest: bool = False  # about those keys or items that no keyword beside it names
    refers: bool = False
    describes: bool = False  # takes part in the description of the same value
    demanding: bool = False  # may refuse the empty object, array or string, or some number
    risky: bool = False  # its normal form may be out of bounds, so that it is made before anything is generated
    monotone: bool = True  # taking something out of its subschemas never narrows the whole
    instead: str = ""  # how this draft says what others say with another value


class OfKind:
    """The form of a value that has one of some types, and need not have more."""

    __slots__ = ("kinds",)

    def __init__(self, *kinds: type) -> None:
        self.kinds = frozenset(kinds)

    def __call__(self, value: object) -> bool:
        return type(value) in self.kinds


def _is_type(value: object) -> bool:
    if type(value) is str:
        return value in TYPES
    names = value if type(value) is list else [value]
    return bool(names) and all(type(name) is str and name in TYPES for name in names)


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


def _is_list_of_schemas(value: object) -> bool:
    return type(value) is list and len(value) > 0


_NUMBER: dict[str, Any] = {"about": "number", "measures": True, "demanding": True}


def _string(name: str, **more: Any) -> Keyword:
    return Keyword(name, "a string", OfKind(str), **more)


def _boolean(name: str, **more: Any) -> Keyword:
    return Keyword(name, "true or false", OfKind(bool), **more)


def _bound(name: str, **more: Any) -> Keyword:
    return Keyword(name, "a number", OfKind(*NUMERIC), **_NUMBER, **more)


def _count(name: str, about: str, **more: Any) -> Keyword:
    expected = "a whole number that is not negative"
    return Keyword(name, expected, _is_count, about=about, counts=True, measures=True, **more)


def _schema(name: str, applies: Applies, **more: Any) -> Keyword:
    more.setdefault("group", KeywordGroup.APPLICATOR)
    return Keyword(
        name, "a schema (an object, true or false)", OfKind(dict, bool), holds=Holds.SCHEMA, applies=applies, **more
    )


def _schemas(name: str, applies: Applies, **more: Any) -> Keyword:
    return Keyword(
        name, "a list of one schema or more", _is_list_of_schemas, KeywordGroup.APPLICATOR, Holds.LIST, applies, **more
    )


def _named_schemas(name: str, applies: Applies, **more: Any) -> Keyword:
    more.setdefault("group", KeywordGroup.APPLICATOR)
    return Keyword(name, "an object of schemas", OfKind(dict), holds=Holds.MAP, applies=applies, **more)


_CORE, _APPLICATOR, _UNEVALUATED = KeywordGroup.CORE, KeywordGroup.APPLICATOR, KeywordGroup.UNEVALUATED
_TYPE_NAMES = '", "'.join(TYPES)
_NARROWING: dict[str, Any] = {"risky": True, "monotone": False}
_REST: dict[str, Any] = {"applies": Applies.INSIDE, "rest": True}

KEYWORDS: tuple[Keyword, ...] = (
    _string("$ref", group=_CORE, refers=True, describes=True, demanding=True),
    _string("$dynamicRef", group=_CORE, since=2020, refers=True, demanding=True),
    _string("$recursiveRef", group=_CORE, since=2019, until=2019, refers=True, demanding=True),
    _string("$anchor", group=_CORE, since=2019),
    _string("$dynamicAnchor", group=_CORE, since=2020),
    _boolean("$recursiveAnchor", group=_CORE, since=2019, until=2019),
    _named_schemas("$defs", Applies.BY_REFERENCE, group=_CORE, since=2019),
    _named_schemas("definitions", Applies.BY_REFERENCE, group=KeywordGroup.NONE),
    Keyword("type", f'one of "{_TYPE_NAMES}", or a list of them', _is_type),
    Keyword("enum", "a list of values", OfKind(list), measures=True, demanding=True),
    Keyword("const", "any value", lambda value: True, since=6, measures=True, demanding=True),
    Keyword("multipleOf", "a number greater than 0", _is_positive, **_NUMBER),
    _bound("minimum"),
    _bound("maximum"),
    _boolean("exclusiveMinimum", until=4, **_NUMBER),
    _boolean("exclusiveMaximum", until=4, **_NUMBER),
    _bound("exclusiveMinimum", since=6),
    _bound("exclusiveMaximum", since=6),
    _count("minLength", "string", demanding=True),
    _count("maxLength", "string"),
    _string("pattern", about="string", demanding=True),
    _string("format", group=KeywordGroup.FORMAT, about="string"),
    Keyword(
        "items", "a schema or a list of schemas", OfKind(dict, bool, list), _APPLICATOR, Holds.SCHEMA_OR_LIST,
        Applies.INSIDE, until=2019, about="array",
    ),
    _schema("items", about="array", since=2020, instead='"prefixItems": [schema, …]', **_REST),
    _schemas("prefixItems", Applies.INSIDE, about="array", since=2020),
    _schema("additionalItems", about="array", until=2019, **_REST),
    _schema("unevaluatedItems", group=_UNEVALUATED, about="array", since=2019, **_REST, **_NARROWING),
    _schema("contains", Applies.AS_PROBE, about="array", since=6, demanding=True, **_NARROWING),
    _count("minContains", "array", since=2019),
    _count("maxContains", "array", since=2019),
    _count("minItems", "array", demanding=True),
    _count("maxItems", "array"),
    _boolean("uniqueItems", about="array"),
    _named_schemas("properties", Applies.INSIDE, about="object"),
    _named_schemas("patternProperties", Applies.INSIDE, about="object"),
    _schema("additionalProperties", about="object", **_REST),
    _schema("unevaluatedProperties", group=_UNEVALUATED, about="object", since=2019, **_REST, **_NARROWING),
    _schema("propertyNames", Applies.AS_PROBE, about="object", since=6),
    Keyword(
        "required", "a list of strings", _are_strings, about="object", demanding=True,
        instead='"required": [name, …] beside "properties"',
    ),
    Keyword("dependentRequired", "an object of lists of strings", _are_string_lists, about="object", since=2019),
    Keyword(
        "dependencies", "an object of schemas or lists of strings", _are_dependencies, KeywordGroup.NONE,
        Holds.SCHEMA_OR_STRINGS_MAP, Applies.AS_CONDITION, about="object", until=7, describes=True, risky=True,
    ),
    _named_schemas("dependentSchemas", Applies.AS_CONDITION, about="object", since=2019, describes=True, risky=True),
    _count("minProperties", "object", demanding=True),
    _count("maxProperties", "object"),
    _schemas("allOf", Applies.AS_PART, describes=True, demanding=True, risky=True),
    _schemas("anyOf", Applies.AS_BRANCH, describes=True, demanding=True, risky=True),
    _schemas("oneOf", Applies.AS_BRANCH, describes=True, demanding=True, **_NARROWING),
    _schema("not", Applies.AS_CONDITION, demanding=True, **_NARROWING),
    _schema("if", Applies.AS_CONDITION, since=7, describes=True, demanding=True, **_NARROWING),
    _schema("then", Applies.AS_CONDITION, since=7, monotone=False),
    _schema("else", Applies.AS_CONDITION, since=7, monotone=False),
)


def of_draft(draft: int) -> dict[str, Keyword]:
    """Return the keywords that a draft knows, by name."""
    return {keyword.name: keyword for keyword in KEYWORDS if keyword.since <= draft <= keyword.until}


def named(says: Callable[[Keyword], bool]) -> frozenset[str]:
    """Return the names of the keywords of which something holds in some draft.

    >>> sorted(named(lambda keyword: keyword.refers))
    ['$dynamicRef', '$recursiveRef', '$ref']
    """
    return frozenset(keyword.name for keyword in KEYWORDS if says(keyword))


NOTES = frozenset({"title", "description", "default", "examples", "deprecated", "$comment"})  # for people
REFERRING = tuple(sorted(named(lambda keyword: keyword.refers), key=len))
OTHER_KEYS = named(lambda keyword: keyword.rest and keyword.about == "object")  # `additionalProperties` and its like


def without_notes(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema without the words that are for people; those of its parts stay.

    >>> without_notes({"type": "string", "description": "A city."})
    {'type': 'string'}
    """
    return schema if NOTES.isdisjoint(schema) else {key: schema[key] for key in schema if key not in NOTES}


def applying(*ways: Applies, holds: Holds | None = None) -> tuple[str, ...]:
    """Return the names of the keywords whose subschemas apply in one of some ways, in the order of the entries; on
    request of one form.

    >>> applying(Applies.AS_BRANCH), applying(Applies.INSIDE, holds=Holds.MAP)
    (('anyOf', 'oneOf'), ('properties', 'patternProperties'))
    """
    either = Holds.SCHEMA_OR_LIST if holds in (Holds.SCHEMA, Holds.LIST) else Holds.SCHEMA_OR_STRINGS_MAP
    forms = Holds if holds is None else (holds, either)
    names = [keyword.name for keyword in KEYWORDS if keyword.applies in ways and keyword.holds in forms]
    return tuple(dict.fromkeys(names))


JOINING = frozenset({"allOf", "anyOf", "oneOf"})  # of one member: what that is
_FORMATS_4 = frozenset({"date-time", "email", "hostname", "ipv4", "ipv6", "uri"})
_FORMATS_6 = _FORMATS_4 | {"uri-reference", "uri-template", "json-pointer"}
_FORMATS_7 = _FORMATS_6 | {
    "idn-email",
    "idn-hostname",
    "iri",
    "iri-reference",
    "regex",
    "relative-json-pointer",
    "date",
    "time",
}
_FORMATS_2019 = _FORMATS_7 | {"duration", "uuid"}


@dataclass(frozen=True, slots=True)
class Dialect:
    """One draft, or a vocabulary made from one by a metaschema of its own."""

    name: str
    rules: Mapping[str, Keyword]
    formats: frozenset[str]  # the names that `format` knows; others are annotations
    identifier: str = "$id"
    reference_stands_alone: bool = False  # siblings of $ref are ignored
    asserts_formats: bool = False  # whatever the caller says
    nullable: bool = False  # OpenAPI's keyword adds null to `type`
    plain_integers: bool = False  # 1.0 is no integer
    # what modules have cut from the rules, by a name of their own; it goes with the dialect, which a schema may bring
    tables: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def refers_by(self, schema: Mapping[str, Any]) -> str | None:
        """Return the keyword by which a schema is what one other is, if it says nothing else that counts."""
        said = self.rules.keys() & schema.keys()
        if "$ref" in said:
            return "$ref" if self.reference_stands_alone or len(said) == 1 else None
        only = min(said) if len(said) == 1 else ""
        return only if only in JOINING and len(schema[only]) == 1 else None

    def without(self, keywords: frozenset[str]) -> Dialect:
        """Return this dialect where `keywords` are mere annotations."""
        return replace(self, rules={keyword: rule for keyword, rule in self.rules.items() if keyword not in keywords})


DRAFT_4 = Dialect("draft4", of_draft(4), _FORMATS_4, identifier="id", reference_stands_alone=True, plain_integers=True)
DRAFT_6 = Dialect("draft6", of_draft(6), _FORMATS_6, reference_stands_alone=True)
DRAFT_7 = Dialect("draft7", of_draft(7), _FORMATS_7, reference_stands_alone=True)
DRAFT_2019 = Dialect("2019-09", of_draft(2019), _FORMATS_2019)
DRAFT_2020 = Dialect("2020-12", of_draft(2020), _FORMATS_2019)
UNDECLARED = replace(DRAFT_2020, nullable=True)

_BY_ADDRESS: Mapping[str, Dialect] = {
    "json-schema.org/draft-04/schema": DRAFT_4,
    "json-schema.org/draft-06/schema": DRAFT_6,
    "json-schema.org/draft-07/schema": DRAFT_7,
    "json-schema.org/schema": DRAFT_2020,
    "json-schema.org/draft/2019-09/schema": DRAFT_2019,
    "json-schema.org/draft/2020-12/schema": DRAFT_2020,
}
# the drafts by the URI that a schema declares, those that most are written in first
DRAFTS: tuple[tuple[str, Dialect], ...] = (
    ("http://json-schema.org/draft-07/schema#", DRAFT_7),
    ("http://json-schema.org/draft-04/schema#", DRAFT_4),
    ("https://json-schema.org/draft/2020-12/schema", DRAFT_2020),
)
# As nearly all schemas spell them, and `by_uri` finds them
BY_URI: Mapping[str, Dialect] = {
    f"{scheme}://{address}{end}": dialect
    for address, dialect in _BY_ADDRESS.items() for scheme in ("http", "https") for end in ("", "#")
}


def by_uri(uri: str) -> Dialect | None:
    """Return the draft whose metaschema has this URI; http or https, with or without "#"."""
    return _BY_ADDRESS.get(uri.rstrip("#").partition("://")[2])


def of_metaschema(base: Dialect, vocabularies: Mapping[str, object]) -> Dialect:
    """Return the dialect of a metaschema derived from `base` that declares these vocabularies (2019-09 and later).

    2019-09 has the unevaluated keywords in its applicator vocabulary.
    """
    names = {uri.rsplit("/", 1)[-1] for uri in vocabularies}
    absent = frozenset[str]()
    if "validation" not in names:
        absent |= _of(KeywordGroup.VALIDATION)
    if "applicator" not in names:
        absent |= _of(KeywordGroup.APPLICATOR)
    if "unevaluated" not in names and (base.name != "2019-09" or "applicator" not in names):
        absent |= _of(KeywordGroup.UNEVALUATED)
    if not names & {"format", "format-annotation", "format-assertion"}:
        absent |= _of(KeywordGroup.FORMAT)
    return replace(base.without(absent), asserts_formats="format-assertion" in names)


def _of(group: KeywordGroup) -> frozenset[str]:
    return named(lambda keyword: keyword.group is group)
