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

from constrained.engine.twin.spelling import Ranges, Spelling, clip, decode, variants
from constrained.engine.twin.text import BODY, DONE, ESCAPE, HEX, PAIR, PAIR_U, UTF8, TextAt, edges_between, successor
from constrained.errors import LimitExceeded
from constrained.machine import Dispatch, Language, LiteralSet, MarkerSafe, State, Surface, Text
from constrained.regex.guarded import ESCAPED, Guarded
from constrained.work import place, spend

Way = str  # symbols, see above
# characters to write where any would do, first ones first
EXPECTED = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ .,-_:/"
_FEW, _MANY = 12, 400  # characters of one range that are tried for texts that have to differ
_KEPT = 8  # of these, in memory
_TRIED = 4_000  # texts that are tried where each has to differ from earlier ones
_MOST_LABELS = 16
_AT_ONCE = 6  # beginnings of a character that are followed side by side

_CONTINUATION = bytes(range(0x80, 0xC0))
_DIGITS = b"0123456789abcdef"
_NEXT = {UTF8: _CONTINUATION, ESCAPE: bytes(range(256)), HEX: _DIGITS, PAIR: b"\\", PAIR_U: b"u"}



def symbols(data: bytes) -> Way:
    """Return bytes as a way."""
    return data.decode("latin-1")


def order(way: Way) -> tuple[int, Way]:
    """Return what ways are compared by: the shortest first."""
    return len(way), way


