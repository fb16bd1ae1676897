"""Expressions as text: Python `re` syntax where there is one, ``¬(…)`` and ``(…)∩(…)`` beyond it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from constrained.regex.charset import MAX, Ranges, negate
from constrained.regex.expr import (
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
from constrained.work import spend

_ESCAPES = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def pattern_text(expr: Expr) -> str:
    """Return an expression as a pattern.

    >>> from constrained.regex import parse_python
    >>> pattern_text(parse_python(r"(?:a|bc)*\\.[^x]{2,3}"))
    '(?:a|bc)*\\\\.[^x]{2,3}'
    """
    pieces = []
    for piece in _pieces(expr):
        spend(1)
        pieces.append(piece)
    return "".join(pieces)


def short_text(expr: Expr, limit: int = 200) -> str:
    """Return the start of an expression's text; only as much is written as is shown.

    >>> from constrained.regex import parse_python
    >>> short_text(parse_python("[a-f]|xyz"), 6)
    '[a-f]…'
    """
    text = ""
    for piece in _pieces(expr):
        text += piece
        if len(text) > limit:
            return text[: limit - 1] + "…"
    return text


def _pieces(expr: Expr) -> Iterator[str]:
    """Yield the text piece by piece: shared parts are written once for each use, so that a small expression may have a
    long text.
    """
    if expr.kind == NEVER_KIND:
        yield "(?!)"
    elif expr.kind == LITERAL:
        yield _escaped(expr.args[0])
    elif expr.kind == CLASS:
        yield _class(expr.args[0])
    elif expr.kind == CONCAT:
        for part in parts(expr):
            yield from _group(part) if part.kind in (UNION, SET, INTERSECT) else _pieces(part)
    elif expr.kind == REPEAT:
        body, least, most = expr.args
        yield from _pieces(body) if single(body) is not None else _group(body)
        yield _count(least, most)
    elif expr.kind == SET:
        yield from _joined("|", ([_escaped(text)] for text in _texts(expr)))
    elif expr.kind == UNION:
        yield from _joined("|", map(_pieces, expr.args))
    elif expr.kind == INTERSECT:
        yield from _joined("∩", (_group(member, "(") for member in expr.args))
    elif expr.kind == COMPLEMENT:
        yield from _group(expr.args[0], "¬(")
    elif expr.kind != EPSILON_KIND:
        yield repr(expr.args[0])


def _joined(between: str, members: Iterable[Iterable[str]]) -> Iterator[str]:
    for at, member in enumerate(members):
        if at:
            yield between
        yield from member


def _group(expr: Expr, opening: str = "(?:") -> Iterator[str]:
    yield opening
    yield from _pieces(expr)
    yield ")"


def _texts(expr: Expr) -> Iterator[str]:
    texts = expr.args[0]
    return (texts.texts[at][texts.depth :] for at in range(texts.low, texts.high) if not texts.excluded >> at & 1)


def _escaped(text: str) -> str:
    return "".join(_char(ord(char)) for char in text)


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
    pieces = []
    for low, high in ranges:
        pieces.append(_char(low) if low == high else f"{_char(low)}{'-' if high > low + 1 else ''}{_char(high)}")
    return "".join(pieces)


def _char(point: int) -> str:
    char = chr(point)
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char in r".^$*+?{}[]\|()/-&~#":
        return "\\" + char
    if char.isprintable():
        return char
    return f"\\x{point:02x}" if point < 0x100 else f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"
