"""Schemas that apply themselves to the same value, or whose normal form may be out of bounds: found from the keywords.

A schema that applies itself to the same value, through references and the keywords that combine schemas, decides
nothing.  That is an error only where a value can get there, so it is not reported here but counted as risky, and
`schema.limits` normalises what leads to risky schemas.

Cost: a set operation per schema, and a walk of 1 µs per schema that a reference leads to in place.
Tested by tests/test_schema_documents.py and the bomb table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from constrained.schema.reading.keywords import Applies, Holds, applying, named
from constrained.schema.reading.resources import Library
from constrained.work import spend

# Keywords whose normal form can be out of bounds, so that it is made before anything is generated.
RISKY = named(lambda keyword: keyword.risky)
NEGATING = named(lambda keyword: keyword.negating)
REFERRING = tuple(sorted(named(lambda keyword: keyword.refers), key=len))
_IN_PLACE = applying(Applies.AS_CONDITION, holds=Holds.SCHEMA)
_IN_PLACE_LISTS = applying(Applies.AS_PART, Applies.AS_BRANCH)
_IN_PLACE_MAPS = applying(Applies.AS_CONDITION, holds=Holds.MAP)
_COMBINING = frozenset(_IN_PLACE + _IN_PLACE_LISTS + _IN_PLACE_MAPS)
_LEADING_ON = _COMBINING.union(REFERRING)


def find_cycles(library: Library, referring: list[dict[str, Any]]) -> None:
    """Count the schemas that apply themselves to the same value as risky: an error only where a value can get to
    one.
    """
    if _lead_nowhere(library, referring):
        return
    done: set[int] = set()
    on_way: set[int] = set()
    ends = {
        id(target.schema)
        for target in library.targets.values()
        if type(target.schema) is not dict or _LEADING_ON.isdisjoint(target.schema)
    }
    for start in referring:
        if _COMBINING.isdisjoint(start) and all(id(target) in ends for target in _targets(library, start)):
            continue
        stack: list[tuple[dict[str, Any], Iterator[Any]]] = (
            [(start, iter(_in_place(library, start)))] if id(start) not in done else []
        )
        while stack:
            schema, below = stack[-1]
            on_way.add(id(schema))
            following = next((part for part in below if type(part) is dict and id(part) not in done), None)
            if following is None:
                on_way.discard(id(schema))
                done.add(id(schema))
                stack.pop()
            elif id(following) in on_way:
                library.risky.append(following)
            else:
                spend(1)
                stack.append((following, iter(_in_place(library, following))))


def _lead_nowhere(library: Library, referring: list[dict[str, Any]]) -> bool:
    """Return whether nothing that is referred to applies others to the same value, and nothing that refers combines
    any.  PERF: mostly so, and it is a third of the time.
    """
    for target in library.targets.values():
        if type(target.schema) is dict and not _LEADING_ON.isdisjoint(target.schema):
            return False
    for schema in referring:  # noqa: SIM110 - `all` would be a call of Python
        if not _COMBINING.isdisjoint(schema):
            return False
    return True


def _targets(library: Library, schema: dict[str, Any]) -> list[Any]:
    """Return the schemas that a schema refers to."""
    return [
        library.targets[id(schema), keyword].schema
        for keyword in REFERRING
        if keyword in schema and (id(schema), keyword) in library.targets
    ]


def _in_place(library: Library, schema: dict[str, Any]) -> list[Any]:
    """Return the schemas that a schema applies to the same value."""
    found = _targets(library, schema)
    if not _COMBINING.isdisjoint(schema):
        found += [schema[keyword] for keyword in _IN_PLACE if keyword in schema]
        found += [part for keyword in _IN_PLACE_LISTS if type(schema.get(keyword)) is list for part in schema[keyword]]
        found += [
            part for keyword in _IN_PLACE_MAPS if type(schema.get(keyword)) is dict for part in schema[keyword].values()
        ]
    return found
