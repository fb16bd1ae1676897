"""The shape of a definition's tables: which keys there are, which must be there, and what their values are.

Everything is refused with the file and the key, in words: a typo must not change a language, and whoever writes a
format reads no Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from constrained.errors import GrammarError, shown


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


_KINDS: dict[str, Callable[[object], bool]] = {
    "a text": lambda value: isinstance(value, str),
    "true or false": lambda value: isinstance(value, bool),
    "a number from 0": lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0,
    "a list of texts": _texts,
    "a list of tables": lambda value: isinstance(value, list) and all(isinstance(entry, dict) for entry in value),
    "a table": lambda value: isinstance(value, dict),
    "a table of texts": lambda value: (
        isinstance(value, dict) and all(isinstance(entry, str) for entry in value.values())
    ),
    "a table of lists of texts": lambda value: isinstance(value, dict) and all(map(_texts, value.values())),
    "a table of tables": lambda value: (
        isinstance(value, dict) and all(isinstance(entry, dict) for entry in value.values())
    ),
}


@dataclass(frozen=True, slots=True)
class TableShape:
    """The keys of a table: one of `_KINDS` for each, or the texts that its value may be; `needed` must be there."""

    keys: Mapping[str, str | tuple[str, ...]]
    needed: tuple[str, ...] = ()


CHANGE = TableShape({
    "drop": "a list of texts", "replace": "a table of texts", "avoid": "a list of texts", "notes": "a table of texts",
    "stops": "a table of lists of texts",
})  # fmt: skip
MEMBER = TableShape({"present": "a table", "absent": "a table", "told": "a table"}, ("present", "absent"))
SIGN = TableShape(dict.fromkeys(("by", "name", "token", "text"), "a text"), ("by",))
CONSTRAINTS = TableShape(dict.fromkeys((
    "call_ids_differ", "calls_are_answered", "results_answer_calls", "results_in_order", "tools_are_listed",
), ("always", "strict")))  # fmt: skip
BUILTIN = TableShape(
    {"rule": "a text", "arguments": "a table of texts", "avoid": "a list of texts"}, ("rule", "arguments")
)
REASONING = TableShape(dict.fromkeys(("rule", "block", "prompt", "closed"), "a text"), ("rule", "block", "prompt"))
PAYLOAD = TableShape(
    {
        "surface": ("json", "python", "tagged", "quoted"),
        "name": ("raw", "json", "python"),
        "tag_safe": "true or false",
        "quote": "a text",
        "sorts": "true or false",
        "avoid": "a list of texts",
        "elements": "a table of texts",
    },
    ("surface", "name"),
)
ELEMENTS = TableShape(dict.fromkeys(("open", "close", "item"), "a text"), ("open", "close"))
CALLS = TableShape({
    "repeat": "a text", "next": "a text", "default": "a number from 0", "all": "a text", "ids": ("counted", "unique"),
    "first": "a number from 0",
    "per": ("conversation", "turn")}, ("repeat", "next"))  # fmt: skip
TOOL_PROMPT = TableShape({
    **dict.fromkeys(
        ("role", "text", "name", "joined", "otherwise", "tool", "between", "opened", "takes_over", "option"), "a text"),
    "place": ("before", "behind", "own", "first"),
    "declared": ("python", "quoted", "signature", "typescript", "typescript with bounds", "xml"),
    "own": "a list of texts", "indent": "a number from 0", **dict.fromkeys(("enveloped", "compact"), "true or false"),
}, ("role", "place", "text"))  # fmt: skip


def check_shape(table: Mapping[str, Any], shape: TableShape, file: str, where: str = "") -> None:
    """Raise `GrammarError` where a table lacks a key, has an unknown one or a value of another kind; where: the key of
    the table.
    """
    for key, value in table.items():
        place = f"{where}.{key}" if where else key
        if key not in shape.keys:
            raise GrammarError(f"unknown key {place!r} in {file}", instead="one of: " + ", ".join(sorted(shape.keys)))
        kind = shape.keys[key]
        if isinstance(kind, tuple) and value not in kind:
            raise refused(file, place, f"it is {shown(value)}", f"one of: {', '.join(kind)}")
        if isinstance(kind, str) and not _KINDS[kind](value):
            raise refused(file, place, f"it is {shown(value)}", kind)
    for key in shape.needed:
        if key not in table:
            raise refused(file, where or None, f"the key {key!r} is missing")


def refused(file: str, where: str | None, because: str, instead: str = "see grammars/README.md") -> GrammarError:
    """Return the error for a definition that is wrong at a key."""
    return GrammarError(f"cannot read the format {file}", where=where, because=because, instead=instead)
