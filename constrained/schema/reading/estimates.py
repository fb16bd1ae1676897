"""Cost estimates from keywords alone: schemas that apply themselves in place, and normal forms that may be large.

A schema that applies itself to the same value, through references and the keywords that combine schemas, decides
nothing.  That is an error only where a value can get there, so it is not reported here but counted as risky, and
`schema.limits` normalises what leads to risky schemas.

A schema that combines a few others is normalised when a value gets there.  One whose alternatives multiply may be
out of bounds, which its caller wants to know before anything is generated, so `schema.limits` normalises what leads
to it. The estimate counts what is combined for the same value, references followed: a product for ``allOf``, a sum
for ``anyOf``, and for ``oneOf`` that each member denies all others, which costs nothing where types or constants
tell them apart.  It says nothing about what schemas of properties and items become together.

>>> two, hundred = [{"required": ["a"]}, {"required": ["b"]}], [{"required": [f"{n}"]} for n in range(100)]
>>> len(with_many(Library({}), [{"oneOf": two}, {"allOf": [{"anyOf": hundred}, {"anyOf": hundred}]}]))
1

Cost: 5 µs per schema that is combined.  Tested by tests/test_schema_documents.py, tests/test_size_estimates.py and the
rows of the bomb table that are refused before generation.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from constrained.errors import GrammarError
from constrained.regex import Expr, matches
from constrained.regex.facts import LARGE_PATTERN, part_soon, size
from constrained.schema.reading.document import Library
from constrained.schema.reading.keywords import REFERRING, Applies, Holds, applying, named
from constrained.schema.strings.sets import of_pattern
from constrained.work import spend

# Keywords whose normal form can be out of bounds, so that it is made before anything is generated.
RISKY = named(lambda keyword: keyword.risky)
NEGATING = named(lambda keyword: keyword.negating)
_APPLIED = applying(Applies.AS_CONDITION, holds=Holds.SCHEMA)
_APPLIED_LISTS = applying(Applies.AS_PART, Applies.AS_BRANCH)
_APPLIED_MAPS = applying(Applies.AS_CONDITION, holds=Holds.MAP)
_APPLYING = frozenset(_APPLIED + _APPLIED_LISTS + _APPLIED_MAPS)
_LEADING_ON = _APPLYING.union(REFERRING)


def find_cycles(library: Library, referring: list[dict[str, Any]]) -> None:
    """Count the schemas that apply themselves to the same value as risky: an error only where a value can get to
    one.
    """
    done: set[int] = set()
    on_way: set[int] = set()
    ends = {
        id(target.schema)
        for target in library.targets.values()
        if type(target.schema) is not dict or _LEADING_ON.isdisjoint(target.schema)
    }
    for start in referring:
        if _APPLYING.isdisjoint(start) and all(id(target) in ends for target in library.referents(start)):
            continue
        stack: list[tuple[dict[str, Any], Iterator[Any]]] = (
            [(start, iter(_applied(library, start)))] if id(start) not in done else []
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
                stack.append((following, iter(_applied(library, following))))


def _applied(library: Library, schema: dict[str, Any]) -> list[Any]:
    """Return the schemas that a schema applies to the same value."""
    found = library.referents(schema)
    if not _APPLYING.isdisjoint(schema):
        found += [schema[keyword] for keyword in _APPLIED if keyword in schema]
        found += [part for keyword in _APPLIED_LISTS if type(schema.get(keyword)) is list for part in schema[keyword]]
        found += [
            part for keyword in _APPLIED_MAPS if type(schema.get(keyword)) is dict for part in schema[keyword].values()
        ]
    return found


MANY = 2_000  # alternatives from which on a normal form is made beforehand
LARGE_TEXT = 100_000  # states of patterns that are combined, from which on some masks are made beforehand
_FORMAT, _STEP = 10, 3  # states that a format and a `multipleOf` count for
MANY_TEXTS = 8  # patterns of an anyOf, from which on they multiply
_MOST_PARTED = 16  # patterns, each with each, that are looked at for whether they part soon
_MOST_COMPARED = 64  # members of a oneOf, each with each
_MEMBERS = 400  # schemas that are combined for the same value
_DEEPEST = 40  # schemas inside schemas that are combined for the same value
_LARGEST_COUNT = 16  # of `minContains` and `maxContains`; greater ones cost states for each item
_MOST_DENIED = 3  # keywords of a member of `oneOf` that are counted when it is denied
_IN_PLACE = frozenset({*applying(Applies.AS_PART, Applies.AS_BRANCH), "not", "if", *REFERRING})
_PATTERN_ALONE = frozenset({"type", "pattern"})
_TEXTUAL = _IN_PLACE | {"then", "else", "pattern", "format", "multipleOf"}
_COMBINING = _IN_PLACE | RISKY
_ONE_SET = frozenset({"string", "boolean", "null"})  # types whose values are one alternative, whatever is combined
_ASSERTING = frozenset({*applying(Applies.INSIDE), "propertyNames", "minProperties", "maxProperties"})
_EVALUATING = named(lambda keyword: keyword.describes) | {*REFERRING, "contains"}


def with_large_texts(library: Library, schemas: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the schemas that combine patterns whose machine may be large: the product of what is read side by side."""
    count = _AlternativeCount(library)
    return [schema for schema in schemas if count.texts(schema, 0) >= LARGE_TEXT]


