"""Documents: their resources (parts with a URI of their own), subschemas as nodes of a graph, and places in errors.

A `Library` holds the resources that one schema can reach: itself, what is bundled in it, documents that the caller
supplied, and the metaschemas of the drafts.  Nothing is ever fetched.  `referencing` is not used for the lookups
because a reference costs it tens of microseconds, most of the time budget of a typical schema; its tables of
metaschemas are, and the tests compare with it through `jsonschema`.

A `Node` is a subschema in its place: the resource that its references are relative to and, where a schema uses
`$dynamicRef` or `$recursiveRef`, the resources entered on the way to it (its dynamic scope).  Nodes are interned, so
that a recursive schema is a finite graph and equal conjunctions are equal sets.  Plain references are followed when the
edge is made: no node stands for a mere ``$ref``.

Dynamic scopes only list the resources that were the first with some dynamic anchor, in the order of entry: that is all
that the override rule looks at, and it keeps their number small.

Places in errors: who spends work does not know for which subschema; who asks does, catches what comes back, and adds
the JSON pointer, unless there is one already, which is the inner one.

Sources: JSON Schema core 2020-12 §8–9, §8.2.3.2 (dynamic references), 2019-09 §8, §8.2.4.2, draft 7 §8; RFC 6901 (JSON
pointers).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import count
from math import isfinite
from threading import RLock
from typing import Any, NamedTuple, TypeAlias, TypeVar
from urllib.parse import urldefrag, urljoin, urlsplit

from constrained.errors import LimitExceeded, SchemaError, UnsupportedSchema, shown
from constrained.regex.liveness import MADE
from constrained.schema.by_content import content
from constrained.schema.reading.keywords import (
    BY_URI,
    DRAFT_2020,
    JOINING,
    UNDECLARED,
    Dialect,
    by_uri,
    of_metaschema,
    without_notes,
)
from constrained.schema.values import (
    ALWAYS,
    Absent,
    Conj,
    HasNamed,
    HasOther,
    ItemAt,
    ItemFrom,
    LengthAtLeast,
    LengthBelow,
    Obligation,
    Present,
    SignedNode,
    negation,
)
from constrained.work import spend, unlocked_at_fork

# a JSON pointer as a linked list: cheap to extend, spelled out only in errors
Where: TypeAlias = "str | tuple[Where, str | int]"
Schema: TypeAlias = "dict[str, Any] | bool"

MAY_REFER = JOINING | {"$ref"}  # only these, see `Dialect.refers_by`
_PORTION = 200  # units that are spent at once
_MOST_ALIKE, _LONGEST_ALIKE = 200, 10_000  # values in schemas that are found by content, and bytes of their names
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
    if uri[:1] == "#":  # nearly all of them, and `urllib` takes 5 µs
        return "", uri[1:]
    if uri.isascii() and "#" not in uri and "[" not in uri and "]" not in uri:  # with these it may be no URI
        return uri, ""
    try:
        urlsplit(uri)
        parts = urldefrag(uri)
    except ValueError as error:
        raise SchemaError("not a URI", where=pointer(where), because=f"{shown(uri)}: {error}") from error
    return parts.url, parts.fragment


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

    def overrides(self, scope: Scope) -> bool:
        """Say whether a dynamic reference can lead here that finds nothing in a scope."""
        return any(all(name not in outer.dynamic_anchors for outer in scope) for name in self.dynamic_anchors) or (
            self.recursive and not any(outer.recursive for outer in scope)
        )


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
    # Numbers, which the garbage collector need not look at; places as tuples were a quarter of a document
    outer: dict[int, int] = field(default_factory=dict)
    further_outer: list[tuple[int, int]] = field(default_factory=list)  # the same of those that stand in several
    references: list[Reference] = field(default_factory=list)  # found and not yet resolved
    # schemas whose normal form may be out of bounds, or much work to read, see `schema.limits`
    risky: list[dict[str, Any]] = field(default_factory=list)
    # pointers and values of `format` whose language is not exact
    inexact: list[tuple[str, str]] = field(default_factory=list)
    unknown: list[tuple[str, Where, Dialect]] = field(default_factory=list)  # words without a meaning, see `notes`
    dynamic: bool = False  # some reference depends on the dynamic scope
    undescribed: bool = False  # some schema may require keys that it does not describe itself, see `notes`

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

    resource = REGISTRY.get(uri) or REGISTRY.get(uri + "#")
    return None if resource is None else resource.contents


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
                # Most have nothing below
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


Scope: TypeAlias = tuple[Resource, ...]
Step = TypeVar("Step", str, int)


serials = count()
_Lock = type(RLock())  # `RLock` is a function of Python


class Node(SignedNode):
    """A subschema in its place.  Equality is identity; `Document.node` interns."""

    __slots__ = ("document", "schema", "resource", "scope", "where", "inside", "conj", "plan", "serial")

    def __init__(self, document: Document, schema: Schema, resource: Resource, scope: Scope, where: Where) -> None:
        self.node, self.positive = self, True
        self.document, self.resource = document, resource
        self.scope, self.where = scope, where
        self.schema: Any = schema
        self.inside: tuple[Where, str] | None = None  # the place of a keyword's value, which its entries share
        self.conj: Conj = frozenset((self,))
        self.plan: Any = None  # set by `normal.plans`, which sorts the keywords on first use
        self.serial = next(serials)  # orders conjunctions, so that results do not depend on hashes

    @property
    def negative(self) -> SignedNode:
        """What is not valid against the node as it is written; most nodes are never asked for it."""
        denied, signed = self.document.denied, self.document.denied.get(self)
        if signed is None:
            bare = self.bare
            signed = denied.setdefault(self, SignedNode(self, False) if bare is self else bare.negative)
        return signed

    @property
    def bare(self) -> Node:
        """The same subschema as it is written, without what a profile adds to it.  Nodes of unions have no schema."""
        bare = self.document.bare
        return self if bare is self.document or not self.schema else bare.node(
            self.schema, self.resource, self.scope, self.where)

    @property
    def pointer(self) -> str:
        return pointer(self.where)

    def below(self, schema: Schema, keyword: str, step: str | int | None = None) -> Conj:
        """Return the subschema under a keyword (and a name or index in its value) as a conjunction of at most one
        signed node.
        """
        if schema is True or not schema and schema is not False:
            return ALWAYS
        if schema is False:
            return NOTHING
        inside = self.entered(keyword)
        node = self._inner(schema, inside if step is None else (inside, step))
        return node.conj if MAY_REFER.isdisjoint(schema) else self.document.follow(node)

    def _inner(self, schema: Schema, where: Where) -> Node:
        document = self.document
        return document.node(schema, document.library.embedded.get(id(schema), self.resource), self.scope, where)

    def meant(self, keyword: str) -> Node:
        """Return what this node is, by the keyword that `Dialect.refers_by` has found."""
        if keyword != "$ref":
            return self._inner(self.schema[keyword][0], (self.entered(keyword), 0))
        target = self._target(keyword)
        return self.document.node(target.schema, target.resource, self.scope, target.where)

    def each_below(self, schemas: Iterable[tuple[Step, Schema]], keyword: str) -> dict[Step, Conj]:
        """Return the subschemas under the names (or indices) in a keyword's value, each as `below` does."""
        return {step: self.below(schema, keyword, step) for step, schema in schemas}

    def listed(self, schemas: list[Schema], keyword: str) -> tuple[Conj, ...]:
        """Return the subschemas of a list, each as `below` does."""
        return tuple(self.each_below(enumerate(schemas), keyword).values())

    def entered(self, keyword: str) -> tuple[Where, str]:
        """Return the place of a keyword's value."""
        inside = self.inside
        if inside is None or inside[1] is not keyword:
            inside = self.inside = self.where, keyword
        return inside

    def referent(self, keyword: str) -> Conj:
        """Return what a reference keyword of this node points to, in the node's dynamic scope."""
        target = self._target(keyword)
        if target.schema is True:
            return ALWAYS
        if target.schema is False:
            return NOTHING
        return self.document.follow(self.document.node(target.schema, target.resource, self.scope, target.where))

    def _target(self, keyword: str) -> Target:
        target = self.document.library.targets[id(self.schema), keyword]
        if target.dynamic is None:
            return target
        for resource in self.scope:
            if target.dynamic == "" and resource.recursive:
                return Target(resource.root, resource, resource.where)
            if target.dynamic in resource.dynamic_anchors:
                schema, where = resource.anchors[target.dynamic]
                return Target(schema, resource, where)
        return target


