"""Where a language has few texts left: how many characters lead to a place behind which nothing but some used texts may
stand (`scarce_from`).

Found level by level, as far as there are few states; of so many characters of one class, at once; of a few texts, by
looking at them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from constrained.caches import cached
from constrained.regex import ANY_TEXT, Expr
from constrained.work import spend

_MOST_STATES = 100
_MOST_STEPS = 1000


def scarce_from(language: Expr, few: int) -> int | None:
    """Return the least number of characters behind which there can be `few` texts or fewer, None if there are more
    behind any number.

    It is exact for languages of few states, and otherwise less.
    """
    # rounded up to be found again
    return None if language is ANY_TEXT else _scarce_from(language, (1 << few.bit_length()) - 1)


@cached(4096)
def _scarce_from(language: Expr, few: int) -> int | None:
    counted = language.counted if few else None
    if counted is None or sum([high - low + 1 for low, high, _ in counted[0].edges()]) <= few:
        return _first_scarce(language, few)
    _, least, most = counted  # before the last of so many characters there are as many texts as characters
    if most is None:
        return None if least < _MOST_STATES else _MOST_STATES
    return min(most, _MOST_STATES)


def _first_scarce(language: Expr, few: int) -> int | None:
    """As `_scarce_from`, level by level."""
    listed = None if language.literal_set is None else language.literal_set.members()
    if listed is not None and (len(listed) <= few or sum(map(len, listed)) <= _MOST_STATES):
        return _scarce_among(listed, few)  # PERF: a choice of a few words is a trie of edges
    seen, level = {language}, [language]
    for depth in range(_MOST_STATES):
        if any(_may_be_few(state, few) for state in level):
            return depth
        level = [
            target
            for target in dict.fromkeys([target for state in level for _, _, target in state.edges()])
            if target not in seen
        ]
        seen.update(level)
        if not level:
            return None
        if len(seen) > _MOST_STATES:
            return depth + 1
    return _MOST_STATES


def _scarce_among(texts: list[str], few: int) -> int | None:
    """As `_scarce_from`, of some texts."""
    spend(1 + len(texts) // 8)
    for depth in range(max(map(len, texts)) + 1):
        if few and min(Counter([text[:depth] for text in texts if len(text) >= depth]).values()) <= few:
            return depth
    return None


def _may_be_few(language: Expr, few: int) -> bool:
    """Say whether a language has `few` texts or fewer; also if that would take long to find out."""
    found, todo = 0, [language]
    for _ in range(_MOST_STEPS):
        if found + len(todo) > few:  # every open state has a text of its own
            return False
        if not todo:
            return True
        state = todo.pop()
        found += state.accepts
        for low, high, target in state.edges():
            todo += [target] * min(high - low + 1, few + 1)
    return True


def with_others_behind(texts: list[str], used: Collection[str]) -> list[str]:
    """Return those of some sorted texts that are not used, or that begin one that is not.

    >>> with_others_behind(["a", "ab", "b"], {"a", "b"})
    ['a', 'ab']
    """
    spend(2 + len(texts) // 4)
    found = []
    for at, text in enumerate(texts):
        last = at  # those that begin with the text come behind it
        while last < len(texts) and texts[last] in used and texts[last].startswith(text):
            last += 1
        if last == at or last < len(texts) and texts[last].startswith(text):
            found.append(text)
    return found
