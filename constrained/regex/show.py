"""Expressions as text: Python `re` syntax where there is one, ``¬(…)`` and ``(…)∩(…)`` beyond it."""

from __future__ import annotations

from .charset import MAX, Ranges, negate
from .expr import (
    CLASS,
    COMPLEMENT,
    CONCAT,
    EPSILON_KIND,
    INFINITE,
    INTERSECT,
    LITERAL,
    NEVER_KIND,
    REPEAT,
    SET,
    UNION,
    Expr,
    parts,
    single,
)

_ESCAPES = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def pattern_text(expr: Expr) -> str:
    """Return an expression as a pattern.

    >>> from constrained.regex import parse_python
    >>> pattern_text(parse_python(r"(?:a|bc)*\\.[^x]{2,3}"))
    '(?:a|bc)*\\\\.[^x]{2,3}'
    """
    if expr.kind == NEVER_KIND:
        return "(?!)"
    if expr.kind == EPSILON_KIND:
        return ""
    if expr.kind == LITERAL:
        return "".join(_char(ord(char)) for char in expr.args[0])
    if expr.kind == CLASS:
        return _class(expr.args[0])
    if expr.kind == CONCAT:
        return "".join(_group(part) if part.kind in (UNION, SET, INTERSECT) else pattern_text(part) for part in parts(expr))
    if expr.kind == REPEAT:
        body, least, most = expr.args
        return (pattern_text(body) if single(body) is not None else _group(body)) + _count(least, most)
    if expr.kind in (UNION, SET):
        return "|".join(_alternatives(expr))
    if expr.kind == INTERSECT:
        return "∩".join(f"({pattern_text(member)})" for member in expr.args)
    if expr.kind == COMPLEMENT:
        return f"¬({pattern_text(expr.args[0])})"
    return repr(expr.args[0])


def _group(expr: Expr) -> str:
    return f"(?:{pattern_text(expr)})"


def _alternatives(expr: Expr) -> list[str]:
    if expr.kind == UNION:
        return [pattern_text(member) for member in expr.args]
    texts = expr.args[0]
    kept = (texts.texts[at][texts.depth :] for at in range(texts.low, texts.high) if not texts.excluded >> at & 1)
    return ["".join(_char(ord(char)) for char in text) for text in kept]


def _count(least: int, most: int) -> str:
    if (least, most) == (0, 1):
        return "?"
    if most == INFINITE:
        return "*" if least == 0 else "+" if least == 1 else f"{{{least},}}"
    return f"{{{least}}}" if least == most else f"{{{least},{most}}}"


def _class(ranges: Ranges) -> str:
    if ranges == ((0, MAX),):
        return "[\\s\\S]"
    if ranges[0][0] == 0 and ranges[-1][1] == MAX:
        return f"[^{_ranges(negate(ranges))}]"
    return f"[{_ranges(ranges)}]"


def _ranges(ranges: Ranges) -> str:
    found = []
    for low, high in ranges:
        found.append(_char(low) if low == high else f"{_char(low)}{'-' if high > low + 1 else ''}{_char(high)}")
    return "".join(found)


def _char(point: int) -> str:
    char = chr(point)
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char in r".^$*+?{}[]\|()/-&~#":
        return "\\" + char
    if char.isprintable():
        return char
    return f"\\x{point:02x}" if point < 0x100 else f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"
