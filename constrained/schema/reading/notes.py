"""Notes on a schema: keywords that look misspelt, formats that nobody knows, `nullable`, keys that are only required.

JSON Schema ignores what it does not know, so ``"propertis"`` constrains nothing and nobody hears of it.  What is
certainly meant as an annotation (titles, examples, ``x-…``, keywords of OpenAPI) is not reported, nor is any word that
is unlike all keywords.

Tested in tests/test_notes.py.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from constrained.errors import SchemaError
from constrained.schema.reading.dialects import DRAFT_4, DRAFT_6, DRAFT_7, DRAFT_2019, DRAFT_2020, Dialect
from constrained.schema.reading.resources import Where, pointer
from constrained.schema.strings.formats import OPENAPI

ANNOTATIONS = frozenset(
    """title description default examples example deprecated readOnly writeOnly $comment $schema $id id $vocabulary
    $defs definitions discriminator xml externalDocs const if then
    else""".split()
)
_DRAFTS = (DRAFT_2020, DRAFT_2019, DRAFT_7, DRAFT_6, DRAFT_4)
OF_OPENAPI = "one of OpenAPI's, and means what it means there, but that any text is a byte under profile='exact'"
REQUIRED_ONLY = "required and not described, so it is allowed with any value"
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


def notes_of(unknown: Iterable[Unknown]) -> tuple[Note, ...]:
    """Return what there is to say about words that have no meaning in their dialect."""
    found: list[Note] = []
    for word, where, dialect in unknown:
        if word.removeprefix("format:") in OPENAPI and word.startswith("format:"):
            if not any(note.because is OF_OPENAPI for note in found):
                found.append(Note(pointer((where, "format")), "format", OF_OPENAPI))
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
            found.append(Note(pointer((where, kind or word)), name if kind else word, because))
    return tuple(found)


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
    others = [draft.name for draft in _DRAFTS if word in draft.rules]
    if others:
        return f"a keyword of {others[0]}, nothing in {dialect.name}"
    near = _nearest(word)
    return f"no keyword; {near!r} is one" if near else None


@lru_cache(maxsize=1)
def _keywords() -> dict[str, str]:
    """Return the keywords of all drafts by their spelling in small letters."""
    return {keyword.lower(): keyword for draft in reversed(_DRAFTS) for keyword in draft.rules}


@lru_cache(maxsize=64)
def _as_long(length: int) -> tuple[tuple[str, frozenset[str]], ...]:
    """Return the keywords, in small letters, that may be like a word of some length, each with its letters."""
    return tuple(
        (keyword, frozenset(keyword))
        for keyword in _keywords()
        if 2 * min(length, len(keyword)) >= _LIKE * (length + len(keyword))
    )


def _nearest(word: str) -> str | None:
    """Return the keyword that a word is like; letters that only one of the two has are not matched.

    PERF: 20 µs, 50 without looking at letters first; many documents have words of their own.
    """
    small, letters = word.lower(), frozenset(word.lower())
    perhaps = [
        keyword
        for keyword, others in _as_long(len(small))
        if 2 * min(len(small) - len(letters - others), len(keyword) - len(others - letters))
        >= _LIKE * (len(small) + len(keyword))
    ]
    near = difflib.get_close_matches(small, perhaps, n=1, cutoff=_LIKE) if perhaps else ()
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