class TextWays:
    """The shortest ways through the texts that somebody has asked about.

    Invariant: what is kept depends on the text or the position in it alone.
    """

    def __init__(self) -> None:
        self._whole: dict[Text, Way] = {}
        self._texts: dict[TextAt, Way] = {}
        self._bodies: dict[tuple[int, Language], Way] = {}  # by identity of the spelling, which is never dropped
        self._first: dict[tuple[Text, int], list[str]] = {}
        self._begun: dict[tuple[TextAt, int], tuple[Way, ...]] = {}

    def __len__(self) -> int:
        return len(self._whole) + len(self._bodies) + len(self._texts) + 4 * len(self._begun)

    def of_text(self, text: Text) -> Way:
        """Return the shortest spelling of any text of a language, quotes included."""
        known = self._whole.get(text)
        if known is None:
            parts = [(spelling, part) for spelling, part in variants(text.surface, text.language) if part is not None]
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
        for begun, whole in _characters(at):
            if whole.place == DONE:
                yield begun, whole
            else:
                yield begun + self.body(whole.spelling, whole.language) + _closing(whole.spelling), whole

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
            spend(4)
            if at.accepts:
                return way
            for low, high, target in at.edges():
                for spelled in _spelled(spelling, low, high, 1):
                    longer = way + spelled
                    heappush(heap, (len(longer) + getattr(target, "short", 0), longer, next(ties), target))
        raise LimitExceeded(
            "no way out is known", where=place(), because="the surface cannot write any text of the language"
        )

    def told(
        self, at: TextAt, after: Dispatch, record: bytes | None, surface: Surface | MarkerSafe | None
    ) -> Iterator[tuple[Way, State]]:
        """Yield ways to the end of a text, each with the state that follows this text."""
        if record is None and _set_of(at.language) is not None:
            yield from self._labelled(at, after)
            return
        for way in chain((self.rest(at),), self._tried(at, _FEW), self._tried(at, _MANY)):
            target: State | None
            if record is None:
                target = after.after(0)
            else:
                assert surface is not None
                target = after.after_text(decode(surface, record + way.encode("latin-1")))
            if target is not None:
                yield way, target
                return

    def _labelled(self, at: TextAt, after: Dispatch) -> Iterator[tuple[Way, State]]:
        for begun, whole in _characters(at):
            language = _set_of(whole.language)
            assert language is not None
            for label in [language.label] if whole.place == DONE else _labels(language, after.wanted):
                spend(2)
                target = after.after(label)
                if target is None:
                    continue
                if whole.place == DONE:
                    yield begun, target
                    continue
                written = _written(whole.spelling, whole.language, language.texts[label][language.depth :])
                if written is not None:
                    yield begun + written + _closing(whole.spelling), target

    def candidates(self, text: Text, used: frozenset[str], most: int) -> list[str]:
        """Return the first texts that `told` would try, without those that are used: `most` for each way of
        spelling.
        """
        needed = most * (1 + -(-len(used) // most))
        key = text, needed
        if key not in self._first:
            found = []
            for spelling, part in variants(text.surface, text.language):
                if part is not None:
                    spelled = islice(self._candidates(TextAt(spelling, part), _FEW), needed)
                    found += [decode(text.surface, spelling.opening + way.encode("latin-1")) for way in spelled]
            self._first[key] = found
        return [each for each in self._first[key] if each not in used]

    def _tried(self, at: TextAt, most: int) -> Iterator[Way]:
        """Yield what `_candidates` does.  PERF: the first few are kept, as a rule one of them is not used yet."""
        known = self._begun.get((at, most))
        if known is None:
            known = self._begun[at, most] = tuple(islice(self._candidates(at, most), _KEPT))
        yield from known
        if len(known) == _KEPT:
            yield from islice(self._candidates(at, most), _KEPT, None)

    def _candidates(self, at: TextAt, most: int) -> Iterator[Way]:
        """Yield spellings of the rest of texts, short ones first."""
        ties = count()
        heap: list[tuple[int, Way, int, TextAt | None, Language | None]] = []
        for begun, whole in _characters(at):
            if whole.place == DONE:
                heappush(heap, (len(begun), begun, next(ties), None, None))
            else:
                least = len(begun) + len(self.body(whole.spelling, whole.language)) + len(_closing(whole.spelling))
                heappush(heap, (least, begun, next(ties), whole, whole.language))
        tried = 0
        while heap and tried < _TRIED:
            _, way, _, start, language = heappop(heap)
            spend(4)
            if start is None or language is None:
                tried += 1
                yield way
                continue
            if language.accepts:
                complete = way + _closing(start.spelling)
                heappush(heap, (len(complete), complete, next(ties), None, None))
            for low, high, target in language.edges():
                for spelled in _spelled(start.spelling, low, high, most):
                    longer = way + spelled
                    least = len(longer) + len(self.body(start.spelling, target)) + len(_closing(start.spelling))
                    heappush(heap, (least, longer, next(ties), start, target))


def _labels(language: LiteralSet, wanted: int) -> list[int]:
    """Return the labels of texts to try: one that has to come anyway if there is one, else the shortest."""
    spend((language.high - language.low) >> 3)
    labels = [label for label in range(language.low, language.high) if not language.excluded >> label & 1]
    labels.sort(key=lambda label: len(language.texts[label]))
    first = next((label for label in labels if wanted >> label & 1), None)
    return labels[:_MOST_LABELS] if first is None else [first]


def _closing(spelling: Spelling) -> Way:
    return chr(spelling.closing) if spelling.closing >= 0 else ""


def _set_of(language: Language) -> LiteralSet | None:
    """Return the set of texts that a language is, if it is one."""
    language = language.language if isinstance(language, Guarded) else language
    return language if isinstance(language, LiteralSet) else None


def _written(spelling: Spelling, at: Language, rest: str) -> Way | None:
    """Return the spelling of the rest of a text; None: it has none."""
    parts = []
    for char in rest:
        point = ord(char)
        if isinstance(at, Guarded):
            found = successor(at, point)
            point, after = (point, found) if found is not None else (point + ESCAPED, successor(at, point + ESCAPED))
            assert after is not None
            at = after
        part = next(_spelled(spelling, point, point, 1), None)
        if part is None:
            return None
        parts.append(part)
    return "".join(parts)


def expected_byte(low: int, high: int) -> Way:
    """Return the byte of a range that a reader would expect first."""
    return next((char for char in EXPECTED if low <= ord(char) <= high), chr(low))


def _spelled(spelling: Spelling, low: int, high: int, most: int) -> Iterator[Way]:
    """Yield the shortest spellings of up to `most` code points of a range, those that a reader would expect first."""
    raw, yielded = clip(spelling.raw, low, high), 0
    if low >= ESCAPED:
        low, high = low - ESCAPED, high - ESCAPED
    for spelled in _raw(raw):
        yield spelled
        yielded += 1
        if yielded == most:
            return
    if yielded:
        return
    for byte, point in spelling.short:
        if yielded < most and low <= point <= high:
            yielded += 1
            yield "\\" + chr(byte)
    for form in spelling.hexes if not yielded else ():
        for first, last in clip(form.allowed, low, high):
            for point in range(first, min(last, first + most - 1) + 1):
                if yielded < most:
                    yielded += 1
                    yield f"\\{chr(form.letter)}{point:0{form.digits}x}"


def _raw(ranges: Ranges) -> Iterator[Way]:
    """Yield the characters of ranges as they stand, those that a reader would expect first."""
    for char in EXPECTED if ranges and ranges[0][0] <= 0x7F else ():
        if clip(ranges, ord(char), ord(char)):
            yield char
    for first, last in ranges:
        for point in range(first, last + 1):
            if point > 0x7F or chr(point) not in EXPECTED:
                yield symbols(chr(point).encode())


def _characters(at: TextAt) -> list[tuple[Way, TextAt]]:
    """Return the shortest ways to complete the character that a position is inside of, and the positions behind it.

    Not all ways: `_AT_ONCE` beginnings are followed, and all are live.
    """
    if at.place in (BODY, DONE):
        return [("", at)]
    if at.place == UTF8:
        return _raw_characters(at)
    found: dict[TextAt, Way] = {}
    level: dict[TextAt, Way] = {at: ""}
    while level and not found:
        further: dict[TextAt, Way] = {}
        for position, way in level.items():
            spend(8)
            for byte in _NEXT.get(position.place, range(256)):
                if max(len(found), len(further)) >= _AT_ONCE:
                    break
                after = position.step(byte)
                if after is not None:
                    (found if after.place in (BODY, DONE) else further).setdefault(after, way + chr(byte))
        level = further
    return [(way, position) for position, way in found.items()]


def _raw_characters(at: TextAt) -> list[tuple[Way, TextAt]]:
    """Return how the character that UTF-8 has begun may go on: for each edge of the language its first one."""
    least = {(2, 0): 0x800, (3, 0): 0x10000}.get((at.left, at.value), 0)  # shorter forms have to be used below
    found: dict[Language, int] = {}
    spend(8)
    pending = at.pending()
    for first, last, target in edges_between(at.language, pending[0][0], pending[-1][1]) if pending else ():
        for low, high in clip(pending, first, last):
            point = max(low, least)
            if point <= high and point < found.get(target, point + 1):
                found[target] = point
    chosen = sorted(found.items(), key=lambda entry: entry[1])[:_AT_ONCE]
    return [(symbols(chr(point).encode()[-at.left :]), TextAt(at.spelling, target)) for target, point in chosen]
