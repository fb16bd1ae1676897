"""Limits of compilation: what cannot be compiled, or looks like much work, is found before anything is generated.

Schemas that combine no others and use no keyword that can be out of reach are not walked at all.  The walk visits
each conjunction that a value can contain and that leads to such a keyword, and makes its normal form, no machines:
also of what several conditions on one item or key make together, as machines split a part into the values that meet a
condition and the others.  A schema of 500 KB takes 0.2 s.

Widening: the keyword that an `UnsupportedSchema` points at is removed from a copy of the document, until nothing is
left to report. Removing a keyword widens a schema only where a wider part makes a wider whole.  Below ``not``, ``if``,
``oneOf`` and ``contains`` it may do the contrary; there the outermost of these keywords goes (of ``oneOf``, only that
no second member may hold).  What was removed is listed, and left to a check after generation.

Heavy parts: values that look like much work to read, by their normal form (patterns that multiply, conditions, long
numbers), which `compile` therefore tries: all but the first `_MOST_HEAVY`.
Tested by tests/test_fuzz_schemas.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from constrained.errors import UnsupportedSchema
from constrained.machine import Widened
from constrained.regex import ANY_TEXT, intersect, is_empty
from constrained.regex.facts import LARGE_PATTERN, size
from constrained.schema.machines.distinct import Distinct
from constrained.schema.machines.object import beyond
from constrained.schema.machines.value import Values
from constrained.schema.number_sets import reach
from constrained.schema.reading.check import MANY_BITS
from constrained.schema.reading.document import NOTHING, Library, both, ordered, rank
from constrained.schema.reading.keywords import KEYWORDS, REFERRING, Applies, Holds, KeywordGroup, applying, named
from constrained.schema.values import (
    ArrayShape,
    Conj,
    HasNamed,
    HasOther,
    ItemAt,
    ItemFrom,
    ObjectShape,
    Value,
    negation,
)
from constrained.work import spend

_NOT_MONOTONE = named(lambda keyword: not keyword.monotone)
_IN_PLACE = applying(Applies.AS_PART, Applies.AS_BRANCH) + applying(Applies.AS_CONDITION, holds=Holds.SCHEMA)
_MOST_COMBINED = 5  # conditions on one part, of which all combinations are looked at
_CONDITIONAL = ("if", "then", "else")
_FORMAT_ALONE = frozenset({"type", "format"})
_MOST_HEAVY = 8
_FEW_OBJECTS, _FEW_CONDITIONS, _FEW_RANGES = 40, 4, 2  # shapes of a value, conditions on one of them, sets of numbers
_HOLDING = applying(*[way for way in Applies if way not in (Applies.NOTHING, Applies.BY_REFERENCE)])
_HOLDING += applying(Applies.BY_REFERENCE)  # behind what refers to them
_MAPS = frozenset(applying(*Applies, holds=Holds.MAP))
_UNEVALUATED = named(lambda keyword: keyword.group is KeywordGroup.UNEVALUATED)
# of which `_UNEVALUATED` ask what they describe
_SEEN = named(lambda keyword: keyword.describes or keyword.refers or keyword.rest) | {
    "contains", "patternProperties", "then", "else",
}  # fmt: skip
# what can be taken out alone: no keyword that says which items or keys others mean
_REMOVABLE = named(lambda keyword: keyword.applies is not Applies.INSIDE or keyword.rest) | {"patternProperties"}
_NOWHERE = LookupError, TypeError, ValueError  # what the pointer of another document raises
# to blame where only a schema is known to be, the first that it has
_SUSPECTS = ("uniqueItems", *[rule.name for rule in sorted(KEYWORDS, key=lambda rule: rule.monotone) if rule.risky])


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
    ids: set[int] = set()
    rising = [id(schema) for schema in schemas]
    while rising:
        at = rising.pop()
        if at and at not in ids:
            ids.add(at)
            rising.append(outer.get(at, 0))
            rising.extend(further.get(at, ()))
    spend(len(ids))
    return ids


def survey(conj: Conj, values: Values) -> tuple[Conj, ...]:
    """Normalise what a value of a conjunction can contain, as far as it leads to something risky; return what looks
    like much work to read, outermost first.

    Raises: UnsupportedSchema: some of it cannot be compiled.
    """
    library = next(iter(conj)).node.document.library if conj else None
    if library is None or not library.risky:
        return ()
    above = leading(library, library.risky)

    def leads(part: Conj) -> bool:
        return library.dynamic or any(not signed.node.schema or id(signed.node.schema) in above for signed in part)

    seen, queue, heavy = {conj}, [conj], list[Conj]()
    for current in queue:
        spend(4)
        value = values.value(current)
        for shape in value.arrays:
            if shape.unique is not None and shape.max not in (0, 1):
                try:
                    Distinct(values, shape)
                except UnsupportedSchema as error:
                    raise UnsupportedSchema(
                        error.what, where=_place(current), because=error.because, instead=error.instead
                    ) from None
        if len(heavy) < _MOST_HEAVY and _is_heavy(value) and (current is conj or not _is_format(current)):
            heavy.append(current)
        for child in children(value, leads, values):
            if child and child != NOTHING and child not in seen:
                seen.add(child)
                if leads(child):
                    queue.append(child)
    return tuple(heavy)


def _is_heavy(value: Value) -> bool:
    """Say whether a value looks like much work to read."""
    conditions = [len(shape.clauses) + len(shape.counts) for shape in value.arrays]
    conditions += [len(shape.clauses) for shape in value.objects]
    if len(value.arrays) + len(value.objects) > _FEW_OBJECTS or max(conditions, default=0) > _FEW_CONDITIONS:
        return True
    if value.numbers and (len(value.numbers) > _FEW_RANGES or reach(value.numbers) > MANY_BITS):
        return True
    languages = [value.strings, *[language for shape in value.objects for language, _ in shape.cells]]
    return any(size(language) >= LARGE_PATTERN for language in languages)


def _is_format(conj: Conj) -> bool:
    """Say whether nothing but a named format is asked for: what each of them costs is known."""
    if len(conj) > 1:
        return False
    (signed,) = conj
    schema, rules = signed.node.schema, signed.node.resource.dialect.rules
    return signed.positive and _FORMAT_ALONE.issuperset([keyword for keyword in schema if keyword in rules])


def _place(conj: Conj) -> str:
    """Return the pointer of the keyword uniqueItems that a conjunction got from some node."""
    nodes = [signed.node for signed in ordered(conj)]
    inside = (found for node in nodes for found in _inside(node.schema, node.pointer, _IN_PLACE))
    return next((f"{place}/uniqueItems" for place, schema in inside if "uniqueItems" in schema), nodes[0].pointer)


def _inside(schema: Any, pointer: str, keywords: Iterable[str] = _HOLDING) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a schema, or those in a list, and what some keywords hold there, outermost first, with their pointers."""
    if isinstance(schema, list):
        for index, part in enumerate(schema):
            yield from _inside(part, f"{pointer}/{index}", keywords)
    elif isinstance(schema, dict):
        spend(1)
        yield pointer, schema
        for keyword in keywords:
            below = schema.get(keyword)
            if keyword in _MAPS and isinstance(below, dict):
                for key, part in below.items():
                    step = key.replace("~", "~0").replace("/", "~1")
                    yield from _inside(part, f"{pointer}/{keyword}/{step}", keywords)
            else:
                yield from _inside(below, f"{pointer}/{keyword}", keywords)


