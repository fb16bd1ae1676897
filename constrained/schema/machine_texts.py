"""What is left of a text language when some texts are used up: keys that are written, items that must not come again.

Cutting texts out gives a language of its own, with masks of its own.  Where infinitely many texts follow every prefix that is not
needed: the language stays as it is, shares its masks with all others, and a used text is refused at its end.
"""

from __future__ import annotations

import keyword
from collections.abc import Collection
from functools import lru_cache

from constrained.regex import ANY_TEXT, Expr, complement, intersect, is_empty, is_finite, literals, parse_python

_MOST_STATES = 100


@lru_cache(maxsize=4096)
def never_runs_dry(language: Expr) -> bool:
    """Say whether infinitely many texts follow every prefix; decided for languages of few states, otherwise "no"."""
    if language is ANY_TEXT:
        return True
    seen, queue = {language}, [language]
    for state in queue:
        if is_finite(state):
            return False
        for _, _, target in state.edges():
            if target not in seen:
                seen.add(target)
                queue.append(target)
        if len(queue) > _MOST_STATES:
            return False
    return True


def cut(language: Expr, used: Collection[str]) -> Expr | None:
    """Return the language without some texts, None if nothing is left."""
    left = intersect(language, complement(literals(sorted(used)))) if used else language
    return None if is_empty(left) else left


@lru_cache(maxsize=1)
def identifiers() -> Expr:
    """Return the names that a keyword argument may have where the schema does not list it."""
    return intersect(parse_python("[A-Za-z_][A-Za-z0-9_]*"), complement(literals(keyword.kwlist)))
