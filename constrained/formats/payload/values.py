"""The text of arguments ↔ JSON values, strictly and without running anything.

Python's own readers accept more than the formats do: `json.loads` takes NaN, duplicate keys and lone surrogates, `ast.literal_eval`
takes bytes, sets and complex numbers.  Here each of them is refused.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from constrained.errors import SchemaError
from constrained.regex import markers_of

_STRING = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.S)
_STRING_OR_SIGN = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^'"()\[\]{}]+|[()\[\]{}]""", re.S)


def read_json(text: str, at: int) -> tuple[dict[str, Any], int]:
    """Return the JSON object that begins at a place in a text, and where it ends.

    Raises: ValueError: there is none.
    """
    value, end = _JSON.raw_decode(text, at)
    if not isinstance(value, dict):
        raise ValueError("arguments are an object")
    text[at:end].encode()
    json.dumps(value, ensure_ascii=False).encode()  # escapes may spell lone surrogates, which UTF-8 cannot
    return value, end


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    named = dict(pairs)
    if len(named) != len(pairs):
        raise ValueError("a key appears twice")
    return named


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text} is out of range")
    return number


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


_JSON = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_no_constant)


def read_keywords(text: str, at: int) -> tuple[dict[str, Any], int]:
    """Return the keyword arguments ``(a=1, b='x')`` that begin at a place in a text, and where they end.

    Raises: ValueError: there are none, or one has no JSON value.

    >>> read_keywords("f(a=(1, 2), b=None)", 1)
    ({'a': [1, 2], 'b': None}, 19)
    """
    end = _closing(text, at)
    try:
        call = ast.parse("f" + text[at:end], mode="eval").body
    except (SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError(f"not Python: {error}") from error
    if not isinstance(call, ast.Call) or call.args or not isinstance(call.func, ast.Name):
        raise ValueError("not a call with keyword arguments")
    pairs = [(argument.arg, _literal(argument.value)) for argument in call.keywords]
    if any(name is None for name, _ in pairs):
        raise ValueError("argument unpacking")
    return _unique([(str(name), value) for name, value in pairs]), end


def _closing(text: str, at: int) -> int:
    depth = 0
    for match in _STRING_OR_SIGN.finditer(text, at):
        depth += (match[0] in "([{") - (match[0] in ")]}")
        if depth <= 0:
            return match.end()
    raise ValueError("no closing parenthesis")


def _literal(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value) if value is None or isinstance(value, (bool, int)):
            return value
        case ast.Constant(str(text)):
            text.encode()
            return text
        case ast.Constant(float(number)) if isfinite(number):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value)) if type(value) in (int, float):
            return -_literal(node.operand)
        case ast.List(items) | ast.Tuple(items):
            return [_literal(item) for item in items]
        case ast.Dict(keys, values) if all(isinstance(key, ast.Constant) and isinstance(key.value, str) for key in keys):
            return _unique([(_literal(key), _literal(value)) for key, value in zip(keys, values, strict=True) if key is not None])
    raise ValueError(f"{ast.unparse(node)} has no JSON value")


def write_json(value: object, avoid: tuple[str, ...] = ()) -> str:
    """Return the canonical JSON text of a value; what would complete one of the texts to avoid in a string is escaped.

    >>> write_json({"a": "</b>"}, avoid=("</",))
    '{"a": "<\\\\/b>"}'
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except (TypeError, ValueError) as error:
        because = re.sub(": -?(nan|inf)$", "", str(error))  # newer Pythons name the number
        raise SchemaError("the arguments are not JSON", because=because) from error
    return _avoiding(text, avoid, lambda char: "\\/" if char == "/" else f"\\u{ord(char):04x}")


def write_keywords(arguments: Mapping[str, object], avoid: tuple[str, ...] = ()) -> str:
    """Return arguments as Python writes them; avoid: as above.

    >>> write_keywords({"a": [1.5, None], "b": "it's"})
    '(a=[1.5, None], b="it\\'s")'
    """
    write_json(arguments)
    written = (f"{name}={_avoiding(repr(json.loads(json.dumps(value))), avoid, _python_escape)}" for name, value in arguments.items())
    return "(" + ", ".join(written) + ")"


def _python_escape(char: str) -> str:
    return f"\\x{ord(char):02x}" if ord(char) < 0x100 else f"\\u{ord(char):04x}"


def _avoiding(text: str, avoid: tuple[str, ...], escape: Callable[[str], str]) -> str:
    if not any(part in text for part in avoid):
        return text
    markers = markers_of(avoid)
    return _STRING.sub(lambda string: string[0][0] + markers.escaped(string[0][1:-1], escape) + string[0][-1], text)


def in_schema_order(value: Any, schema: object) -> Any:
    """Return the value with the keys of its objects in the order in which the schema declares them; undeclared ones follow.

    References are not followed: what they lead to keeps its order.
    """
    if not isinstance(schema, Mapping):
        return value
    if isinstance(value, list):
        prefix = schema.get("prefixItems", ())
        rest = schema.get("items")
        return [in_schema_order(item, prefix[index] if index < len(prefix) else rest) for index, item in enumerate(value)]
    properties = schema.get("properties")
    if not isinstance(value, dict) or not isinstance(properties, Mapping):
        return value
    names = [*(name for name in properties if name in value), *(name for name in value if name not in properties)]
    return {name: in_schema_order(value[name], properties.get(name, schema.get("additionalProperties"))) for name in names}