class Document:
    """A schema with all that it refers to, and what has been computed about it.

    The memo tables only grow; their number of entries is bounded by the number of conjunctions that a caller asks
    about.
    closed: values that subschemas name keys of have no others.  What is only asked whether it holds (a condition,
    what is denied or counted) is read as it is written, in the twin `bare`: to narrow it would widen the whole.
    Threads: reading the same entry twice computes it twice, to equal results.
    """

    def __init__(self, library: Library, asserted_formats: str, closed: bool = False) -> None:
        self.library = library
        self.asserted_formats = asserted_formats  # "assert" all that are known, those of the "dialect", or "annotate"
        self.closed = closed
        self.reading = asserted_formats, closed  # what the meaning of a schema depends on besides its dialect
        self.memo: dict[Any, Any] = {}  # answers of `alternatives` and `normalise`
        self.raw: dict[Conj, Any] = {}  # of `normalise` too, before it is asked which children have a value
        self.live: dict[Conj, bool] = {}  # whether a conjunction has a value, where decided
        self.denied: dict[Node, SignedNode] = {}  # `Node.negative`; threads agree on the first one
        self.lock = _Lock()
        unlocked_at_fork(self)
        self.nodes: dict[int | tuple[int, Scope], Node] = {}  # by id of the schema, and scope where there is one
        self.alike: dict[object, Node] = {}  # by content, of small ones
        self.followed: dict[Node, Conj] = {}
        self._constants: dict[object, Node] = {}
        self._unions: dict[frozenset[Conj], Node] = {}
        self._bare: Document | None = None if closed else self

    @property
    def bare(self) -> Document:
        """The same document as it is written.  Nodes are its own, locks and answers are shared."""
        if self._bare is None:
            with self.lock:
                if self._bare is None:
                    bare = copy(self)
                    bare.closed, bare.reading, bare._bare = False, (self.asserted_formats, False), bare
                    bare.nodes, bare.alike, bare.followed, bare._constants, bare._unions = {}, {}, {}, {}, {}
                    self._bare = bare
        return self._bare

    def unlock(self) -> None:
        """Begin with a lock that nobody holds."""
        self.lock = _Lock()
        if self._bare is not None:
            self._bare.lock = self.lock

    def node(self, schema: Schema, resource: Resource, scope: Scope, where: Where) -> Node:
        """Return the node of a subschema; the first place where it, or an equal one, is met names it in messages.

        Equal ones have one node, whatever they tell people, so that documents with all references filled in cost no
        more than with them: a conjunction of a part of a union's member and the denial of the same part of another says
        nothing at once.
        """
        if self.library.dynamic and resource.overrides(scope):
            scope = (*scope, resource)
        key = (id(schema), scope) if scope else id(schema)
        known = self.nodes.get(key)
        if known is None:
            name = content(schema if isinstance(schema, bool) else without_notes(schema), most=_MOST_ALIKE)
            alike = (name, resource, scope) if name is not None and len(name) <= _LONGEST_ALIKE else key
            known = self.alike.get(alike) or self.alike.setdefault(alike, Node(self, schema, resource, scope, where))
            self.nodes[key] = known
        return known

    def follow(self, node: Node) -> Conj:
        """Return the node, or what it refers to if it is nothing but a reference; each of a chain is followed once."""
        conj = self.followed.get(node)
        if conj is not None:
            return conj
        seen: dict[Node, None] = {}
        while (keyword := node.resource.dialect.refers_by(node.schema)) is not None:
            conj = self.followed.get(node)
            if conj is not None:
                break
            if node in seen:
                raise applies_itself(node)
            seen[node] = None
            spend(1)
            node = node.meant(keyword)
            if isinstance(node.schema, bool) or not node.schema:
                conj = NOTHING if node.schema is False else ALWAYS
                break
        if conj is None:
            conj = node.conj
        for reference in seen:
            self.followed[reference] = conj
        return conj

    def constant(self, value: Any, where: Where) -> Conj:
        """Return the conjunction that allows only this value."""
        key = (type(value) is bool, value) if not isinstance(value, (dict, list)) else id(value)
        node = self._constants.get(key)
        if node is None:
            schema = {"const": value}
            node = self._constants[key] = Node(self, schema, Resource("", schema, where, DRAFT_2020), (), where)
        return node.conj

    def union(self, parts: Iterable[Conj], where: Where) -> tuple[Node, bool]:
        """Return the interned node that stands for a union of conjunctions, and whether it is new and still needs a
        plan.
        """
        key = frozenset(parts)
        node = self._unions.get(key)
        if node is not None:
            return node, False
        node = self._unions[key] = Node(self, {}, Resource("", True, where, DRAFT_2020), (), where)
        return node, True


