"""Sets of property names: some names, some languages, or everything else.

`properties`, `patternProperties`, `additionalProperties` and `propertyNames` each constrain the values (or the
presence) of the keys of such a set.  Names stay names, so that the common schema never builds an automaton.
"""

from __future__ import annotations

from dataclasses import dataclass

from constrained import regex
from constrained.caches import cached
from constrained.regex import ANY_TEXT, NEVER, Expr


@dataclass(slots=True, unsafe_hash=True)  # PERF: never changed; a frozen one takes three times as long to make
class PropertyNames:
    """The keys in `names` or in one of the languages; with `outside`, all other keys."""

    outside: bool
    names: frozenset[str] = frozenset()
    languages: tuple[Expr, ...] = ()

    def __contains__(self, key: str) -> bool:
        if key in self.names:
            return not self.outside
        if not self.languages:
            return self.outside
        return any(_holds(language, key) for language in self.languages) is not self.outside

    def others(self) -> Expr:
        """Return the set as a language, for keys that are not in `names`."""
        if not self.languages:
            return ANY_TEXT if self.outside else NEVER
        inside = regex.union(*self.languages) if len(self.languages) > 1 else self.languages[0]
        return regex.complement(inside) if self.outside else inside

    def __invert__(self) -> PropertyNames:
        return PropertyNames(not self.outside, self.names, self.languages)

    def __or__(self, other: PropertyNames) -> PropertyNames:
        """Return the union.  Names that one side lists are decided one by one; the rest are languages."""
        if not self.outside and not other.outside:
            return PropertyNames(
                False, self.names | other.names, tuple(dict.fromkeys(self.languages + other.languages))
            )
        if not self.languages and not other.languages:
            if self.outside and other.outside:
                return PropertyNames(True, self.names & other.names)
            outer, inner = (self, other) if self.outside else (other, self)
            return PropertyNames(True, outer.names - inner.names)
        names = frozenset(name for name in self.names | other.names if name not in self and name not in other)
        rest = regex.complement(regex.union(self.others(), other.others()))
        return PropertyNames(
            True, names, () if rest is NEVER else (_without(rest, (self.names | other.names) - names),)
        )


ALL_KEYS = PropertyNames(True)
NO_KEYS = PropertyNames(False)


@cached(4096, 200)
def _holds(language: Expr, key: str) -> bool:
    """PERF: patterns are asked of the same few names in every conjunction, 28 times each in a schema of 23 KB."""
    return regex.matches(language, key)


def _without(language: Expr, names: frozenset[str]) -> Expr:
    return regex.intersect(language, regex.complement(regex.literals(names))) if names else language
