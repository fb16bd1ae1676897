"""A tool's arguments as a machine that is made when the tool is called.

To compile a schema takes a fraction of a millisecond, mostly to find out that it allows some value and can be compiled
exactly.  For 500 tools of which one is called, that is most of the time before the first token.  Nearly all schemas of
tools use a handful of keywords for which both are plain to see (`quick.is_plain`); they wait until their state is
asked for.  All others are compiled at once, so that whatever is wrong with a tool is reported when it is bound.

Tested: no plain schema is refused when its time comes (`test_plain_schemas_compile`).
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any

from constrained.errors import SchemaError
from constrained.formats.binding.beginnings import Beginning, Parts, UnreadObject, signs_of
from constrained.machine import Bytes, State, Widened
from constrained.regex import complement, intersect, is_empty, matches, parse_python
from constrained.schema import EmbeddedSchema, embed
from constrained.schema.normal.quick import is_plain
from constrained.schema.reading.notes import Note
from constrained.schema.surfaces.tags import (
    CONTAINERS,
    NAME,
    Tags,
    check_quoted,
    raw_texts,
    why_no_argument,
    why_no_tag,
    why_not_bare,
)


class Arguments:
    """The machine of a schema, as `grammar.Embedded` holds it; compared by identity; options are those of
    `schema.embed`.

    early: what reads their parts, where they are written before the tool's name and those of many tools are read side
    by side.  unread: what readers of the format cannot take, for `notes`.
    """

    __slots__ = ("_early", "_left_out", "_made", "_options", "_plain", "_schema", "_unread")

    def __init__(
        self, schema: Mapping[str, Any], options: Mapping[str, Any], tool: str = "any tool", early: Parts | None = None,
        unread: tuple[Note, ...] = (),
    ) -> None:
        self._early, self._unread = early, unread
        schema, self._left_out = carried(schema, options["surface"], tool)
        self._schema, self._options = schema, options
        named = options["surface"] not in _WRITABLE or _WRITABLE[options["surface"]](schema, options)
        self._plain = named and is_plain(schema)
        self._made: EmbeddedSchema | None = None if self._plain else embed(schema, **options)

    @property
    def machine(self) -> EmbeddedSchema:
        """The compiled schema."""
        if self._made is None:
            self._made = embed(self._schema, **self._options)
        return self._made

    @property
    def weight(self) -> int:
        """Bytes that the compiled schema keeps alive; what waits is small."""
        return 0 if self._made is None else self._made.weight

    @property
    def markers(self) -> frozenset[str]:
        """The parts of what stands around arguments that some tokenizers have as tokens."""
        tags = self._options.get("tags")
        return frozenset() if tags is None else frozenset(tags.markers)

    @property
    def specials(self) -> frozenset[str]:
        """The special token that stands around strings, where one does."""
        quote = self._options.get("quote")
        return frozenset() if quote is None else frozenset({quote})

    def with_specials(self, names: Collection[str]) -> Arguments:
        """Return the same arguments with some of the `markers` as special tokens; what waits goes on waiting."""
        tags, specials = self._options.get("tags"), tuple(sorted(self.markers & set(names)))
        if tags is None or specials == tags.specials:
            return self
        marked = Arguments.__new__(Arguments)  # PERF: `copy.copy` takes 10 µs, and 50 tools may wait
        marked._schema, marked._plain, marked._left_out = self._schema, self._plain, self._left_out
        marked._early, marked._unread = self._early, self._unread
        marked._options = {**self._options, "tags": tags._replace(specials=specials)}
        marked._made = None if self._made is None or self._plain else self._made.with_specials(names)
        return marked

    @property
    def widened(self) -> tuple[Any, ...]:
        """What was left out of the language's limits; nothing, for a plain schema."""
        return () if self._made is None else self._made.widened

    @property
    def narrowed(self) -> tuple[Any, ...]:
        """Where fewer arguments can be written than the schema allows: optional parameters that the format cannot
        carry, and of what stands between tags, what `Members.left_out` says.
        """
        tags = self._options.get("tags")
        if self._made is None and (tags is None or self._is_written_whole(tags)):
            return self._left_out
        return (*self._left_out, *self.machine.narrowed)

    @property
    def notes(self) -> tuple[Any, ...]:
        """What readers cannot take, and words of the schema that have no meaning; a plain schema has none."""
        return self._unread if self._made is None else (*self._unread, *self._made.notes)

    @property
    def fingerprint(self) -> str:
        """A name of the content, the same in any process."""
        return self.machine.fingerprint

    def state(self) -> State:
        """Return the start state: one that waits for the first sign, where it is known."""
        inside = self.inside()
        if inside is not None:
            return Bytes(b"{", inside)
        signs = signs_of(self._schema, self._options, self._is_written_whole)
        return Beginning(self, signs) if signs else self.machine.state()

    def inside(self) -> UnreadObject | None:
        """Return the state behind the opening bracket, where the keys are in sight and may be needed early."""
        early = self._early
        if early and self._made is None and self._plain and _has_keys_in_sight(self._schema, self._options):
            return UnreadObject(self, self._schema, early)
        return None

    def _is_written_whole(self, tags: Tags) -> bool:
        """Return whether members can be written that are plain to see in the schema; False says nothing."""
        return self._plain and _is_written_whole(self._schema, tags, self._options["closed"])

    def to_lark(self, prefix: str, *, lookahead: bool = True) -> list[str]:
        return self.machine.to_lark(prefix, lookahead=lookahead)


