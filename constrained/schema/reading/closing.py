"""Keys that are required and not described: where objects are closed they are allowed all the same, with any value.

Whoever requires a key wants it to be there, so `keywords.objects.named` counts it among the keys that a schema names.
As it may be a slip of the pen, it is noted, unless another schema that applies to the same value describes the key:

    {"properties": {"a": …}, "required": ["a", "b"]}                                     b is noted
    {"properties": {"a": …, "b": …}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}     nothing is

Cost: 1 µs per subschema, where each describes what it requires.  Tested in tests/test_profiles.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from constrained.regex import matches
from constrained.schema.reading.keywords import OTHER_KEYS, Applies, Holds, applying, named
from constrained.schema.reading.notes import REQUIRED_ONLY, Note
from constrained.schema.reading.resources import Library, Resource, Where, pointer
from constrained.schema.strings.sets import of_pattern
from constrained.work import spend

_INSIDE = frozenset(applying(Applies.INSIDE))
_NAMED, _PATTERNS = frozenset({"properties"}), frozenset({"patternProperties"})
_IN_PLACE = frozenset(applying(Applies.AS_PART, Applies.AS_BRANCH, Applies.AS_CONDITION)) - {"not"}
_ALWAYS, _UNIONS = frozenset({"allOf"}), frozenset({"anyOf", "oneOf"})
_DESCRIBING = OTHER_KEYS | _UNIONS | _NAMED | _PATTERNS | {"if", "dependencies", "dependentSchemas", "const"}
_MAPS = named(lambda keyword: keyword.holds in (Holds.MAP, Holds.SCHEMA_OR_STRINGS_MAP))
_REFERRING = tuple(named(lambda keyword: keyword.refers))
_REQUIRING = ("dependentRequired", "dependencies")
_LOOKED_AT = named(lambda keyword: bool(keyword.holds)).union(_REQUIRING)
_NO_NAMES: dict[str, Any] = {}

_Placed: TypeAlias = tuple[dict[str, Any], Where]


def undescribed(library: Library, resource: Resource) -> tuple[Note, ...]:
    """Return notes of the keys that are required and that no schema describes which applies to the same value."""
    if not _ask_for_more(library):
        return ()
    requiring = ("required", *[word for word in _REQUIRING if word in resource.dialect.rules])
    found: dict[tuple[str, Where], None] = {}
    values: list[list[Any]] = [[(resource.root, resource.where)]]
    met = set[frozenset[int]]()
    for parts in values:
        group, words = _together(library, parts, resource), frozenset[str]()
        for schema, _ in group:
            words |= schema.keys()
        if OTHER_KEYS.isdisjoint(words):
            found.update(dict.fromkeys(_missing(group, requiring)))
        for inner in (*_members(library, group), *_alternatives(library, _together(library, parts, resource, _ALWAYS))):
            ids = frozenset([id(part) for part, _ in inner])
            if ids not in met:
                met.add(ids)
                values.append(inner)
    return tuple([Note(pointer(where), key, REQUIRED_ONLY) for key, where in found])


def _members(library: Library, group: list[_Placed]) -> Iterator[list[_Placed]]:
    """Yield the schemas of each key's value, and each that stands for other keys or for items."""
    named, patterns, others = dict[Any, list[_Placed]](), list[_Placed](), list[_Placed]()
    for schema, where in group:
        for part in _below(library, schema, where, _NAMED):
            named.setdefault(part[1][1], []).append(part)
        patterns += _below(library, schema, where, _PATTERNS)
        others += _below(library, schema, where, _INSIDE - _NAMED - _PATTERNS)
    languages = [of_pattern(str(where[1])) for _, where in patterns]
    spend(len(named) * len(patterns))
    for key, parts in named.items():
        yield parts + [part for part, language in zip(patterns, languages, strict=True) if matches(language, key)]
    yield from ([part] for part in patterns + others)


def _alternatives(library: Library, group: list[_Placed]) -> list[list[_Placed]]:
    """Return the members of a union, each by itself, where nothing else describes the object: so they are closed."""
    words = [(word, placed) for placed in group for word in _DESCRIBING.intersection(placed[0])]
    if len(words) != 1 or words[0][0] not in _UNIONS:
        return []
    word, (schema, where) = words[0]
    return [[part] for part in _below(library, schema, where, frozenset({word}))]


def _together(
    library: Library, values: list[_Placed], resource: Resource, words: frozenset[str] = _IN_PLACE
) -> list[_Placed]:
    """Return the schemas that apply to the same value as some of them, by these keywords and by references."""
    group = [value for value in values if type(value[0]) is dict]
    seen = {id(part) for part, _ in group}
    for schema, where in group:
        targets = [library.targets[id(schema), word] for word in _REFERRING if (id(schema), word) in library.targets]
        parts = [(target.schema, target.where) for target in targets if type(target.schema) is dict]
        if not (targets and resource.dialect.reference_stands_alone):
            parts += _below(library, schema, where, words)
        spend(1 + len(parts))
        group += [part for part in parts if id(part[0]) not in seen]
        seen.update(id(part) for part, _ in parts)
    return group


def _missing(group: list[_Placed], requiring: Iterable[str]) -> Iterator[tuple[str, Where]]:
    described: set[str] = set()
    for schema, _ in group:
        described.update(schema.get("properties", ()))
    patterns = [of_pattern(pattern) for schema, _ in group for pattern in schema.get("patternProperties", ())]
    if described or patterns:
        for schema, where in group:
            for word, key in _required(schema, requiring):
                if key not in described and not any(matches(pattern, key) for pattern in patterns):
                    yield key, (where, word)


def _required(schema: dict[str, Any], requiring: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the keys that a schema requires, each with its keyword."""
    for word in requiring:
        value = schema.get(word, ())
        for keys in (value,) if word == "required" else value.values() if value else ():
            for key in keys if type(keys) is not dict else ():
                yield word, key


def _ask_for_more(library: Library) -> bool:
    """Say whether some schema that has been checked requires keys that it does not describe itself."""
    stack: list[Any] = [known.root for known in library.resources.values()]
    met, checked = set[int](), library.outer
    while stack:
        schema = stack.pop()
        place = id(schema)
        if type(schema) is not dict or place in met or place not in checked:
            continue
        met.add(place)
        required = schema.get("required")
        if required and not schema.get("properties", _NO_NAMES).keys() >= set(required):
            return True
        for word in _LOOKED_AT.intersection(schema):
            value = schema[word]
            if word in _REQUIRING:
                return True
            if type(value) is list:
                stack += value
            elif word in _MAPS and type(value) is dict:
                stack += value.values()
            else:
                stack.append(value)
    return False


def _below(library: Library, schema: dict[str, Any], where: Where, words: frozenset[str]) -> list[_Placed]:
    """Return the subschemas in the values of some keywords that say more than yes or no."""
    found: list[_Placed] = []
    for word in words.intersection(schema):
        value, inside = schema[word], (where, word)
        if type(value) is dict and word not in _MAPS:
            found.append((value, inside))
            continue
        entries: Iterable[Any] = value.items() if type(value) is dict else ()
        if type(value) is list:
            entries = enumerate(value)
        found += [(part, (inside, step)) for step, part in entries if type(part) is dict]
    return [part for part in found if id(part[0]) in library.outer]
