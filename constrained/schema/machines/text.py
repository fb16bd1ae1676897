"""Text languages less the texts that are used up: keys that are written, items that must not come again.

Cutting texts out gives a language of its own, with masks of its own.  As a rule that is not needed: the language stays
as it is, shares its masks with all others, and a used text is refused at its end.  Only where nothing but used texts
would go on must they be cut out before.  How many characters lead there (`scarce_from`) also says how much one token
must read to tell whether a text was used.  That is found level by level, as far as there are few states; of so many
characters of one class, at once; of a few texts, by looking at them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from typing import Any

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
from constrained.regex.expr import step
from constrained.regex.facts import may_go_on
from constrained.schema.number_texts import NumberTexts
from constrained.work import spend

# ======================================================================================================================
# Where a language has few texts left
# ======================================================================================================================

_MOST_STATES = 100
_MOST_STEPS = 1000
_APPENDED = "a0~"  # what is tried


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


def _may_be_few(language: Expr, few: int) -> bool:
    """Say whether a language has `few` texts or fewer; also if that would take long to find out."""
    texts, todo = 0, [language]
    for _ in range(_MOST_STEPS):
        if texts + len(todo) > few:  # every open state has a text of its own
            return False
        if not todo:
            return True
        state = todo.pop()
        texts += state.accepts
        for low, high, target in state.edges():
            todo += [target] * min(high - low + 1, few + 1)
    return True


# ======================================================================================================================
# Languages that never run dry, and what is left of the others
# ======================================================================================================================


@cached(4096)
def never_runs_dry(language: Expr) -> bool:
    """Say whether infinitely many texts follow every prefix, as no text is the last one; decided for languages of few
    states, and for those that every text is the start of a text of or behind whose texts a letter may stand, otherwise
    "no".
    """
    if language.universal or any(may_go_on(language, char) for char in _APPENDED):
        return True
    seen, queue = {language}, [language]
    for state in queue:
        edges = state.edges()
        targets = dict.fromkeys([target for _, _, target in edges if target not in seen])
        if not edges or len(queue) + len(targets) > _MOST_STATES:
            return False
        seen.update(targets)
        queue += targets
    return True


def is_endless(language: Any) -> bool:
    """Say whether a language has infinitely many texts, each of another value, as far as that is plain to see; no
    values that were written use them up.
    """
    if isinstance(language, NumberTexts):
        return any(numbers.low is None or numbers.high is None for numbers in language.ranges)
    return isinstance(language, Expr) and language.plain and not is_finite(language)


def cut(language: Expr, used: Collection[str]) -> Expr | None:
    """Return the language without some texts, None if nothing is left."""
    left = language  # the same one where nothing is cut, as its masks are known
    if used and language.literal_set is not None:
        spend(len(language.literal_set.texts) >> 4)
        left = literals(set(language.literal_set.members()).difference(used))
    elif used:
        left = intersect(language, complement(literals(sorted(used))))
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
