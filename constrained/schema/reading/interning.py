"""Interned schemas: small ones that mean the same wherever they stand, one conjunction each for all documents.

Most values of most documents are one of a few kinds: a string, a boolean, a list of strings, a number with bounds.
`leaf` knows them by their content, annotations left out, and answers with the conjunction of the first one that was
met.  The machines of leaves are thus made once in a process (`machines.value.Values`), and an engine that has met a
state of one knows it again in the next document.

What names a place or may be refused is no leaf: references, identifiers, patterns, most combinations.  So a leaf is
never heard of in a message, and the conjunctions of a document, which messages and orders are taken from, stay its own.

Refused: to intern the nodes of documents themselves.  Their order and their pointers would depend on what was compiled
before. Tested in tests/test_schema_leaves.py.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from decimal import Decimal
from typing import Any, TypeAlias

from constrained.caches import charge, forgets
from constrained.schema.reading.document import Document, Library, Node, Resource
from constrained.schema.reading.keywords import (
    DRAFT_4,
    DRAFT_6,
    DRAFT_7,
    DRAFT_2019,
    DRAFT_2020,
    KEYWORDS,
    UNDECLARED,
    Applies,
    Dialect,
    Holds,
    Keyword,
    applying,
)
from constrained.schema.values import Conj

MOST_LEAVES = 4096  # of one dialect; at the bound they start afresh, and whoever holds old ones keeps them
_LARGEST = 64  # entries of a key
_LEAF = 4_000  # bytes of a leaf and what is computed about it, estimated
_LONGEST_LIST = 64  # members of an enum, and required properties

Key: TypeAlias = tuple[Hashable, ...]

_PLACED = frozenset({"$id", "id", "$schema", "nullable"})  # keywords of no rule that are not mere annotations
_ATOMS = frozenset({str, int, float, bool, type(None), Decimal})
_ONLY_STR = frozenset({str})
_SCALAR_TYPES = frozenset({"string", "number", "integer", "boolean", "null"})


class _Leaves:
    """The leaves of one dialect by their keys, in a document of their own, which bounds what has been computed about
    them.
    """

    __slots__ = ("_document", "_resource", "known")

    def __init__(self, dialect: Dialect, reading: tuple[str, bool]) -> None:
        self._document = Document(Library({}), *reading)
        self._resource = Resource("", True, "#", dialect)
        self.known: dict[Key, Conj] = {}

    def add(self, key: Key, schema: Any) -> Conj:
        """Return a new leaf; of two threads that meet one, one gets the other's."""
        bare = _WRITERS[id(self._resource.dialect)].bare(schema)
        charge(_LEAF)
        return self.known.setdefault(key, Node(self._document, bare, self._resource, (), "#").conj)


_commons: dict[tuple[int, tuple[str, bool]], _Leaves] = {}  # by id of the dialect, and `Document.reading`


forgets(_commons.clear)


def leaf(conj: Conj) -> Conj | None:
    """Return the conjunction that stands for all that are equal to this one, None if it is no leaf.  Idempotent.

    Cost: 1 µs, and 0.1 µs per keyword.
    """
    if len(conj) != 1:
        return None if conj else conj
    (signed,) = conj
    node = signed.node
    dialect, schema = node.resource.dialect, node.schema
    writer = _WRITERS.get(id(dialect))
    if not (signed.positive and schema) or writer is None:  # unions have no schema
        return None
    key = writer.key(schema)
    if key is None:
        return None
    leaves = _leaves_of(dialect, node.document.reading)
    return leaves.known.get(key) or leaves.add(key, schema)


def _leaves_of(dialect: Dialect, reading: tuple[str, bool]) -> _Leaves:
    """Return the leaves of a dialect in documents that are read in some way."""
    place = id(dialect), reading
    leaves = _commons.get(place)
    if leaves is None or len(leaves.known) >= MOST_LEAVES:
        leaves = _commons[place] = _Leaves(dialect, reading)
    return leaves


class KeyWriter:
    """Writes the schemas of one dialect."""

    def __init__(self, writers: Writers) -> None:
        self._writers = writers

    def key(self, schema: Any) -> Key | None:
        """Return what a schema says as a key; None: it is no leaf."""
        key: list[Hashable] = []
        return tuple(key) if _write(schema, self._writers, key) else None

    def bare(self, schema: Any) -> Any:
        """Return a leaf without its annotations, which may be long."""
        return _bare(schema, self._writers)


