"""Machine states → their shortest ways out: the word of fewest bytes that leads from a state to its end.

A way is a `str` of symbols: a byte is the character of the same number, a special token the character 256 + id.  Both
count one.  Of several shortest ways the first in the order of symbols is taken, so that an answer does not depend on
what was asked before.

The machines are infinite and call each other, so distances cannot be tabled.  `Ways.of` searches best first, over items
"from entry e a word w leads to state q", the shortest w first; a call enters its callee as an entry of its own, once,
and all who wait there go on when the callee's first (so its shortest) word is complete.  Words only grow, so this is
Knuth's generalisation of Dijkstra's algorithm, and exact. Ways of entries are kept; ways of stacks are put together
from those of their frames.

Three places take a short way instead of the shortest, to bound the search: of a range of characters the one that a
reader would expect stands for all that are spelled as shortly; an object takes the first required key that is missing
(`State.way_out`); behind a text that has to differ from earlier ones the first few candidates are tried, shortest
first; of a set of texts, each with a continuation of its own, the 16 shortest.

Tests: tests/test_budget.py, against breadth-first search over the automaton.
Source: Knuth 1977, A generalization of Dijkstra's algorithm; the search order of A* parsing, Klein and Manning 2003.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import chain, count, islice
from typing import TypeAlias

from constrained.engine.twin.spelling import Spelling, clip, decode, variants
from constrained.engine.twin.text import BODY, DONE, ESCAPE, HEX, PAIR, PAIR_U, UTF8, TextAt, successor
from constrained.errors import LimitExceeded
from constrained.machine import Dispatch, Edges, Language, LiteralSet, MarkerSafe, State, Surface, Text
from constrained.regex.guarded import ESCAPED, Guarded
from constrained.work import place, spend

Way = str  # symbols, see above
# The states of an entry that a word came through, the last first; the symbols and the remembered texts before each.
Trail: TypeAlias = "tuple[int, State, int, Trail] | None"
# characters to write where any would do, first ones first
EXPECTED = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ .,-_:/"
_FEW, _MANY = 12, 400  # characters of one range that are tried for texts that have to differ
_TRIED = 4_000  # texts that are tried where each has to differ from earlier ones
_MOST_LABELS = 16
_AT_ONCE = 6  # beginnings of a character that are followed side by side

_CONTINUATION = bytes(range(0x80, 0xC0))
_DIGITS = b"0123456789abcdef"
_NEXT = {UTF8: _CONTINUATION, ESCAPE: bytes(range(256)), HEX: _DIGITS, PAIR: b"\\", PAIR_U: b"u"}


def symbols(data: bytes) -> Way:
    """Return bytes as a way."""
    return data.decode("latin-1")


class Ways:
    """The shortest ways out of the states that somebody has asked about.

    Invariant: what `_of` and `_bodies` hold depends on the state alone.
    """

    def __init__(self, specials: Mapping[str, int]) -> None:
        self._specials = specials
        self._of: dict[State, Way | None] = {}
        self._writes: dict[State, int] = {}  # if any
        self._bodies: dict[tuple[int, Language], Way] = {}  # by identity of the spelling, which is never dropped
        self._texts: dict[TextAt, Way] = {}
        self._first: dict[tuple[Text, int], list[str]] = {}

    def __len__(self) -> int:
        return len(self._of) + len(self._bodies) + len(self._texts)

    # -- machine states ------------------------------------------------------------------------------------------------

    def of(self, machine: State) -> Way | None:
        """Return the shortest way from a machine state to its end, 0 symbols where it accepts; None: all that were
        tried are used up.

        Cost: some 20 µs for each state that is nearer to the start than the end is; once.
        Raises: LimitExceeded: that is too much work.
        """
        if machine not in self._of:
            found = _Search(self, hurried=True).run(machine)
            if found is None:  # a hint led nowhere
                found = _Search(self, hurried=False).run(machine)
                self._writes[machine] = 1  # for all that is known
            self._of[machine] = found
        return self._of[machine]

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

    # -- texts ---------------------------------------------------------------------------------------------------------

    def of_text(self, text: Text) -> Way:
        """Return the shortest spelling of any text of a language, quotes included."""
        known = self._of.get(text)
        if known is None:
            parts = [(spelling, part) for spelling, part in variants(text.surface, text.language) if part is not None]
            known = self._of[text] = min(
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
        for way in chain((self.rest(at),), self._candidates(at, _FEW), self._candidates(at, _MANY)):
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

    def _candidates(self, at: TextAt, most: int) -> Iterator[Way]:
        """Yield spellings of the rest of texts, short ones first."""
        ties = count()
        heap: list[tuple[int, Way, int, TextAt | None, Language | None]] = []
        for begun, whole in _characters(at):
            if whole.place == DONE:
                heappush(heap, (len(begun), begun, next(ties), None, None))
            else:
                heappush(
                    heap,
                    (
                        len(begun) + len(self.body(whole.spelling, whole.language)),
                        begun,
                        next(ties),
                        whole,
                        whole.language,
                    ),
                )
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
                    heappush(
                        heap, (len(longer) + len(self.body(start.spelling, target)), longer, next(ties), start, target)
                    )


class _Search:
    """One best-first search; see the head of the module."""

    def __init__(self, ways: Ways, *, hurried: bool) -> None:
        self._ways, self._hurried, self._ties = ways, hurried, count()
        # length, word, tie break, entry, state (None: the end), trail, how many remembered texts the word writes
        self._heap: list[tuple[int, Way, int, State, State | None, Trail, int]] = []
        self._seen: set[tuple[State, State]] = set()
        # callee → (word before it, entry, state after it, …)
        self._waiting: dict[State, list[tuple[Way, State, State, Trail, int]]] = {}
        self._complete: dict[State, tuple[Way, int]] = {}

    def run(self, goal: State) -> Way | None:
        """Return the shortest word from a state to its end; None if the search ends without one."""
        if isinstance(goal, Text):
            return self._ways.of_text(goal)
        self._add("", goal, goal, None, 0)
        while self._heap:
            _, way, _, entry, at, trail, writes = heappop(self._heap)
            if entry in self._complete:
                continue
            if at is None:
                self._end(entry, way, trail, writes)
                if entry == goal:
                    return way
            elif (entry, at) not in self._seen:
                self._seen.add((entry, at))
                spend(15)
                known = self._ways.known(at) if self._hurried else None
                if known is not None:
                    self._add(way + known, entry, None, trail, writes + self._ways.writes(at))
                    continue
                trail = len(way), at, writes, trail
                edges = self._ways.edges(at, hurried=self._hurried)
                if edges.accepting:
                    self._add(way, entry, None, trail, writes)
                else:
                    self._follow(edges, way, entry, trail, writes)
        return None

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
        for low, high, target in edges.ranges:
            self._add(way + _expected_byte(low, high), entry, target, trail, writes)
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
            self._add(way + self._ways.of_text(text), entry, after, trail, writes)
            return
        for spelling, part in variants(text.surface, text.language):
            if part is not None:
                record = spelling.opening if after.records else None
                for spelled, target in self._ways.told(TextAt(spelling, part), after, record, text.surface):
                    self._add(way + symbols(spelling.opening) + spelled, entry, target, trail, writes + after.alike)

    def _add(self, way: Way, entry: State, at: State | None, trail: Trail, writes: int) -> None:
        heappush(self._heap, (len(way), way, next(self._ties), entry, at, trail, writes))


# -- characters --------------------------------------------------------------------------------------------------------


def order(way: Way) -> tuple[int, Way]:
    """Return what ways are compared by: the shortest first."""
    return len(way), way


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


def _expected_byte(low: int, high: int) -> Way:
    return next((char for char in EXPECTED if low <= ord(char) <= high), chr(low))


def _spelled(spelling: Spelling, low: int, high: int, most: int) -> Iterator[Way]:
    """Yield the shortest spellings of up to `most` code points of a range, those that a reader would expect first."""
    raw, yielded = clip(spelling.raw, low, high), 0
    if low >= ESCAPED:
        low, high = low - ESCAPED, high - ESCAPED
    for char in EXPECTED:
        if yielded < most and clip(raw, ord(char), ord(char)):
            yielded += 1
            yield char
    for first, last in raw:
        for point in range(first, min(last, first + most + len(EXPECTED)) + 1):
            if yielded < most and (point > 0x7F or chr(point) not in EXPECTED):
                yielded += 1
                yield symbols(chr(point).encode())
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
    for first, last, target in at.language.edges():
        for low, high in at.pending():
            point = max(first, low, least)
            if point <= min(last, high) and point < found.get(target, point + 1):
                found[target] = point
    chosen = sorted(found.items(), key=lambda entry: entry[1])[:_AT_ONCE]
    return [(symbols(chr(point).encode()[-at.left :]), TextAt(at.spelling, target)) for target, point in chosen]


__all__ = ["Way", "Ways", "order", "symbols"]
