"""A state and the tokens that may come next → the states behind them, without stepping every token by itself.

The trie is walked level by level, all nodes of a level at once, and only where tokens lie below that may come next: the
plain mask is known, so a byte that it forbids is never stepped.  Where only bytes lie below a node that lead back to
its state (`tokens.byte_classes`), such as letters in a string or blanks between members, nobody walks: all tokens there
lead to that state, but for those that end inside a character, which have the bytes of that character to go.

A few tokens are stepped one by one; the arrays cost more than that.

Cost: 1-4 ms with 128,000 tokens, for a state that is met for the first time; what bytes do is kept by the tracker.
Tests: tests/test_budget.py, against stepping every token.  Source: ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from constrained.engine.budget.lookahead import Lookahead
from constrained.engine.tokens.trie import TokenTrie
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.engine.twin.automaton import DEAD
from constrained.work import spend

Ints = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]

_FEW = 200  # tokens; where fewer are left, they are stepped without arrays


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
        self._others = np.setdiff1d(np.arange(vocabulary.size), vocabulary.trie.ids).tolist()  # special tokens
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
        leads = self._walked(places, asked)[asked] if len(texts) > _FEW else np.zeros(len(texts), np.int32)
        missed = np.flatnonzero(leads == 0)
        spend(20 + len(trie.ids) // 64 + 4 * len(missed))  # arrays over all tokens take a millisecond or two
        leads[missed] = [places.of(self.after(state, token)) for token in texts[missed].tolist()]
        named = [(token, self.after(state, token)) for token in self._others if allowed[token]]
        tokens = np.append(texts, np.array([token for token, _ in named], np.int32))
        leads = np.append(leads, np.array([places.of(after) for _, after in named], np.int32))
        alive = leads > 0
        if not alive.all():
            tokens, leads = tokens[alive], leads[alive]
        return _found(places.states, tokens, leads)

    def exactly(self, state: int, found: Successors, which: list[int]) -> Successors:
        """Return where the tokens lead if those that lead to some places are stepped without looking ahead."""
        states, leads = found.states.copy(), found.after.copy()
        for at in np.flatnonzero(np.isin(leads, which)).tolist():
            leads[at] = len(states)
            states.append(self._tracker.step_token(state, int(found.tokens[at])))
        return _found(states, found.tokens, leads)

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
            if left.sum() <= _FEW:
                break
            spend(20 + len(nodes) // 200)
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
        pairs, back = np.unique(behind[numbers].astype(np.int64) * len(ends) + which[found], return_inverse=True)
        after = [
            places.of(self._look(places.states[pair // len(ends)], ends[pair % len(ends)])) for pair in pairs.tolist()
        ]
        behind[numbers] = np.array(after, np.int32)[back]

    def _stepped(self, keys: npt.NDArray[np.int64], places: _Places) -> Ints:
        """Return the places of the states after (place of a state) · 256 + byte."""
        pairs, back = np.unique(keys, return_inverse=True)
        look, states = self._tracker.look_byte, places.states
        after = [places.of(look(states[pair >> 8], pair & 255)) for pair in pairs.tolist()]
        return np.array(after, np.int32)[back]

    def _loops(self, state: int) -> int:
        """Return the kinds of characters that lead from a state back to it, as bits; some may be left out."""
        known = self._looping.get(state)
        if known is None:
            known = self._looping[state] = 0 if state == DEAD else self._tracker.looping_kinds(state)
        return known


def _found(states: list[int], tokens: Ints, leads: Ints) -> Successors:
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
