"""A message and what a reader finds in its text: what differs, and who is wrong.

Who is wrong is decided by two readings that share nothing: the format's strict reader must find the message in the
text, and so must `json`, `ast` or a plain search for the values (`stands_in`).  Where both do, the reader is wrong;
else the fault is ours and said to be.

White space at the ends of answers and thoughts is not compared, nor how a number is spelled.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from constrained.errors import ConstrainedError
from constrained.formats import ChatFormat, Message, ToolCall

from .readers import Reading

_NUMBER = "-0123456789"

# -- what differs ------------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Return a value as JSON compares it: 1.0 is 1, a decimal a float; true is not 1."""
    if isinstance(value, dict):
        return {key: plain(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    value = float(value) if isinstance(value, Decimal) else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def same(one: Any, other: Any) -> bool:
    """Return whether two values are the same in JSON."""
    return json.dumps(plain(one), sort_keys=True) == json.dumps(plain(other), sort_keys=True)


def departures(message: Message, reading: Reading) -> Iterator[tuple[str, str, str]]:
    """Yield how a reading departs from a message: the kind, what is said, what is found."""
    says, finds = [(call.name, call.arguments) for call in message.tool_calls], reading.calls
    if len(says) != len(finds):
        kind = "a call is lost" if len(finds) < len(says) else "a call is made up"
        yield kind, f"{len(says)} calls: {shown(says)}", f"{len(finds)}: {shown(finds)}"
        return
    for (name, arguments), (named, read) in zip(says, finds, strict=True):
        if name != named:
            yield "a name is another", repr(name), repr(named)
        elif not isinstance(read, dict):
            yield f"arguments are {_kind(read)}", shown(arguments), shown(read)
        else:
            yield from _of_arguments(arguments, read)
    for part, said, found in (
        ("the answer", message.content, reading.content),
        ("the thought", "".join(message.thoughts.values()), reading.thoughts),
    ):
        if found is not None and said.strip() != found.strip():
            yield f"{part} is {_how(said.strip(), found.strip())}", repr(said), repr(found)


def _of_arguments(arguments: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for key in {**arguments, **given}:
        if key not in given:
            yield f"{_kind(arguments[key])} is lost", shown({key: arguments[key]}), "nothing"
        elif key not in arguments:
            yield "an argument is made up", "nothing", shown({key: given[key]})
        elif not same(arguments[key], given[key]):
            one, other = arguments[key], given[key]
            how = (
                _how(one, other)
                if isinstance(one, str) and isinstance(other, str)
                else f"read as {_kind(other)}"
                if _kind(one) != _kind(other)
                else "another"
            )
            yield f"{_kind(one)} is {how}", shown(one), shown(other)


def _how(one: str, other: str) -> str:
    if other == one.strip():
        return "stripped"
    if other and one.startswith(other):
        return "cut short"
    return "lost" if not other else "longer" if one in other else "another"


def _kind(value: Any) -> str:
    kinds = {
        bool: "a boolean",
        int: "a number",
        float: "a number",
        Decimal: "a number",
        str: "a string",
        list: "an array",
        dict: "an object",
    }
    return kinds.get(type(value), "null")


def shown(value: Any) -> str:
    """Return a value as JSON."""
    return json.dumps(plain(value), ensure_ascii=False)


# -- who is wrong ------------------------------------------------------------------------------------------------------


def ours(chat: ChatFormat, text: str, message: Message, tools: object) -> str:
    """Return why the format itself does not find a message in the text that it wrote; "": it does, and so does a
    reading without it.
    """
    try:
        read = chat.parse(text, tools, strict=True, prompt="")
    except ConstrainedError as error:
        return f"the strict reader refuses the turn: {error}"
    found = Reading(
        [(call.name, call.arguments) for call in read.tool_calls], read.content, "".join(read.thoughts.values())
    )
    for kind, said, other in departures(message, found):
        return f"the strict reader: {kind}, {other} for {said}"
    lost = [call for call in message.tool_calls if not stands_in(text, call)]
    return f"neither JSON nor Python nor the plain texts of {lost[0].arguments} stand in the turn" if lost else ""


def stands_in(text: str, call: ToolCall) -> bool:
    """Return whether the arguments of a call stand in a text, for `json`, for `ast`, or each value to the letter."""
    for at, character in enumerate(text):
        try:
            if character == "{" and same(json.JSONDecoder().raw_decode(text, at)[0], call.arguments):
                return True
            if character == "(" and same(_keywords(text[at:]), call.arguments):
                return True
        except (ValueError, SyntaxError):
            continue
    return all(_spelled(text, value) for value in call.arguments.values())


def _keywords(text: str) -> Any:
    """Return the keyword arguments that a text begins with."""
    for end, character in enumerate(text):
        if character == ")":
            try:
                call = ast.parse(f"f{text[: end + 1]}", mode="eval").body
            except (SyntaxError, ValueError):
                continue
            assert isinstance(call, ast.Call)
            return {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    raise ValueError


def _spelled(text: str, value: Any) -> bool:
    if isinstance(value, str):
        return value in text or json.dumps(value, ensure_ascii=False)[1:-1] in text
    if isinstance(value, (dict, list)):
        parts = [*value, *value.values()] if isinstance(value, dict) else value
        return any(same(found, value) for found in _values_in(text, "{[")) or all(
            _spelled(text, part) for part in parts
        )
    if isinstance(value, (bool, type(None))):
        return json.dumps(value) in text
    return any(same(number, value) for number in _values_in(text, _NUMBER))


def _values_in(text: str, begins: str) -> Iterator[Any]:
    """Yield the JSON values in a text that begin with one of some characters; a number begins once."""
    for at, character in enumerate(text):
        if character in begins and (not at or begins != _NUMBER or text[at - 1] not in f"{_NUMBER}."):
            try:
                yield json.JSONDecoder().raw_decode(text, at)[0]
            except ValueError:
                continue
