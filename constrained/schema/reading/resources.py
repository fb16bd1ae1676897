"""Schema resources: documents and the parts of them that have a URI of their own, and how references find them.

A `Library` holds the resources that one schema can reach: itself, what is bundled in it, documents that the caller
supplied, and the metaschemas of the drafts.  Nothing is ever fetched.  `referencing` is not used for the lookups
because a reference costs it tens of microseconds, most of the time budget of a typical schema; its tables of
metaschemas are, and the tests compare with it through `jsonschema`.

Sources: JSON Schema core 2020-12 §8–9, 2019-09 §8, draft 7 §8; RFC 6901 (JSON pointers).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from math import isfinite
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urldefrag, urljoin, urlsplit

from constrained.errors import SchemaError, shown
from constrained.schema.reading.dialects import BY_URI, UNDECLARED, Dialect, by_uri, of_metaschema
from constrained.work import spend

# a JSON pointer as a linked list: cheap to extend, spelled out only in errors
Where: TypeAlias = "str | tuple[Where, str | int]"
Schema: TypeAlias = "dict[str, Any] | bool"

_PORTION = 200  # units that are spent at once
MOST_METASCHEMAS = 32  # each declared by the one before

_ATOMS = frozenset({str, int, bool, type(None)})
_ONLY_STR = frozenset({str})


def pointer(where: Where) -> str:
    """Return the location as the fragment form of a JSON pointer, after the document's URI where that has one.

    >>> pointer((("#", "properties"), "a/b"))
    '#/properties/a~1b'
    """
    steps = []
    while isinstance(where, tuple):
        where, step = where
        steps.append(str(step).replace("~", "~0").replace("/", "~1"))
    return "/".join([where, *reversed(steps)])


def split_fragment(uri: str, where: Where) -> tuple[str, str]:
    """Return a URI without its fragment, and the fragment.

    Raises: SchemaError: it is no URI.
    """
    if uri[:1] == "#":  # PERF: nearly all of them, and `urllib` takes 5 µs
        return "", uri[1:]
    if uri.isascii() and "#" not in uri and "[" not in uri and "]" not in uri:  # with these it may be no URI
        return uri, ""
    try:
        urlsplit(uri)
        found = urldefrag(uri)
    except ValueError as error:
        raise SchemaError("not a URI", where=pointer(where), because=f"{shown(uri)}: {error}") from error
    return found.url, found.fragment


def joined(base: str, uri: str, where: Where) -> str:
    """Return a URI relative to another; errors as of `split_fragment`."""
    if not base:
        return uri
    try:
        return urljoin(base, uri)
    except ValueError as error:
        raise SchemaError("not a URI", where=pointer(where), because=f"{shown(uri)}: {error}") from error


@dataclass(slots=True, eq=False)
class Resource:
    """A schema with a URI of its own."""

    uri: str  # absolute where the document says so; "" for an anonymous root
    root: Schema
    where: Where
    dialect: Dialect
    anchors: dict[str, tuple[Schema, Where]] = field(default_factory=dict)
    dynamic_anchors: set[str] = field(default_factory=set)  # a subset of the names in anchors
    recursive: bool = False  # "$recursiveAnchor": true


class Target(NamedTuple):
    """What a reference points to."""

    schema: Schema
    resource: Resource
    where: Where
    dynamic: str | None = None  # anchor name that the dynamic scope may override; "" for $recursiveRef


class Reference(NamedTuple):
    """A reference keyword in a schema."""

    schema: dict[str, Any]
    keyword: str
    resource: Resource
    where: Where


@dataclass(slots=True, eq=False)
class Library:
    """The resources reachable from one schema.

    Schemas are identified by `id`: the library owns private copies of all its documents, so none of them changes or
    dies.
    """

    remotes: Mapping[str, object]
    dialect: Dialect | None = None  # for documents without $schema; None: by `UNDECLARED`
    resources: dict[str, Resource] = field(default_factory=dict)  # by absolute URI
    embedded: dict[int, Resource] = field(default_factory=dict)  # by id of the resource's root
    targets: dict[tuple[int, str], Target] = field(default_factory=dict)  # by id of the schema, keyword
    # the schemas that the check has seen: in which one each stands, by id; 0: in none.
    # PERF: numbers, which the garbage collector need not look at; places as tuples were a quarter of a document
    outer: dict[int, int] = field(default_factory=dict)
    further_outer: list[tuple[int, int]] = field(default_factory=list)  # the same of those that stand in several
    references: list[Reference] = field(default_factory=list)  # found and not yet resolved
    # schemas that may be out of reach, see `schema.limits`
    doubtful: list[dict[str, Any]] = field(default_factory=list)
    # schemas whose normal form may be out of bounds, see `schema.limits`
    risky: list[dict[str, Any]] = field(default_factory=list)
    negating: list[dict[str, Any]] = field(default_factory=list)  # schemas that need complements of others
    # schemas whose masks may be too much work, so that some are made beforehand, see `schema.heavy`
    heavy: list[dict[str, Any]] = field(default_factory=list)
    # pointers and values of `format` whose language is not exact
    inexact: list[tuple[str, str]] = field(default_factory=list)
    unknown: list[tuple[str, Where, Dialect]] = field(default_factory=list)  # words without a meaning, see `notes`
    dynamic: bool = False  # some reference depends on the dynamic scope

    def add(self, document: object, uri: str, where: Where, *, own: bool = False) -> Resource:
        """Take a private copy of a document, unless it is one, and register it under its retrieval URI and its own."""
        root: Any = document if own else private_copy(document, where)
        if not isinstance(root, (dict, bool)):
            raise SchemaError(
                "not a schema",
                where=pointer(where),
                because=f"a schema is an object, true or false, not {_kind(root)}",
                instead="json.loads(text)" if isinstance(root, str) else "{}, or true, for any value",
            )
        dialect = self.dialect or UNDECLARED
        if isinstance(root, dict) and "$schema" in root:
            declared = root["$schema"]
            draft = BY_URI.get(declared) if type(declared) is str else None
            dialect = self._dialect_of(root, dialect, where) if draft is None else draft
        name = root.get(dialect.identifier) if isinstance(root, dict) else None
        at = where, dialect.identifier
        resource = Resource(
            joined(uri, split_fragment(name, at)[0], at) if isinstance(name, str) else uri, root, where, dialect
        )
        self.resources[uri] = self.resources[resource.uri] = resource
        if isinstance(root, dict):
            self.embedded[id(root)] = resource
        return resource

    def enter(self, schema: dict[str, Any], outer: Resource, where: Where) -> Resource:
        """Register the identifiers that a schema declares and return the resource that it belongs to."""
        resource = self.embedded.get(id(schema), outer)
        dialect = resource.dialect
        own = schema.get(dialect.identifier)
        if isinstance(own, str) and not (dialect.reference_stands_alone and "$ref" in schema):
            at = where, dialect.identifier
            uri, fragment = split_fragment(own, at)
            if uri and resource.root is not schema:
                dialect = self._dialect_of(schema, dialect, where)
                resource = Resource(joined(outer.uri, uri, at), schema, where, dialect)
                self.resources.setdefault(resource.uri, resource)
                self.embedded[id(schema)] = resource
            if fragment:
                resource.anchors[fragment] = schema, where
        for keyword in ("$anchor", "$dynamicAnchor"):
            name = schema.get(keyword)
            if isinstance(name, str) and keyword in dialect.rules:
                resource.anchors[name] = schema, where
                if keyword == "$dynamicAnchor":
                    resource.dynamic_anchors.add(name)
        if schema.get("$recursiveAnchor") is True and "$recursiveAnchor" in dialect.rules and resource.root is schema:
            resource.recursive = True
        return resource

    def find(self, uri: str, where: Where) -> tuple[Resource, bool]:
        """Return the resource with this URI, and whether it is new here and so unchecked."""
        known = self.resources.get(uri)
        if known is not None:
            return known, False
        document = self.remotes.get(uri)
        if document is None:
            document = self.remotes.get(uri + "#")
        if document is None:
            document = _metaschema(uri)
        if document is None:
            raise SchemaError(
                f"reference to unknown document {uri!r}", where=pointer(where),
                because="nothing is fetched from the network", instead="pass the document: documents={uri: schema}",
            )
        return self.add(document, uri, uri + "#"), True

    def _dialect_of(self, root: object, default: Dialect, where: Where) -> Dialect:
        """Return the dialect that a schema declares, which may be that of a metaschema of the caller's, and of that
        one's, and so on.
        """
        derived: list[Mapping[str, object]] = []  # the vocabularies on the way
        known, seen = default, set[str]()
        while (declared := root.get("$schema") if isinstance(root, Mapping) else None) is not None:
            if not isinstance(declared, str):
                raise SchemaError("$schema is not a string", where=pointer(where))
            draft = by_uri(declared)
            if draft is not None:
                known = draft
                break
            metaschema = self.remotes.get(declared.rstrip("#"))
            if (
                not isinstance(metaschema, Mapping)
                or declared in seen
                or metaschema.get("$schema") == declared
                or len(seen) >= MOST_METASCHEMAS
            ):
                raise SchemaError(
                    f"unknown dialect {shown(declared, 200)}",
                    where=pointer(where),
                    because="drafts 4, 6, 7, 2019-09 and 2020-12 are known",
                    instead="declare one of them, or pass your metaschema: documents={uri: metaschema}",
                )
            seen.add(declared)
            vocabularies = metaschema.get("$vocabulary")
            if isinstance(vocabularies, Mapping) and all(isinstance(name, str) for name in vocabularies):
                derived.append(vocabularies)
            root, where = metaschema, declared
        for vocabularies in reversed(derived):
            known = of_metaschema(known, vocabularies)
        return known


def _metaschema(uri: str) -> object:
    """Return a metaschema of the drafts, or None."""
    if "json-schema.org/" not in uri:
        return None
    from jsonschema_specifications import REGISTRY

    found = REGISTRY.get(uri) or REGISTRY.get(uri + "#")
    return None if found is None else found.contents


def private_copy(document: object, where: Where) -> object:
    """Return a deep copy of a JSON value, and report what is not JSON in it.

    Parts that occur twice are copied once, which also ends on values that contain themselves.
    Cost: 0.3 µs per container and 0.05 µs per entry; no recursion.
    """
    box: list[Any] = [document]
    todo: list[tuple[Any, Where]] = [(box, "")]
    copies: dict[int, Any] = {}
    work = 0
    while todo:
        holder, path = todo.pop()
        work += 2 + (len(holder) >> 2)
        if work > _PORTION:
            spend(work)
            work = 0
        for key, value in holder.items() if type(holder) is dict else enumerate(holder):
            kind = type(value)
            if kind in _ATOMS:
                continue
            at = where if holder is box else (path, key)
            if kind in (float, Decimal):
                if not isfinite(value):
                    raise SchemaError(f"{value} is not a JSON number", where=pointer(at))
                continue
            copy: Any = copies.get(id(value))
            if copy is None:
                plain = kind is list or kind is dict and _ONLY_STR.issuperset(map(type, value))
                copy = value.copy() if plain else _shallow(value, at)
                copies[id(value)] = copy
                # PERF: most have nothing below
                if not _ATOMS.issuperset(map(type, copy.values() if type(copy) is dict else copy)):
                    todo.append((copy, at))
            holder[key] = copy
    spend(work)
    return box[0]


def _shallow(value: object, at: Where) -> dict[str, Any] | list[Any]:
    """Return a dictionary or list of the same entries."""
    if isinstance(value, (list, tuple)):
        return list(value)
    if not isinstance(value, Mapping):
        raise SchemaError(
            "not JSON", where=pointer(at), because=f"a value is of the Python type {type(value).__name__}"
        )
    copy = dict(value)
    if set(map(type, copy)) - {str}:
        raise SchemaError("not JSON", where=pointer(at), because="the keys of an object are strings")
    return copy


def _kind(value: object) -> str:
    names = {str: "a string", int: "a number", float: "a number", list: "a list", type(None): "null"}
    return names.get(type(value), type(value).__name__)