def _write(schema: Any, writers: Writers, key: list[Hashable]) -> bool:
    """Write what a schema says to the end of a key; return whether it is a leaf.

    Keywords and what they say alternate and end with None, so that a key can be read in one way only.
    """
    if type(schema) is not dict:
        key.append(schema)
        return True
    for keyword, value in schema.items():
        write = writers.get(keyword)
        if write is None:
            if keyword in writers:
                return False
        elif type(value) is str:  # PERF: as is, whatever the keyword; nearly always types
            key += keyword, value
        else:
            key.append(keyword)
            if len(key) > _LARGEST or not write(value, writers, key):  # so nesting is bounded as well
                return False
    key.append(None)
    return len(key) <= _LARGEST


def _write_as_is(value: Any, _: Writers, key: list[Hashable]) -> bool:
    """Write a value whose keyword tells its type."""
    key.append(value)
    return True


def _write_typed(value: Any, _: Writers, key: list[Hashable]) -> bool:
    """Write a value with its type: the float 1e23 means 10²³, but equals another integer."""
    key.append((type(value), value))
    return True


def _write_names(value: Any, _: Writers, key: list[Hashable]) -> bool:
    key.append(tuple(value))
    return len(value) <= _LONGEST_LIST


def _write_enum(value: Any, _: Writers, key: list[Hashable]) -> bool:
    kinds = list(map(type, value))
    if len(kinds) > _LONGEST_LIST or not _ATOMS.issuperset(kinds):
        return False
    key.append(tuple(value) if _ONLY_STR.issuperset(kinds) else tuple(zip(kinds, value, strict=True)))
    return True


def _write_const(value: Any, writers: Writers, key: list[Hashable]) -> bool:
    return type(value) in _ATOMS and _write_typed(value, writers, key)


def _write_schema(value: Any, writers: Writers, key: list[Hashable]) -> bool:
    return type(value) is not list and _write(value, writers, key)


def _write_properties(value: Any, writers: Writers, key: list[Hashable]) -> bool:
    key.append(len(value))
    if len(value) > _LARGEST >> 1:
        return False
    for name, schema in value.items():
        key.append(name)
        if not _write(schema, writers, key):
            return False
    return True


def _write_scalars(value: Any, writers: Writers, key: list[Hashable]) -> bool:
    """Write alternatives that are scalars; others may be out of reach."""
    key.append(len(value))
    return all(_is_scalar(schema) and _write(schema, writers, key) for schema in value)


def _is_scalar(schema: Any) -> bool:
    kind = schema.get("type") if type(schema) is dict else None
    return type(kind) is str and kind in _SCALAR_TYPES


def _bare(schema: Any, writers: Writers) -> Any:
    """As `KeyWriter.bare`."""
    if type(schema) is not dict:
        return schema
    found = {keyword: value for keyword, value in schema.items() if keyword in writers}
    for keyword in _HOLDING.intersection(found):
        value = found[keyword]
        if type(value) is list:
            found[keyword] = [_bare(part, writers) for part in value]
        elif keyword in _MAPS:
            found[keyword] = {name: _bare(part, writers) for name, part in value.items()}
        else:
            found[keyword] = _bare(value, writers)
    return found


# each takes a value, these and the key; None: of no leaf; annotations have no entry
Writers: TypeAlias = Mapping[str, Callable[..., bool] | None]
Writer: TypeAlias = Callable[[Any, Writers, list[Hashable]], bool]

_OF_SUBSCHEMAS: dict[Holds, Writer] = {
    Holds.SCHEMA: _write_schema,
    Holds.SCHEMA_OR_LIST: _write_schema,
    Holds.LIST: _write_scalars,
    Holds.MAP: _write_properties,
}
_OF_VALUES: dict[str, Writer] = {
    "type": _write_names,
    "required": _write_names,
    "enum": _write_enum,
    "const": _write_const,
}


def _writer(keyword: Keyword) -> Writer:
    """Return what writes the value of a keyword: 1 and 1.0 are told apart but where they count."""
    if keyword.holds:
        return _OF_SUBSCHEMAS[keyword.holds]
    plain = _write_typed if keyword.measures and not keyword.counts else _write_as_is
    return _OF_VALUES.get(keyword.name, plain)


def _writers(dialect: Dialect) -> Writers:
    """Return what writes the values of keywords, those of a dialect and others that are no annotations."""
    of_leaves = {keyword.name: _writer(keyword) for keyword in KEYWORDS if keyword.interned}
    return {**dict.fromkeys(_PLACED), **{keyword: of_leaves.get(keyword) for keyword in dialect.rules}}


_DIALECTS = (DRAFT_4, DRAFT_6, DRAFT_7, DRAFT_2019, DRAFT_2020, UNDECLARED)
_WRITERS: Mapping[int, KeyWriter] = {id(dialect): KeyWriter(_writers(dialect)) for dialect in _DIALECTS}
_HOLDING = frozenset(keyword.name for keyword in KEYWORDS if keyword.interned and keyword.holds)
_MAPS = frozenset(applying(Applies.INSIDE, holds=Holds.MAP))