def carried(
    schema: Mapping[str, Any], surface: str, tool: str, pointer: str = "#"
) -> tuple[Mapping[str, Any], tuple[Widened, ...]]:
    """Return a schema without the optional parameters whose names cannot be written, and a list of them.

    Those that are required stay, and so are refused where the schema is compiled.

    >>> carried({"properties": {"class": {}, "n": {}}}, "arguments", "any tool")[0]
    {'properties': {'class': False, 'n': {}}}
    """
    properties = schema.get("properties")
    if surface not in _REASONS or not isinstance(properties, dict):
        return schema, ()
    required = schema.get("required")
    kept, found = dict(properties), list[Widened]()
    for name, part in properties.items():
        because = _REASONS[surface](name) if isinstance(name, str) and part is not False else None
        if because is not None and not (isinstance(required, list) and name in required):
            kept[name] = False
            found.append(
                Widened(
                    _inside(pointer, name),
                    "properties",
                    f"{tool}: the parameter {name!r} is left out, as the format cannot write its name: {because}",
                )
            )
        elif surface == "quoted" and isinstance(part, dict):  # at any depth
            kept[name], inner = carried(part, surface, tool, _inside(pointer, name))
            found += inner
    return ({**schema, "properties": kept}, tuple(found)) if found else (schema, ())


def _inside(pointer: str, name: object) -> str:
    return f"{pointer}/properties/{str(name).replace('~', '~0').replace('/', '~1')}"


_REASONS: dict[str, Callable[[str], str | None]] = {
    "arguments": why_no_argument,
    "tagged": why_no_tag,
    "quoted": why_not_bare,
}


def _is_written_whole(schema: Mapping[str, Any], tags: Tags, closed: object) -> bool:
    """Return whether each parameter of a plain schema is listed, is a string or none, and holds no elements."""
    parts = schema.get("properties", {}).values()
    if not (closed and "properties" in schema) and schema.get("additionalProperties") is not False:
        return False
    return all("enum" in part or type(part.get("type")) is str for part in parts) and not (
        tags.slot.elements and any(part.get("type") in CONTAINERS for part in parts)
    )


def _has_keys_in_sight(schema: Mapping[str, Any], options: Mapping[str, Any]) -> bool:
    """Return whether a plain schema is of objects in JSON with the keys in ``properties`` alone."""
    return (
        options["surface"] == "json"
        and schema.get("type") == "object"
        and "properties" in schema
        and (bool(options["closed"]) or "additionalProperties" in schema)  # which is false, in a plain schema
        and type(options["whitespace"]) is str
    )


def _are_keywords(schema: Mapping[str, Any], options: Mapping[str, Any]) -> bool:
    names = schema.get("properties", {})
    return isinstance(names, dict) and all(
        type(name) is str and name.isascii() and name.isidentifier() and not keyword.iskeyword(name) for name in names
    )


def _are_tags(schema: Mapping[str, Any], options: Mapping[str, Any]) -> bool:
    """Return whether tags can surely hold all members and the listed strings."""
    properties, tags = schema.get("properties", {}), options["tags"]
    return isinstance(properties, dict) and all(
        type(name) is str
        and re.fullmatch(NAME, name)
        and isinstance(part, dict)
        and all(type(text) is str and _is_raw(text, tags) for text in part.get("enum", ()))
        for name, part in properties.items()
    )


def _is_raw(text: str, tags: Tags) -> bool:
    """Return whether a text can stand between tags.  PERF: words are looked at together, once for all tools."""
    return _WORDS.fullmatch(text) is not None and _words_are_raw(tags) or matches(raw_texts(tags), text)


@lru_cache(maxsize=64)
def _words_are_raw(tags: Tags) -> bool:
    return is_empty(intersect(parse_python(_WORDS.pattern), complement(raw_texts(tags))))


_WORDS = re.compile("[0-9A-Za-z_ -]+")


def _are_quoted(schema: Mapping[str, Any], options: Mapping[str, Any]) -> bool:
    """Return whether bare keys and strings without an escape can hold what the schema lists."""
    try:
        check_quoted(schema, options["quote"], options["avoid"])
    except SchemaError:
        return False
    return True


_WRITABLE: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any]], bool]] = {
    "arguments": _are_keywords,
    "tagged": _are_tags,
    "quoted": _are_quoted,
}
