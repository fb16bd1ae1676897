"""Arguments → members between tags, and elements inside of them where a format nests values.

The inverse of reading, and the spelling that `schema.surfaces.tags` generates: `nests` decides for both whether an
object or array is written as elements.  Without a stack of calls, as arguments may be nested deeper than Python is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from constrained.errors import ConstrainedError
from constrained.formats.payload.allowed import Allowed
from constrained.formats.payload.raw import kind_of, no_text, value_of
from constrained.formats.payload.values import refuse_circles, write_json
from constrained.schema.normal.normalise import is_never
from constrained.schema.surfaces.tags import AGAIN, CONTAINERS, KINDS, Slot, Tags, nests, why_no_tag
from constrained.work import spend

_ARTICLES = {"object": "an", "array": "an"}
Piece = tuple[str, bool]  # a text, and whether it is of the tags
_Work = tuple[list[Piece], Slot, str, Any, Allowed]  # what stands before a value, its place, its name, what it may be


def write_members(
    arguments: Mapping[str, Any], tags: Tags, begins: str, avoid: tuple[str, ...], allowed: Allowed
) -> list[Piece]:
    """Return arguments as members between tags; `allowed`: what they may be, `begins`: what the next one begins with,
    `avoid`: what JSON inside escapes.

    Raises: ConstrainedError: a value would be read as another: a string holds what ends it, or is spelled as a value of
    another type that may stand there.
    """
    if tags.slot.elements:
        refuse_circles(arguments)
    pieces = [(tags.opening, True)]
    work: list[_Work | list[Piece]] = list(reversed(list(_members(arguments, tags, allowed))))
    while work:
        part = work.pop()
        spend()
        if isinstance(part, list):
            pieces += part
            continue
        before, slot, name, value, may = part
        kind, end = kind_of(value), _end(slot.end, name)
        pieces += before
        if _nested(value, kind, slot, tags, may):
            pieces.append((slot.elements[CONTAINERS.index(kind)], True))
            work.append(end)
            inner = _members(value, tags, may) if kind == "object" else _items(value, tags, may)
            work += reversed(list(inner))
        else:
            text = value if kind == "string" else write_json(value, avoid)
            _refuse_misread(name, kind, text, slot, tags, begins, may.kinds)
            pieces += [(slot.value[KINDS.index(kind)], True), (text, False), *end]
    return [*pieces, (tags.closing if arguments else tags.bare, True)]


def _members(value: Mapping[str, Any], tags: Tags, allowed: Allowed) -> Iterator[_Work]:
    for key, part in value.items():
        yield [(tags.key, True), (key, False)], tags.slot, key, part, allowed.member(key)


def _items(value: list[Any], tags: Tags, allowed: Allowed) -> Iterator[_Work]:
    assert tags.item is not None
    for index, part in enumerate(value):
        yield [], tags.item, "", part, allowed.item(index)


def _end(end: str, name: str) -> list[Piece]:
    first, *rest = end.split(AGAIN)
    return [(first, True), *(piece for part in rest for piece in ((name, False), (part, True)))]


def _nested(value: Any, kind: str, slot: Slot, tags: Tags, allowed: Allowed) -> bool:
    """Return whether a value is written as elements; one whose own names or strings no tag can hold is not, and none
    with a string that would be read as another value.
    """
    if kind not in CONTAINERS or not any(nests(kind, may, slot, tags, is_never) for may in allowed.values):
        return False
    if kind == "object":
        return not any(why_no_tag(key) for key in value) and all(
            _is_text(part, tags.slot, tags, allowed.member(key).kinds) for key, part in value.items()
        )
    assert tags.item is not None
    return all(_is_text(part, tags.item, tags, allowed.item(at).kinds) for at, part in enumerate(value))


def _is_text(value: Any, slot: Slot, tags: Tags, kinds: Collection[str]) -> bool:
    """Return whether a string can stand as raw text; True for other values."""
    if type(value) is not str:
        return True
    return bool(re.fullmatch(tags.text, value)) and (_is_told(slot) or value_of(value, "value", kinds) == value)


def _is_told(slot: Slot) -> bool:
    """Return whether the tag of a string says that it is one."""
    return slot.value.count(slot.value[0]) == 1


def _refuse_misread(
    name: str, kind: str, text: str, slot: Slot, tags: Tags, begins: str, kinds: Collection[str]
) -> None:
    """Refuse the text of a value that is read as another.  Raises: ConstrainedError."""
    if begins in text or kind == "string" and not re.fullmatch(tags.text, text):
        because = "its text holds what ends a value in this format, where nothing is escaped"
        raise ConstrainedError(f"cannot write the parameter {name!r}", because=because)
    if _is_told(slot):
        return
    read = "object" if slot.elements and no_text(text, kinds) else kind_of(value_of(text, "value", kinds))
    if read != kind:
        raise ConstrainedError(
            f"cannot write the parameter {name!r}",
            because=f"{text[:40]!r} between tags is read as {_ARTICLES.get(read, 'a')} {read}, by the tool's schema",
            instead=f"tools whose schema says that it is {_ARTICLES.get(kind, 'a')} {kind} and nothing else",
        )
