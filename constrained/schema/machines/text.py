"""Text languages less the texts that are used up: keys that are written, items that must not come again.

Cutting texts out gives a language of its own, with masks of its own.  As a rule that is not needed: the language stays
as it is, shares its masks with all others, and a used text is refused at its end.  Only where nothing but used texts
would go on must they be cut out before.  How many characters lead there (`scarce_from`) also says how much one token
must read to tell whether a text was used.  That is found level by level, as far as there are few states; of so many
characters of one class, at once; of a few texts, by looking at them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from constrained.caches import cached
from constrained.regex import (
    ANY_TEXT,
    NEVER,
    Expr,
    complement,
    intersect,
    is_empty,
    is_finite,
    literals,
)
from constrained.regex.expr import CONCAT, EPSILON_KIND, INFINITE, REPEAT, SET, UNION, step
from constrained.schema.number_texts import NumberTexts
from constrained.work import spend

if TYPE_CHECKING:
    pass


# ======================================================================================================================
# Where a language has few texts left
# ======================================================================================================================

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
        return _scarce_among(listed, few)  # a choice of a few words is a trie of edges
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


# ======================================================================================================================
# Languages that never run dry, and what is left of the others
# ======================================================================================================================

_MOST_STATES = 100
_MOST_LISTED = 256  # texts of a set that are read one by one


@cached(4096)
def never_runs_dry(language: Expr) -> bool:
    """Say whether infinitely many texts follow every prefix; decided for languages of few states, and for those that
    every text is the start of a text of, otherwise "no".
    """
    if language.universal or language.plain and _ends_without_end(language):
        return True
    for _ in range(_MOST_STATES):  # what stands behind different names is often the same
        if language.accepts or len(edges := language.edges()) != 1:
            break
        language = edges[0][2]
    return _never_runs_dry(language)


@cached(4096)
def _never_runs_dry(language: Expr) -> bool:
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


def _ends_without_end(expr: Expr) -> bool:
    """Return True if the structure of a language that is not empty shows that infinitely many texts follow every
    prefix: whatever is read last is something that may come again and again.  False says nothing.

    The tag of a language, as translated keys end in, has 79 states, which took 2 ms to list.
    """
    while expr.kind == CONCAT:
        expr = expr.args[1]
    return expr.long == INFINITE and _goes_on(expr)


def _goes_on(expr: Expr) -> bool:
    """As `_ends_without_end`, of prefixes that are not empty."""
    while expr.kind == CONCAT:
        expr = expr.args[1]
        if expr.long < INFINITE:
            return False
    if expr.kind == UNION:
        return all(map(_goes_on, expr.args))
    if expr.kind == REPEAT:
        body, _, most = expr.args
        return most == INFINITE or expr.long == INFINITE and _goes_on(body)
    return expr.kind == EPSILON_KIND


def is_endless(language: Any) -> bool:
    """Say whether a language has infinitely many texts, each of another value, as far as that is plain to see; no
    values that were written use them up.
    """
    if isinstance(language, NumberTexts):
        return any(numbers.low is None or numbers.high is None for numbers in language.ranges)
    return isinstance(language, Expr) and language.plain and not is_finite(language)


def cut(language: Expr, used: Collection[str]) -> Expr | None:
    """Return the language without some texts, None if nothing is left."""
    left = intersect(language, complement(literals(sorted(used)))) if used else language
    return None if is_empty(left) else left


def without_dead_ends(language: Expr, used: frozenset[str]) -> Expr | None:
    """Return the language without those used texts behind which nothing but used ones follow; None if nothing is left.

    All other used texts can be refused at their ends: something else goes on there.
    """
    if not used:
        return language
    scarce = scarce_from(language, len(used))
    if scarce is None or all(len(text) < scarce for text in used):
        return language
    if language.kind == SET and len(language.args[0].texts) <= _MOST_LISTED:
        texts = language.args[0].members()
        left = with_others_behind(texts, used)
        return language if len(left) == len(texts) else literals(left) if left else None
    spend(len(used))
    ordered = sorted(used)
    return cut(language, [text for text in ordered if _is_last(language, text, used, ordered)])


def _is_last(language: Expr, text: str, used: frozenset[str], ordered: Sequence[str]) -> bool:
    """Say whether `text` is in the language and all texts that start with it are used; ordered: the used ones."""
    behind = _behind(language, text)
    todo = [(text, behind)]
    if not behind.accepts:
        return False
    while todo:  # no more often than used texts have characters
        read, state = todo.pop()
        spend(3)
        if state.accepts and read not in used:
            return False
        place = bisect_right(ordered, read)
        is_begun = place < len(ordered) and ordered[place].startswith(read)  # one of them is longer
        for low, high, target in state.edges():
            if high - low >= len(used) or not is_begun:
                return False
            todo += [(read + chr(point), target) for point in range(low, high + 1)]
    return True


@cached(4096)
def _behind(language: Expr, text: str) -> Expr:
    """Return what may follow a text; the empty language if the text cannot stand there."""
    for char in text:
        point = ord(char)
        language = step(language, point) if not 0xD800 <= point <= 0xDFFF else NEVER
    return language
