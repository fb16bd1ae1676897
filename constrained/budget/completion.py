"""The automaton of a constraint → how it gets to its end from each state, in tokens: what a budget asks.

The compiled kernel numbers its states and keeps what they mean to itself, so the states are followed here once more, by
the readable twin: a state is a set of readings, a reading a machine state and a stack, and the shortest way out of a
reading is that of its machine state and then those of its frames (`ways`).  A way is spelled in as few tokens
as its bytes allow.  That is an upper bound of the fewest tokens that end the word: another way, longer in bytes, may be
shorter in tokens.

For a mask it takes the ways out behind every token: `successors` finds the few states that the tokens lead to, and each
is asked once.  What is kept is the longest way out behind any token, and as long as that fits, no token has to be
looked at.

Tests: tests/test_budget.py.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from constrained.budget.lookahead import FORGOTTEN, Lookahead, Successors
from constrained.budget.ways import Way, Ways, order, symbols
from constrained.engine.plain import DEAD, Config, Frame, TextAt, frames
from constrained.engine.spelling import decode, variants
from constrained.errors import LimitExceeded
from constrained.machine import Dispatch, State, Text
from constrained.work import spend

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from constrained.engine.tokens.vocabulary import Vocabulary

    Allowed = Callable[[], npt.NDArray[np.bool_]]  # which tokens may come next, (size,), as the plain mask says

ENDLESS = 1 << 30  # length of a way that is not known
_KEPT = 16  # states whose tokens are kept with where they lead
_MOST_BYTES = 1 << 26  # estimated; then constraints start afresh


class Completions:
    """The ways out of states; shared by the matchers over a vocabulary, which hold states of `tracker`.

    Invariant: what is kept depends on the state alone, so matchers that share this and matchers that do not get the
    same answers.
    Threads: two may compute the same thing twice.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._ways = Ways(vocabulary.special)
        self.tracker = Lookahead(vocabulary, self._ways)
        spelled = self.tracker.steps.spelled
        self.bytewise = all(spelled(bytes([byte])) for byte in range(256))  # then a way has no more tokens than symbols
        self._frames: dict[Frame | None, Way | None] = {None: ""}
        self._known: dict[int, Way | None] = {}
        self._tokens: dict[Way, tuple[int, ...] | None] = {}
        self._longest: dict[int, int] = {}
        # by state as `Lookahead.forgetful` has it: which tokens were asked about, and where they lead
        self._successors: OrderedDict[int, tuple[npt.NDArray[np.bool_], Successors]] = OrderedDict()

    def is_full(self) -> bool:
        """Say whether it holds so much that matchers should go on in a fresh one."""
        held = 200 * (len(self._ways) + len(self._known) + len(self._frames)) + 100 * (
            len(self._tokens) + len(self._longest)
        )
        return self.tracker.cached_bytes() + held > _MOST_BYTES

    # -- ways out ------------------------------------------------------------------------------------------------------

    def way(self, state: int) -> Way | None:
        """Return the shortest way from a state to the end of a word; None: none is known."""
        if state not in self._known:
            if self.tracker.is_final(state):
                self._known[state] = ""
            else:
                self._known[state] = _shortest(map(self._out, self.tracker.configurations(state)))
        return self._known[state]

    def length(self, state: int) -> int:
        """Return the symbols of the shortest way."""
        way = self.way(state)
        return ENDLESS if way is None else len(way)

    def tokens(self, state: int) -> tuple[int, ...] | None:
        """Return the shortest way in as few tokens as spell it; None: none is known, or the vocabulary cannot spell
        it.
        """
        way = self.way(state)
        if way is None:
            return None
        if way not in self._tokens:
            self._tokens[way] = self._spelled(way)
        return self._tokens[way]

    def fits(self, state: int, most: int) -> bool:
        """Say whether a word can end within `most` tokens, as far as is known."""
        length = self.length(state)
        if self.bytewise and length <= most:
            return True
        if length > most * max(self._vocabulary.longest, 1):
            return False
        tokens = self.tokens(state)
        return tokens is not None and len(tokens) <= most

    def _out(self, config: Config) -> Way | None:
        machine, stack = config
        spend(2)
        if not isinstance(machine, (TextAt, Text)):
            return _joined(self._ways.of(machine), self._behind(stack))
        inner = self._ways.texts.rest(machine) if isinstance(machine, TextAt) else self._ways.of(machine)
        if not any(isinstance(frame.after, Dispatch) for frame in frames(stack)):
            return _joined(inner, self._behind(stack))
        return _shortest(
            _joined(self._told(machine, frame.after, frame), behind)
            if isinstance(frame.after, Dispatch)
            else _joined(inner, _joined(self._ways.of(frame.after), behind))
            for frame in frames(stack)
            for behind in [self._behind(frame.parent)]
        )

    def _told(self, machine: TextAt | Text, after: Dispatch, frame: Frame) -> Way | None:
        """Return the shortest way through a text and the state that follows it."""
        if frame.record is not None and frame.record.startswith(FORGOTTEN):
            assert isinstance(machine, TextAt)
            text = self.tracker.some(after)
            target = self._like(after, text, after.after_text(text))
            return None if target is None else _joined(self._ways.texts.rest(machine), self._ways.of(target))
        places = (
            [("", machine)]
            if isinstance(machine, TextAt)
            else [
                (symbols(spelling.opening), TextAt(spelling, part))
                for spelling, part in variants(machine.quoting, machine.language)
                if part is not None
            ]
        )
        ways = []
        for opening, at in places:
            record = None if frame.record is None else frame.record + opening.encode("latin-1")
            for spelled, target in self._ways.texts.told(at, after, record, frame.quoting):
                if record is not None and frame.quoting is not None:
                    text = decode(frame.quoting, record + spelled.encode("latin-1"))
                    target = self._like(after, text, target) or target
                ways.append(_joined(opening + spelled, self._ways.of(target)))
        return _shortest(ways)

    def _like(self, after: Dispatch, text: str, target: State | None) -> State | None:
        """Return the state after any other text, if its way out is that of `target`, the state after this one, too; it
        is the same for all texts but special ones.
        """
        if target is None or after.elsewhere is None or text in after.special:
            return target
        other = after.after_text(None)
        return target if other is None or self._ways.of(other) is None or self._ways.writes(other) else other

    def _behind(self, stack: Frame | None) -> Way | None:
        """Return the shortest way from the end of a call to the end of the word."""
        known, todo = self._frames, [stack]
        while todo:
            at = todo.pop()
            if at in known:
                continue
            missing = [frame.parent for frame in frames(at) if frame.parent not in known]
            if missing:
                todo += [at, *missing]
            else:
                spend(1)
                known[at] = _shortest(map(self._through, frames(at)))
        return known[stack]

    def _through(self, frame: Frame) -> Way | None:
        """Return the shortest way through the state after a call, and what is known of the end behind it."""
        assert not isinstance(frame.after, Dispatch), "only texts are dispatched upon"
        return _joined(self._ways.of(frame.after), self._frames[frame.parent])

    # -- tokens --------------------------------------------------------------------------------------------------------

    def _spelled(self, way: Way) -> tuple[int, ...] | None:
        """Return the fewest tokens that spell a way."""
        spend(1 + len(way) // 3)
        tokens, spelled = list[int](), self.tracker.steps.spelled
        for part in re.split("([^\\x00-\\xff])", way):  # at special tokens
            ids = [ord(part) - 256] if part and ord(part[0]) > 255 else spelled(part.encode("latin-1"))
            if ids is None:
                return None
            tokens += ids
        return tuple(tokens)

    # -- what a budget forbids -----------------------------------------------------------------------------------------

    def after(self, state: int, token: int) -> int:
        """Return a state after a token whose ways are ways of the real one; see `Lookahead.look_token`."""
        after = self.tracker.look_token(state, token)
        return self.tracker.step_token(state, token) if after != DEAD and self.way(after) is None else after

    def is_near(self, state: int, most: int, allowed: Allowed) -> bool:
        """Say whether some token that may come next may lead to where no way of at most `most` tokens is known."""
        if not self.bytewise:
            return True
        known = self._longest.get(state)
        if known is None:
            successors = self.successors(state, allowed)
            known = self._longest[state] = max(map(self.length, successors.used), default=0)
        return known > most

    def is_beyond(self, state: int, after: int, most: int, *, nearer: bool) -> bool:
        """Say whether behind a state no way out of at most `most` tokens is known; nearer: or whether it leads away
        from the end.
        """
        return not self.fits(after, most) or nearer and self.length(after) > self.length(state)

    def clear(self, found: Successors, out: Collection[int], bits: npt.NDArray[np.uint32]) -> None:
        """Clear the bits of the tokens that lead to some states."""
        self.tracker.steps.clear(bits, found.texts, out)
        for token in [token for token, after in found.named.items() if after in out]:
            bits[token >> 5] &= ~np.uint32(1 << (token & 31))

    def successors(self, state: int, allowed: Allowed) -> Successors:
        """Return where all tokens lead that may come next; those behind which looking ahead knows no way are stepped
        exactly, as they may stand in a second text that it does not tell from others.
        """
        start, asked = self.tracker.forgetful(state), allowed()
        known = self._successors.get(start)
        if known is not None and np.array_equal(known[0], asked):
            return known[1]
        stepped = self.tracker.look_all(start, asked)
        unknown = [after for after in stepped.used if self.way(after) is None]
        stepped = self.tracker.exactly(start, stepped, asked, unknown) if unknown else stepped
        self._successors[start] = asked, stepped
        while len(self._successors) > _KEPT:
            self._successors.popitem(last=False)
        return stepped


def shortest_completion(known: Completions, state: int, tokens: Sequence[int]) -> list[int]:
    """Return tokens that end the word that begins with some tokens, all allowed, from a state on."""
    for token in tokens:
        after = known.tracker.step_token(state, token)
        state = state if after == DEAD else after  # a stop token that the grammar does not name
    return list(known_tokens(known, state))


def known_tokens(known: Completions, state: int) -> tuple[int, ...]:
    """Return the tokens of the shortest way out of a state.

    Raises: LimitExceeded: none is known, or the vocabulary cannot spell it.
    """
    tokens = known.tokens(state)
    if tokens is not None:
        return tokens
    if known.way(state) is None:
        raise LimitExceeded(
            "no way to the end of a word is known",
            because="the texts that were tried are used up",
            instead="a matcher without a budget",
        )
    raise LimitExceeded(
        "the shortest way to the end of a word cannot be spelled", because="the vocabulary has no tokens for its bytes",
        instead="a tokenizer with a token for every byte, or a matcher without a budget",
    )


def _shortest(ways: Iterable[Way | None]) -> Way | None:
    return min((way for way in ways if way is not None), key=order, default=None)


def _joined(first: Way | None, rest: Way | None) -> Way | None:
    return None if first is None or rest is None else first + rest
