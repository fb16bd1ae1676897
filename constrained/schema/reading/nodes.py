"""Subschemas as nodes of a graph, and the entry point that reads a schema.

A `Node` is a subschema in its place: the resource that its references are relative to and, where a schema uses
`$dynamicRef` or `$recursiveRef`, the resources entered on the way to it (its dynamic scope).  Nodes are interned, so
that a recursive schema is a finite graph and equal conjunctions are equal sets.  Plain references are followed when the
edge is made: no node stands for a mere ``$ref``.

Dynamic scopes only list resources, each once, in the order of first entry: that is all that the override rule looks at,
and it keeps their number finite.

Source: JSON Schema core 2020-12 §8.2.3.2 (dynamic references), 2019-09 §8.2.4.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from itertools import count
from threading import RLock
from typing import Any, TypeAlias, TypeVar

from constrained.errors import SchemaError
from constrained.schema.reading.dialects import DRAFT_2020
from constrained.schema.reading.resources import Library, Resource, Schema, Target, Where, pointer
from constrained.schema.values import ALWAYS, Conj, SignedNode
from constrained.work import spend, unlocked_at_fork

Scope: TypeAlias = tuple[Resource, ...]
Step = TypeVar("Step", str, int)
_REF = frozenset({"$ref"})


serials = count()
_Lock = type(RLock())  # PERF: `RLock` is a function of Python


class Node:
    """A subschema in its place.  Equality is identity; `Document.node` interns."""

    __slots__ = ("document", "schema", "resource", "scope", "where", "inside", "positive", "conj", "plan", "serial")

    def __init__(self, document: Document, schema: Schema, resource: Resource, scope: Scope, where: Where) -> None:
        self.document, self.resource = document, resource
        self.scope, self.where = scope, where
        self.schema: Any = schema
        self.inside: tuple[Where, str] | None = None  # the place of a keyword's value, which its entries share
        self.positive = SignedNode(self, True)
        self.conj: Conj = frozenset((self.positive,))
        self.plan: Any = None  # set by `keywords.by_type`, which sorts the keywords on first use
        self.serial = next(serials)  # orders conjunctions, so that results do not depend on hashes

    @property
    def negative(self) -> SignedNode:
        """What is not valid against the node as it is written; most nodes are never asked for it."""
        denied, found = self.document.denied, self.document.denied.get(self)
        if found is None:
            bare = self.bare
            found = denied.setdefault(self, SignedNode(self, False) if bare is self else bare.negative)
        return found

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
        where: Where = inside if step is None else (inside, step)
        document = self.document
        node = document.node(schema, document.library.embedded.get(id(schema), self.resource), self.scope, where)
        return document.follow(node) if "$ref" in schema else node.conj

    def each_below(self, schemas: Iterable[tuple[Step, Schema]], keyword: str) -> dict[Step, Conj]:
        """Return the subschemas under the names (or indices) in a keyword's value, each as `below` does.

        PERF: an object has dozens of them, and a call of `below` for each takes twice the time.
        """
        document, resource, inside = self.document, self.resource, self.entered(keyword)
        nodes, embedded = document.nodes, document.library.embedded
        scoped = bool(self.scope) or document.library.dynamic
        found = {}
        for name, schema in schemas:
            if scoped or not schema or schema is True or "$ref" in schema:
                found[name] = self.below(schema, keyword, name)
                continue
            key = id(schema)
            node = nodes.get(key)
            if node is None:
                node = nodes[key] = Node(document, schema, embedded.get(key, resource), (), (inside, name))
            found[name] = node.conj
        return found

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
                    bare.nodes, bare.followed, bare._constants, bare._unions = {}, {}, {}, {}
                    self._bare = bare
        return self._bare

    def unlock(self) -> None:
        """Begin with a lock that nobody holds."""
        self.lock = _Lock()
        if self._bare is not None:
            self._bare.lock = self.lock

    def node(self, schema: Schema, resource: Resource, scope: Scope, where: Where) -> Node:
        """Return the node of a subschema; the first place where it is met names it in messages."""
        if self.library.dynamic and resource not in scope:
            scope = (*scope, resource)
        key = (id(schema), scope) if scope else id(schema)
        found = self.nodes.get(key)
        if found is None:
            found = self.nodes[key] = Node(self, schema, resource, scope, where)
        return found

    def follow(self, node: Node) -> Conj:
        """Return the node, or what it refers to if it is nothing but a reference; each of a chain is followed once."""
        found = self.followed.get(node)
        if found is not None:
            return found
        seen: dict[Node, None] = {}
        while "$ref" in node.schema:
            found = self.followed.get(node)
            if found is not None:
                break
            dialect = node.resource.dialect
            if not dialect.reference_stands_alone and not dialect.rules.keys().isdisjoint(node.schema.keys() - _REF):
                break
            if "$ref" not in dialect.rules:
                break
            if node in seen:
                raise SchemaError(
                    "reference leads back to itself", where=node.pointer, because="no value decides whether it is valid"
                )
            seen[node] = None
            spend(1)
            target = node._target("$ref")
            if isinstance(target.schema, bool) or not target.schema:
                found = NOTHING if target.schema is False else ALWAYS
                break
            node = self.node(target.schema, target.resource, node.scope, target.where)
        if found is None:
            found = node.conj
        for reference in seen:
            self.followed[reference] = found
        return found

    def constant(self, value: Any, where: Where) -> Conj:
        """Return the conjunction that allows only this value."""
        key = (type(value) is bool, value) if not isinstance(value, (dict, list)) else id(value)
        found = self._constants.get(key)
        if found is None:
            schema = {"const": value}
            found = self._constants[key] = Node(self, schema, Resource("", schema, where, DRAFT_2020), (), where)
        return found.conj

    def union(self, parts: Iterable[Conj], where: Where) -> tuple[Node, bool]:
        """Return the interned node that stands for a union of conjunctions, and whether it is new and still needs a
        plan.
        """
        key = frozenset(parts)
        found = self._unions.get(key)
        if found is not None:
            return found, False
        found = self._unions[key] = Node(self, {}, Resource("", True, where, DRAFT_2020), (), where)
        return found, True


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
        if (node.document.denied.get(node) if signed.positive else node.positive) in joined:
            return NOTHING
    return joined


def bared(conj: Conj) -> Conj:
    """Return a conjunction of at most one signed node as it is written, see `Node.bare`."""
    for signed in conj:
        bare = signed.node.bare
        return conj if bare is signed.node else bare.conj  # what is denied is so already
    return conj


def ordered(conj: Conj) -> list[SignedNode]:
    """Return the signed nodes in the order in which their nodes were met."""
    if len(conj) == 2:  # PERF: as most conjunctions of several
        one, other = conj
        first, second = one.node.serial, other.node.serial
        return [one, other] if first < second or first == second and other.positive else [other, one]
    return list(conj) if len(conj) == 1 else sorted(conj, key=lambda signed: (signed.node.serial, signed.positive))
