"""Arguments with bare keys and with strings between special tokens → JSON values.

    {city:<|"|>Oslo<|"|>,days:3,tags:[<|"|>a"b<|"|>]}

The grammar of the format has found out where the object ends; here its text becomes a value.  Nothing in a string is
escaped.  Python's ``True``, ``False`` and ``None`` are read, which templates write, and JSON strings inside of
containers, which models do.

Tested by tests/test_tagged.py: writing and reading are inverse; cut anywhere, what is known is returned.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from constrained.formats.payload.tagged import json_of, python_of
from constrained.formats.payload.value_reader import Fault, Tree, decimal_of, integer_of
from constrained.work import spend

_WORDS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_CHARGED = 64  # parts of a text that are charged at once
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def read_quoted(
    text: str, quote: str, *, partial: bool = False, places: dict[str, tuple[int, int]] | None = None
) -> Any:
    """Return the value of an object's text; partial: what is known of one that was cut.  places: filled with where in
    the text the key of each value begins, and the value, by JSON pointer.

    Raises: Fault: a key comes twice, or the text is no such object.

    >>> read_quoted("{a:#x#,b:[1,None]}", "#")
    {'a': 'x', 'b': [1, None]}
    """
    tree, at, done = Tree(), 0, False
    is_key = False
    text = _in_braces(text)
    for number, match in enumerate(_parts(quote).finditer(text)):
        part, place = match[0], match.start()
        if not number % _CHARGED:
            spend(_CHARGED)
        if place != at or done:
            break
        at = match.end()
        if part == ",":
            is_key = bool(tree.containers) and isinstance(tree.containers[-1], dict)
        elif part in ":=" or part.isspace():
            continue
        elif part in "{[":
            _note(places, tree, place)
            tree.open({} if part == "{" else [])
            is_key = part == "{"
        elif part in "}]":
            done = not tree.containers or tree.close()
            is_key = False
        elif is_key and partial and at == len(text):  # more of the key may follow
            break
        elif is_key:
            key = _string(match, quote, partial=partial) if match.lastgroup is not None else part
            if key in tree.containers[-1]:
                raise Fault(place, f"the key {key!r} appears twice", "another key", tree.pointer())
            tree.keys[-1], is_key = key, False
            _note(places, tree, place)
        elif not partial or at < len(text) or match["string"]:
            if partial and quote.startswith(text[place:]):  # the text breaks off inside the token
                break
            _note(places, tree, place)
            tree.put(_value(match, quote, place, tree, partial=partial))
    if partial:
        return tree.root
    if not done or at != len(text):
        raise Fault(at, "it is no object with bare keys", "arguments in braces", tree.pointer())
    return tree.root


def _in_braces(text: str) -> str:
    """Return members, or an object, that stand in parentheses as an object; everything keeps its place."""
    if not text.startswith("("):
        return text
    opening, closing = "  " if text[1:].lstrip().startswith("{") else "{}"
    return f"{opening}{text[1:-1]}{closing}".rstrip() if text.endswith(")") else opening + text[1:]


def _note(places: dict[str, tuple[int, int]] | None, tree: Tree, place: int) -> None:
    """Note where a key stands, or behind it the value."""
    if places is not None:
        pointer = tree.pointer()
        places[pointer] = places.get(pointer, (place, place))[0], place


def _value(match: re.Match[str], quote: str, place: int, tree: Tree, *, partial: bool) -> Any:
    part = match[0]
    if match.lastgroup is not None:
        return _string(match, quote, partial=partial)
    if part in _WORDS:
        return _WORDS[part]
    if not _NUMBER.fullmatch(part):
        raise Fault(
            place, f"{part[:40]!r} is no value", f"a number, a word or a string between {quote}", tree.pointer()
        )
    return integer_of(part) if part.lstrip("-").isdigit() else decimal_of(part)


def _string(match: re.Match[str], quote: str, *, partial: bool) -> str:
    if match["json"]:
        return str(json_of(match[0]))
    if match["single"]:
        return str(python_of(f"[{match[0]}]")[0])
    inner = match[0][len(quote) :]
    return inner.removesuffix(quote) if len(match[0]) >= 2 * len(quote) or not partial else inner


@lru_cache(maxsize=8)
def _parts(quote: str) -> re.Pattern[str]:
    """Return what finds the parts of an object's text; a string may lack its end, where the text was cut."""
    quoted = re.escape(quote)
    return re.compile(
        rf"""(?P<string>{quoted}(?s:.*?)(?:{quoted}|\Z))|(?P<json>"(?:[^"\\]|\\.)*")|(?P<single>'(?:[^'\\]|\\.)*')"""
        r"""|[{}\[\],:=]|\s+|[^\s{}\[\],:="']+"""
    )
