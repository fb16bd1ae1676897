"""A matcher whose words have at most n tokens, and which can always finish.

A token is allowed where the plain mask allows it *and* a completion within the tokens that remain after it is known.
Two kinds are known: the shortest way out of the state after the token (`completion`), and what is left of the
completion that the matcher has kept so far. The second makes it a guarantee, although ways out are upper bounds: the
next token of the kept completion is always allowed, and what follows it fits, because the whole did.  So a generation
that has begun is not given up where looking ahead takes more work than the constraint's bound leaves: the kept
completion is then all that is known.

    C(s)           = the shortest way out of state s that is known, in tokens
    kept(s0)       = C(s0)
    kept(s·t)      = the shorter of C(s·t) and, if t = kept(s)[0], kept(s) without its first token
    allowed(s, t)  ⇔ the plain mask allows t, and (t = kept(s)[0] or |C(s·t)| ≤ remaining − 1)

What it does to the distribution: nothing as long as the longest way out behind any token, in bytes, fits into what
remains: the mask is then the plain one.  Nearer to the end the tokens that would lead too far are missing, and the
model's probabilities of the others are scaled up; at the very end one token is left.  So a text may end more abruptly
than the model would have ended it.  `soft_close=k` begins earlier: when the known completion and k tokens more would
use up the budget, no token may lead away from the end, so that strings can be brought to an end in the model's words,
while nothing new is opened.

Tokens are those of the word: a stop token that the grammar does not name is not counted, one that it names is.

A grammar may limit the text that its words begin with (`Grammar.text(until=…, max_tokens=…)`): until that text has
ended, of each completion the part that ends it has to fit into what is left of the limit as well.  The shortest way out
ends it and then the rest, so the part is what is longer than the shortest way behind it.

Tests: tests/test_budget.py; benchmarks/always_finished.py.  Source: ours.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from constrained.budget.completion import known_tokens
from constrained.budget.lookahead import NOWHERE
from constrained.engine.matcher import Matcher, Step
from constrained.engine.plain import DEAD
from constrained.engine.tokens.bitmask import as_array, number
from constrained.engine.tokens.vocabulary import checked_token, token_name
from constrained.errors import ConstrainedError, LimitExceeded, Rejected, shown
from constrained.work import thread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from constrained.budget.completion import Completions
    from constrained.budget.lookahead import Successors
    from constrained.engine.compiled import CompiledGrammar

Place = tuple[int, "tuple[int, ...] | None"]  # state of the tracker; the completion that is kept, None: the state's own
Found = TypeVar("Found")

LOST = -1  # a state that is not known
UNLIMITED = 1 << 60  # a budget of any number of tokens


class LeadingText:
    """The text that a grammar's words may begin with, and that generations end within `most` tokens; see `ir.Leading`.

    Special tokens stand by their names here: no text of the grammar spells one.
    """

    __slots__ = ("behind", "most", "until", "_begins", "_names", "_vocabulary")

    def __init__(self, constraint: CompiledGrammar, known: Completions) -> None:
        assert constraint.grammar.limit is not None
        self.until, self.most, begins = constraint.grammar.limit
        self._vocabulary, self._begins = constraint.vocabulary, begins.encode()
        self._names = {
            constraint.vocabulary.special[name]: name.encode() for name in constraint.bound_grammar.specials
        }
        state = constraint.begun(known.tracker)
        for token, data in self._pieces(begins):
            state = known.tracker.step_bytes(state, data) if token is None else known.tracker.step_token(state, token)
        points = [*map(ord, known.way(state) or "")]
        spelled = [bytes([point]) if point < 256 else self._names[point - 256] for point in points]
        ended = next((at for at in range(len(spelled) + 1) if self.until.encode() in b"".join(spelled[:at])), None)
        if ended is None:
            because = f"no way from {begins!r} to {self.until!r} is known" if begins else f"{self.until!r} is not ahead"
            raise LimitExceeded("max_tokens cannot be kept", because=because)
        self.behind = len(spelled) - ended  # symbols of the shortest way behind it

    def _pieces(self, text: str) -> list[tuple[int | None, bytes]]:
        """Return a text cut into special tokens and what is between."""
        names = {name.decode(): token for token, name in self._names.items()}
        parts = re.split("|".join(f"({re.escape(name)})" for name in names) or "$^", text)
        return [(names.get(part), part.encode()) for part in parts if part]

    def has_ended(self, tokens: Sequence[int]) -> bool:
        """Say whether some first tokens of a word, at most `most`, end it, or begin otherwise."""
        texts, begins = self._vocabulary.tokens, self._begins.strip()
        text = b"".join([texts[token] or self._names.get(token, b"") for token in tokens]).lstrip()
        if not text.startswith(begins):
            return not begins.startswith(text)
        return self.until.encode() in text[len(begins) :]

    def part(self, known: Completions, state: int) -> int:
        """Return how many tokens of the way out of a state inside the text end it."""
        length = known.length(state) - self.behind
        if known.bytewise and length <= 1:
            return length
        covered = 0
        for count, token in enumerate(known.tokens(state) or (), 1):
            covered += len(self._vocabulary.tokens[token] or b" ")
            if covered >= length:
                return count
        return UNLIMITED


class BudgetedMatcher(Matcher):
    """A cursor over a constraint with a bound on the tokens of its words; see `Constraint.matcher`.

    Invariant: the completion of each place has no more tokens than remain there.  `_places[i]` is the place after i
    tokens; places may be missing at the end, where they are computed when they are next asked for.
    """

    __slots__ = ("budget", "soft_close", "_completions", "_leading", "_places")

    def __init__(self, constraint: CompiledGrammar, budget: int, soft_close: int = 0) -> None:
        super().__init__(constraint)
        self.budget, self.soft_close = _checked(budget, "budget"), _checked(soft_close, "soft_close")
        self._completions = constraint.completions()
        self._places: list[Place] = []
        least = self._worked(self._completion)
        if len(least) > self.budget:
            raise LimitExceeded(
                f"a budget of {self.budget:,} token{'s' * (self.budget != 1)} is too small",
                because=f"the shortest word that is known has {len(least):,} tokens",
                instead=f"{len(least):,} or more, see Constraint.min_tokens",
            )
        self._leading: LeadingText | None = None
        if constraint.grammar.limit is not None:
            leading = self._leading = self._worked(lambda: LeadingText(constraint, self._completions))
            part = self._worked(lambda: leading.part(self._completions, self._places[0][0]))
            if part > leading.most and not constraint.grammar.limit.begins:
                raise LimitExceeded(
                    f"max_tokens={leading.most:,} is too small", because=f"{leading.until!r} takes {part:,} tokens",
                    instead=f"{part:,} or more",
                )

    @property
    def remaining(self) -> int:
        """How many tokens the word may still have."""
        return self.budget - self._last[2]

    # -- what may come -------------------------------------------------------------------------------------------------

    def fill_mask(self, bitmask: Any, row: int = 0) -> None:
        array = bitmask if type(bitmask) is np.ndarray else as_array(bitmask)
        super().fill_mask(array, row)
        if self._last[0] >= 0:
            self._worked(partial(self._restrict, array[number(row)]))

    def accepts(self, token: int) -> bool:
        return super().accepts(token) and self._worked(
            partial(self._admits, checked_token(self.constraint.vocabulary, token))
        )

    def forced_tokens(self) -> list[int]:
        """As `Matcher.forced_tokens`: those that the budget allows."""
        forced, walker = [], self.copy()
        for token in super().forced_tokens():
            if not walker.accepts(token):
                break
            walker.advance(token)
            forced.append(token)
        return forced

    def explain(self, token: int) -> str:
        if not super().accepts(token) or self.accepts(token):
            return super().explain(token)
        return str(self._refusal(checked_token(self.constraint.vocabulary, token)))

    def shortest_completion(self) -> list[int]:
        return [] if self._last[0] < 0 else list(self._worked(self._completion))

    # -- what has come -------------------------------------------------------------------------------------------------

    def advance(self, token: int) -> None:
        if self._last[0] >= 0:
            known = checked_token(self.constraint.vocabulary, token)
            if not self._worked(partial(self._admits, known)):
                raise self._refusal(known)
        super().advance(token)

    def rollback(self, count: int) -> None:
        kept = self._last[2] - number(count)
        if kept >= 0:
            del self._places[kept + 1 :]
        super().rollback(count)

    def copy(self) -> BudgetedMatcher:
        twin = object.__new__(BudgetedMatcher)
        twin.constraint, twin._budget, twin._stop = self.constraint, self._budget, self._stop
        twin.budget, twin.soft_close = self.budget, self.soft_close
        twin._completions, twin._places, twin._leading = self._completions, self._places.copy(), self._leading
        twin._kernel, twin._last = self._kernel, self._last
        return twin

    def reset(self) -> None:
        self._places = []
        super().reset()

    def __reduce__(self) -> tuple[Any, ...]:
        return _read_again, (self.constraint, self.budget, self.soft_close, self.tokens)

    # -- internals -----------------------------------------------------------------------------------------------------

    def _place(self) -> Place:
        """Return the present place, after computing those that are missing."""
        read, places = self._last[2], self._places
        if len(places) == read + 1:
            return places[-1]
        if self._completions.is_full():
            self._completions = self.constraint.completions()
            places = self._places = self._found_again(places)
        if not places:
            places.append((self.constraint.begun(self._completions.tracker), None))
        for at in range(len(places) - 1, read):
            places.append(self._after(at))
        return places[-1]

    def _step(self, at: int) -> Step:
        """Return the step after `at` tokens, which is among the last."""
        step = self._last
        while step[2] > at:
            step = step[3]
        return step

    def _found_again(self, places: list[Place]) -> list[Place]:
        """Return places among fresh states; the completions that were kept are the same, so nobody looks ahead."""
        known = self._completions
        again = [(self.constraint.begun(known.tracker), kept) for _, kept in places[:1]]
        for token, (_, kept) in zip(self.tokens, places[1:], strict=False):
            before = again[-1][0]
            after = before if before == LOST else known.tracker.step_token(before, token)
            again.append((before if after == DEAD else after, kept))
        return again

    def _after(self, at: int) -> Place:
        """Return the place after the token number `at`."""
        place, token, known = self._places[at], self._step(at + 1)[1], self._completions
        self.constraint.ahead.renew()
        after = self._looked(place, lambda: self._followed(at))
        if after is not None:
            return after
        kept = self._kept(place)
        if kept[:1] != (token,) and place[0] != LOST:
            return LOST, known_tokens(known, known.after(place[0], token))
        return LOST, kept[1:]

    def _followed(self, at: int) -> Place:
        place, token, known = self._places[at], self._step(at + 1)[1], self._completions
        after = known.tracker.step_token(place[0], token)
        if after == DEAD:  # a stop token that the grammar does not name
            return place
        if not self._is_near(at):
            return after, None
        kept, fresh = self._kept(place), known.tokens(after)
        is_late = self._is_late(after, at + 1)
        if kept and kept[0] == token and (fresh is None or is_late or len(fresh) > len(kept) - 1):
            return after, kept[1:]
        return after, None

    def _looked(self, place: Place, look: Callable[[], Found]) -> Found | None:
        """Return what looking ahead from a place finds; None where there is no work left for it.

        It has a budget of its own, so that masks have all of theirs, renewed with each token.
        """
        if place[0] == LOST:
            return None
        outer, budget = thread.budget, self.constraint.ahead
        thread.budget = budget
        try:
            return look()
        except LimitExceeded:
            if budget.left > 0:  # it is not for lack of work; what was done meanwhile may have been taken off
                raise
            return None
        finally:
            thread.budget = outer

    def _completion(self) -> tuple[int, ...]:
        return self._kept(self._place())

    def _kept(self, place: Place) -> tuple[int, ...]:
        return known_tokens(self._completions, place[0]) if place[1] is None else place[1]

    def _is_near(self, at: int) -> bool:
        """Say whether the mask may have to be restricted after `at` tokens."""
        place, most, left = self._places[at], self.budget - at - 1, self._left(at)
        if left is None and self.budget == UNLIMITED:
            return False
        if left is not None and self._leading is not None:
            most = min(most, left - 1 + self._leading.behind)
        return (
            self._completions.is_near(place[0], most, partial(self._allowed, at))
            or place[1] is not None
            or self._is_closing(at)
        )

    def _left(self, at: int, *more: int) -> int | None:
        """Return how many tokens the leading text may still have after `at` tokens, and then `more`; None: no limit, or
        it has ended.
        """
        count = at + len(more)
        if self._leading is None or count >= self._leading.most and not more:
            return None
        return None if self._leading.has_ended([*self.tokens[:at], *more]) else self._leading.most - count

    def _is_late(self, state: int, at: int, *more: int) -> bool:
        """Say whether the way out of the state after `at` tokens, and then `more`, ends the leading text too late."""
        left = self._left(at, *more)
        return left is not None and self._leading is not None and self._leading.part(self._completions, state) > left

    def _is_closing(self, at: int) -> bool:
        place, known, remaining = self._places[at], self._completions, self.budget - at
        if not self.soft_close or (known.bytewise and known.length(place[0]) + self.soft_close <= remaining):
            return False
        return len(self._kept(place)) + self.soft_close > remaining

    def _allowed(self, at: int) -> npt.NDArray[np.bool_]:
        """Return which tokens the grammar allows after `at` tokens, (vocabulary size,)."""
        bits = np.zeros((1, self.constraint.vocabulary.words), np.int32)
        self._kernel.fill(self._step(at)[0], bits, 0)
        return np.unpackbits(bits.view(np.uint8), bitorder="little").view(np.bool_)

    def _restrict(self, bits: Any) -> None:
        """Clear the bits of tokens that the budget forbids; (words,) int32."""
        place, words = self._place(), bits.view(np.uint32)
        beyond = self._looked(place, self._beyond)
        if beyond is not None and not beyond[1]:
            return
        kept = self._kept(place)[:1] or (self._stop if beyond is None else ())
        before = {token: words[token >> 5] & np.uint32(1 << (token & 31)) for token in kept}
        if beyond is None:
            words[:] = 0
        else:
            self._completions.clear(beyond[0], beyond[1], words)
        for token, bit in before.items():
            words[token >> 5] |= bit

    def _beyond(self) -> tuple[Successors, set[int]]:
        """Return where tokens lead, and the states among these behind which the budget forbids a token."""
        place, at, known = self._places[-1], self._last[2], self._completions
        if not self._is_near(at):
            return NOWHERE, set()
        forbidden, nearer = known.successors(place[0], partial(self._allowed, at)), self._is_closing(at)
        out = {each for each in forbidden.used if known.is_beyond(place[0], each, self.budget - at - 1, nearer=nearer)}
        if self._left(at) is not None:  # tokens that lead to a state are all inside the leading text, or all behind it
            out |= {each for each, token in forbidden.used.items() if self._is_late(each, at, token)}
        return forbidden, out

    def _admits(self, token: int) -> bool:
        """Say whether the budget allows a token; what the grammar forbids is not asked about."""
        place = self._place()
        fits = self._looked(place, partial(self._fits, token))
        return token in (self._kept(place)[:1] or self._stop) if fits is None else fits

    def _fits(self, token: int) -> bool:
        place, known, at = self._places[-1], self._completions, self._last[2]
        if not self._is_near(at):
            return True
        after = known.after(place[0], token)
        if after <= DEAD or self._kept(place)[:1] == (token,):
            return True
        beyond = known.is_beyond(place[0], after, self.budget - at - 1, nearer=self._is_closing(at))
        return not beyond and not self._is_late(after, at, token)

    def _refusal(self, token: int) -> Rejected:
        vocabulary = self.constraint.vocabulary
        closing = self._worked(lambda: self._looked(self._place(), lambda: self._is_closing(self._last[2])))
        left = self._left(self._last[2])
        leaves = f"the budget leaves {self.remaining:,} tokens"
        if left is not None and left < self.remaining and self._leading is not None:
            leaves = f"max_tokens leaves {left:,} token{'s' * (left != 1)} until {self._leading.until!r}"
        because = f"{leaves}, and no way to the end of a word is known that is short enough after it"
        if closing:
            only = f"soft_close={self.soft_close} allows none that lead away from the end of the word"
            because = f"{leaves}, and {only}"
        return Rejected(
            f"token {token} {token_name(vocabulary, token)} is not allowed", because=because,
            instead="shortest_completion() shows how the word can end", position=len(self.text()),
        )


def _checked(value: object, name: str) -> int:
    if (checked := number(value)) < 0:
        raise ConstrainedError(
            f"{name} is {shown(value)}", because="it is a number of tokens", instead="an int, 0 or more"
        )
    return checked


def _read_again(constraint: CompiledGrammar, budget: int, soft_close: int, tokens: Sequence[int]) -> BudgetedMatcher:
    matcher = BudgetedMatcher(constraint, budget, soft_close)
    for token in tokens:
        matcher.advance(token)
    return matcher
