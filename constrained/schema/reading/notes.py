"""Notes on a schema: keywords that look misspelt, formats that nobody knows, `nullable`, keys that are only required.

JSON Schema ignores what it does not know, so ``"propertis"`` constrains nothing and nobody hears of it.  What is
certainly meant as an annotation (titles, examples, ``x-…``, keywords of OpenAPI) is not reported, nor is any word that
is unlike all keywords.

Keys that are required and not described are allowed with any value, also where objects are closed: whoever requires a
key wants it to be there, so `objects.named` counts it among the keys that a schema names.  As it may be a slip of the
pen, it is noted, unless another schema that applies to the same value describes the key:

    {"properties": {"a": …}, "required": ["a", "b"]}                                     b is noted
    {"properties": {"a": …, "b": …}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}     nothing is

Cost: 1 µs per subschema, where each describes what it requires.  Tested in tests/test_notes.py and test_profiles.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from constrained.errors import SchemaError
from constrained.regex import matches
from constrained.schema.reading.document import Library, Resource, Where, pointer
from constrained.schema.reading.keywords import (
    DRAFT_4,
    DRAFT_6,
    DRAFT_7,
    DRAFT_2019,
    DRAFT_2020,
    OTHER_KEYS,
    REFERRING,
    Applies,
    Dialect,
    Holds,
    applying,
    named,
)
from constrained.schema.strings.formats import OPENAPI
from constrained.schema.strings.sets import of_pattern
from constrained.work import spend

ANNOTATIONS = frozenset(
    """title description default examples example deprecated readOnly writeOnly $comment $schema $id id $vocabulary
    $defs definitions discriminator xml externalDocs const if then
    else""".split()
)
_DRAFTS = (DRAFT_2020, DRAFT_2019, DRAFT_7, DRAFT_6, DRAFT_4)
OF_OPENAPI = "one of OpenAPI's, and means what it means there, but that any text is a byte under profile='exact'"
REQUIRED_ONLY = "required and not described, so it is allowed with any value"
_OF_DRAFT_3 = frozenset({"divisibleBy", "disallow", "extends"})
_CONTENTS = frozenset({"contentEncoding", "contentMediaType", "contentSchema"})
_LIKE = 0.8  # how alike two words are
_MOST_SAID = 10_000
_MOST_KNOWN, _LONGEST_KNOWN = 4096, 100  # words of a dialect, and characters of one; at the bound they start afresh
_said: set[tuple[str, str]] = set()


class Note(NamedTuple):
    """Where, which word, and what about it."""

    pointer: str
    word: str
    because: str


Unknown = tuple[str, Where, Dialect]  # a keyword without meaning in its dialect; "format:…" for a format


def notes_of(unknown: Sequence[Unknown]) -> tuple[Note, ...]:
    """Return what there is to say about words that have no meaning in their dialect."""
    notes: list[Note] = []
    spend(2 * len(unknown))
    for word, where, dialect in unknown:
        if word.removeprefix("format:") in OPENAPI and word.startswith("format:"):
            if not any(note.because is OF_OPENAPI for note in notes):
                notes.append(Note(pointer((where, "format")), "format", OF_OPENAPI))
            continue
        known: dict[str, str | None] = dialect.tables.setdefault("notes", {})
        because = known.get(word, "")
        if because == "":
            because = _about(word, dialect)
            if len(known) >= _MOST_KNOWN:
                known.clear()
            if len(word) <= _LONGEST_KNOWN:
                known[word] = because
        if because is not None:
            kind, _, name = word.rpartition(":")
            notes.append(Note(pointer((where, kind or word)), name if kind else word, because))
    return tuple(notes)


def _about(word: str, dialect: Dialect) -> str | None:
    if word.startswith("format:"):
        return "no known format, so any text fits"
    if word in _CONTENTS:
        return "an annotation of what a text holds, so any text fits"
    if word == "nullable":
        return (
            "a keyword of OpenAPI 3.0; null is allowed where type is stated"
            if dialect.nullable
            else f"nothing in {dialect.name}"
        )
    if word in dialect.rules or word.lower().startswith("x-"):
        return None
    others = ["draft3"] if word in _OF_DRAFT_3 else [draft.name for draft in _DRAFTS if word in draft.rules]
    if others:
        return f"a keyword of {others[0]}, nothing in {dialect.name}"
    near = _nearest(word)
    return f"no keyword; {near!r} is one" if near else None


@lru_cache(maxsize=1)
def _keywords() -> dict[str, str]:
    """Return the keywords of all drafts by their spelling in small letters."""
    return {keyword.lower(): keyword for draft in reversed(_DRAFTS) for keyword in draft.rules}


def _nearest(word: str) -> str | None:
    """Return the keyword that a word is like."""
    from difflib import get_close_matches

    near = get_close_matches(word.lower(), _keywords(), n=1, cutoff=_LIKE)
    return _keywords()[near[0]] if near else None


def report(notes: Iterable[Note], *, strict: bool = False) -> None:
    """Warn of notes, of each word once.

    Raises: SchemaError: strict, and there are some.
    """
    for note in notes:
        if strict:
            wrong = "is not described" if note.because is REQUIRED_ONLY else "has no meaning"
            raise SchemaError(
                f"{note.word!r} {'is not JSON Schema' if 'OpenAPI' in note.because else wrong}",
                where=note.pointer,
                because=f"it is {note.because}",
                instead="correct it, or strict=False",
            )
        key = note.word, note.because
        if key not in _said and len(_said) < _MOST_SAID:
            _said.add(key)
            warnings.warn(f"{note.word!r} at {note.pointer} is {note.because}", stacklevel=2)


def forget() -> None:
    """Warn of everything once more."""
    _said.clear()


_INSIDE = frozenset(applying(Applies.INSIDE))
_NAMED, _PATTERNS = frozenset({"properties"}), frozenset({"patternProperties"})
_IN_PLACE = frozenset(applying(Applies.AS_PART, Applies.AS_BRANCH, Applies.AS_CONDITION)) - {"not"}
_ALWAYS, _UNIONS = frozenset({"allOf"}), frozenset({"anyOf", "oneOf"})
_DESCRIBING = OTHER_KEYS | _UNIONS | _NAMED | _PATTERNS | {"if", "dependencies", "dependentSchemas", "const"}
_MAPS = named(lambda keyword: keyword.holds in (Holds.MAP, Holds.SCHEMA_OR_STRINGS_MAP))
_REQUIRING = ("dependentRequired", "dependencies")

_Placed: TypeAlias = tuple[dict[str, Any], Where]


def undescribed(library: Library, resource: Resource) -> tuple[Note, ...]:
    """Return notes of the keys that are required and that no schema describes which applies to the same value."""
    if not library.undescribed:
        return ()
    requiring = ("required", *[word for word in _REQUIRING if word in resource.dialect.rules])
    missing: dict[tuple[str, Where], None] = {}
    values: list[list[Any]] = [[(resource.root, resource.where)]]
    met = set[frozenset[int]]()
    for parts in values:
        group, words = _together(library, parts, resource), frozenset[str]()
        for schema, _ in group:
            words |= schema.keys()
        if OTHER_KEYS.isdisjoint(words):
            missing.update(dict.fromkeys(_missing(group, requiring)))
        for inner in (*_members(library, group), *_alternatives(library, _together(library, parts, resource, _ALWAYS))):
            spend()
            ids = frozenset([id(part) for part, _ in inner])
            if ids not in met:
                met.add(ids)
                values.append(inner)
    return tuple([Note(pointer(where), key, REQUIRED_ONLY) for key, where in missing])


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
        targets = [library.targets[id(schema), word] for word in REFERRING if (id(schema), word) in library.targets]
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


def _below(library: Library, schema: dict[str, Any], where: Where, words: frozenset[str]) -> list[_Placed]:
    """Return the subschemas in the values of some keywords that say more than yes or no."""
    subschemas: list[_Placed] = []
    for word in words.intersection(schema):
        value, inside = schema[word], (where, word)
        if type(value) is dict and word not in _MAPS:
            subschemas.append((value, inside))
            continue
        entries: Iterable[Any] = value.items() if type(value) is dict else ()
        if type(value) is list:
            entries = enumerate(value)
        subschemas += [(part, (inside, step)) for step, part in entries if type(part) is dict]
    return [part for part in subschemas if id(part[0]) in library.outer]
