"""What of a schema cannot be compiled: found before anything is generated, and, on request, taken out of it.

Most schemas use no keyword that can be out of reach, and are not walked at all.  The walk visits each conjunction that a value can
contain and that leads to such a keyword, and makes its normal form, no machines.

Widening: the keyword that an `UnsupportedSchema` points at is removed from a copy of the document, until nothing is left to report.
Removing a keyword widens a schema only where a wider part makes a wider whole.  Below ``not``, ``if``, ``oneOf`` and ``contains`` it may
do the contrary; there the outermost of these keywords goes (of ``oneOf``, only that no second member may hold).  What was removed is
listed, and left to a check after generation.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from constrained.errors import UnsupportedSchema
from constrained.schema.documents import NOTHING, both, ordered
from constrained.schema.machine_distinct import Distinct
from constrained.schema.machine_value import Values
from constrained.schema.resources import Library
from constrained.schema.values import Conj, HasNamed, HasOther, ItemAt, ItemFrom, Value
from constrained.work import spend

_NEGATING = frozenset({"not", "oneOf", "if", "contains", "unevaluatedItems", "unevaluatedProperties", "dependentSchemas"})
_SCALAR_TYPES = frozenset({"string", "number", "integer", "boolean", "null"})
_NOT_MONOTONE = ("not", "if", "then", "else", "oneOf", "contains", "unevaluatedItems", "unevaluatedProperties")
_IN_PLACE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else")
_CONDITIONAL = ("if", "then", "else")
_SUSPECTS = ("uniqueItems", "oneOf", "unevaluatedItems", "unevaluatedProperties", "if", "not", "contains", "patternProperties",
             "dependentSchemas", "dependencies", "anyOf", "allOf", "maxProperties", "maxItems", "pattern", "format")


class Widened(NamedTuple):
    """A keyword that is not enforced."""

    pointer: str  # of the keyword
    keyword: str
    because: str


def needs_survey(conj: Conj) -> bool:
    """Say whether some keyword of a document may be out of reach: a guess from the keywords alone that errs on the side of "yes"."""
    return any(literal.node.document.library.risky or _is_doubtful(literal.node.document.library) for literal in conj)


def _is_doubtful(library: Library) -> bool:
    roots = [resource.root for resource in library.resources.values()]
    if any(schema.get("uniqueItems") is True and not _lists_scalars(schema, library) for schema in library.doubtful):
        return True
    todo: list[Any] = roots if library.doubtful else []
    while todo:
        part = todo.pop()
        if isinstance(part, dict):
            if not _NEGATING.isdisjoint(part):
                return True
            todo.extend(part.values())
        elif isinstance(part, list):
            todo.extend(part)
    return False


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


def _leading(library: Library) -> set[int]:
    """Return the ids of the schemas that contain a doubtful one, or refer to what contains one."""
    above: dict[int, list[int]] = {}
    seen: set[int] = set()
    todo: list[Any] = [resource.root for resource in library.resources.values()]
    while todo:
        part = todo.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        spend(1 + (len(part) >> 3))
        below = [value for value in (part.values() if isinstance(part, dict) else part) if isinstance(value, (dict, list))]
        for value in below:
            above.setdefault(id(value), []).append(id(part))
        todo.extend(below)
    for (referring, _), target in library.targets.items():
        above.setdefault(id(target.schema), []).append(referring)
    found: set[int] = set()
    rising = [id(schema) for schema in (*library.doubtful, *library.risky)]
    while rising:
        schema = rising.pop()
        if schema not in found:
            found.add(schema)
            rising.extend(above.get(schema, ()))
    return found


def survey(conj: Conj, values: Values) -> None:
    """Normalise what a value of a conjunction can contain, as far as it leads to something doubtful.

    Raises: UnsupportedSchema: some of it cannot be compiled.
    """
    library = next(iter(conj)).node.document.library
    leading = _leading(library)
    seen, queue = {conj}, [conj]
    for current in queue:
        spend(4)
        value = values.value(current)
        for shape in value.arrays:
            if shape.unique is not None and shape.max not in (0, 1):
                try:
                    Distinct(values, shape)
                except UnsupportedSchema as error:
                    raise UnsupportedSchema(error.what, where=_place(current), because=error.because, instead=error.instead) from None
        for child in _children(value):
            if child and child != NOTHING and child not in seen:
                seen.add(child)
                if library.dynamic or any(not literal.node.schema or id(literal.node.schema) in leading for literal in child):
                    queue.append(child)


def _place(conj: Conj) -> str:
    """Return the pointer of the keyword uniqueItems that a conjunction got from some node."""
    nodes = [literal.node for literal in ordered(conj)]
    found = (place for node in nodes for place in _unique_in_place(node.schema, node.pointer))
    return next(found, nodes[0].pointer)


def _unique_in_place(schema: Any, pointer: str) -> Iterator[str]:
    """Yield where a schema, or one that it applies to the same value, says uniqueItems."""
    if not isinstance(schema, dict):
        return
    if "uniqueItems" in schema:
        yield f"{pointer}/uniqueItems"
    for keyword in _IN_PLACE:
        below = schema.get(keyword)
        if isinstance(below, list):
            for index, part in enumerate(below):
                yield from _unique_in_place(part, f"{pointer}/{keyword}/{index}")
        else:
            yield from _unique_in_place(below, f"{pointer}/{keyword}")


def _children(value: Value) -> Iterator[Conj]:
    for array in value.arrays:
        yield from array.prefix
        yield array.rest
        for count in array.counts:
            yield both(array.rest, count.item)
        yield from (both(array.rest, part.item) for clause in array.clauses for part in clause if isinstance(part, (ItemAt, ItemFrom)))
    for shape in value.objects:
        named = dict(shape.named)
        yield from named.values()
        yield from (conj for _, conj in shape.cells)
        for clause in shape.clauses:
            for part in clause:
                if isinstance(part, HasNamed):
                    yield both(named[part.key], part.value)
                elif isinstance(part, HasOther):
                    yield from (both(conj, part.value) for _, conj in shape.cells)


def widen(schema: Any, check: Callable[[Any], object]) -> tuple[Any, tuple[Widened, ...]]:
    """Return a copy of a schema without what `check` reports as unsupported, and the list of what was removed.

    Raises: UnsupportedSchema: what it reports lies outside the document.
    """
    found: list[Widened] = []
    moved: dict[str, str] = {}  # where a oneOf has gone -> where it was
    while True:
        try:
            check(schema)
            return schema, tuple(found)
        except UnsupportedSchema as error:
            schema = copy.deepcopy(schema)
            entry = _remove(schema, error)
            if entry is None:
                raise
            pointer = entry.pointer
            if entry.keyword == "oneOf":
                home = pointer.removesuffix("/oneOf")
                moved[f"{home}/allOf/{len(_at(schema, home)['allOf']) - 1}/anyOf"] = pointer
            for new, old in reversed(moved.items()):
                if pointer.startswith(new):
                    pointer = old + pointer[len(new) :]
            found.append(entry._replace(pointer=pointer))


def _steps(pointer: str) -> list[str]:
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.removeprefix("#").split("/")[1:]]


def _at(schema: Any, pointer: str) -> Any:
    for step in _steps(pointer):
        schema = schema[int(step)] if isinstance(schema, list) else schema[step]
    return schema


def _remove(schema: Any, error: UnsupportedSchema) -> Widened | None:
    """Remove in place the keyword to blame; None if there is none."""
    path = _steps(error.where or "#")
    at, place, parent = schema, "#", None
    for depth, step in enumerate(path):
        if isinstance(at, dict) and step in _NOT_MONOTONE and (depth == 0 or path[depth - 1] not in ("properties", "$defs", "definitions")):
            return _removed(at, step, place, error)
        parent = at
        at = at[int(step)] if isinstance(at, list) else at.get(step) if isinstance(at, dict) else None
        place = f"{place}/{step}"
    if path and path[-1] in _SUSPECTS and isinstance(parent, dict) and path[-1] in parent:
        return _removed(parent, path[-1], place.rpartition("/")[0], error)
    if not isinstance(at, dict):
        return None
    keyword = next((name for name in _SUSPECTS if name in at and name in error.what), None)
    keyword = keyword or next((name for name in _SUSPECTS if name in at), None)
    return None if keyword is None else _removed(at, keyword, place, error)


def _removed(schema: dict[str, Any], keyword: str, place: str, error: UnsupportedSchema) -> Widened:
    if keyword in _CONDITIONAL:
        for name in _CONDITIONAL:
            schema.pop(name, None)
        keyword = "if"
    elif keyword == "oneOf":
        schema["allOf"] = [*schema.get("allOf", ()), {"anyOf": schema.pop("oneOf")}]
    else:
        del schema[keyword]
    return Widened(f"{place}/{keyword}", keyword, error.because or error.what)
