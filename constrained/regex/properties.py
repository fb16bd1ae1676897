r"""Unicode properties by the names that ECMA-262 gives them (``\p{…}``).

The tables are data (`unicode.txt`, one property a line, 75 KB, one version of Unicode for all of them); a line is decoded when a
pattern names it.  Refused: Python's `unicodedata`, which knows neither scripts nor the derived properties and whose version varies.
Tested against `unicodedata` where the two overlap and against the verdicts of a JavaScript engine (`tests/corpus/regex_ecma.jsonl`).
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

from .charset import Ranges, normal, union

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
def _folds() -> tuple[dict[int, int], dict[int, tuple[int, ...]]]:
    """Return the simple case folding of the characters that it changes, and the characters that fold to each result."""
    fold: dict[int, int] = {}
    for point in range(0x20000):  # no cased letter above (asserted by a test)
        if 0xD800 <= point <= 0xDFFF:
            continue
        char = chr(point)
        folded = char.casefold()
        if len(folded) > 1:
            folded = char.lower()  # a full folding: the simple one is the lower case letter, if that is one letter
        if len(folded) == 1 and folded != char:
            fold[point] = ord(folded)
    back: dict[int, tuple[int, ...]] = {}
    for point, folded_point in fold.items():
        back[folded_point] = (*back.get(folded_point, ()), point)
    return fold, back


def closed_under_case(ranges: Ranges) -> Ranges:
    """Return the characters whose simple case folding is that of a character in the set.

    >>> closed_under_case(((ord("k"), ord("k")),))
    ((75, 75), (107, 107), (8490, 8490))
    """
    fold, back = _folds()
    extra = []
    for low, high in ranges:
        for point in range(low, high + 1) if high - low < len(fold) else [p for p in (*fold, *back) if low <= p <= high]:
            target = fold.get(point, point)
            if target in back:
                extra += [(target, target), *((other, other) for other in back[target])]
    return union(ranges, normal(extra))
