"""A state and the tokens that may come next → the states behind them, told apart no further than ways out need.

    PlainKernel ── texts forgotten ──► Lookahead ── all tokens at once ──► TokenSteps

Tests: tests/test_budget.py: against the plain automaton, on vocabularies whose tokens begin and end keys and items, and
against stepping every token by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from constrained.budget.ways import Ways
from constrained.engine.plain import (
    BODY,
    DEAD,
    DONE,
    PAIR,
    PAIR_U,
    UTF8,
    Config,
    Frame,
    Place,
    PlainKernel,
    TextAt,
    edges_between,
    frames,
)
from constrained.engine.spelling import SCALARS, Spelling, clip, decode
from constrained.engine.tokens.trie import BITS, INSIDE, LEADS, TokenTrie
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.machine import Dispatch, Language, LiteralSet, State, Text
from constrained.work import spend

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
# by bytes to come: first bits of characters after which any continuation may come: U+0800, U+1000, U+40000
_PLAIN = {1: 0x20, 2: 0x1, 3: 0x1}


class Lookahead(PlainKernel):
    """`PlainKernel` with `look_byte`; states of both kinds of steps are numbered alike."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        ways: Ways,
        *,
        specials: Mapping[str, int],
        max_bytes: int,
    ) -> None:
        super().__init__(vocabulary, specials=specials, max_configurations=1 << 30, max_bytes=max_bytes)
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
        """Return kinds of characters that lead from a state back to it, as bits; see `tokens.trie`.

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
    edges = language.edges()
    spend(1 + len(edges) // 8)
    kept = [span for low, high, target in edges if target == language for span in clip(spelling.raw, low, high)]
    if not kept:
        return 0
    spend(60)

    def stays(low: int, high: int) -> bool:
        return all(any(a <= first and last <= b for a, b in kept) for first, last in clip(SCALARS, low, high))

    found = 0
    for bit, data in _ASCII_KINDS:
        if all(stays(byte, byte) for byte in data):
            found |= bit
    for low, high in LEADS:
        if stays(low, high):
            found |= int(BITS[chr(low).encode()[0]]) | 1 << INSIDE
    return found


# ======================================================================================================================
# A state and the tokens that may come next → the states behind them, without stepping every token by itself.
#
# The trie is walked level by level, all nodes of a level at once, and only where tokens lie below that may come next:
# the plain mask is known, so a byte that it forbids is never stepped.  Where only bytes lie below a node that lead back
# to its state (`tokens.trie`), such as letters in a string or blanks between members, nobody walks: all tokens
# there lead to that state, but for those that end inside a character, which have the bytes of that character to go.
#
# A few tokens are stepped one by one; the arrays cost more than that.
#
# Cost: 1-4 ms with 128,000 tokens, for a state that is met for the first time; what bytes do is kept by the tracker.
# Tests: tests/test_budget.py, against stepping every token.  Source: ours.
# ======================================================================================================================

Ints = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]

_FEW_TOKENS = 200  # tokens; where fewer are left, they are stepped without arrays


@dataclass(frozen=True, slots=True)
class Successors:
    """Where the tokens that may come next lead."""

    states: list[int]  # some may be those of beginnings of tokens only, or be there twice
    used: list[int]  # places in `states` that tokens lead to
    tokens: Ints  # (allowed,) ids, stop tokens that the grammar does not name left out
    after: Ints  # (allowed,) places in `states`


class TokenSteps:
    """Steps states of a tracker over tokens; what `Completions` looks ahead with.

    Invariant: `successors` says of every token what `after` says.
    """

    def __init__(self, vocabulary: Vocabulary, tracker: Lookahead) -> None:
        self._vocabulary, self._tracker = vocabulary, tracker
        self._others = sorted(vocabulary.names)  # special tokens
        self._looping: dict[int, int] = {}

    def after(self, state: int, token: int) -> int:
        """Return a state after a token whose ways are ways of the real one, DEAD where the grammar has none; see
        `lookahead`.
        """
        data = self._vocabulary.tokens[token]
        after = DEAD if data is None else self._look(state, data)
        return after if after != DEAD else self._tracker.step_token(state, token)

    def successors(self, state: int, allowed: Flags) -> Successors:
        """Return where tokens lead, given which may come next, (vocabulary size,)."""
        places, trie = _Places(state), self._vocabulary.trie
        asked = allowed[trie.ids]
        texts = trie.ids[asked]
        leads = self._walked(places, asked)[asked] if len(texts) > _FEW_TOKENS else np.zeros(len(texts), np.int32)
        missed = np.flatnonzero(leads == 0)
        spend(20 + len(trie.ids) // 64 + 4 * len(missed))  # arrays over all tokens take a millisecond or two
        leads[missed] = [places.of(self.after(state, token)) for token in texts[missed].tolist()]
        named = [(token, self.after(state, token)) for token in self._others if allowed[token]]
        tokens = np.append(texts, np.array([token for token, _ in named], np.int32))
        leads = np.append(leads, np.array([places.of(after) for _, after in named], np.int32))
        alive = leads > 0
        if not alive.all():
            tokens, leads = tokens[alive], leads[alive]
        return _as_successors(places.states, tokens, leads)

    def exactly(self, state: int, found: Successors, which: list[int]) -> Successors:
        """Return where the tokens lead if those that lead to some places are stepped without looking ahead."""
        states, leads = found.states.copy(), found.after.copy()
        for at in np.flatnonzero(np.isin(leads, which)).tolist():
            leads[at] = len(states)
            states.append(self._tracker.step_token(state, int(found.tokens[at])))
        return _as_successors(states, found.tokens, leads)

    def _look(self, state: int, data: bytes) -> int:
        for byte in data:
            state = self._tracker.look_byte(state, byte)
            if state == DEAD:
                break
        return state

    def _walked(self, places: _Places, asked: Flags) -> Ints:
        """Return the places of the states behind the tokens of the trie that are asked about, in its order; 0 where
        looking ahead finds none.

        `frontier` are the nodes of a level that have nodes below and are alive; `above` are the places of their states.
        Tokens are numbered as in `trie.ids` here, so that a subtree is a range.
        """
        trie = self._vocabulary.trie
        wanted = np.zeros(len(trie.ids) + 1, np.int32)  # how many tokens before each are asked about
        np.cumsum(asked.view(np.int8), dtype=np.int32, out=wanted[1:])
        behind = np.zeros(len(trie.ids) + 1, np.int32)  # at first differences of the places behind tokens of subtrees
        single: list[tuple[Ints, Ints]] = []
        loops = np.array([0, self._loops(places.states[1])], np.uint64)
        frontier, above = np.zeros(0, np.int32), np.ones(0, np.int32)
        for depth, level in enumerate(self._vocabulary.levels):
            nodes, before = (
                (level, np.ones(len(level), np.int32)) if depth == 0 else _below(trie, level, frontier, above)
            )
            left = wanted[trie.first[trie.end[nodes]]] - wanted[trie.first[nodes]]
            nodes, before = nodes[left > 0], before[left > 0]
            if left.sum() <= _FEW_TOKENS:
                break
            spend(130 + len(nodes) // 20)
            reached = self._stepped(before.astype(np.int64) * 256 + trie.byte[nodes], places)
            alive = reached > 0
            nodes, reached = nodes[alive], reached[alive]
            fresh = [self._loops(after) for after in places.states[len(loops) :]]
            loops = np.append(loops, np.array(fresh, np.uint64))
            same = (trie.below[nodes] & ~loops[reached]) == 0
            np.add.at(behind, trie.first[nodes[same]], reached[same])
            np.subtract.at(behind, trie.first[trie.end[nodes[same]]], reached[same])
            frontier, above = nodes[~same], reached[~same]
            single.append((frontier, above))
        else:
            nodes = before = frontier[:0]
        behind = np.cumsum(behind[:-1], dtype=np.int32)
        self._finish_characters(behind, asked, places)
        for ends, reached in single:
            _put(behind, trie.first[ends], trie.first[ends + 1], reached)
        for node, place in zip(nodes.tolist(), before.tolist(), strict=True):
            self._descend(behind, node, place, places)
        return behind

    def _descend(self, behind: Ints, node: int, place: int, places: _Places) -> None:
        """Step node by node through a subtree, from the place above it."""
        records, look = self._vocabulary.trie.records, self._tracker.look_byte
        end, first, top, _ = records[node].tolist()
        stop, path = end, [place]
        while node < stop:
            end, first, depth, byte = records[node].tolist()
            del path[depth - top + 1 :]
            after = look(places.states[path[-1]], byte)
            if after == DEAD:
                node = end
                continue
            spend(3)
            path.append(places.of(after))
            behind[first : records[node + 1, 1]] = path[-1]
            node += 1

    def _finish_characters(self, behind: Ints, asked: Flags, places: _Places) -> None:
        """Put right where tokens of whole subtrees lead that end inside a character."""
        numbers, which, ends = self._vocabulary.unfinished
        found = asked[numbers] & (behind[numbers] > 0)
        numbers = numbers[found]
        pairs, back = _distinct(behind[numbers].astype(np.int64) * len(ends) + which[found])
        after = [
            places.of(self._look(places.states[pair // len(ends)], ends[pair % len(ends)])) for pair in pairs.tolist()
        ]
        behind[numbers] = np.array(after, np.int32)[back]

    def _stepped(self, keys: npt.NDArray[np.int64], places: _Places) -> Ints:
        """Return the places of the states after (place of a state) · 256 + byte."""
        pairs, back = _distinct(keys)
        spend(len(pairs))
        look, states = self._tracker.look_byte, places.states
        after = [places.of(look(states[pair >> 8], pair & 255)) for pair in pairs.tolist()]
        return np.array(after, np.int32)[back]

    def _loops(self, state: int) -> int:
        """Return the kinds of characters that lead from a state back to it, as bits; some may be left out."""
        known = self._looping.get(state)
        if known is None:
            known = self._looping[state] = 0 if state == DEAD else self._tracker.looping_kinds(state)
        return known


def _as_successors(states: list[int], tokens: Ints, leads: Ints) -> Successors:
    used = np.zeros(len(states), np.bool_)
    used[leads] = True
    return Successors(states, np.flatnonzero(used).tolist(), tokens, leads)


class _Places:
    """States in the order in which they are met; place 0 is DEAD, place 1 the state that tokens are read from."""

    def __init__(self, state: int) -> None:
        self.states, self._places = [DEAD, state], {DEAD: 0, state: 1}

    def of(self, state: int) -> int:
        place = self._places.setdefault(state, len(self.states))
        if place == len(self.states):
            self.states.append(state)
        return place


def _distinct(numbers: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return numbers without repetitions, ascending, and the place of each among these; a table where it is small."""
    most = int(numbers.max(initial=-1)) + 1
    if most > 64 * len(numbers):
        found, back = np.unique(numbers, return_inverse=True)
        return found, back.reshape(-1)
    met = np.zeros(most, np.bool_)
    met[numbers] = True
    return np.flatnonzero(met), (np.cumsum(met) - 1)[numbers]


def _below(trie: TokenTrie, level: Ints, frontier: Ints, above: Ints) -> tuple[Ints, Ints]:
    """Return the nodes of a level below some nodes of the one before, and what is known of their parents."""
    first, last = np.searchsorted(level, frontier + 1), np.searchsorted(level, trie.end[frontier])
    counts = last - first
    starts = np.cumsum(counts) - counts
    return level[np.repeat(first - starts, counts) + np.arange(counts.sum())], np.repeat(above, counts)


def _put(behind: Ints, first: Ints, end: Ints, values: Ints) -> None:
    """Write each value into its range; most ranges have no token or one."""
    count = end - first
    behind[first[count > 0]] = values[count > 0]
    for at in np.flatnonzero(count > 1).tolist():
        behind[first[at] : end[at]] = values[at]
