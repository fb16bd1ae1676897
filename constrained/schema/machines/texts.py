"""A text language less the texts that are used up: keys that are written, items that must not come again.

Cutting texts out gives a language of its own, with masks of its own.  As a rule that is not needed: the language stays
as it is, shares its masks with all others, and a used text is refused at its end.  Only where nothing but used texts
would go on must they be cut out before.  How many characters lead there (`scarce_from`) also says how much one token
must read to tell whether a text was used.

`Recorded` is what follows a text inside an item that has to be distinct.  Where earlier values go on with certain
texts, their *rivals*, these are the special ones of `Dispatch`; all others lead to an item that differs from each.
"""

from __future__ import annotations

import keyword
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from constrained.caches import cached
from constrained.machine import Dispatch, Language, LiteralSet, Quoting, State, Text
from constrained.regex import (
    NEVER,
    Expr,
    complement,
    intersect,
    is_empty,
    is_finite,
    literals,
    matches,
    parse_python,
)
from constrained.regex.expr import CONCAT, EPSILON_KIND, INFINITE, REPEAT, SET, UNION, step
from constrained.schema.numeric.keys import MOST_DIGITS, is_within, number_key, number_text
from constrained.schema.numeric.language import NumberTexts, number_language
from constrained.schema.numeric.ranges import contains, near
from constrained.schema.strings.scarcity import scarce_from, with_others_behind
from constrained.schema.strings.sets import listed
from constrained.work import spend

if TYPE_CHECKING:
    from constrained.schema.machines.distinct import Distinct
    from constrained.schema.machines.items import OpenItem, Place, Return

CLOSING = b"}])"
_LONGEST_NUMBER = 100  # digits of numbers that are left out of a language; longer ones are asked for
_MOST_STATES = 100
_MOST_LISTED = 256  # texts of a set that are read one by one


@cached(4096)
def never_runs_dry(language: Expr) -> bool:
    """Say whether infinitely many texts follow every prefix; decided for languages of few states, and for those that
    every text is the start of a text of, otherwise "no".
    """
    if language.universal or language.plain and _ends_without_end(language):
        return True
    for _ in range(_MOST_STATES):  # PERF: what stands behind different names is often the same
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

    PERF: the tag of a language, as translated keys end in, has 79 states, which took 2 ms to list.
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
    return isinstance(language, Expr) and language.plain and not is_finite(language)  # PERF: as most are


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


@lru_cache(maxsize=1)
def identifiers() -> Expr:
    """Return the names that a keyword argument may have where the schema does not list it."""
    return intersect(parse_python("[A-Za-z_][A-Za-z0-9_]*"), complement(literals(keyword.kwlist)))


