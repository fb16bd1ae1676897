"""Shortest ways to the end of a text: the spelling of fewest bytes of some text that a language has.

A way is a `str` of symbols: a byte is the character of the same number, a special token the character 256 + id.  Both
count one.  Of several shortest ways the first in the order of symbols is taken, so that an answer does not depend on
what was asked before.

The search is best first over the language's states.  Three places take a short way instead of the shortest, to bound
it: of a range of characters the one that a reader would expect stands for all that are spelled as shortly; behind a
text that has to differ from earlier ones the first few candidates are tried, shortest first; of a set of texts, each
with a continuation of its own, the 16 shortest.

Tests: tests/test_budget.py.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heappop, heappush
from itertools import chain, count, islice

from constrained.engine.budget.candidates import Candidates
from constrained.engine.budget.characters import Way, characters, closing, order, spelled, symbols
from constrained.engine.twin.spelling import Spelling, decode, variants
from constrained.engine.twin.text import DONE, TextAt, successor
from constrained.errors import LimitExceeded
from constrained.machine import Dispatch, Language, LiteralSet, MarkerSafe, Quoting, State, Text
from constrained.regex.guarded import ESCAPED, Guarded
from constrained.work import place, spend_nearby

FEW, MANY = 12, 400  # characters of one range that are tried for texts that have to differ
_MOST_LABELS = 16


class TextWays:
    """The shortest ways through the texts that somebody has asked about.

    Invariant: what is kept depends on the text or the position in it alone.
    """

    def __init__(self) -> None:
        self._whole: dict[Text, Way] = {}
        self._texts: dict[TextAt, Way] = {}
        self._bodies: dict[tuple[int, Language], Way] = {}  # by identity of the spelling, which is never dropped
        self._first: dict[tuple[Text, int], list[str]] = {}
        self._candidates: dict[tuple[TextAt, int], Candidates] = {}
        # by identity of all the texts, which are kept, and the range
        self._sorted: dict[tuple[int, int, int], tuple[tuple[str, ...], tuple[int, ...]]] = {}
        self._letters: dict[int, dict[int, Way | None]] = {}  # spelled, by identity of the spelling
        self._held = 0  # texts that `_candidates` keep, letters, and labels by eights

    def __len__(self) -> int:
        return len(self._whole) + len(self._bodies) + len(self._texts) + self._held

    def of_text(self, text: Text) -> Way:
        """Return the shortest spelling of any text of a language, quotes included."""
        known = self._whole.get(text)
        if known is None:
            parts = [(spelling, part) for spelling, part in variants(text.quoting, text.language) if part is not None]
            known = self._whole[text] = min(
                [symbols(spelling.opening) + self.rest(TextAt(spelling, part)) for spelling, part in parts], key=order
            )
        return known

    def rest(self, at: TextAt) -> Way:
        """Return the shortest way from inside a text to its end."""
        known = self._texts.get(at)
        if known is None:
            known = self._texts[at] = min((way for way, _ in self._endings(at)), key=order)
        return known

    def _endings(self, at: TextAt) -> Iterator[tuple[Way, TextAt]]:
        """Yield ways to the end, and where their first character was complete."""
        for begun, whole in characters(at):
            if whole.place == DONE:
                yield begun, whole
            else:
                yield begun + self.body(whole.spelling, whole.language) + closing(whole.spelling), whole

    def body(self, spelling: Spelling, language: Language) -> Way:
        """Return the shortest spelling of a text of a language, without quotes."""
        key = id(spelling), language
        known = self._bodies.get(key)
        if known is None:
            known = self._bodies[key] = self._searched(spelling, language)
        return known

    def _searched(self, spelling: Spelling, language: Language) -> Way:
        ties, seen = count(), set[Hashable]()
        # What is left counts at least a byte a character, where the language knows how many characters it wants (A*).
        heap: list[tuple[int, Way, int, Language]] = [(0, "", next(ties), language)]
        while heap:
            _, way, _, at = heappop(heap)
            if at in seen:
                continue
            seen.add(at)
            spend_nearby(4)
            if at.accepts:
                return way
            firsts: dict[Language, Way] = {}  # one of the characters that lead to each language will do
            edges = at.edges()
            spend_nearby(1 + len(edges) // 4)
            for low, high, target in edges:
                if target in seen or (low > 0x7F and len(firsts.get(target, "  ")) == 1):
                    continue  # PERF: letters are 700 ranges that lead to one language
                spend_nearby(6)
                char = next(spelled(spelling, low, high, 1), None)
                if char is not None:
                    firsts[target] = min(firsts.get(target, char), char, key=order)
            for target, char in firsts.items():
                longer = way + char
                heappush(heap, (len(longer) + getattr(target, "short", 0), longer, next(ties), target))
        raise LimitExceeded(
            "no way out is known", where=place(), because="the surface cannot write any text of the language"
        )

    def told(
        self, at: TextAt, after: Dispatch, record: bytes | None, quoting: Quoting | MarkerSafe | None
    ) -> Iterator[tuple[Way, State]]:
        """Yield ways to the end of a text, each with the state that follows this text."""
        if record is None and _set_of(at.language) is not None:
            yield from self._labelled(at, after)
            return
        tried = (self._tried(at, most).free(after, record, quoting) for most in (FEW, MANY))
        for way in chain((self.rest(at),), chain.from_iterable(tried)):
            spend_nearby(4 if after.compared is None else 1)
            target: State | None
            if record is None:
                target = after.after(0)
            else:
                assert quoting is not None
                target = after.after_text(decode(quoting, record + way.encode("latin-1")))
            if target is not None:
                yield way, target
                return

    def _labelled(self, at: TextAt, after: Dispatch) -> Iterator[tuple[Way, State]]:
        for begun, whole in characters(at):
            language = _set_of(whole.language)
            assert language is not None
            for label in [language.label] if whole.place == DONE else self._labels(language, after.wanted):
                spend_nearby(2)
                target = after.after(label)
                if target is None:
                    continue
                if whole.place == DONE:
                    yield begun, target
                    continue
                written = self._written(whole.spelling, whole.language, language.texts[label][language.depth :])
                if written is not None:
                    yield begun + written + closing(whole.spelling), target

    def _labels(self, language: LiteralSet, wanted: int) -> list[int]:
        """Return the labels of texts to try: one that has to come anyway if there is one, else the shortest."""
        free = ~language.excluded & ((1 << language.high) - (1 << language.low))
        spend_nearby(1 + (language.high >> 12))
        if free & wanted:
            return [(free & wanted & -(free & wanted)).bit_length() - 1]
        held, found = free.to_bytes((language.high >> 3) + 1, "little"), list[int]()
        for tried, label in enumerate(self._by_length(language)):
            if held[label >> 3] >> (label & 7) & 1:
                found.append(label)
                if len(found) == _MOST_LABELS:
                    spend_nearby(tried >> 3)
                    break
        return found

    def _by_length(self, language: LiteralSet) -> tuple[int, ...]:
        """Return the labels of a range of texts, excluded or not, the shortest first."""
        key = id(language.texts), language.low, language.high
        known = self._sorted.get(key)
        if known is None:
            count, texts = language.high - language.low, language.texts
            spend_nearby(count)
            order = sorted(range(language.low, language.high), key=lambda label: len(texts[label]))
            known = self._sorted[key] = texts, tuple(order)
            self._held += count >> 3
        return known[1]

    def candidates(self, text: Text, used: frozenset[str], most: int) -> list[str]:
        """Return the first texts that `told` would try, without those that are used: `most` for each way of
        spelling.
        """
        needed = most * (1 + -(-len(used) // most))
        key = text, needed
        if key not in self._first:
            found = []
            for spelling, part in variants(text.quoting, text.language):
                if part is not None:
                    ways = islice(self._tried(TextAt(spelling, part), FEW), needed)
                    found += [decode(text.quoting, spelling.opening + way.encode("latin-1")) for way in ways]
            self._first[key] = found
        return [each for each in self._first[key] if each not in used]

    def candidate(self, at: TextAt, number: int, most: int) -> Way | None:
        """Return one of the ways that `told` would try, None if there are not as many."""
        return self._tried(at, most).nth(number)

    def spelled(self, at: TextAt, text: str) -> Way | None:
        """Return the spelling of a text that begins here; None: it has none."""
        written = self._written(at.spelling, at.language, text)
        return None if written is None else written + closing(at.spelling)

    def _written(self, spelling: Spelling, at: Language, rest: str) -> Way | None:
        """Return the spelling of the rest of a text; None: it has none."""
        parts, known = [], self._letters.setdefault(id(spelling), {})
        spend_nearby(1 + (len(rest) >> 3))
        for char in rest:
            point = ord(char)
            if isinstance(at, Guarded):
                after = successor(at, point)
                if after is None:
                    point += ESCAPED
                    after = successor(at, point)
                    assert after is not None
                at = after
            if point not in known:
                known[point] = next(spelled(spelling, point, point, 1), None)
                self._held += 1
            part = known[point]
            if part is None:
                return None
            parts.append(part)
        return "".join(parts)

    def _keep(self, texts: int) -> None:
        self._held += texts

    def _tried(self, at: TextAt, most: int) -> Candidates:
        """Return the texts that are tried at a position where they have to differ from earlier ones."""
        known = self._candidates.get((at, most))
        if known is None:
            known = self._candidates[at, most] = Candidates(at, most, self.body, self._keep)
        return known


def _set_of(language: Language) -> LiteralSet | None:
    """Return the finite set behind a language, None if it has none."""
    language = language.language if isinstance(language, Guarded) else language
    return language if isinstance(language, LiteralSet) else None