def children(value: Value, leads: Callable[[Conj], bool], values: Values) -> Iterator[Conj]:
    """Yield what the parts of a value must be, with every combination of conditions on one part that a machine can come
    to.
    """
    for array in value.arrays:
        yield from array.prefix
        yield array.rest
        if array.counts or array.clauses:
            for base, claims in _item_claims(array):
                yield from _combined(base, claims, [count.item for count in array.counts], leads, values)
    for shape in value.objects:
        yield from (conj for _, conj in shape.named)
        yield from (conj for _, conj in shape.cells)
        if shape.clauses:
            for base, claims in _member_claims(shape):
                yield from _combined(base, claims, [], leads, values)


def _item_claims(array: ArrayShape) -> set[tuple[Conj, tuple[Conj, ...]]]:
    """Return each kind of position: what its item is, and what clauses can claim of it."""
    listed = {part: None for clause in array.clauses for part in clause if isinstance(part, (ItemAt, ItemFrom))}
    parts = sorted(listed, key=rank)
    claims_of_kinds = set()
    for index in range(max([len(array.prefix), *(part.index + 1 for part in parts)]) + 1):
        spend(1 + len(parts))
        claims = [part.item for part in parts
                  if part.index == index or part.index < index and isinstance(part, ItemFrom)]
        claims_of_kinds.add((array.at(index), tuple(claims)))
    return claims_of_kinds


def _member_claims(shape: ObjectShape) -> Iterator[tuple[Conj, tuple[Conj, ...]]]:
    """Yield what a key's value is, and what clauses can claim of it, for the keys that they speak of."""
    named: dict[str, dict[Conj, None]] = {}
    others: dict[HasOther, None] = {}
    for clause in shape.clauses:
        for part in sorted(clause, key=rank):
            spend(1)
            if isinstance(part, HasNamed):
                named.setdefault(part.key, {})[part.value] = None
            elif isinstance(part, HasOther):
                others[part] = None
    bases = dict(shape.named)
    yield from ((bases[key], tuple(claims)) for key, claims in named.items())
    for language, conj in shape.cells if others else ():
        claims = tuple(
            [part.value for part in others if part.keys is ANY_TEXT or not is_empty(intersect(language, part.keys))]
        )
        if claims:
            yield conj, claims