class ItemText:
    """A text that may come at a place inside an item, and where it leads: the same for all items there."""

    __slots__ = ("_home", "_returns", "_targets", "callee", "is_endless", "number", "special", "then")

    def __init__(self, home: Distinct, callee: Text, then: State | Dispatch, returns: Return | None) -> None:
        self._home, self.callee, self.then, self._returns = home, callee, then, returns
        self.number = callee.quoting is Quoting.RAW
        self.is_endless = is_endless(callee.language)
        self._targets: dict[str | None, Place] = {}
        self.special: frozenset[str] = frozenset()
        if isinstance(then, Dispatch):
            self.special = then.special if self.texts is None else frozenset(self.texts)

    @property
    def texts(self) -> tuple[str, ...] | None:
        """All texts that may stand here but for those that are excluded, None where they are not listed."""
        language = self.callee.language
        return language.texts if isinstance(language, LiteralSet) else None

    def narrowed(self, callee: Text) -> ItemText:
        """Return the same place for some of the texts."""
        return ItemText(self._home, callee, self.then, self._returns)

    def target(self, text: str | None) -> Place | None:
        """Return what follows in the machine of the item, None if the text is refused.

        PERF: kept where it is no ordinary text, as every item asks for these again.
        """
        then, key = self.then, text if isinstance(self.then, Dispatch) else None
        found = self._targets.get(key)
        if found is None:
            state: State | None
            if not isinstance(then, Dispatch):
                state = then
            elif self.texts is None or then.records:
                state = then.after_text(text)
            else:
                state = then.after(self.texts.index(text)) if text in self.texts else None
            if state is None:
                return None
            found = self._home.place(state, self._returns)
            if key is None or key in self.special:
                self._targets[key] = found
        return found

    def behind(self) -> Iterator[Place]:
        """Yield what may follow, once for all texts that are ordinary."""
        language, targets = self.callee.language, iter([self.target(None)])
        if isinstance(language, LiteralSet) and isinstance(self.then, Dispatch) and not self.then.records:
            texts, excluded = language.texts, language.excluded
            targets = (self.target(text) for index, text in enumerate(texts) if not excluded >> index & 1)
        return (target for target in targets if target is not None)

    def frames(self) -> Iterator[State]:
        """Yield the states whose ways out are the rest of an item behind the text, but for what one of a few texts
        decides.
        """
        then: State | Dispatch | None = self.then
        if isinstance(then, Dispatch):
            then = then.after_text(None) if then.records else None
        if then is not None:
            yield then
        at = self._returns
        while at is not None:
            yield at.then
            at = at.parent


