"""Sets of strings: regular languages that remember when they are finite.

`enum` and `const` make finite sets, and `oneOf` with a discriminator asks thousands of times whether two of them meet;
that must not build automata.  So a set is a finite set of texts, or a language less a finite set.  Every operation is
exact.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from constrained import regex
from constrained.caches import cached
from constrained.regex import ANY, ANY_TEXT, NEVER, Expr
from constrained.work import frozen_in_turns, spend


@dataclass(slots=True, unsafe_hash=True)  # never changed; a frozen one takes three times as long to make
class Texts:
    """The texts of `only`, where that is given; else the texts of `language` that are not in `barred`.

    `hull` is given where the language is smaller than what it stands for (a narrowed format): it leaves nothing out.
    The complement is then what lies outside the hull, so that it lets nothing wrong in either.

    `listed` is `only` in the order in which it was written, which sorts sooner than the order of a set.

    Invariant: only is None, or language, barred and hull have their defaults; language is within hull.
    """

    only: frozenset[str] | None = None
    language: Expr = ANY_TEXT
    barred: frozenset[str] = frozenset()
    hull: Expr | None = None
    listed: Collection[str] = field(default=(), compare=False)

    def __contains__(self, text: str) -> bool:
        if self.only is not None:
            return text in self.only
        return text not in self.barred and (self.language is ANY_TEXT or regex.matches(self.language, text))

    def __and__(self, other: Texts) -> Texts:
        if self is other or other is ALL_TEXTS:
            return self
        if self is ALL_TEXTS:
            return other
        if self.only is not None:
            return other._among(self.only)
        if other.only is not None:
            return self._among(other.only)
        hull = (
            None if self.hull is other.hull is None else _meet(self.hull or self.language, other.hull or other.language)
        )
        return Texts(None, _meet(self.language, other.language), self.barred | other.barred, hull)

    def _among(self, texts: frozenset[str]) -> Texts:
        """Return those of some texts that are in the set."""
        if self.only is not None:
            return finite(texts & self.only)
        if self.language is ANY_TEXT:
            return finite(texts - self.barred)
        return finite([text for text in texts if text in self])

    def __or__(self, other: Texts) -> Texts:
        if self is other or other is NO_TEXT or self is ALL_TEXTS:
            return self
        if self is NO_TEXT or other is ALL_TEXTS:
            return other
        if self.only is not None and other.only is not None:
            return finite(self.only | other.only)
        if self.language is ANY_TEXT and other.language is ANY_TEXT and not (self.only or other.only):
            return Texts(barred=self.barred & other.barred) if self.barred & other.barred else ALL_TEXTS
        for one, another in ((self, other), (other, self)):
            if one.only is not None and one.only <= another.barred and another.language is ANY_TEXT:
                left = another.barred - one.only
                return Texts(barred=left) if left else ALL_TEXTS
        hull = None if self.hull is other.hull is None else regex.union(self.outer(), other.outer())
        return of_language(regex.union(self.expr(), other.expr()), hull)

    def __invert__(self) -> Texts:
        if self.only is not None:
            return Texts(barred=self.only) if self.only else ALL_TEXTS
        if self.language is ANY_TEXT:
            return finite(self.barred)
        barred = regex.literals(self.barred)
        outside = regex.union(regex.complement(self.language), barred)
        return (
            of_language(outside)
            if self.hull is None
            else of_language(regex.union(regex.complement(self.hull), barred), outside)
        )

    def __bool__(self) -> bool:
        """Whether there is a text in the set.  Cost: a search in the automaton for languages; memoised there."""
        if self.only is not None:
            return bool(self.only)
        return self.language is ANY_TEXT or self._has_more() or not regex.is_empty(self.expr())

    def _has_more(self) -> bool:
        """Return True if more characters begin texts of the language than texts are barred.

        A discriminator that is not one of some names is asked for in every clause; its automaton is 50 times as
        much work.
        """
        if not self.barred:
            return False
        return sum([high - low + 1 for low, high, _ in self.language.edges()]) > len(self.barred)

    def outer(self) -> Expr:
        """Return the hull, or where there is none the set, as an expression."""
        return Texts(None, self.hull, self.barred).expr() if self.hull is not None else self.expr()

    def expr(self) -> Expr:
        """Return the set as an expression."""
        if self.only is not None:
            return regex.literals(self.listed)
        if not self.barred:
            return self.language
        return _meet(self.language, regex.complement(regex.literals(self.barred)))


ALL_TEXTS = Texts()
NO_TEXT = Texts(only=frozenset())


def is_spelled(text: str) -> bool:
    """Say whether some JSON text in UTF-8 spells a text: it has no lone surrogate."""
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


def finite(texts: Collection[str]) -> Texts:
    """Return a finite set; texts that cannot be spelled are left out."""
    if False in map(str.isascii, texts):
        texts = [*filter(is_spelled, texts)]
    return Texts(only=frozen_in_turns(texts), listed=texts) if texts else NO_TEXT


def of_language(language: Expr, hull: Expr | None = None) -> Texts:
    if hull is not None:
        return Texts(None, language, hull=hull)
    return ALL_TEXTS if language is ANY_TEXT else NO_TEXT if language is NEVER else Texts(None, language)


def _meet(left: Expr, right: Expr) -> Expr:
    return right if left is ANY_TEXT else left if right is ANY_TEXT or left is right else regex.intersect(left, right)


@cached(4096)
def of_length(least: int, most: int | None) -> Expr:
    """Return the texts of `least` to `most` characters."""
    return NEVER if most is not None and most < least else regex.repeat(ANY, least, most)


@cached(4096)
def of_pattern(pattern: str) -> Expr:
    """Return the texts in which an ECMA-262 pattern finds a match."""
    return regex.parse_ecma(pattern)


def listed(language: Expr, limit: int) -> list[str] | None:
    """Return the texts of a finite language in order, None if there are more than `limit`.

    >>> listed(regex.parse_ecma("^[ab]c?$"), 4)
    ['a', 'ac', 'b', 'bc']
    """
    if language.literal_set is not None:
        few = language.literal_set.members()
        return few if len(few) <= limit else None
    if not regex.is_finite(language):
        return None
    texts: list[str] = []
    todo: list[tuple[str, Expr]] = [("", language)]
    while todo:
        text, state = todo.pop()
        spend(1 + (len(text) >> 10))
        if state.accepts:
            texts.append(text)
        if len(texts) + len(todo) > limit:  # each open state has a text of its own
            return None
        for low, high, target in reversed(state.edges()):
            if high - low >= limit:
                return None
            todo.extend(
                (text + chr(point), target) for point in range(high, low - 1, -1) if not 0xD800 <= point <= 0xDFFF
            )
    return texts
