"""The plain automaton, with a way to look ahead that does not tell apart texts that nothing tells apart.

Keys that no schema names, and strings of arrays whose items must be distinct, are remembered: every token inside one
leads to a state of its own, 100,000 of them for a large vocabulary.  To look ahead over a token it is enough to know
the few texts that a shortest way out would write, its *candidates*, and those that are refused: a text that can become
none of these is forgotten, and when it ends it counts as one special text, `SOME`.  So the states behind all tokens are
a few dozen, and their shortest ways are ways of the real states: they write candidates, of which it is known exactly
which are used.

A second such text in one token finds `SOME` used and is refused: such tokens look dead, and whoever asks has to step
them exactly.

A way out may write more texts than there are candidates, and so the one that was forgotten.  Then another stands for it
in place of `SOME`: the first that is no candidate.  What is left is as long with that one as with any other, or longer,
as the way out takes the shortest that are left: what is asked for is an upper bound.

Invariant: `look_byte` reaches a live state only if `step_byte` does, and a way that `completion` finds there is a way
from the real state.
Tests: tests/test_budget.py, on vocabularies whose tokens begin and end keys and items.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from constrained.engine.budget.merged import MergedKernel, Place, frames
from constrained.engine.budget.shortest_ways import Ways
from constrained.engine.tokens.byte_classes import BITS, INSIDE, LEADS
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.engine.twin.automaton import Config, Frame
from constrained.engine.twin.spelling import SCALARS, Spelling, clip, decode
from constrained.engine.twin.text import BODY, DONE, PAIR, PAIR_U, UTF8, TextAt, edges_between
from constrained.machine import Dispatch, Language, LiteralSet, State, Text
from constrained.work import spend

SOME = "\uffff some text"  # stands for a text that was forgotten
FORGOTTEN = b"\xff"  # a record that stands for any: no text begins with this byte
MOST_CANDIDATES = 64
_UNITS = 10  # of work, to look over a byte for the first time
_ASCII_KINDS = [
    (bit, bytes(byte for byte in range(128) if int(BITS[byte]) == bit))
    for bit in sorted({int(BITS[byte]) for byte in range(128)})
]
_BEYOND = 1 << INSIDE | sum(int(BITS[chr(low).encode()[0]]) for low, _ in LEADS)
_CONTINUING = bytes(range(0x80, 0xC0))
# by bytes to come: first bits of characters after which any continuation may come: U+0800, U+1000, U+40000
_PLAIN = {1: 0x20, 2: 0x1, 3: 0x1}


class Lookahead(MergedKernel):
    """`MergedKernel` with `look_byte`; states of both kinds of steps are numbered alike."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        ways: Ways,
        *,
        specials: Mapping[str, int],
        max_configurations: int,
        max_bytes: int,
    ) -> None:
        super().__init__(vocabulary, specials=specials, max_configurations=max_configurations, max_bytes=max_bytes)
        self._ways = ways
        self._looks: dict[tuple[int, int], int] = {}
        self._alike: dict[TextAt, TextAt] = {}
        self._texts: dict[tuple[TextAt, int], TextAt | None] = {}
        self._closed: dict[tuple[Config, ...], int] = {}  # what was closed → the state
        self._forgetful: dict[int, int] = {}
        self._callees: dict[Dispatch, Text] = {}  # what is read before what follows it
        self._told: dict[Dispatch, set[str]] = {}
        self._some: dict[Dispatch, str] = {}
        self._loops: dict[tuple[int, Language], int] = {}  # by identity of the spelling, which is never dropped

    def look_byte(self, state: int, byte: int) -> int:
        """Return the state after one byte, as far as it has to be told from others; DEAD also where a second text would
        be forgotten.
        """
        known = self._looks.get((state, byte))
        if known is None:
            spend(_UNITS)
            data = bytes([byte])
            moved = tuple([self._forgot(self._merged(at), stack, data) for at, stack in self._reached(state, byte)])
            known = self._closed.get(moved)  # inside texts most bytes lead to the same few
            if known is None:
                known = self._closed[moved] = self._close([*moved])
            self._looks[state, byte] = known
        return known

    def forgetful(self, state: int) -> int:
        """Return the state with those records of unfinished texts forgotten that no byte more makes matter: what lies
        behind it as `look_byte` says is known of all states like it.
        """
        known = self._forgetful.get(state)
        if known is None:
            configs = self.configurations(state)
            found = frozenset([self._forgot(*config) for config in configs])
            known = state if found == configs else self._intern(found, self.is_final(state))
            self._forgetful[state] = known
        return known

    def cached_bytes(self) -> int:
        return super().cached_bytes() + 200 * (
            len(self._looks) + len(self._reading) + len(self._alike) + len(self._closed) + len(self._texts)
            + len(self._forgetful)
        )

    def _read(self, at: TextAt, byte: int) -> TextAt | None:
        """Return the position in a text after a byte.  Kept, as many states stand inside equal texts."""
        key = at, byte
        if key not in self._texts:
            self._texts[key] = at.step(byte)
        return self._texts[key]

    def _reads(self, machine: State | TextAt) -> bool:
        """As the twin says, without trying all bytes: no position inside a text is dead, so inside a character or
        quotes something follows.
        """
        if isinstance(machine, TextAt) and (machine.place != BODY or machine.spelling.closing >= 0):
            return machine.place != DONE
        return super()._reads(machine)

    def _merged(self, machine: State | TextAt) -> State | TextAt:
        """Return a position that goes on alike: inside a character, which one it is matters only where some lead
        elsewhere than others.
        """
        if not isinstance(machine, TextAt) or machine.place != UTF8:
            return machine
        found = self._alike.get(machine)
        if found is None:
            other = replace(machine, value=_PLAIN[machine.left])
            target = _only_target(machine)
            same = target is not None and target == _only_target(other)
            found = self._alike[machine] = other if same else machine
        return found

    def looping_kinds(self, state: int) -> int:
        """Return kinds of characters that lead from a state back to it, as bits; see `tokens.byte_classes`.

        All of them where one text is read and nothing else, so that its language says it; else they are tried where "a"
        is one, those beyond ASCII left out if anything else reads such.
        """
        configs, found = self.configurations(state), 0
        texts = [(machine, frame) for machine, frame in configs if isinstance(machine, TextAt)]
        if len(texts) != 1:
            return 0
        ((machine, stack),) = texts
        if machine.place != BODY or any(frame.record not in (None, FORGOTTEN) for frame in frames(stack)):
            return 0
        key = id(machine.spelling), machine.language
        kinds = self._loops.get(key)
        if kinds is None:
            kinds = self._loops[key] = _looping(machine.spelling, machine.language)
        if len(configs) == 1 and machine.spelling.closing >= 0:
            return kinds
        if self.look_byte(state, ord("a")) != state or any(
            high >= 0x80 for other, _ in configs if other is not machine for _, high, _ in self._expand(other).ranges
        ):
            return 0
        for bit, data in _ASCII_KINDS:
            if kinds & bit and all(self.look_byte(state, byte) == state for byte in data):
                found |= bit
        return found | (kinds & _BEYOND)

    def _forgot(self, machine: State | TextAt, stack: Frame | None, data: bytes = b"") -> Config:
        """Return a configuration that has read some bytes more, with its record of an unfinished text forgotten where
        nothing behind the text asks.
        """
        if all(frame.record is None for frame in frames(stack)):
            return machine, stack
        told: dict[bytes, str | None] = {}  # PERF: frames beside each other remember the same

        def place(frame: Frame) -> Place:
            after, quoting, record = frame.after, frame.quoting, frame.record
            if record is None or quoting is None:
                return after, quoting, record if record is None else record + data
            assert isinstance(after, Dispatch)
            if record.startswith(FORGOTTEN):
                return after, quoting, FORGOTTEN
            record += data
            if after.elsewhere is None or not isinstance(machine, TextAt):
                return after, quoting, record
            if record not in told:
                told[record] = _text_so_far(machine, record)
            text = told[record]
            return after, quoting, record if text is None or text in self._beginnings(after) else FORGOTTEN

        return machine, self.changed(stack, place)

    def _beginnings(self, after: Dispatch) -> set[str]:
        """Return all beginnings of the texts that are refused, and of the first ones that a shortest way would write
        instead.
        """
        known = self._told.get(after)
        if known is None:
            texts = list(after.special)
            for text in (self._callees[after], *(after.elsewhere or ())):
                if isinstance(text.language, LiteralSet):
                    texts += text.language.texts
                else:
                    texts += self._ways.texts.candidates(text, after.special, MOST_CANDIDATES)
            known = self._told[after] = {text[:length] for text in texts for length in range(len(text) + 1)}
        return known

    def some(self, after: Dispatch) -> str:
        """Return what stands for the texts that are forgotten before what follows them."""
        known = self._some.get(after)
        if known is None:
            ways, known = self._ways, SOME
            other = after.after_text(None)
            if other is None or ways.of(other) is None or ways.writes(other):
                target = after.after_text(SOME)
                way = None if target is None else ways.of(target)
                many = 0 if target is None or way is None else ways.writes(target) + after.earlier
                if many > MOST_CANDIDATES:
                    known = self._stand_in(after, 2 * many)
            self._some[after] = known
        return known

    def _stand_in(self, after: Dispatch, most: int) -> str:
        """Return the first text that is no candidate and not refused; `SOME` if none of so many is."""
        beginnings, text = self._beginnings(after), self._callees[after]
        if isinstance(text.language, LiteralSet):
            return SOME
        found = self._ways.texts.candidates(text, after.special, most)
        return next((each for each in found if each not in beginnings and after.after_text(each) is not None), SOME)

    def _push(self, callee: State, after: State | Dispatch, frame: Frame | None) -> Frame | None:
        if isinstance(after, Dispatch) and isinstance(callee, Text) and after.elsewhere is not None:
            self._callees[after] = callee
        return super()._push(callee, after, frame)

    def _returned(self, machine: State | TextAt, frame: Frame) -> State | None:
        if frame.record is not None and frame.record.startswith(FORGOTTEN):
            assert isinstance(frame.after, Dispatch)
            return frame.after.after_text(self.some(frame.after))
        return super()._returned(machine, frame)