def _nothing() -> Conj:
    where = "#"
    return Node(Document(Library({}), "assert"), False, Resource("", False, where, DRAFT_2020), (), where).conj


NOTHING: Conj = _nothing()  # no JSON value


def both(left: Conj, right: Conj) -> Conj:
    """Return the conjunction of two; exactly `NOTHING` where they contradict each other literally."""
    if not left or left is right:
        return right
    if not right:
        return left
    joined = left | right
    if joined >= NOTHING:
        return NOTHING
    for signed in right:
        node = signed.node
        if (node.document.denied.get(node) if signed.positive else node) in joined:
            return NOTHING
    return joined


def denials(conj: Conj) -> list[Conj]:
    """Return conjunctions whose union is the complement of this one."""
    if conj == NOTHING:
        return [ALWAYS]
    return [negation(frozenset((signed,))) for signed in conj]


def bared(conj: Conj) -> Conj:
    """Return a conjunction of at most one signed node as it is written, see `Node.bare`."""
    for signed in conj:
        bare = signed.node.bare
        return conj if bare is signed.node else bare.conj  # what is denied is so already
    return conj


def ordered(conj: Conj) -> list[SignedNode]:
    """Return the signed nodes in the order in which their nodes were met."""
    if len(conj) == 2:
        one, other = conj
        first, second = one.node.serial, other.node.serial
        return [one, other] if first < second or first == second and other.positive else [other, one]
    return list(conj) if len(conj) == 1 else sorted(conj, key=lambda signed: (signed.node.serial, signed.positive))


