"""Which parts of a document must be walked when it is compiled, because something there may be out of reach.

Two keywords can be: ``uniqueItems`` where items that are not scalars are compared, or where its complement is asked
for, and a format that is known only from outside where its complement is.  `schema.limits` walks what leads to them;
most documents have none, or only where neither is the case, and are not walked at all.

Tested by tests/test_size_estimates.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from constrained.schema.reading.cycles import RISKY
from constrained.schema.reading.keywords import Applies, Holds, applying
from constrained.schema.reading.resources import Library
from constrained.schema.values import Conj
from constrained.work import spend

_SCALAR_TYPES = frozenset({"string", "number", "integer", "boolean", "null"})
_IN_MAPS = frozenset(applying(Applies.AS_CONDITION, holds=Holds.MAP))
_OF_THE_REST = RISKY.intersection(applying(Applies.INSIDE))  # what no other keyword, in no branch, has evaluated


def needs_survey(conj: Conj) -> bool:
    """Say whether some keyword of a document may be out of reach: a guess from the keywords alone that errs on the side
    of "yes".
    """
    for signed in conj:
        library = signed.node.document.library
        if library.risky or library.doubtful and doubtful(library):
            return True
    return False


def doubtful(library: Library) -> list[dict[str, Any]]:
    """Return the schemas that may be out of reach in their place: all in which compared items are not scalars, others
    where a complement may be asked of them.
    """
    if library.dynamic and library.negating:  # what a schema refers to is not known
        return library.doubtful
    combined: set[int] = _inside(library, _combined_parts(library)) if library.negating else set()
    return [
        schema
        for schema in library.doubtful
        if id(schema) in combined or schema.get("uniqueItems") is True and not _lists_scalars(schema, library)
    ]


def _lists_scalars(schema: dict[str, Any], library: Library) -> bool:
    """Say whether the keywords of an array schema themselves show that its items are scalars."""
    items: Any = schema.get("items")
    if "prefixItems" in schema:
        return False
    target = library.targets.get((id(items), "$ref"))
    if target is not None:
        items = target.schema
    if not isinstance(items, dict):
        return False
    if "enum" in items and isinstance(items["enum"], list):
        return not any(isinstance(value, (list, dict)) for value in items["enum"])
    types = items.get("type")
    return bool(types) and _SCALAR_TYPES.issuperset(types if isinstance(types, list) else [types])


def _combined_parts(library: Library) -> Iterator[Any]:
    """Yield the schemas of which a complement may be asked: what others put together for one value, and all of a schema
    that asks which branches hold.
    """
    for schema in library.combining:
        for keyword in RISKY.intersection(schema):
            value = schema[keyword]
            if keyword in _OF_THE_REST:
                yield schema
            elif type(value) is list:
                yield from value
            else:
                yield from value.values() if keyword in _IN_MAPS and type(value) is dict else (value,)


def _inside(library: Library, schemas: Iterable[Any]) -> set[int]:
    """Return the ids of the schemas that some schemas contain or refer to, their own included.

    Cost: 0.2 µs for each schema of the document.
    """
    inner: dict[int, list[int]] = {}
    for schema, holder in (*library.outer.items(), *library.further_outer):
        inner.setdefault(holder, []).append(schema)
    for (referring, _), target in library.targets.items():
        inner.setdefault(referring, []).append(id(target.schema))
    spend(1 + (len(library.outer) >> 2) + (len(library.targets) >> 2))
    found: set[int] = set()
    todo = [id(schema) for schema in schemas]
    while todo:
        at = todo.pop()
        if at not in found:
            found.add(at)
            todo.extend(inner.get(at, ()))
    return found


def leading(library: Library, schemas: Iterable[Any]) -> set[int]:
    """Return the ids of the schemas that contain one of some schemas, or refer to what contains one.

    Cost: 0.1 µs for each schema of the document, and 1 µs for each that is found.
    """
    outer = library.outer
    further: dict[int, list[int]] = {}
    for schema, holder in library.further_outer:
        further.setdefault(schema, []).append(holder)
    for (referring, _), target in library.targets.items():
        further.setdefault(id(target.schema), []).append(referring)
    spend(1 + (len(outer) >> 3) + (len(library.targets) >> 2))
    found: set[int] = set()
    rising = [id(schema) for schema in schemas]
    while rising:
        at = rising.pop()
        if at and at not in found:
            found.add(at)
            rising.append(outer.get(at, 0))
            rising.extend(further.get(at, ()))
    spend(len(found))
    return found