class Recorded(Dispatch):
    """What follows a text inside an item."""

    records = True

    def __init__(self, item: OpenItem, text: ItemText, rivals: Collection[str] | None = None) -> None:
        self._item, self._text, self._then, self.callee = item, text, text.then, text.callee
        self._number = text.number
        self._rivals = None if rivals is None else frozenset(rivals)
        self.special = text.special | self.rivals()
        then = text.then
        inner, inner_by = (then.tells_from, then.told_by) if isinstance(then, Dispatch) else (None, b"")
        self.told_by = CLOSING if inner is None else CLOSING + inner_by if inner_by else b""
        self.refuses = bool(self._rivals) or isinstance(then, Dispatch) and then.refuses
        self.tells_from = self._tells_from(inner)

    def _tells_from(self, inner: int | None) -> int | None:
        """Return how many bytes behind the text it takes to tell which one it was, see `Dispatch.tells_from`; inner:
        for what the machine of the item asks.

        Whatever an ordinary text is, no earlier item is met any more.  Where there are always others, the item matters
        only to one that would be the same, which writes this text too: one of endlessly many, so that the other item is
        not refused before it does, but perhaps behind a key. Such tokens hold two texts, and are tried anyway.
        """
        item = self._item
        if self._text.is_endless and item.home.never_lacks:
            return inner
        here = item.built.depth + 1  # the closing brackets, and a comma that may be too much
        return here if inner is None else min(inner, here)

    @property
    def alike(self) -> bool:  # type: ignore[override]
        """Whether an ordinary text matters only because another item may have it in the same place, see `Dispatch`."""
        return self._item.home.alike and self._is_any()

    @property
    def elsewhere(self) -> tuple[Text, ...] | None:
        return self._item.home.elsewhere if self._is_any() else None

    @property
    def earlier(self) -> int:  # type: ignore[override]
        """The earlier items."""
        return self._item.earlier.count

    def _is_any(self) -> bool:
        """Say whether what comes next only asks which text it was to refuse it again."""
        told = self._then.alike if isinstance(self._then, Dispatch) else True
        return told and not self._number and isinstance(self.callee.language, Expr)

    def frames(self) -> Iterator[State]:
        """As of the text."""
        return self._text.frames()

    def rivals(self) -> frozenset[str]:
        """Return the texts with which an earlier value goes on; of a number, those of any spelling are left to
        `after_text`.
        """
        if self._rivals is None:
            candidates = self._item.built.candidates()
            spend(len(candidates) // 2)
            if self._item.built.expects_key:
                self._rivals = candidates
            elif self._number:
                self._rivals = frozenset(number_text(content) for kind, content in candidates if kind == "number")
            else:
                self._rivals = frozenset(content for kind, content in candidates if kind == "string")
        return self._rivals

    def has_small_rivals(self) -> bool:
        """Say whether there are rivals, all of them numbers that are cheap as fractions."""
        return self._number and bool(self.rivals()) and all(is_within(text, _LONGEST_NUMBER) for text in self.rivals())

    def target(self, text: str | None) -> Place | None:
        """Return what follows in the machine of the item, None if the text is refused."""
        if text is None and self._number and self._rivals:
            return None  # 1.0 is special where 1 is, and a set of texts cannot say so: every text is asked for
        return self._text.target(text)

    def after_text(self, text: str | None) -> State | None:
        target = self.target(text)
        built = None if target is None else self._item.built.text(text, number=self._number)
        return None if target is None or built is None else self._item.at(target, built)

    def following(self, text: str, *, ascending: bool = True) -> OpenItem | None:
        """Return the item after a text that a search reads; ascending: None also for a key before one that was written,
        where keys have any order.
        """
        target = self.target(text)
        if target is None:
            return None
        ascending = ascending and not self._item.home.ordered
        built = self._item.built.text(text, number=self._number, searching=ascending)
        return None if built is None else self._item.moved(target, built)

    def needed(self) -> str | None:
        """Return a key that has to be written sooner or later and may as well come now."""
        texts = self._text.texts
        if texts is None or not isinstance(self._then, Dispatch) or self._item.home.ordered:
            return None
        language: Any = self.callee.language
        left = self._then.wanted & ~language.excluded
        return texts[(left & -left).bit_length() - 1] if left else None

    def without(self, dead: frozenset[str]) -> Language | None:
        """Return the language of the callee without these texts, or as much of them as leads nowhere; None if nothing
        is left.
        """
        language: Any = self.callee.language
        if isinstance(language, LiteralSet):
            barred = sum(
                1 << index
                for index, text in enumerate(language.texts)
                if text in dead or self._number and _is_among(text, dead)
            )
            left = language.excluded | barred
            return None if left == (1 << len(language.texts)) - 1 else LiteralSet(language.texts, left)
        if isinstance(language, NumberTexts):
            short = frozenset([Fraction(text) for text in dead if is_within(text, MOST_DIGITS)])
            found = number_language(language.ranges, language.spelling, short)
            return found if found.edges() else None  # the others are refused when they end
        return without_dead_ends(language, dead)

    def offers_more(self, few: frozenset[str]) -> bool:
        """Say whether some text is not among these and is not refused."""
        language: Any = self.callee.language
        if self._text.is_endless:
            return True
        if isinstance(language, LiteralSet):
            return any(
                not language.excluded >> index & 1
                and text not in few
                and not (self._number and _is_among(text, few))
                and self.following(text) is not None
                for index, text in enumerate(language.texts)
            )
        if isinstance(language, NumberTexts):
            beyond = frozenset([near(text, language.ranges) for text in few])
            return bool(number_language(language.ranges, language.spelling, beyond).edges())
        used = few | self._then.special if isinstance(self._then, Dispatch) else few
        spend(1 + len(used) // 4)
        texts = listed(language, len(used))
        return texts is None or not used.issuperset(texts)

    def reads(self, text: str) -> bool:
        """Say whether the callee reads a text."""
        language: Any = self.callee.language
        if isinstance(language, LiteralSet):
            return any(
                not language.excluded >> index & 1
                and (text == other or self._number and _is_among(other, frozenset((text,))))
                for index, other in enumerate(language.texts)
            )
        if isinstance(language, NumberTexts):
            value = near(text, language.ranges)
            return any(contains(numbers, value) for numbers in language.ranges)
        assert isinstance(language, Expr)
        return matches(language, text)


def _is_among(text: str, texts: frozenset[str]) -> bool:
    return number_key(text) in {number_key(other) for other in texts}