def _combined(
    base: Conj, claims: tuple[Conj, ...], counted: list[Conj], leads: Callable[[Conj], bool], values: Values
) -> Iterator[Conj]:
    """Yield what a part can have to be: each condition holds, or does not, or nothing is said of it; as machines split
    it, see `beyond`.

    Of more than `_MOST_COMBINED` conditions, each alone: what cannot be compiled is nearly always two keywords that
    meet.
    """
    counts = dict.fromkeys(counted)
    conditions = dict.fromkeys([*counts, *claims])
    if not any(leads(part) for part in (base, *conditions)):
        return
    combined, few = {base: None}, len(conditions) <= _MOST_COMBINED
    for condition in conditions:
        for conj in tuple(combined) if few else (base,):
            spend(2)
            outside = both(conj, negation(condition)) if condition in counts else beyond(values, conj, condition)
            for joined in (both(conj, condition), outside):
                if joined is not None and joined not in combined and joined != NOTHING and not values.never(joined):
                    combined[joined] = None
    yield from combined


def widen(schema: Any, check: Callable[[Any], object]) -> tuple[Any, tuple[Widened, ...]]:
    """Return a copy of a schema without what `check` reports as unsupported, and the list of what was removed.

    Raises: UnsupportedSchema: what it reports lies outside the document.
    """
    removed: list[Widened] = []
    moved: dict[str, str] = {}  # where a oneOf has gone -> where it was
    while True:
        try:
            check(schema)
            return schema, tuple(removed)
        except UnsupportedSchema as error:
            schema = _unshared(schema)
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
            removed.append(entry._replace(pointer=pointer))


def _unshared(value: Any) -> Any:
    """Return a copy in which nothing stands in two places."""
    spend(1)
    if isinstance(value, Mapping):
        return {key: _unshared(part) for key, part in value.items()}
    return [_unshared(part) for part in value] if isinstance(value, (list, tuple)) else value


def _at(schema: Any, pointer: str) -> Any:
    """Return what stands at a pointer.  Raises: one of `_NOWHERE`."""
    start, *steps = pointer.split("/")
    if start != "#":
        raise LookupError
    for step in steps:
        schema = schema[int(step)] if isinstance(schema, list) else schema[step.replace("~1", "/").replace("~0", "~")]
    return schema


def _remove(schema: Any, error: UnsupportedSchema) -> Widened | None:
    """Remove in place the keyword to blame, or one that must go before it; None if there is none, or each would narrow
    the whole.
    """
    place = error.where or "#"
    outside, _, last = place.rpartition("/")
    try:
        at = _at(schema, place)
        keyword = next((name for name in _SUSPECTS if name in at), "") if type(at) is dict and last not in _MAPS else ""
        if not keyword:
            at, place, keyword = _at(schema, outside), outside, last
    except _NOWHERE:
        return None
    if type(at) is not dict or keyword not in at or keyword not in _REMOVABLE:
        return None
    inside = _inside(schema, "#")
    narrowing = [(outer, inner, name) for outer, inner in inside for name in inner if name in _NOT_MONOTONE]
    leading = [found for found in narrowing if _leads(schema, f"{found[0]}/{found[2]}", place)]
    place, at, keyword = leading[0] if leading else (place, at, keyword)
    leading = [found for found in leading if _leads(schema, f"{found[0]}/{found[2]}", place)]
    place, at, keyword = leading[0] if leading else (place, at, keyword)
    if keyword in _SEEN:
        asking = (found for found in narrowing if found[2] in _UNEVALUATED)
        place, at, keyword = next(asking, (place, at, keyword))
        if any(_leads(schema, f"{outer}/{name}", place) for outer, _, name in narrowing):
            return None
    if keyword == "patternProperties" and "additionalProperties" in at:
        keyword = "additionalProperties"
    return _removed(at, keyword, place, error)


def _leads(schema: Any, start: str, place: str) -> bool:
    """Say whether a place is inside of what stands at another, or perhaps of what that refers to."""
    queue = [start]
    for at in queue:
        if f"{place}/".startswith(f"{at}/"):
            return True
        try:
            inside = _inside(_at(schema, at), at)
        except _NOWHERE:
            return True
        targets = [inner[name] for _, inner in inside for name in REFERRING if name in inner]
        queue += [target for target in targets if target not in queue]
    return False


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
