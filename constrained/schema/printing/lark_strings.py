r"""Strings of a counted class of characters that spell no marker, as patterns; and runs between tags.

    "(?=(?:[^"\\]|\\(?:u[0-9a-f]{4}|[^u])){0,100}")(?!(?:…)*<\|end\|>)(?:[^"\\…]|\\[bfnrt"\\]|<\|end\|\\u003e)*"

A character that would complete a marker is escaped there and nowhere else: the marker as it stands is forbidden, and
its escaped form is a unit of its own.  Such a unit is several characters of the text, so the count is a condition
apart.
`regex.runs` reads these shapes back without working out their automata.
"""

from __future__ import annotations

from dataclasses import replace

from constrained.caches import cached
from constrained.machine import MarkerSafe, Quoting
from constrained.regex.charset import intersect as meet
from constrained.regex.runs import ClosedRun
from constrained.regex.show import pattern_text
from constrained.schema.printing.lark_characters import SCALARS, Ranges, Way, char_class, fixed, outside, quoted, ways

_APOSTROPHE, _QUOTATION = 0x27, 0x22
_IN_ESCAPES = set("'\"\\/")  # and all letters and digits


def closed(run: ClosedRun, *, ahead: bool) -> str | None:
    """Return a pattern of a run and its closing text, or if `ahead` of the run before that text; None for a run with
    conditions that are no patterns, or that can be empty where Lark has no terminal for it.
    """
    if (ahead and not run.least) or not all(head.plain for head in (*run.inside, *run.outside)):
        return None
    closing = quoted(run.closing)
    heads = [
        f"(?{sign}(?:{pattern_text(head).replace('/', chr(92) + '/')}){closing})"
        for sign, part in (("=", run.inside), ("!", run.outside))
        for head in part
    ]
    ranges = tuple((low, high) for low, high, _ in run.char.edges())
    char = r"[\s\S]" if ranges == SCALARS else char_class(ranges)
    guards = "|".join(map(quoted, run.guards))
    closed_by = f"(?={closing})" if ahead else closing
    return f"{''.join(heads)}(?:(?!{guards}){char}){_count(run.least, run.most)}{closed_by}"


@cached(256, 10_000)
def strings(quoting: Quoting | MarkerSafe, ranges: Ranges, least: int, most: int | None) -> tuple[str, ...] | None:
    """Return patterns of the strings of a class of characters, one of which holds each; None where a marker begins with
    what an escape can end with.
    """
    options = ways(quoting)
    if Quoting(int(quoting)) is not Quoting.PYTHON_CANONICAL:
        found = [_string(way, ranges, least, most) for way in options]
        return None if None in found else tuple([pattern for pattern in found if pattern is not None])
    single, double = options  # repr() takes double quotes for texts with ' and without "
    calm, plain = ((meet(ranges, outside(((point, point),)))) for point in (_APOSTROPHE, _QUOTATION))
    patterns = [_string(single, calm, least, most)]
    if calm != ranges:
        unit = _unit(double)
        patterns.append(_string(double, plain, least, most, f"(?={unit}*')"))
        if plain != ranges:
            unit = _unit(single)
            patterns.append(_string(single, ranges, least, most, f"(?={unit}*\")(?={unit}*\\\\')"))
    return None if None in patterns else tuple([pattern for pattern in patterns if pattern is not None])


def _string(way: Way, ranges: Ranges, least: int, most: int | None, conditions: str = "") -> str | None:
    alone = tuple(sorted((ord(marker), ord(marker)) for marker in way.markers if len(marker) == 1))
    alone = meet(meet(alone, way.raw), ranges)
    raw = meet(way.raw, outside(alone)) if alone else way.raw
    possible = meet(raw, ranges)
    markers = [
        marker for marker in way.markers
        if len(marker) > 1 and all(any(low <= ord(char) <= high for low, high in possible) for char in marker)
    ]
    if any(marker[0].isalnum() or marker[0] in _IN_ESCAPES for marker in markers):
        return None
    units = [replace(way, raw=raw, markers=()).spell(ranges)]
    units += [fixed(way.escape(point)) for point, _ in alone]
    units += [quoted(marker[:-1]) + fixed(way.escape(ord(marker[-1]))) for marker in markers]
    count, unit = _count(least, most), _unit(way)
    if markers:
        conditions += "" if count == "*" else f"(?={unit}{count}{way.quote})"
        conditions += f"(?!{unit}*(?:{'|'.join(map(quoted, markers))}))"
        count = "*"
    body = units[0] if len(units) == 1 else f"(?:{'|'.join(units)})"
    return f"{way.quote}{conditions}{body}{count}{way.quote}"


def _unit(way: Way) -> str:
    """Return a pattern of one character or escape, whichever; the rest of a pattern says which there are."""
    forms = [rf"{letter}[0-9a-f]{{{digits}}}" for letter, digits, _, _ in way.hexes]
    letters = "".join(letter for letter, *_ in way.hexes)
    return rf"(?:[^{way.quote}\\]|\\(?:{'|'.join([*forms, f'[^{letters}]'])}))"


def _count(least: int, most: int | None) -> str:
    return "*" if (least, most) == (0, None) else f"{{{least},{'' if most is None else most}}}"
