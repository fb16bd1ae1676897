"""Patterns over characters, one state at a time, with long runs in one step.

A terminal of a format is a `Language`, whose automaton appears while it is read.  Its states are kept here with a table
for ASCII and, for each state that a character can leave unchanged, a regular expression that finds how far it stays so:
free text is read as fast as Python's `re` reads it, and only the characters that may begin something else are looked at
one by one.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from constrained.machine import Language
from constrained.work import spend

MOST_STATES = 20_000  # of one network; counted repeats may have any number
_MOST_SPELLED = 24  # characters of a text that shows what could have come
Ranges = tuple[tuple[int, int], ...]
_UNKNOWN = re.compile("")  # stands for a run that nobody has asked for


class PatternState:
    """A state of a pattern.  `accepts`: it may end here; `stays`: the characters that lead back here, as code point
    ranges.
    """

    __slots__ = ("accepts", "ranges", "stays", "_edges", "_lows", "_known", "_patterns", "_run")

    def __init__(self, language: Language, patterns: Patterns) -> None:
        self.accepts = bool(language.accepts)
        edges = language.edges()
        self._edges, self._lows, self._patterns = edges, [low for low, _, _ in edges], patterns
        self.ranges: Ranges = tuple((low, high) for low, high, _ in edges)
        self.stays: Ranges = tuple((low, high) for low, high, then in edges if then is language)
        self._known: dict[str, PatternState | None] = {}
        self._run: re.Pattern[str] | None = _UNKNOWN

    def spelled(self) -> str | None:
        """Return the shortest text that leads to an end, in quotes; None for one so short that it tells nothing, or
        where it is long.
        """
        level: list[tuple[PatternState, str]] = [(self, "")]
        seen = {self}
        for _ in range(_MOST_SPELLED):
            following = []
            for state, text in level:
                if state.accepts:
                    return repr(text) if len(text) > 2 else None
                for low, _, language in state._edges:
                    then = self._patterns.state(language)
                    if then not in seen:
                        seen.add(then)
                        following.append((then, text + chr(low)))
            level = following[:_MOST_SPELLED]
        return None

    def after(self, text: str) -> PatternState | None:
        """Return the state behind a text; None where it is no beginning of what the pattern describes."""
        found: PatternState | None = self
        for char in text:
            found = found.step(char) if found is not None else None
        return found

    def reads(self, text: str) -> bool:
        """Return whether a whole text is one that the pattern describes; runs of what changes nothing go in one step.

        PERF: ten megabytes of words 2.0 -> 0.03 s.
        """
        state, at, end, steps = self, 0, len(text), 0
        while at < end:
            run = state._run
            if run is _UNKNOWN:
                run = state._run = self._patterns.run(state.stays, ()) if state.stays else None
            if run is not None and (found := run.match(text, at)) is not None:
                at = found.end()
                if at == end:
                    break
            then = state.step(text[at])
            if then is None:
                return False
            state, at, steps = then, at + 1, steps + 1
            if not steps & 1023:
                spend(1024)
        return state.accepts

    def step(self, char: str) -> PatternState | None:
        known = self._known.get(char, self)
        if known is not self or char in self._known:
            return known
        code = ord(char)
        index = bisect_right(self._lows, code) - 1
        after = None
        if index >= 0 and code <= self._edges[index][1]:
            after = self._patterns.state(self._edges[index][2])
        if len(self._known) < 512:
            self._known[char] = after
        return after


class Patterns:
    """The states that were met, by language, and the runs that were asked for."""

    def __init__(self) -> None:
        self._states: dict[Language, PatternState] = {}
        self._runs: dict[tuple[Ranges, Ranges], re.Pattern[str] | None] = {}

    def state(self, language: Language) -> PatternState:
        known = self._states.get(language)
        if known is None:
            if len(self._states) >= MOST_STATES:
                self._states.clear()
            known = self._states[language] = PatternState(language, self)
        return known

    def run(self, stays: Ranges, leaves: Ranges) -> re.Pattern[str] | None:
        """Return what matches characters of `stays` that are not in `leaves`; None where there are none."""
        key = (stays, leaves)
        if key not in self._runs:
            if len(self._runs) > MOST_STATES:
                self._runs.clear()
            inside = without(stays, leaves)
            self._runs[key] = re.compile(f"[{''.join(map(_class, inside))}]+") if inside else None
        return self._runs[key]


def without(ranges: Ranges, others: Ranges) -> Ranges:
    """Return the code points of `ranges` that are not in `others`.

    >>> without(((0, 9),), ((2, 3), (9, 12)))
    ((0, 1), (4, 8))
    """
    found = []
    for low, high in ranges:
        for left, right in sorted(others):
            if right < low or left > high:
                continue
            if left > low:
                found.append((low, left - 1))
            low = max(low, right + 1)
        if low <= high:
            found.append((low, high))
    return tuple(found)


def has(ranges: Ranges, code: int) -> bool:
    """Return whether a code point is in ranges."""
    return any(low <= code <= high for low, high in ranges)


def _class(span: tuple[int, int]) -> str:
    return f"\\U{span[0]:08x}-\\U{span[1]:08x}"
