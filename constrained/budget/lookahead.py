"""A state and the tokens that may come next → the states behind them, told apart no further than ways out need.

    PlainKernel ── texts forgotten ──► Lookahead ── one walk of the trie ──► Successors

Tests: tests/test_budget.py: against the plain automaton, on vocabularies whose tokens begin and end keys and items, and
against stepping every token by itself.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from constrained.budget.ways import Ways
from constrained.caches import cached
from constrained.engine.plain import (
    BODY,
    DEAD,
    DONE,
    ESCAPE,
    PAIR,
    PAIR_U,
    UTF8,
    Config,
    Frame,
    Place,
    PlainKernel,
    PlainSteps,
    TextAt,
    edges_between,
    edges_of,
    frames,
)
from constrained.engine.spelling import SCALARS, Spelling, clip, decode, near
from constrained.engine.tokens.trie import BITS, INSIDE, LEADS
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.machine import Dispatch, Language, LiteralSet, State, Text
from constrained.regex import ANY_TEXT, Expr, repeat
from constrained.regex.markers import Guarded
from constrained.work import sorted_in_turns, spend

try:
    from constrained.engine.tokens._tokens import Steps
except ImportError:  # no compiler
    Steps = None

# ======================================================================================================================
# The plain automaton, with a way to look ahead that does not tell apart texts that nothing tells apart.
#
# Keys that no schema names, and strings of arrays whose items must be distinct, are remembered: every token inside one
# leads to a state of its own, 100,000 of them for a large vocabulary.  To look ahead over a token it is enough to know
# the few texts that a shortest way out would write, its *candidates*, and those that are refused: a text that can
# become none of these is forgotten, and when it ends it counts as one special text, `SOME`.  So the states behind all
# tokens are a few dozen, and their shortest ways are ways of the real states: they write candidates, of which it is
# known exactly which are used.
#
# A second such text in one token finds `SOME` used and is refused: such tokens look dead, and whoever asks has to step
# them exactly.
#
# A way out may write more texts than there are candidates, and so the one that was forgotten.  Then another stands for
# it in place of `SOME`: the first that is no candidate.  What is left is as long with that one as with any other, or
# longer, as the way out takes the shortest that are left: what is asked for is an upper bound.
#
# Invariant: `look_byte` reaches a live state only if `step_byte` does, and a way that `completion` finds there is a way
# from the real state.
# Tests: tests/test_budget.py, on vocabularies whose tokens begin and end keys and items.
# ======================================================================================================================

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
# the first leading byte, the first and the last character that each of these bytes may begin, bytes to come
_LEADING = ((0xC0, 0x80, 0x7FF, 1), (0xE0, 0x1000, 0xFFFF, 2), (0xF0, 0x40000, 0x10FFFF, 3))
_UNREAD = {BODY: ((0x80, 0xC1), (0xF5, 0xFF)), UTF8: ((0x00, 0x7F), (0xC0, 0xFF))}
# by bytes to come: first bits of characters after which any continuation may come: U+4E00, U+5000, U+40000
_PLAIN = {1: 0x138, 2: 0x5, 3: 0x1}


Span = tuple[int, int, "State | TextAt | None"]  # the first and the last of some bytes, and where they lead


class Lookahead(PlainKernel):
    """`PlainKernel` with `look_byte`; states of both kinds of steps are numbered alike."""

    def __init__(self, vocabulary: Vocabulary, ways: Ways) -> None:
        super().__init__(vocabulary, specials=vocabulary.special, max_configurations=1 << 30)
        self._ways = ways
        self.steps: Any = (Steps or PlainSteps)(vocabulary, self._look, self.returning)
        self._closed: dict[tuple[Config, ...], int] = {}  # what was closed → the state
        self._spans: dict[State | TextAt, list[Span]] = {}  # see `_span`
        self._forgetful: dict[int, int] = {}
        self._callees: dict[Dispatch, Text] = {}  # what is read before what follows it
        self._refused: dict[frozenset[str], list[str]] = {}  # in order
        self._told: dict[Dispatch, tuple[list[str], list[str]]] = {}  # the texts told from others, see `_begins`
        self._some: dict[Dispatch, str] = {}
        self._others = sorted(vocabulary.names)  # special tokens
        self._loops: dict[tuple[int, Language], int] = {}  # by identity of the spelling, which is never dropped

    def look_byte(self, state: int, byte: int) -> int:
        """Return the state after one byte, as far as it has to be told from others; DEAD also where a second text would
        be forgotten.
        """
        known: int = self.steps.find(state, byte)
        return known if known >= 0 else self._look(state, byte)

    def _look(self, state: int, byte: int) -> int:
        """Find the state after a byte, and after those around it that all configurations read as they read it."""
        spend(_UNITS)
        low, high, moved, data, configs = 0, 255, list[Config](), bytes([byte]), self.configurations(state)
        for machine, stack in configs:
            first, last, target = self._span(machine, byte)
            recorded = any(frame.record not in (None, FORGOTTEN) for frame in frames(stack))
            low, high = (byte, byte) if recorded else (max(low, first), min(high, last))
            if target is not None:
                moved.append(self._forgot(target, stack, data) if recorded else (target, stack))
        key = (self._alone(*moved[0]),) if len(configs) == len(moved) == 1 else tuple(moved)
        known = self._closed.get(key)  # inside texts most bytes lead to the same few
        if known is None:
            known = self._closed[key] = self._close([*key])
        self.steps.put(state, low, high, known)
        return known

    def _span(self, machine: State | TextAt, byte: int) -> Span:
        """Return bytes around one that lead where it leads, and where."""
        known = self._spans.setdefault(machine, [])
        for span in known:
            if span[0] <= byte <= span[1]:
                return span
        if isinstance(machine, TextAt):
            wide = byte >= 0x80 if machine.place == BODY else machine.place == UTF8
            beyond = _beyond(machine.language) if wide else None
            if beyond is not None:  # the texts of a spelling have these steps in common
                low, high, after = _wide_span(replace(machine, language=ANY_TEXT), byte)
                language = machine.language if after is not None and after.place == UTF8 else beyond
                around: Span = low, high, after and replace(after, language=language)
            else:
                around = _text_span(machine, byte)
        else:
            edges = self._expand(machine).ranges
            low = max([edge[1] + 1 for edge in edges if edge[1] < byte], default=0)
            high = min([edge[0] - 1 for edge in edges if edge[0] > byte], default=255)
            around = next((edge for edge in edges if edge[0] <= byte <= edge[1]), (low, high, None))
        known.append(around)
        return around

    def forgetful(self, state: int) -> int:
        """Return the state with those records of unfinished texts forgotten that no byte more makes matter: what lies
        behind it as `look_byte` says is known of all states like it.
        """
        known = self._forgetful.get(state)
        if known is None:
            configs = self.configurations(state)
            kept = [self._forgot(*config) for config in configs]
            forgot = frozenset(kept if len(kept) > 1 else [self._alone(*config) for config in kept])
            known = state if forgot == configs else self._intern(forgot, self.is_final(state))
            self._forgetful[state] = known
        return known

    def cached_bytes(self) -> int:
        return super().cached_bytes() + int(self.steps.bytes) + 200 * (
            len(self._reading) + 4 * len(self._spans) + len(self._closed)
            + len(self._forgetful)
        )

    def _alone(self, machine: State | TextAt, stack: Frame | None) -> Config:
        """Return the only reading with what decides no way out left away: what this lets in, the mask has forbidden.

        So texts have any number of characters, unless something follows that depends on the text.
        """
        if isinstance(machine, TextAt):
            longer = _endless(machine.language)
            if longer is not None and not any(isinstance(frame.after, Dispatch) for frame in frames(stack)):
                machine = replace(machine, language=longer)
            machine = _merged(machine, alone=True)
        return machine, stack

    def returning(self, state: int) -> int:
        """Return kinds of characters that lead from a state back to it, as bits; see `tokens.trie`.

        Those of its one text, where its language says it, that nothing else reads.
        """
        configs = self.configurations(state)
        texts = [(machine, stack) for machine, stack in configs if isinstance(machine, TextAt)]
        if len(texts) != 1:
            return 0
        ((machine, stack),) = texts
        if machine.place != BODY or any(frame.record not in (None, FORGOTTEN) for frame in frames(stack)):
            return 0
        key = id(machine.spelling), machine.language
        kinds = self._loops.get(key)
        if kinds is None:
            kinds = self._loops[key] = _looping(machine.spelling, machine.language)
        if kinds and (len(configs) > 1 or machine.spelling.closing < 0) and self._close([*texts]) != state:
            return 0
        for other, _ in configs:
            for low, high, _ in self._expand(other).ranges:
                kinds &= ~int(np.bitwise_or.reduce(BITS[low : high + 1]))
        return kinds

    def _forgot(self, machine: State | TextAt, stack: Frame | None, data: bytes = b"") -> Config:
        """Return a configuration that has read some bytes more, with its record of an unfinished text forgotten where
        nothing behind the text asks.
        """
        if all(frame.record is None for frame in frames(stack)):
            return machine, stack
        told: dict[bytes, str | None] = {}  # frames beside each other remember the same

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
            return after, quoting, record if text is None or self._begins(after, text) else FORGOTTEN

        return machine, self.changed(stack, place)

    def _begins(self, after: Dispatch, begun: str) -> bool:
        """Say whether a text may become one that is refused, or one of the first that a shortest way would write
        instead, if it writes any.
        """
        known = self._told.get(after)
        if known is None:
            texts = list[str]()
            for text in (self._callees[after], *(after.elsewhere or ())) if self._matters(after) else ():
                if isinstance(text.language, LiteralSet):
                    texts += text.language.texts
                else:
                    texts += self._ways.texts.candidates(text, after.special, MOST_CANDIDATES)
            if after.special not in self._refused:
                spend(len(after.special) >> 1)
                self._refused[after.special] = sorted_in_turns(after.special)
            known = self._told[after] = self._refused[after.special], sorted_in_turns(texts)
        places = [(texts, bisect_left(texts, begun)) for texts in known]
        return any(at < len(texts) and texts[at].startswith(begun) for texts, at in places)

    def some(self, after: Dispatch) -> str:
        """Return what stands for the texts that are forgotten before what follows them."""
        known = self._some.get(after)
        if known is None:
            known = SOME
            if self._matters(after):
                target = after.after_text(SOME)
                way = None if target is None else self._ways.of(target)
                many = 0 if target is None or way is None else self._ways.writes(target) + after.earlier
                if many > MOST_CANDIDATES:
                    known = self._stand_in(after, 2 * many)
            self._some[after] = known
        return known

    def _matters(self, after: Dispatch) -> bool:
        """Say whether the way out of what follows a text depends on it."""
        other = after.after_text(None)
        return other is None or self._ways.of(other) is None or self._ways.writes(other) > 0

    def _stand_in(self, after: Dispatch, most: int) -> str:
        """Return the first text that is no candidate and not refused; `SOME` if none of so many is."""
        text = self._callees[after]
        if isinstance(text.language, LiteralSet):
            return SOME
        texts = self._ways.texts.candidates(text, after.special, most)
        others = (each for each in texts if not self._begins(after, each) and after.after_text(each) is not None)
        return next(others, SOME)

    def _push(self, callee: State, after: State | Dispatch, frame: Frame | None) -> Frame | None:
        if isinstance(after, Dispatch) and isinstance(callee, Text) and after.elsewhere is not None:
            self._callees[after] = callee
        return super()._push(callee, after, frame)

    def _returned(self, machine: State | TextAt, frame: Frame) -> State | None:
        if frame.record is not None and frame.record.startswith(FORGOTTEN):
            assert isinstance(frame.after, Dispatch)
            return frame.after.after_text(self.some(frame.after))
        return super()._returned(machine, frame)

    # -- tokens --------------------------------------------------------------------------------------------------------

    def look_token(self, state: int, token: int) -> int:
        """Return a state after a token whose ways are ways of the real one, DEAD where the grammar has none."""
        data, after = self._vocabulary.tokens[token] or b"", state
        for byte in data:
            after = self.look_byte(after, byte)
            if after == DEAD:
                break
        return after if data and after != DEAD else self.step_token(state, token)

    def look_all(self, state: int, allowed: Flags) -> Successors:
        """Return where tokens lead, given which may come next, (vocabulary size,); of each what `look_token` says."""
        texts, used, visited = self.steps.after_all(state, allowed)
        spend(20 + visited // 64)
        named = [(token, self.step_token(state, token)) for token in self._others if allowed[token]]
        successors = Successors(used, texts, {token: after for token, after in named if after != DEAD})
        missed = np.count_nonzero(texts) + len(named) < np.count_nonzero(allowed)
        successors.used.update((after, token) for token, after in successors.named.items())
        return self.exactly(state, successors, allowed, [DEAD]) if missed else successors

    def exactly(self, state: int, found: Successors, allowed: Flags, which: list[int]) -> Successors:
        """Return where the tokens lead if those that lead to some states are stepped without looking ahead."""
        texts, ids = found.texts.copy(), self._vocabulary.trie.ids
        places = np.flatnonzero(np.isin(texts, which) & allowed[ids])
        spend(4 * len(places))
        texts[places] = [self.step_token(state, token) for token in ids[places].tolist()]
        named = {after: token for token, after in found.named.items()}
        return Successors(_used(texts, ids) | named, texts, found.named)


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


def _merged(machine: TextAt, *, alone: bool = False) -> TextAt:
    """Return a position that goes on alike: inside a character, which one it is matters only where some lead elsewhere
    than others, or the first one is none.  alone: what cannot come here was forbidden by the mask.
    """
    if machine.place != UTF8:
        return machine
    other, read, width = replace(machine, value=_PLAIN[machine.left]), _characters(machine), 6 * machine.left
    first, targets = machine.value << width, {target for _, _, target in read}
    alike = read and read[0][0] == first and (alone or read[0][1] == first + (1 << width) - 1)
    whole = [(other.value << width, (other.value + 1 << width) - 1, *targets)]
    return other if alike and _characters(other) == whole else machine


def _text_span(at: TextAt, byte: int) -> tuple[int, int, TextAt | None]:
    """Return bytes around one that lead where it leads inside a text, and where."""
    spend(50)  # three steps and more
    after = at.step(byte)
    target = after and _merged(after)
    low, high = _read_alike(at, byte)
    ends = [at.step(each) for each in {low, high} - {byte}]
    return (byte, byte, target) if any((end and _merged(end)) != target for end in ends) else (low, high, target)


_wide_span = cached(10_000)(_text_span)


@cached(1_000)
def _beyond(language: Language) -> Language | None:
    """Return where all characters of several bytes lead, None where some lead elsewhere or nowhere."""
    edges = edges_between(language, 0x80, 0x10FFFF)
    several = [span for low, high, _ in edges for span in clip(SCALARS, low, high)]
    whole = sum(high - low + 1 for low, high in several) == 0x110000 - 0x80 - 0x800
    return edges[0][2] if whole and len({target for _, _, target in edges}) == 1 else None


def _read_alike(at: TextAt, byte: int) -> tuple[int, int]:
    """Return bytes around one that as a rule lead to one place: the first and the last, which lead there if the others
    do.
    """
    spelling = at.spelling
    for low, high in _UNREAD.get(at.place, ()):
        if low <= byte <= high:
            return low, high
    if at.place == ESCAPE:
        return _around(byte, 0, 255, [(letter, letter) for letter in spelling.letters])
    if at.place == BODY and byte < 0x80:
        ends = (spelling.closing, 0x5C, 0x80)
        if byte in ends:
            return byte, byte
        low, high = max([end + 1 for end in ends if end < byte], default=0), min(end for end in ends if end > byte) - 1
        return _around(byte, *_around(byte, low, high, spelling.raw), edges_of(at.language))
    if at.place == BODY and not edges_between(at.language, 0x80, 0x10FFFF):
        return 0x80, 0xFF
    if at.place not in (BODY, UTF8):
        return byte, byte
    index, width, low, high = at.value << 6 | byte & 0x3F, 6 * (at.left - 1), 0, 0x10FFFF
    for lead, first, last, length in _LEADING:
        if at.place == BODY and lead <= byte < lead + (0x40 >> length):
            index, width, low, high = byte - lead, 6 * length, first, last
    # characters that begin with one byte are a block
    least, most = index << width, (index + 1 << width) - 1
    low, high = _around(least, low, high, spelling.raw if at.place == BODY else at.pending())
    low, high = _around(least, low, high, edges_of(at.language))
    if not low <= least or most > high:
        return byte, byte
    return max(byte - index + -(-low >> width), byte & 0xC0), min(byte - index + (high + 1 >> width) - 1, byte | 0x3F)


def _around(point: int, low: int, high: int, spans: Sequence[tuple[Any, ...]]) -> tuple[int, int]:
    """Return the part of [low, high] around a point that lies in one of some sorted spans, or between them."""
    for first, last, *_ in near(spans, low, high):
        if first > point:
            return low, min(high, first - 1)
        if last >= point:
            return max(low, first), min(high, last)
        low = max(low, last + 1)
    return low, high


def _endless(language: Language) -> Language | None:
    """Return C{m,} for C{m,n}, None for any other language."""
    if isinstance(language, Guarded):
        inner = _endless(language.language)
        return None if inner is None else language._replace(language=inner)
    counted = language.counted if isinstance(language, Expr) else None
    return None if counted is None or counted[2] in (None, counted[1]) else repeat(counted[0], counted[1], None)


def _characters(at: TextAt) -> list[tuple[int, int, Language]]:
    """Return the ranges of characters that a position inside UTF-8 may become, and where each leads."""
    points = at.pending()
    edges = edges_between(at.language, points[0][0], points[-1][1]) if points else ()
    return [(*span, target) for low, high, target in edges for span in clip(points, low, high)]


def _looping(spelling: Spelling, language: Language) -> int:
    """Return the kinds of characters that lead from a language back to it where they are allowed, as themselves."""
    edges = edges_of(language)
    spend(1 + len(edges))
    if all(target != language for _, _, target in edges):
        return 0
    spend(60)

    def leaves(low: int, high: int) -> bool:
        around = edges_between(language, low, high)
        return any(clip(spelling.raw, first, last) for first, last, target in around if target != language)

    looping = 0
    for bit, data in _ASCII_KINDS:
        if all(clip(spelling.raw, byte, byte) and not leaves(byte, byte) for byte in data):
            looping |= bit
    for low, high in LEADS:
        if not leaves(low, high):
            looping |= int(BITS[chr(low).encode()[0]]) | 1 << INSIDE
    return looping


# ======================================================================================================================
# A state and the tokens that may come next → the states behind them: one walk of the trie, see `_tokens.Steps`.
#
# Cost: 0.3-1 ms with 128,000 tokens, for a state that is met for the first time; what bytes do is kept by the tracker.
# Tests: tests/test_budget.py, against stepping every token.  Source: ours.
# ======================================================================================================================

Ints = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Successors:
    """Where the tokens that may come next lead."""

    used: dict[int, int]  # these states, each with a token that leads there
    texts: Ints  # (tokens,) int32, the state behind each token of the trie, in its order; DEAD: it may not come
    named: dict[int, int]  # the states behind special tokens


NOWHERE = Successors({}, np.zeros(0, np.int32), {})


def _used(texts: Ints, ids: Ints) -> dict[int, int]:
    """Return the states that tokens of the trie lead to, each with one of these."""
    states, first = np.unique(texts, return_index=True)
    return {state: token for state, token in zip(states.tolist(), ids[first].tolist(), strict=True) if state != DEAD}
