"""Texts of JSON values on both surfaces: strict readers by way of `json` and `ast`, other spellings of a value, and
damaged texts.

A reader returns the value that a text stands for and raises ValueError where it stands for none.  `Unsure` is raised
instead where the reader itself cannot say: numbers that a float does not hold.
"""

from __future__ import annotations

import ast
import io
import json
import random
import re
import tokenize
import warnings
from typing import Any

LEFT_OUT = "a Python spelling that the surface leaves out"


class Unsure(Exception):
    """The oracle has no say."""


def read_json(text: str) -> Any:
    """Read strict JSON: no duplicate keys, no NaN, no lone surrogates, nothing around it."""
    if text != text.strip(" \t\n\r"):
        raise ValueError("padded")
    value = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_number, parse_int=_number)
    json.dumps(value, ensure_ascii=False).encode()
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("duplicate key")
    return found


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _number(text: str) -> int | float:
    mantissa, _, exponent = text.lower().partition("e")
    if len(exponent.lstrip("+-")) > 3 or exponent and abs(int(exponent)) > 300 or len(mantissa) > 15:
        raise Unsure(text)
    return float(text) if {".", "e"} & set(text.lower()) else int(text)


def read_python(text: str) -> Any:
    """Read what `ast.literal_eval` reads, as the JSON value it stands for.

    Raises: ValueError: it stands for none, or it is spelled in a way that the surface leaves out (see
    `surfaces.python`).
    """
    if text != text.strip() or "\0" in text:
        raise ValueError("padded")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of unknown escapes
        tree = ast.parse(text, mode="eval").body
        ast.literal_eval(tree)
        value = _convert(tree)
        _check_spelling(text, tree)
    return value


def _convert(node: ast.AST) -> Any:
    if isinstance(node, ast.Dict):
        keys = [ast.literal_eval(key) for key in node.keys if key is not None]
        if len(set(keys)) < len(node.keys) or not all(isinstance(key, str) for key in keys):
            raise ValueError("keys")
        [key.encode() for key in keys]
        return dict(zip(keys, map(_convert, node.values), strict=True))
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_convert(item) for item in node.elts]
    value = ast.literal_eval(node)
    if not (value is None or isinstance(value, (bool, int, float, str))):
        raise ValueError("no JSON value")
    if isinstance(value, str):
        value.encode()
    return value


def _check_spelling(text: str, tree: ast.AST) -> None:
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(text, newline=None).readline) if token.type not in _SPACE]
    parentheses = sum(token.string == "(" for token in tokens)
    if parentheses != sum(isinstance(node, ast.Tuple) for node in ast.walk(tree)):
        raise ValueError(LEFT_OUT)
    for one, other in zip(tokens, [*tokens[1:], None], strict=True):
        follows = other is not None and one.end == other.start
        left_out = (
            one.type == tokenize.COMMENT
            or one.string == "+" or one.string == "-" and not follows
            or one.type == tokenize.STRING and (
                other is not None and other.type == tokenize.STRING or not _STRING.fullmatch(one.string))
            or one.type == tokenize.NUMBER and not _NUMBER.fullmatch(one.string)
        )
        if left_out:
            raise ValueError(LEFT_OUT)
        if one.type == tokenize.NUMBER and ("e" in one.string.lower() or "." in one.string):
            _number(one.string.replace("_", ""))
    if "\\\r" in text:
        raise Unsure(text)  # Python reads it as "\\n" before anything else
    if "\\\n" in "".join(_outside(text)):
        raise ValueError(LEFT_OUT)


_SPACE = {tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER, tokenize.INDENT, tokenize.DEDENT}
_ESCAPE = r"\\(?:[\\'\"abfnrtv\n]|[0-7]{1,3}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
_STRING = re.compile(rf"'(?:[^'\\\n]|{_ESCAPE})*'|\"(?:[^\"\\\n]|{_ESCAPE})*\"")
_NUMBER = re.compile(
    r"(?:(?:0|[1-9](?:_?[0-9])*)(?:\.(?:[0-9](?:_?[0-9])*)?)?|\.[0-9](?:_?[0-9])*)(?:[eE][-+]?[0-9](?:_?[0-9])*)?"
)


def respelled_json(value: Any, rng: random.Random) -> str:
    """Return another JSON text of a value: escapes, exponents, order of keys, whitespace."""
    if isinstance(value, str):
        return '"' + "".join(_json_char(char, rng) for char in value) + '"'
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return rng.choice(_numbers(value))
    if isinstance(value, list):
        return (
            "["
            + _gap(rng)
            + f"{_gap(rng)},{_gap(rng)}".join(respelled_json(item, rng) for item in value)
            + _gap(rng)
            + "]"
        )
    if isinstance(value, dict):
        entries = [
            f"{respelled_json(key, rng)}{_gap(rng)}:{_gap(rng)}{respelled_json(item, rng)}"
            for key, item in value.items()
        ]
        rng.shuffle(entries)
        return "{" + _gap(rng) + f"{_gap(rng)},{_gap(rng)}".join(entries) + _gap(rng) + "}"
    return json.dumps(value)