def _text_so_far(at: TextAt, record: bytes) -> str | None:
    """Return the whole characters of a text that was begun; None: all of it is there, or half a character."""
    if at.place in (PAIR, PAIR_U, DONE) or at.high:
        return None
    if at.place == UTF8:
        record = record.rstrip(_CONTINUING)[:-1]
    elif at.place != BODY:
        record = record[: record.rindex(b"\\")]
    closing = bytes([at.spelling.closing]) if at.spelling.closing >= 0 else b""
    return decode(at.spelling.quoting, record + closing)


def _only_target(at: TextAt) -> Language | None:
    """Return where all characters lead that a position inside UTF-8 may become; None where they are not all allowed, or
    lead apart.
    """
    points = at.pending()
    if len(points) != 1 or points[0][1] - points[0][0] + 1 != 1 << 6 * at.left:
        return None
    (low, high), = points
    found = edges_between(at.language, low, high)
    return next((target for first, last, target in found if first == low and last == high), None)


def _looping(spelling: Spelling, language: Language) -> int:
    """Return the kinds of characters that are written as themselves and lead from a language back to it."""
    edges = [(low, high) for low, high, target in language.edges() if target == language]

    def stays(low: int, high: int) -> bool:
        return all(
            clip(spelling.raw, first, last) == ((first, last),) and any(a <= first and last <= b for a, b in edges)
            for first, last in clip(SCALARS, low, high)
        )

    found = 0
    for bit, data in _ASCII_KINDS:
        if all(stays(byte, byte) for byte in data):
            found |= bit
    for low, high in LEADS:
        if stays(low, high):
            found |= int(BITS[chr(low).encode()[0]]) | 1 << INSIDE
    return found