def is_large(pattern: Expr) -> bool:
    """Say whether the machine of a single pattern may be large."""
    return size(pattern) >= LARGE_PATTERN


def with_many(library: Library, schemas: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the schemas whose normal form, or that of what denies them, may have many alternatives."""
    count = _AlternativeCount(library)
    return [schema for schema in schemas if count.start(schema) >= MANY]


def _size(pattern: str) -> int:
    """Return about how many states the machine of a pattern has; 1: it cannot be read, and stands below a keyword that
    its dialect does not know, as the others are checked.
    """
    try:
        return size(of_pattern(pattern))
    except GrammarError:
        return 1


class _AlternativeCount:
    """The alternatives of schemas that are combined for the same value."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._left = 0  # schemas that may still be looked at for this one
        self._known: dict[tuple[int, bool], int] = {}
        self._text_sizes: dict[int, int] = {}

    def start(self, schema: dict[str, Any]) -> int:
        """Return how many alternatives a schema has."""
        self._left = _MEMBERS
        return self.of(schema, True, 0)

    def of(self, schema: Any, positive: bool, depth: int) -> int:
        """Return how many alternatives a schema has, or its complement; at most `MANY`."""
        if type(schema) is not dict or positive and _COMBINING.isdisjoint(schema):
            return 1
        known = self._known.get((id(schema), positive))
        if known is not None:
            return known
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            return MANY
        spend(5)
        found = self._asserted(schema, depth + 1) if positive else self._denied(schema, depth + 1)
        self._known[id(schema), positive] = min(found, MANY)
        return min(found, MANY)

    def texts(self, schema: Any, depth: int) -> int:
        """Return about how many states the texts and numbers of a schema may have; at most `LARGE_TEXT`."""
        if type(schema) is not dict or depth > _DEEPEST or _TEXTUAL.isdisjoint(schema):
            return 1
        known = self._text_sizes.get(id(schema))
        if known is not None:
            return known
        spend(5)
        self._text_sizes[id(schema)] = 1  # where it refers to itself
        pattern = schema.get("pattern")
        found = _size(pattern) if type(pattern) is str else 1
        found *= (_FORMAT if "format" in schema else 1) * (_STEP if "multipleOf" in schema else 1)
        single = [schema[keyword] for keyword in ("not", "if", "then", "else") if keyword in schema]
        for part in (*_listed(schema, "allOf"), *single, *self._library.referents(schema)):
            found = min(found * self.texts(part, depth + 1), LARGE_TEXT)
        found = min(found * self._side_by_side(_listed(schema, "oneOf"), depth), LARGE_TEXT)
        if "anyOf" in schema:
            branches = _listed(schema, "anyOf")
            members = [self.texts(part, depth + 1) for part in branches]
            multiply = sum([member > 1 for member in members]) >= MANY_TEXTS
            ways = self._side_by_side(branches, depth) if multiply else max(sum(members), 1)
            found = min(found * ways, LARGE_TEXT)
        self._text_sizes[id(schema)] = min(found, LARGE_TEXT)
        return min(found, LARGE_TEXT)

    def _side_by_side(self, members: list[Any], depth: int) -> int:
        """Return about how many states members have that are read side by side: the product, but those of patterns
        that soon part from all others are added.
        """
        sizes = [self.texts(part, depth + 1) for part in members]
        ways = prod(sizes)
        if ways < LARGE_TEXT or len(members) > _MOST_PARTED:
            return min(ways, LARGE_TEXT)
        patterns = [_only_pattern(part) for part in members]
        added, multiplied = 0, 1
        for index, (pattern, ways) in enumerate(zip(patterns, sizes, strict=True)):
            others = (*patterns[:index], *patterns[index + 1 :])
            if pattern is not None and all(other is not None and part_soon(pattern, other) for other in others):
                added += ways
            else:
                multiplied *= ways
        return min(added + multiplied, LARGE_TEXT)

    def _asserted(self, schema: dict[str, Any], depth: int) -> int:
        ways = 1
        for part in (*_listed(schema, "allOf"), *self._library.referents(schema)):
            ways *= self.of(part, True, depth)
        branches = _listed(schema, "anyOf")
        if branches:
            ways *= sum([self.of(part, True, depth) for part in branches])
        if "oneOf" in schema:
            ways *= self._one_of(schema, _listed(schema, "oneOf"), depth)
        if "not" in schema:
            ways *= self.of(schema["not"], False, depth)
        if "if" in schema:
            condition = schema["if"]
            then, otherwise = self.of(schema.get("then"), True, depth), self.of(schema.get("else"), True, depth)
            ways *= self.of(condition, True, depth) * then + self.of(condition, False, depth) * otherwise
        for keyword in ("dependentSchemas", "dependencies"):
            for part in _mapped(schema, keyword):
                ways *= 1 + self.of(part, True, depth) if type(part) is dict else 1
        if "contains" in schema:
            counted = max(_count(schema, "minContains"), _count(schema, "maxContains"))
            ways *= MANY if counted > _LARGEST_COUNT else 2 + int(counted) // 3
        if ("unevaluatedProperties" in schema or "unevaluatedItems" in schema) and not _is_simple(schema):
            ways *= ways
        return ways

    def _one_of(self, schema: dict[str, Any], members: list[Any], depth: int) -> int:
        ways = [self.of(part, True, depth) for part in members]
        if len(members) < 2 or schema.get("type") == "string":
            return sum(ways)
        if len(members) > _MOST_COMPARED:  # what follows is quadratic
            return sum(ways) if self._are_apart(members) else MANY
        types = [self._types(part) for part in members]
        met = self._met(members, types)
        if not any(met):
            return sum(ways)
        denied = [self.of(part, False, depth) if others else 1 for part, others in zip(members, met, strict=True)]
        total = 3 * sum(map(len, met))
        for count, others, kinds in zip(ways, met, types, strict=True):
            for other in () if kinds and kinds <= _ONE_SET else others:
                count = min(count * denied[other], MANY)
            total += count
        return min(total, MANY)

    def _denied(self, schema: dict[str, Any], depth: int) -> int:
        ways = min(len(_listed(schema, "required")) + len(_ASSERTING.intersection(schema)), _MOST_DENIED)
        ways += 1 if "type" in schema or "enum" in schema or "const" in schema else 0
        ways += (2 if "multipleOf" in schema else 0) + (
            MANY if "contains" in schema and ("minContains" in schema or "maxContains" in schema) else 0
        )
        for part in (*_listed(schema, "allOf"), *self._library.referents(schema)):
            ways += self.of(part, False, depth)
        branches = 1
        for part in _listed(schema, "anyOf"):
            branches = min(branches * self.of(part, False, depth), MANY)
        members = _listed(schema, "oneOf")
        for part in members:
            branches = min(branches * self.of(part, False, depth), MANY)
        ways += branches + len(members) ** 2 + (self.of(schema["not"], True, depth) if "not" in schema else 0)
        if "if" in schema:
            ways += self.of(schema["if"], True, depth) * self.of(schema.get("then"), False, depth)
            ways += self.of(schema["if"], False, depth) * self.of(schema.get("else"), False, depth)
        return max(ways, 1)

    def _are_apart(self, members: list[Any]) -> bool:
        """Say whether types, or constants of one key, tell all members of a oneOf apart."""
        types = [self._types(part) for part in members]
        if all(types) and len(set().union(*types)) == sum(map(len, types)):
            return True
        tags = [self._tags(part, 0) for part in members]
        return any(
            all(key in found for found in tags)
            and len(set().union(*[found[key] for found in tags])) == sum([len(found[key]) for found in tags])
            for key in tags[0]
        )

    def _met(self, members: list[Any], types: list[set[str]]) -> list[list[int]]:
        """Return, for each member of a oneOf, the others that neither types nor constants of a key tell from it, nor a
        pattern that the constants lack.
        """
        tags = [self._tags(part, 0) for part in members]
        patterns = [_patterns(part) for part in members]
        found: list[list[int]] = [[] for _ in members]
        spend(len(members) ** 2 >> 2)
        for index, (kinds, own) in enumerate(zip(types, tags, strict=True)):
            for other in range(index):
                apart = kinds and types[other] and kinds.isdisjoint(types[other])
                apart = apart or not all(own[key] & tags[other][key] for key in own.keys() & tags[other].keys())
                apart = apart or _is_outside(own, patterns[other]) or _is_outside(tags[other], patterns[index])
                if not apart:
                    found[index].append(other)
                    found[other].append(index)
        return found

    def _types(self, schema: Any) -> set[str]:
        """Return the types that a schema names, number standing for integer too; none if it names none."""
        while type(schema) is dict and "type" not in schema and len(targets := self._library.referents(schema)) == 1:
            self._left -= 1
            if self._left < 0:
                return set()
            schema = targets[0]
        named = schema.get("type") if type(schema) is dict else None
        names = [named] if type(named) is str else named if type(named) is list else []
        # what stands in an unknown keyword is not checked
        return {"number" if name == "integer" else name for name in names if type(name) is str}

    def _tags(self, schema: Any, depth: int) -> dict[str, set[str]]:
        """Return the keys for which a schema allows a few constants only, and which these are; "" stands for the value
        itself.
        """
        found: dict[str, set[str]] = {}
        if type(schema) is not dict or depth > _DEEPEST or self._left < 0:
            return found
        self._left -= 1
        for part in (*_listed(schema, "allOf"), *self._library.referents(schema)):
            found.update(self._tags(part, depth + 1))
        below = schema.get("properties")
        for key, value in (("", schema), *(below.items() if type(below) is dict else ())):
            if type(value) is dict and (
                "const" in value or type(value.get("enum")) is list and len(value["enum"]) < _MEMBERS
            ):
                values = [value["const"]] if "const" in value else value["enum"]
                if all(type(entry) is str for entry in values):
                    found[key] = set(values)
        return found


def _patterns(schema: Any) -> dict[str, str]:
    """Return the keys whose values a schema itself says to match a pattern, and which."""
    found = _object(schema, "properties").items() if type(schema) is dict else ()
    return {key: value["pattern"] for key, value in found if type(value) is dict and type(value.get("pattern")) is str}


def _is_outside(tags: dict[str, set[str]], patterns: dict[str, str]) -> bool:
    """Say whether no constant of some key has the pattern that another schema asks of it."""
    return any(key in tags and not any(_fits(patterns[key], text) for text in tags[key]) for key in patterns)


def _fits(pattern: str, text: str) -> bool:
    try:
        return matches(of_pattern(pattern), text)
    except GrammarError:  # as in `_size`
        return True


def _listed(schema: dict[str, Any], keyword: str) -> list[Any]:
    value = schema.get(keyword)
    return value if type(value) is list else []


def _mapped(schema: dict[str, Any], keyword: str) -> list[Any]:
    return list(_object(schema, keyword).values())


def _only_pattern(schema: Any) -> Expr | None:
    """Return the pattern of a schema that asks for nothing else but a type; None: there is no such pattern."""
    if type(schema) is not dict or type(schema.get("pattern")) is not str or not _PATTERN_ALONE.issuperset(schema):
        return None
    try:
        return of_pattern(schema["pattern"])
    except GrammarError:  # as in `_size`
        return None


def _object(schema: dict[str, Any], keyword: str) -> dict[str, Any]:
    value = schema.get(keyword)
    return value if type(value) is dict else {}


def _count(schema: dict[str, Any], keyword: str) -> float:
    value: Any = schema.get(keyword, 0)
    return value if type(value) in (int, float) else 0


def _is_simple(schema: dict[str, Any]) -> bool:
    """Say whether nothing is combined with a schema."""
    return _EVALUATING.isdisjoint(schema)