def _json_char(char: str, rng: random.Random) -> str:
    escaped = "".join(f"\\u{int.from_bytes(unit, 'big'):04x}" for unit in _units(char))
    forms = [
        escaped,
        escaped.upper().replace("\\U", "\\u"),
        json.dumps(char)[1:-1],
        json.dumps(char, ensure_ascii=False)[1:-1],
    ]
    return rng.choice(["\\/", *forms] if char == "/" else forms)


def _units(char: str) -> list[bytes]:
    encoded = char.encode("utf-16-be")
    return [encoded[at : at + 2] for at in range(0, len(encoded), 2)]


def _numbers(value: float) -> list[str]:
    plain = repr(value)
    if "e" in plain:
        return [plain, plain.replace("e", "E"), plain.replace("e", ".0e")]
    whole, _, fraction = plain.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).replace("-", "").lstrip("0") or "0"
    sign = "-" if whole.startswith("-") else ""
    found = [
        plain,
        f"{sign}{digits}e-{len(fraction)}",
        f"{sign}{digits}0E-{len(fraction) + 1}",
        f"{plain}e0",
        f"{plain}E+00",
    ]
    found += [f"{plain}.0", f"{plain}.00e-0"] if "." not in plain else [f"{plain}0"]
    return [*found, "-0", "-0.0", "0e7", "0.0E-7"] if value == 0 else found


def _gap(rng: random.Random) -> str:
    return rng.choice(["", "", "", " ", "\n", "\t ", "\r\n  "])


def respelled_python(value: Any, rng: random.Random) -> str:
    """Return another Python literal of a value: quotes, escapes, tuples, underscores, trailing commas, order of keys,
    whitespace.
    """
    if isinstance(value, str):
        quote = rng.choice("'\"")
        return quote + "".join(_python_char(char, quote, rng) for char in value) + quote
    if isinstance(value, (list, dict)) and value:
        if isinstance(value, list):
            items = [respelled_python(item, rng) for item in value]
            opening, closing = rng.choice(["[]", "()"])
        else:
            items = [
                f"{respelled_python(key, rng)}{_gap(rng)}:{_gap(rng)}{respelled_python(item, rng)}"
                for key, item in value.items()
            ]
            rng.shuffle(items)
            opening, closing = "{}"
        trailing = rng.random() < 0.3 or opening == "(" and len(items) == 1
        comma = f"{_gap(rng)},{_gap(rng)}"
        return opening + _gap(rng) + comma.join(items) + (comma if trailing else _gap(rng)) + closing
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        found = rng.choice(_numbers(value))
        return rng.choice(
            [
                found,
                re.sub(r"(\d)(?=\d)", r"\1_", found) if not re.match(r"-?0\d", found) else found,
                re.sub(r"\.0$", ".", found),
            ]
        )
    return rng.choice(["()", "( )", "[]"]) if value == [] else repr(value)


def _python_char(char: str, quote: str, rng: random.Random) -> str:
    point = ord(char)
    forms = [
        f"\\U{point:08x}",
        *([f"\\u{point:04X}"] if point < 0x10000 else []),
        *([f"\\x{point:02x}", f"\\{point:03o}"] if point < 0x100 else []),
    ]
    return rng.choice(
        [
            repr(char)[1:-1] if char not in "'\"\\" else f"\\{char}",
            *([char] if char.isprintable() and char not in (quote, "\\") else []),
            *forms,
        ]
    )


JSON_CHARS = '{}[]",:01.eE-+a \n\\utnN/'
PYTHON_CHARS = "{}[](),:01.e-+a'\"_ \n\\xuN#jb"


def damaged(text: str, rng: random.Random, chars: str) -> str:
    """Return a text with one or two characters inserted, removed or replaced, or a stretch of it repeated."""
    for _ in range(rng.randint(1, 2)):
        at, kind = rng.randint(0, len(text)), rng.random()
        if kind < 0.35:
            text = text[:at] + rng.choice(chars) + text[at:]
        elif kind < 0.6:
            text = text[:at] + text[at + 1 :]
        elif kind < 0.85:
            text = text[:at] + rng.choice(chars) + text[at + 1 :]
        else:
            until = rng.randint(at, len(text))
            text = text[:until] + rng.choice(["", ","]) + text[at:]
    return text


_STRINGS = re.compile(r"(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')", re.DOTALL)


def _outside(text: str) -> list[str]:
    """Return the stretches between strings."""
    return _STRINGS.split(text)[::2]


def whitespace_of(text: str) -> set[str]:
    """Return the whitespace styles of a valid text: always "flexible"."""
    parts = _STRINGS.split(text)  # strings are the odd ones
    bare = [re.sub(r"\s", "", part) if number % 2 == 0 else part for number, part in enumerate(parts)]
    spaced = [re.sub(r"([,:])", r"\1 ", part) if number % 2 == 0 else part for number, part in enumerate(bare)]
    return (
        {"flexible"}
        | ({"compact"} if "".join(bare) == text else set())
        | ({"canonical"} if "".join(spaced) == text else set())
    )
