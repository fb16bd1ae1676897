"""Machine states and texts → their shortest ways out, in bytes: the word of fewest bytes that leads to the end.

    characters ──► Candidates: texts in turn, where each must differ ──► TextWays: ways through texts
                   ItemWays: values of items that must be distinct   ──► Ways: ways out of any machine state

Read from the top: a part uses only what stands above it.  A way is a `str` of symbols: a byte is the character of the
same number, a special token the character 256 + id; each counts one.  Of several shortest ways the first in the order
of symbols is taken, so that an answer does not depend on what was asked before.

Tests: tests/test_budget.py, against breadth-first search over the automaton; tests/test_budget_distinct.py, against
values listed by hand and searches that begin anew each time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import chain, count, islice
from typing import Any, NamedTuple, TypeAlias, cast

from constrained.engine.plain import BODY, DONE, ESCAPE, HEX, PAIR, PAIR_U, UTF8, TextAt, edges_between, successor
from constrained.engine.spelling import Ranges, Spelling, clip, decode, variants
from constrained.errors import LimitExceeded
from constrained.machine import (
    Bytes,
    Dispatch,
    Edges,
    ItemPosition,
    Language,
    LiteralSet,
    MarkerSafe,
    Quoting,
    State,
    Text,
)
from constrained.regex.markers import ESCAPED, Guarded
from constrained.work import let_go, place, spend, spend_nearby

# ======================================================================================================================
# Characters in shortest ways: the one of a range that a reader would expect, in a spelling of fewest bytes.
# ======================================================================================================================

Way: TypeAlias = str  # symbols: a byte is the character of the same number, a special token the character 256 + id
# characters to write where any would do, first ones first
EXPECTED = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ .,-_:/"
_AT_ONCE = 6  # beginnings of a character that are followed side by side

_CONTINUATION = bytes(range(0x80, 0xC0))
_DIGITS = b"0123456789abcdef"
_NEXT = {HEX: _DIGITS, PAIR: b"\\", PAIR_U: b"u"}


def symbols(data: bytes) -> Way:
    """Return bytes as a way."""
    return data.decode("latin-1")


def order(way: Way) -> tuple[int, Way]:
    """Return what ways are compared by: the shortest first."""
    return len(way), way


def closing(spelling: Spelling) -> Way:
    return chr(spelling.closing) if spelling.closing >= 0 else ""


def expected_byte(low: int, high: int) -> Way:
    """Return the byte of a range that a reader would expect first."""
    return next((char for char in EXPECTED if low <= ord(char) <= high), chr(low))


def spelled(spelling: Spelling, low: int, high: int, most: int) -> Iterator[Way]:
    """Yield the shortest spellings of up to `most` code points of a range, those that a reader would expect first."""
    raw, yielded = clip(spelling.raw, low, high), 0
    if low >= ESCAPED:
        low, high = low - ESCAPED, high - ESCAPED
    for char in _raw(raw):
        yield char
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
    """Yield the characters of ranges as they stand, those that a reader would expect first.

    The ASCII ones as bits, as this is asked for each edge of each language on the way.
    """
    ascii_bits = 0
    for first, last in ranges:
        if first <= 0x7F:
            ascii_bits |= (2 << min(last, 0x7F)) - (1 << first)
    for char in EXPECTED if ascii_bits else ():
        if ascii_bits >> ord(char) & 1:
            yield char
    for first, last in ranges:
        for point in range(first, last + 1):
            if point > 0x7F or chr(point) not in EXPECTED:
                yield symbols(chr(point).encode())


def characters(at: TextAt) -> list[tuple[Way, TextAt]]:
    """Return the shortest ways to complete the character that a position is inside of, and the positions behind it.

    Not all ways: `_AT_ONCE` beginnings are followed, and all are live.
    """
    if at.place in (BODY, DONE):
        return [("", at)]
    if at.place == UTF8:
        return _raw_characters(at)
    complete: dict[TextAt, Way] = {}
    level: dict[TextAt, Way] = {at: ""}
    while level and not complete:
        further: dict[TextAt, Way] = {}
        for position, way in level.items():
            spend(8)
            place, letters = position.place, position.spelling.letters
            for byte in letters if place == ESCAPE else _NEXT.get(place, range(256)):
                if max(len(complete), len(further)) >= _AT_ONCE:
                    break
                after = position.step(byte)
                if after is not None:
                    (complete if after.place in (BODY, DONE) else further).setdefault(after, way + chr(byte))
        level = further
    return [(way, position) for position, way in complete.items()]


def _raw_characters(at: TextAt) -> list[tuple[Way, TextAt]]:
    """Return how the character that UTF-8 has begun may go on: for each edge of the language its first one."""
    points: dict[Language, int] = {}
    spend(8)
    pending = at.pending()
    for first, last, target in edges_between(at.language, pending[0][0], pending[-1][1]) if pending else ():
        for point, _ in clip(pending, first, last):
            points[target] = min(points.get(target, point), point)
    chosen = sorted(points.items(), key=lambda entry: entry[1])[:_AT_ONCE]
    return [(symbols(chr(point).encode()[-at.left :]), TextAt(at.spelling, target)) for target, point in chosen]


# ======================================================================================================================
# Texts that are tried one after the other, short ones first, where each may be refused because it was written before.
#
# What has been found is kept with where the search stands, so that the thousandth item of an array goes on where the
# one before it stopped.  Blocks of texts that are all refused are passed over at once, by sets of what a `Dispatch`
# compares (`Dispatch.compared`).
# ======================================================================================================================

_MOST_TEXTS = 20_000  # texts that are tried where each has to differ from earlier ones
_TEXT_BLOCK = 32  # texts that are passed over at once
_RANGES = 4  # ranges that lead to the same language, so many of whose characters are tried
_FIRST = 8  # texts that are tried one by one: as a rule one of them is free

# bytes at least, way so far, tie break, the text's start and the language behind the way (None: it is complete)
TextEntry: TypeAlias = "tuple[int, Way, int, TextAt | None, Language | None]"
Body: TypeAlias = Callable[[Spelling, Language], Way]  # the shortest text of a language, see `TextWays.body`


@dataclass(slots=True)
class Search:
    """Where a best-first search stands; seen: what is not to be met again."""

    heap: list[Any]
    found: list[Any] = field(default_factory=list)
    seen: set[Hashable] = field(default_factory=set)
    ties: int = 0

    def __len__(self) -> int:
        return len(self.heap) + len(self.found) + len(self.seen)


class Resumed:
    """What a best-first search finds, as far as somebody has asked; it goes on where it stopped.

    begin: its first entries.  step: takes one entry, or nothing where it raises `LimitExceeded`.
    keep: told how many entries more are kept.
    Threads: a search belongs to who took it, until it is put back; who finds none begins one more, which finds the same
    in the same order.
    """

    __slots__ = ("_begin", "_idle", "_keep", "_step", "found")

    def __init__(
        self, begin: Callable[[], list[Any]], step: Callable[[Search], None], keep: Callable[[int], None]
    ) -> None:
        self._begin, self._step, self._keep = begin, step, keep
        self._idle: list[Search] = []
        self.found: list[Any] = []

    def search(self, end: int) -> None:
        """Go on until so many are found, or there are no more."""
        try:
            search = self._idle.pop()
        except IndexError:
            search = Search(self._begin())
        before = len(search)
        try:
            while search.heap and len(search.found) < end:
                self._step(search)
        except LimitExceeded:
            self._put_back(search, before)
            raise
        self._put_back(search, before)

    def _put_back(self, search: Search, before: int) -> None:
        self._keep(len(search) - before)
        if len(search.found) >= len(self.found):
            self.found, self._idle = search.found, [search]


class Candidates:
    """The spellings of the rest of texts, short ones first, as far as somebody has asked; `most` characters are tried
    of each range.

    Invariant: what is yielded depends on the position and `most` alone.
    keep: told how many texts more are kept.
    """

    __slots__ = ("_at", "_body", "_keep", "_keys", "_known", "_most")

    def __init__(self, at: TextAt, most: int, body: Body, keep: Callable[[int], None]) -> None:
        self._at, self._most, self._body, self._keep = at, most, body, keep
        self._known = Resumed(self._begun, self._step, keep)
        self._keys: dict[Hashable, frozenset[Hashable]] = {}  # of blocks: what is compared of their texts

    def __iter__(self) -> Iterator[Way]:
        for block in map(self._block, count()):
            if not block:
                return
            yield from block

    def free(self, after: Dispatch, record: bytes | None, quoting: Quoting | MarkerSafe | None) -> Iterator[Way]:
        """Yield those that may be taken: without blocks in which all are refused."""
        compared = after.compared
        for number in count():
            block = self._block(number)
            if not block:
                return
            if number and compared is not None and record is not None:
                assert quoting is not None
                key = number, record, quoting, compared
                keys = self._keys.get(key)
                if keys is None:
                    spend_nearby(2 * len(block))
                    texts = [decode(quoting, record + way.encode("latin-1")) for way in block]
                    self._keep(len(block))
                    keys = self._keys[key] = frozenset(map(compared, texts))
                spend_nearby(1)
                if keys <= after.refused:
                    continue
            yield from block

    def nth(self, number: int) -> Way | None:
        """Return one of them, None if there are not as many."""
        past = number - _FIRST
        block = self._block(0 if past < 0 else 1 + past // _TEXT_BLOCK)
        first = number if past < 0 else past % _TEXT_BLOCK
        return block[first] if first < len(block) else None

    def _block(self, number: int) -> tuple[Way, ...]:
        """Return the texts of a block; none: there are no more."""
        first = _FIRST + _TEXT_BLOCK * (number - 1) if number else 0
        end = _FIRST + _TEXT_BLOCK * number
        if len(self._known.found) < min(end, _MOST_TEXTS):
            self._known.search(min(end, _MOST_TEXTS))
        return tuple(self._known.found[first:end])

    def _step(self, search: Search) -> None:
        _, way, _, start, language = search.heap[0]
        spend_nearby(6)
        longer = [] if start is None or language is None else list(self._longer(way, start, language))
        heappop(search.heap)
        if start is None:
            search.found.append(way)
        for least, further, at, behind in longer:
            search.ties += 1
            heappush(search.heap, (least, further, search.ties, at, behind))

    def _begun(self) -> list[TextEntry]:
        """Return the heap of a search that begins."""
        heap: list[TextEntry] = []
        for way, whole in characters(self._at):
            if whole.place == DONE:
                heap.append((len(way), way, -1 - len(heap), None, None))
            else:
                least = self._least(way, whole, whole.language)
                heap.append((least, way, -1 - len(heap), whole, whole.language))
        heapify(heap)
        return heap

    def _longer(
        self, way: Way, start: TextAt, language: Language
    ) -> Iterator[tuple[int, Way, TextAt | None, Language | None]]:
        """Yield what a character more makes of a text, and the text itself where it may end."""
        if language.accepts:
            whole = way + closing(start.spelling)
            yield len(whole), whole, None, None
        tried: dict[Language, int] = {}  # letters are 700 ranges that lead to one language
        for low, high, target in language.edges():
            most = min(self._most, _RANGES * self._most - tried.get(target, 0))
            ways = [way + char for char in spelled(start.spelling, low, high, most)] if most else []
            tried[target] = tried.get(target, 0) + len(ways)
            spend_nearby(1 + 2 * len(ways))
            for longer in ways:
                yield self._least(longer, start, target), longer, start, target

    def _least(self, way: Way, start: TextAt, language: Language) -> int:
        """Return the bytes of a text that begins with a way, at least."""
        return len(way) + len(self._body(start.spelling, language)) + len(closing(start.spelling))


# ======================================================================================================================
# Shortest ways to the end of a text: the spelling of fewest bytes of some text that a language has.
#
# The search is best first over the language's states.  Three places take a short way instead of the shortest, to bound
# it: of a range of characters the one that a reader would expect stands for all that are spelled as shortly; behind a
# text that has to differ from earlier ones the first few candidates are tried, shortest first; of a set of texts, each
# with a continuation of its own, the 16 shortest.
# ======================================================================================================================

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
        try:
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
                        continue  # letters are 700 ranges that lead to one language
                    spend_nearby(6)
                    char = next(spelled(spelling, low, high, 1), None)
                    if char is not None:
                        firsts[target] = min(firsts.get(target, char), char, key=order)
                for target, char in firsts.items():
                    longer = way + char
                    heappush(heap, (len(longer) + getattr(target, "short", 0), longer, next(ties), target))
        finally:
            let_go(heap, seen)
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
            spend_nearby(4)
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
                spend_nearby(8)
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
        held, labels = free.to_bytes((language.high >> 3) + 1, "little"), list[int]()
        for tried, label in enumerate(self._by_length(language)):
            if held[label >> 3] >> (label & 7) & 1:
                labels.append(label)
                if len(labels) == _MOST_LABELS:
                    spend_nearby(tried >> 3)
                    break
        return labels

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
            texts = []
            for spelling, part in variants(text.quoting, text.language):
                if part is not None:
                    ways = islice(self._tried(TextAt(spelling, part), FEW), needed)
                    texts += [decode(text.quoting, spelling.opening + way.encode("latin-1")) for way in ways]
            self._first[key] = texts
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


# ======================================================================================================================
# The rest of an item that must be distinct → its ways to the end, short ones first, each value once.
#
# What an item may still become does not depend on the items before it, only which of these values are left does.  So
# the values are found once, in order of their length, and each item takes the first one that no earlier item has: a
# thousand distinct objects are one search, not a thousand, and where two differ in the last key nobody tries what the
# first ones could be instead.
#
#     item ── best first, what is left counted exactly (A*) ──► (way, value), (way, value), …
#
# What is left is the shortest way out of an item of which nobody asks what it is, frame by frame.  Keys that may come
# in any order come in one: those that have to come first, the others ascending.
#
# The first way is the shortest; later ones are short, as a range of characters is tried in part (`Candidates`).  That a
# shortest value for this item is best for all of them is exact for items at their beginning; one that was begun may
# take a value that a later one would have written as shortly. Source: Hart, Nilsson and Raphael 1968, A formal basis
# for the heuristic determination of minimum cost paths.
# ======================================================================================================================

_TRIED = 20_000  # values of one place
_BLOCK = 8  # values that are found at once, behind the first

# An entry of its heap: symbols at least, whether it is texts, way so far, tie break, what it leads to: an item, texts
# that are tried in turn, or a value.


class _Texts(NamedTuple):
    """The texts that may come next, one after the other."""

    recorded: Any  # what follows each, see `machine.Dispatch`
    at: TextAt
    number: int  # of the text whose turn it is
    most: int  # characters of each range that are tried
    rest: int  # symbols behind each, at least


class ItemWays:
    """The ways to the end of one place in an item, as far as somebody has asked.

    Invariant: what is yielded depends on the place alone.
    length: symbols of the shortest way out of a state.  keep: told how many entries more are kept.
    """

    __slots__ = ("_known", "_length", "_texts")

    def __init__(
        self, start: Any, texts: TextWays, length: Callable[[State], int], keep: Callable[[int], None]
    ) -> None:
        self._texts, self._length = texts, length
        self._known = Resumed(lambda: [(0, False, "", 0, start)], self._step, keep)

    def first_free(self, used: frozenset[int]) -> tuple[Way, Any] | None:
        """Return the first way whose value is none of these, with the value; None: none is known."""
        number = 0
        while True:
            if number == len(self._known.found):
                self._known.search(min(number + (_BLOCK if number else 1), _TRIED))
                if number == len(self._known.found):
                    return None
            way, value = self._known.found[number]
            if value.digest not in used:
                spend_nearby(1 + number // 16)
                return way, value
            number += 1

    def _step(self, search: Search) -> None:
        _, _, way, _, at = search.heap[0]
        spend_nearby(3)
        key = None if isinstance(at, _Texts) else getattr(at, "digest", at)
        further = [] if key in search.seen else list(self._further(way, at))
        heappop(search.heap)
        if key is not None and key not in search.seen:
            search.seen.add(key)
            if key is not at:
                search.found.append((way, at))
        for least, longer, target in further:
            search.ties += 1
            heappush(search.heap, (least, isinstance(target, _Texts), longer, search.ties, target))

    def _further(self, way: Way, at: Any) -> Iterator[tuple[int, Way, Any]]:
        """Yield what is a byte or a text further."""
        if isinstance(at, _Texts):
            yield from self._next_text(way, at)
        elif not hasattr(at, "digest"):
            bytewise, texts = at.moves()
            for byte, target in bytewise:
                yield self._reached(way + chr(byte), target)
            for recorded in texts:
                yield from self._begun(way, recorded)

    def _reached(self, way: Way, target: Any) -> tuple[int, Way, Any]:
        """Return an entry; where only one byte can come, and no text, what it leads to."""
        while not hasattr(target, "digest") and (only := target.only_move()) is not None:
            byte, target = only
            way += chr(byte)
        rest = 0 if hasattr(target, "digest") else sum(map(self._length, target.frames()))
        return len(way) + rest, way, target

    def _begun(self, way: Way, recorded: Any) -> Iterator[tuple[int, Way, Any]]:
        text, needed = recorded.callee, recorded.needed()
        rest = sum(map(self._length, recorded.frames()))
        for spelling, part in variants(text.quoting, text.language):
            if part is None:
                continue
            opened, at = way + symbols(spelling.opening), TextAt(spelling, part)
            if needed is None:
                yield len(opened) + len(self._texts.rest(at)) + rest, opened, _Texts(recorded, at, 0, FEW, rest)
                continue
            spelled = self._texts.spelled(at, needed)
            target = recorded.following(needed, ascending=False)
            if target is not None and spelled is not None:
                yield self._reached(opened + spelled, target)

    def _next_text(self, way: Way, texts: _Texts) -> Iterator[tuple[int, Way, Any]]:
        """Yield what follows the text whose turn it is, and the next one."""
        at, number, rest = texts.at, texts.number, texts.rest
        spelled = self._texts.candidate(at, number, texts.most)
        if spelled is not None:
            text = decode(at.spelling.quoting, at.spelling.opening + spelled.encode("latin-1"))
            target = texts.recorded.following(text)
            if target is not None:
                reached = self._reached(way + spelled, target)
                if not isinstance(texts.recorded.callee.language, LiteralSet):  # behind each alike
                    rest = max(rest, reached[0] - len(way) - len(spelled))
                yield reached
            yield len(way) + len(spelled) + rest, way, texts._replace(number=number + 1, rest=rest)
        elif texts.most == FEW:
            yield len(way) + len(self._texts.rest(at)) + rest, way, texts._replace(number=0, most=MANY)


# ======================================================================================================================
# Machine states → their shortest ways out: the word of fewest bytes that leads from a state to its end.
#
# The machines are infinite and call each other, so distances cannot be tabled.  `Ways.of` searches best first, over
# items "from entry e a word w leads to state q", the shortest w first; a call enters its callee as an entry of its own,
# once, and all who wait there go on when the callee's first (so its shortest) word is complete.  Words only grow, so
# this is Knuth's generalisation of Dijkstra's algorithm, and exact.  Ways of entries are kept; ways of stacks are put
# together from those of their frames, ways through texts are those of `TextWays`.
#
# One place more than there takes a short way instead of the shortest, to bound the search: an object takes the first
# required key that is missing (`State.way_out`).
# Source: Knuth 1977, A generalization of Dijkstra's algorithm; the search order of A* parsing, Klein and Manning 2003.
# ======================================================================================================================

_ENDLESS = 1 << 30  # length of a way that is not known
_MOST_NESTED = 8

# The states of an entry that a word came through, the last first; the symbols and the remembered texts before each.
Trail: TypeAlias = "tuple[int, State, int, Trail] | None"


class Ways:
    """The shortest ways out of the states that somebody has asked about.

    Invariant: what is kept depends on the state alone.
    """

    def __init__(self, specials: Mapping[str, int]) -> None:
        self._specials = specials
        self._of: dict[State, Way | None] = {}
        self._writes: dict[State, int] = {}  # if any
        self._items: dict[State, ItemWays] = {}
        self._held = 0  # entries that `_items` keep
        self._nested = 0  # items inside each other that are asked for their lengths
        self.texts = TextWays()

    def __len__(self) -> int:
        return len(self._of) + len(self.texts) + len(self._items) + self._held

    def of(self, machine: State) -> Way | None:
        """Return the shortest way from a machine state to its end, 0 symbols where it accepts; None: all that were
        tried are used up.

        Cost: some 20 µs for each state that is nearer to the start than the end is; once.
        Raises: LimitExceeded: that is too much work.
        """
        if machine not in self._of and not self._shares(machine):
            way = _Search(self, hurried=True).run(machine)
            if way is None:  # a hint led nowhere
                way = _Search(self, hurried=False).run(machine)
                self._writes[machine] = 1  # for all that is known
            self._of[machine] = way
        return self._of[machine]

    def _shares(self, machine: State) -> bool:
        """Take over the way out of a state that reads more, if it is one of this state too; say whether it is."""
        shared: tuple[Way, State] | None = machine.shared(self.of) if hasattr(machine, "shared") else None
        if shared is None:
            return False
        way, wider = shared
        spend_nearby(4)
        self.keep(machine, way, self.writes(wider))
        return True

    def through_item(self, at: ItemPosition) -> tuple[Way, State, int] | None:
        """Return a short way to the end of an item, what follows there, and `writes`; None: no value is left."""
        alone = at.alone()
        if alone is None:  # it is nobody's equal
            frames = list(at.frames())
            ways = [way for state in frames if (way := self.of(state)) is not None]
            return ("".join(ways), at.after, sum(map(self.writes, frames))) if len(ways) == len(frames) else None
        known = self._items.get(alone)
        if known is None:
            known = self._items[alone] = ItemWays(alone, self.texts, self._length, self._keep_items)
        free = known.first_free(at.used())
        # an entry of an object has seven characters or more, see `distinct.Built`
        return None if free is None else (free[0], at.behind(free[1]), max(1, free[1].size // 7))

    def _length(self, machine: State) -> int:
        """Return the symbols of the shortest way out, or fewer: none where items are nested too deep to ask."""
        if self._nested == _MOST_NESTED:
            return 0
        self._nested += 1
        try:
            way = self.of(machine)
        finally:
            self._nested -= 1
        return _ENDLESS if way is None else len(way)

    def _keep_items(self, entries: int) -> None:
        self._held += entries

    def known(self, machine: State) -> Way | None:
        """Return the way out of a state, if it has been found before."""
        return self._of.get(machine)

    def known_with_writes(self, machine: State) -> tuple[Way, int] | None:
        way = self._of.get(machine)
        return None if way is None else (way, self.writes(machine))

    def writes(self, machine: State) -> int:
        """Return how many texts that are remembered (`Dispatch.alike`) the way of a state writes; what was written
        before matters only to these.
        """
        return self._writes.get(machine, 0)

    def keep(self, machine: State, way: Way, writes: int) -> None:
        if machine not in self._of:
            self._of[machine] = way
            if writes:
                self._writes[machine] = writes

    def edges(self, machine: State, *, hurried: bool) -> Edges:
        """Return the edges of a state that a shortest way may take."""
        hint = getattr(machine, "way_out", None) if hurried else None
        edges: Edges = machine.expand() if hint is None else hint()
        return edges

    def special(self, name: str) -> Way:
        return chr(256 + self._specials[name])


class _Search:
    """One best-first search; see the head of the module."""

    def __init__(self, ways: Ways, *, hurried: bool) -> None:
        self._ways, self._hurried, self._ties = ways, hurried, count()
        # length, word, tie break, entry, state (None: the end), trail, how many remembered texts the word writes
        self._heap: list[tuple[int, Way, int, State, State | None, Trail, int]] = []
        self._seen: set[tuple[State, State]] = set()
        self._equals: set[tuple[State, Hashable]] = set()
        # callee → (word before it, entry, state after it, …)
        self._waiting: dict[State, list[tuple[Way, State, State, Trail, int]]] = {}
        self._complete: dict[State, tuple[Way, int]] = {}

    def run(self, goal: State) -> Way | None:
        """Return the shortest word from a state to its end; None if the search ends without one."""
        if isinstance(goal, Text):
            return self._ways.texts.of_text(goal)
        try:
            return self._found(goal)
        finally:
            let_go(self._heap, self._seen)

    def _found(self, goal: State) -> Way | None:
        self._add("", goal, goal, None, 0)
        while self._heap:
            _, way, _, entry, at, trail, writes = heappop(self._heap)
            if entry in self._complete:
                continue
            if at is None:
                self._end(entry, way, trail, writes)
                if entry == goal:
                    return way
            elif (entry, at) not in self._seen and not self._has_equal(entry, at):
                self._seen.add((entry, at))
                spend_nearby(15)
                known = self._ways.known(at) if self._hurried else None
                if known is not None:
                    self._add(way + known, entry, None, trail, writes + self._ways.writes(at))
                    continue
                self._go_on(at, way, entry, (len(way), at, writes, trail), writes)
        return None

    def _go_on(self, at: State, way: Way, entry: State, trail: Trail, writes: int) -> None:
        if self._hurried and hasattr(at, "alone"):
            through = self._ways.through_item(cast(ItemPosition, at))
            if through is not None:
                rest, after, written = through
                self._add(way + rest, entry, after, trail, writes + written)
            return
        if isinstance(at, Bytes):
            self._add(way + symbols(at.data), entry, at.then, trail, writes)
            return
        edges = self._ways.edges(at, hurried=self._hurried)
        if edges.accepting:
            self._add(way, entry, None, trail, writes)
        else:
            self._follow(edges, way, entry, trail, writes)

    def _has_equal(self, entry: State, at: State) -> bool:
        """Say whether the entry has met a state whose way out is as long as this one's, see `State.equal_ways`."""
        key = at.equal_ways() if self._hurried and hasattr(at, "equal_ways") else None
        if key is None:
            return False
        if (entry, key) in self._equals:
            return True
        self._equals.add((entry, key))
        return False

    def _end(self, entry: State, way: Way, trail: Trail, writes: int) -> None:
        """Go on wherever the shortest word of an entry was waited for; the rest of a shortest way is a shortest way,
        and kept as well.
        """
        self._complete[entry] = way, writes
        while self._hurried and trail is not None:
            length, at, written, trail = trail
            self._ways.keep(at, way[length:], writes - written)
        for before, caller, after, behind, written in self._waiting.pop(entry, ()):
            self._add(before + way, caller, after, behind, written + writes)

    def _follow(self, edges: Edges, way: Way, entry: State, trail: Trail, writes: int) -> None:
        spend_nearby(2 * len(edges.calls))
        for low, high, target in edges.ranges:
            self._add(way + expected_byte(low, high), entry, target, trail, writes)
        for name, target in edges.tokens:
            self._add(way + self._ways.special(name), entry, target, trail, writes)
        for callee, after in edges.calls:
            if isinstance(callee, Text):
                self._read(callee, after, way, entry, trail, writes)
                continue
            assert not isinstance(after, Dispatch), "only texts are dispatched upon"
            known = self._complete.get(callee) or (self._ways.known_with_writes(callee) if self._hurried else None)
            if known is None:
                waiting = self._waiting.get(callee)
                if waiting is None:
                    waiting = self._waiting[callee] = []
                    self._add("", callee, callee, None, 0)
                waiting.append((way, entry, after, trail, writes))
            else:
                self._add(way + known[0], entry, after, trail, writes + known[1])

    def _read(self, text: Text, after: State | Dispatch, way: Way, entry: State, trail: Trail, writes: int) -> None:
        if not isinstance(after, Dispatch):
            self._add(way + self._ways.texts.of_text(text), entry, after, trail, writes)
            return
        again = int(after.elsewhere is not None)
        for spelling, part in variants(text.quoting, text.language):
            if part is not None:
                record = spelling.opening if after.records else None
                for spelled, target in self._ways.texts.told(TextAt(spelling, part), after, record, text.quoting):
                    self._add(way + symbols(spelling.opening) + spelled, entry, target, trail, writes + again)

    def _add(self, way: Way, entry: State, at: State | None, trail: Trail, writes: int) -> None:
        if len(way) > 255:
            # for memory: each way is a text of its own; those of millions of letters are copied while others wait
            spend_nearby((len(way) >> 8) + (len(way) >> 12) ** 2)
        heappush(self._heap, (len(way), way, next(self._ties), entry, at, trail, writes))
