r"""Unicode properties by the names that ECMA-262 gives them (``\p{…}``).

The tables are data (`unicode.txt`, one property a line, 85 KB, one version of Unicode for all of them, written by
`tools/unicode_tables.py`); a line is decoded when a pattern names it. Refused: Python's `unicodedata`, which knows
neither scripts nor the derived properties and whose version varies. Tested against `unicodedata` where the two overlap
and against the verdicts of a JavaScript engine (`tests/corpus/regex_ecma.jsonl`).
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

from constrained.regex.charset import Ranges, contains, normal, of_points, union
from constrained.work import spend

_PREFIXES = {
    "General_Category": "", "gc": "", "Script": "Script=", "sc": "Script=", "Script_Extensions": "Script_Extensions=",
    "scx": "Script_Extensions=",
}


@lru_cache(maxsize=1)
def _lines() -> dict[str, str]:
    found = {}
    for line in files(__package__).joinpath("unicode.txt").read_text("ascii").splitlines()[1:]:
        names, _, coded = line.partition(" ")
        kind, _, names = names.rpartition("=")
        for name in names.split("|"):
            found[f"{kind}={name}" if kind else name] = coded
    return found


@lru_cache(maxsize=256)
def unicode_property(name: str) -> Ranges | None:
    r"""Return the characters of what stands between the braces of ``\p{…}``; None if ECMA-262 does not name it.

    >>> unicode_property("Script=Ogham"), unicode_property("InGreek")
    (((5760, 5788),), None)
    """
    kind, equals, value = name.partition("=")
    if equals:
        if kind not in _PREFIXES or (_PREFIXES[kind] == "" and not _is_category(value)):
            return None
        name = _PREFIXES[kind] + value
        if name.startswith("Script_Extensions=") and name not in _lines():
            name = "Script=" + value  # written only where the two differ
    coded = _lines().get(name)
    if coded is None:
        return None
    if coded.startswith("= "):
        return union(*(unicode_property(part) or () for part in coded[2:].split()))
    return normal(_decoded(coded))


def joining_type(name: str) -> Ranges:
    """Return the characters of a joining type, which patterns cannot name: "Dual_Joining", "Transparent", …"""
    return normal(_decoded(_lines()[f"Joining_Type={name}"]))


@lru_cache(maxsize=256)
def _is_category(name: str) -> bool:
    return name in _lines() and list(_lines()).index(name) < list(_lines()).index("ASCII")


def _decoded(coded: str) -> list[tuple[int, int]]:
    found, at = [], 0
    for run in coded.split():
        gap, _, extent = run.partition("+")
        low = at + int(gap, 36)
        high = low + int(extent or "0", 36)
        found.append((low, high))
        at = high + 1
    return found


@lru_cache(maxsize=1)
def _case_classes() -> dict[int, tuple[int, ...]]:
    """Return, for each character that case folding touches, all those that are equal to it under simple folding."""
    found, at = {}, 0
    for run in _lines()["Case_Classes"].split():
        gap, *steps = run.split("+")
        at += int(gap, 36)
        members = [at]
        for step in steps:
            members.append(members[-1] + int(step, 36))
        found.update(dict.fromkeys(members, tuple(members)))
    return found


@lru_cache(maxsize=4096)
def closed_under_case(ranges: Ranges) -> Ranges:
    """Return the characters that are equal to one of the set under simple case folding.

    >>> closed_under_case(((ord("k"), ord("k")),))
    ((75, 75), (107, 107), (8490, 8490))
    """
    classes = _case_classes()
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return union(ranges, of_points(classes.get(ranges[0][0], ())))
    spend(500)
    touched = [point for point in classes if contains(ranges, point)]
    return union(ranges, of_points(other for point in touched for other in classes[point]))