_ORDER = (Absent, Present, HasNamed, HasOther, LengthBelow, LengthAtLeast, ItemAt, ItemFrom)


def rank(part: Obligation) -> tuple[object, ...]:
    """Return what orders the parts of a clause, so that work depends on no hash; what asks for least comes first."""
    conj = getattr(part, "value", getattr(part, "item", ALWAYS))
    place = getattr(part, "index", getattr(part, "length", 0))
    serials = [signed.node.serial for signed in ordered(conj)]
    return _ORDER.index(type(part)), getattr(part, "key", ""), place, serials


def applies_itself(node: Node) -> SchemaError:
    return SchemaError(
        "schema applies itself to the same value", where=node.pointer,
        because="no value decides whether it is valid", instead="break the cycle",
    )


def located(error: LimitExceeded, pointer: str) -> LimitExceeded:
    """Return the error with a place, unless it names one already: neither the whole nor an expression that was made on
    the way is one.
    """
    made = error.where is None or error.where == "#" or error.where.startswith(MADE)
    if not made and "#" in str(error.where):
        return error
    where = pointer if made else f"{pointer} {error.where}"
    return LimitExceeded(error.what, where=where, because=error.because, instead=error.instead)


def at_keyword(error: LimitExceeded | UnsupportedSchema, node: Node, keyword: str) -> LimitExceeded | UnsupportedSchema:
    """Return the error with the pointer of a keyword, unless it names another place than the schema."""
    if isinstance(error, LimitExceeded):
        return located(error, f"{node.pointer}/{keyword}")
    if error.where != node.pointer:
        return error
    return UnsupportedSchema(
        error.what, where=f"{node.pointer}/{keyword}", because=error.because, instead=error.instead
    )


def pointer_of(conj: Conj) -> str:
    """Return the pointer of the first subschema of a conjunction."""
    return ordered(conj)[0].node.pointer if conj else "#"


class At:
    """What is being looked at: a conjunction, see `work.spend`.  A `NamedTuple` takes twice as long to make."""

    __slots__ = ("conj",)

    def __init__(self, conj: Conj) -> None:
        self.conj = conj

    @property
    def place(self) -> str:
        return pointer_of(self.conj)


def keyword_of(node: Node, keyword: str) -> str:
    """Return the pointer of a keyword, or of the schema where it is another one's."""
    return f"{node.pointer}/{keyword}" if isinstance(node.schema, dict) and keyword in node.schema else node.pointer
