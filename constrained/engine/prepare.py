"""Work before it is needed, at compile and on request.

    probe_cost  a cost probe: short seeded walks, so that a grammar over the limit fails at compile
    Warming     the masks that a generation will likely ask for, what `warm` of a constraint does

Refused: to make the parts of each schema's masks while it is compiled, nearest first: a step took 0.77 on average, the
slowest of a schema 0.12 instead of 0.17 ms, but the whole request 1.28 times as long (400 schemas of MaskBench, nothing
known of earlier ones).
All masks are those of a constraint that nothing was made for (tests/test_stored.py).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Hashable, Iterator, Set
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from constrained.engine.matcher import Matcher
from constrained.engine.plain import PlainKernel
from constrained.errors import ConstrainedError, LimitExceeded, Rejected, shown
from constrained.grammar import Grammar
from constrained.grammar.ir import Embedded, Pattern, Rule, Symbol
from constrained.work import NO_LIMIT, Budget, Preempted, begin, metered, thread

if TYPE_CHECKING:
    from constrained.engine.compiled import CompiledGrammar
    from constrained.engine.tokens.trie import TokenTrie


# ======================================================================================================================
# A cost probe: a few words of what looks like much work are begun when a constraint is compiled.
#
# Nearly all that a grammar costs is computed when a generation gets there, and most grammars cost little everywhere.
# Machines and patterns whose outline says otherwise (see `schema.limits`, `regex.facts`) are tried: the
# masks along seeded walks, with the constraint's own budget, which is full again afterwards; the masks stay known.  A
# walk whose steps keep taking much goes on for as long again: a generation would spend its budget there, too.  Of other
# rules and patterns the first masks are made, and only if these take much they are tried as well.  What no walk met may
# still be too much work later.
#
# Cost: the first masks of rules and patterns; nothing for most schemas; else that of some 20 masks for each such part,
# and little more than the budget for all together.
# Tested by tests/test_fuzz_schemas.py and the rows of the bomb table that meet a limit.
# ======================================================================================================================

WALKS = 5
STEPS = 12
LONGEST = 24  # steps of the walk that is left to chance
GLANCE = 2  # steps of what does not look like much work
FRUGAL = 256  # one part in so many of the budget is given back by an operation of a walk; a generation's gives more
ENOUGH = 3  # one part in so many of the budget, after which no other walk begins
PACED = 8  # one part in so many of it, after which a walk of some steps ends whose pace is within the budget
HALF, OTHERWISE = 2, -1  # a walk that takes more than one part in two is followed by another one from the same budget
SOME = 32  # one part in so many of it for some steps together, see `_is_even`
MUCH_OF_ONE, MUCH_OF_NUMBERS = 32, 16  # one part in so many of it for one step; numbers are short
SUSPECT = 64  # one part in so many of it, for one step: what takes more is tried after all
_SOON = b"}])\"',:0123456789"  # what a walk prefers that is to end
_NUMERIC = b"+-.0123456789eE"
_OPENING = (b"'\"", b"[", b"{")  # what strings, arrays and objects begin with: as each walk behind the second does

Row: TypeAlias = npt.NDArray[np.int32]  # (words,) a mask


def probe_cost(constraint: CompiledGrammar) -> None:
    """Begin a few words of each part of a constraint that looks like much work, until its budget is spent once.

    What was begun in the same kernel with no more work allowed is not begun again, nor are patterns of other grammars.
    Raises: LimitExceeded: one word of one part is too much work, or two that have little in common are.
    """
    limit = _limit(constraint)
    probed, start = _probed(constraint)
    if probed.get(start, limit + 1) > limit:
        if constraint.grammar.heavy or _is_suspect(constraint, limit):
            _probe_parts(constraint, limit, probed)
        probed[start] = limit


def _probed(constraint: CompiledGrammar) -> tuple[dict[Hashable, int], int]:
    """Return what was probed in the kernel of a constraint, and its start there; a full kernel may then go."""
    kernel, start = constraint.place()
    return constraint.vocabulary.kernels.probed.setdefault(kernel, {}), start


def _probe_parts(constraint: CompiledGrammar, limit: int, probed: dict[Hashable, int]) -> None:
    spent = 0
    for symbol, part in _heavy_parts(constraint, {known for known, units in probed.items() if units <= limit}):
        if part is constraint or ENOUGH * spent <= limit:
            spent += _probe_part(part, limit, limit - ENOUGH * spent)
            if isinstance(symbol, Pattern):
                probed[symbol] = limit


def _probe_part(part: CompiledGrammar, limit: int, left: int) -> int:
    """Walk once, and on while `left` units are not spent so many times; return the units spent."""
    spent = 0
    for walk in range(WALKS):
        if walk and ENOUGH * spent > left:
            break
        costs = _walk(part, walk, before=spent)
        spent += sum(costs)
        if HALF * sum(costs) > limit:
            _walk(part, OTHERWISE)
        part.budget.refill(limit)
        if costs and _is_even(costs, limit, numeric=True):
            break
    return spent


def _limit(constraint: CompiledGrammar) -> int:
    return NO_LIMIT if constraint.options.max_work is None else constraint.options.max_work


def _is_suspect(constraint: CompiledGrammar, limit: int) -> bool:
    """Say whether one of the first masks of a constraint takes much work; what they took is only given back if not."""
    if constraint.options.max_work is None:  # nothing is too much
        return False
    if SUSPECT * max(_walk(constraint, 0, GLANCE), default=0) > limit:
        return True
    constraint.budget.refill(limit)
    return False


def _heavy_parts(constraint: CompiledGrammar, known: Set[Hashable]) -> Iterator[tuple[Symbol | None, CompiledGrammar]]:
    """Yield the parts of a grammar that look like much work, but for known ones, each with its symbol and as a
    constraint: what is inside of an embedded machine before the machine itself, as errors name the smallest place; all
    of it where no part does.
    """
    grammar, place = constraint.grammar, constraint.budget.whole
    if not grammar.heavy:
        yield None, constraint
        return
    for symbol in grammar.heavy:
        if symbol in known:
            continue
        if isinstance(symbol, Embedded):
            outer = thread.budget
            try:
                begin(constraint.budget)
                parts = list(getattr(symbol.machine, "heavy_parts", _unknown)())
            finally:
                thread.budget = outer
            for part in parts:
                if part is not None:
                    yield None, _alone(constraint, Embedded(symbol.name, part), part.place)
            if not parts:  # a closer look has shown little work
                continue
        if len(grammar.rules) == 1 and len(grammar.heavy) == 1:
            yield symbol, constraint
        else:
            yield symbol, _alone(constraint, symbol, place)


def _unknown() -> tuple[None]:
    """Stand for what is inside of a machine that does not say: the whole may be much work."""
    return (None,)


def _alone(constraint: CompiledGrammar, symbol: Symbol, place: str | None) -> CompiledGrammar:
    """Return a constraint whose grammar is one symbol of a constraint's, to try that symbol by itself."""
    grammar = Grammar({"start": Rule("start", ((symbol,),))}, adopts=constraint.grammar.adopts)
    alone = type(constraint)(grammar, constraint.vocabulary, replace(constraint.options, spell_missing=True))
    alone.budget.whole = place
    return alone


def _is_even(costs: list[int], limit: int, *, numeric: bool) -> bool:
    """Say whether the steps of a walk take some work, and none of them much: more would show no more."""
    return SOME * sum(costs) > limit > (MUCH_OF_NUMBERS if numeric else MUCH_OF_ONE) * max(costs)


def _is_over(costs: list[int], limit: int, most: int, before: int, *, numeric: bool) -> bool:
    """Say whether a walk has shown enough: none of its last steps took much, it is a number of so many tokens, or it
    took much, with those before, takes some still, and would at this pace end within the budget.
    """
    spent, pace = sum(costs), costs[-2:]
    if FRUGAL * min(pace) > limit < PACED * (before + spent) and spent + (most - len(costs)) * max(pace) <= limit:
        return True
    return len(costs) >= STEPS and (numeric or MUCH_OF_ONE * max(costs[-STEPS // 2 :]) <= limit)


def _walk(constraint: CompiledGrammar, walk: int, most: int = LONGEST, before: int = 0) -> list[int]:
    """Fill the masks along a walk, and return what each step took, in units: walks up to 0 are left to chance,
    the others hurry to the end, behind what each kind of value begins with.
    """
    budget = constraint.budget
    share, budget.share = budget.share, min(budget.share, _limit(constraint) // FRUGAL)
    try:
        return _costs(constraint, walk, most, before)
    finally:
        budget.share = share


def _costs(constraint: CompiledGrammar, walk: int, most: int, before: int) -> list[int]:
    costs: list[int] = []
    budget, limit, numeric = constraint.budget, _limit(constraint), True
    matcher, picks = Matcher(constraint), None
    bitmask = np.zeros((1, constraint.vocabulary.words), np.int32)
    soon = _Soon((*constraint.stop, *_single(constraint.vocabulary.trie, _SOON))) if walk > 0 else None
    for step in range(min(most, STEPS) if walk > 0 else most):
        left = budget.left
        matcher.fill_mask(bitmask)
        if walk > 1 and step == 0:
            token = _Soon(tuple(_single(constraint.vocabulary.trie, _OPENING[walk - 2]))).allowed(bitmask[0])
        elif soon is not None and step > 0:
            token = _soonest(bitmask[0], soon)
        else:
            picks = picks or random.Random(walk)
            token = _drawn(bitmask[0], picks)
        if token is None:
            break
        matcher.advance(token)
        costs.append(max(left - budget.left, 0))
        numeric = numeric and not (constraint.vocabulary.tokens[token] or b"").strip(_NUMERIC)
        if _is_even(costs, limit, numeric=numeric) or _is_over(costs, limit, most, before, numeric=numeric):
            break
        if matcher.is_finished():
            if walk > 0:
                break
            matcher = Matcher(constraint)  # chance has led to the end too soon to show anything
    return costs


def _single(trie: TokenTrie, data: bytes) -> list[int]:
    """Return the tokens of single bytes."""
    nodes = [trie.roots[byte] for byte in data]
    return [int(trie.ids[trie.first[node]]) for node in nodes if node >= 0 and trie.first[node] < trie.first[node + 1]]


class _Soon:
    """Some tokens, in the order in which a walk prefers them."""

    def __init__(self, tokens: tuple[int, ...]) -> None:
        self._tokens = tokens
        numbers = np.array(tokens, np.int64)
        self._words, self._bits_of = numbers >> 5, numbers & 31

    def allowed(self, row: Row) -> int | None:
        """Return the first of them that is allowed; None: none is."""
        bits = (row[self._words] >> self._bits_of) & 1
        at = int(bits.argmax()) if self._tokens else 0
        return self._tokens[at] if self._tokens and bits[at] else None


def _soonest(row: Row, soon: _Soon) -> int | None:
    """Return the first of some tokens that is allowed, or the first of all; None: none is."""
    first = soon.allowed(row)
    if first is not None:
        return first
    words = np.flatnonzero(row)[:1].tolist()
    return 32 * words[0] + _bits_of(row[words[0]])[0] if words else None


def _drawn(row: Row, picks: random.Random) -> int | None:
    """Return an allowed token, drawn by the word of the mask that it stands in; None: none is allowed."""
    words = np.flatnonzero(row)
    if not len(words):
        return None
    word = int(words[picks.randrange(len(words))])
    return 32 * word + picks.choice(_bits_of(row[word]))


def _bits_of(word: Any) -> list[int]:
    return [bit for bit in range(32) if int(word) >> bit & 1]


# ======================================================================================================================
# Warming: the masks that a generation will likely ask for, made when there is time.
#
# First those along a shortest word, in which each object has the keys that it must have, then the parts that all masks
# are put together of, see `Preparation`.
#
# Between masks other threads may run; one that waits for the kernel while a mask takes long ends the call, and the next
# one goes on from there.  What is learned is in the kernel, within its bound.  The work counts against a budget of its
# own, so that a generation has its own left.
# ======================================================================================================================

_SLICE = 0.001  # seconds after which other threads may run
_SHARE = 8  # part of a constraint's units that the text, or one part, may take


class Warming:
    """What `warm` of a constraint has done in the present kernel, and what it goes on with.

    Invariant: `_cursor` stands behind those tokens of the shortest word that `_tokens` lacks.
    """

    def __init__(self, constraint: CompiledGrammar) -> None:
        self._constraint = constraint
        self._kernel: Any = None

    def go_on(self, seconds: float | None, states: int | None, cancelled: Callable[[], bool] | None) -> int:
        """Make masks until there are no more, or a bound is met; return how many states were visited.

        Raises: ConstrainedError: no bound is given, or one that is no number.
        """
        given = [value for value in (seconds, states) if value is not None]
        kinds = (int, float)
        if not given or any(type(value) is bool or not isinstance(value, kinds) or not value >= 0 for value in given):
            what = f"cannot warm for {shown(seconds)} seconds, {shown(states)} states"
            raise ConstrainedError(what, because="one of them is a number", instead="warm(0.05), warm(states=100)")
        self._left, self._visited = states, 0
        until = None if seconds is None else time.monotonic() + seconds

        def over() -> bool:
            late = until is not None and time.monotonic() >= until
            return late or (cancelled is not None and cancelled())

        try:
            if self._constraint.place()[0] is not self._kernel:
                self._begin()
            if self._read_text(over):
                self._prepare(over)
        except Preempted:
            pass  # others wait for the kernel, or it was emptied: the next call goes on
        return self._visited

    def _begin(self) -> None:
        """Begin in the constraint's present kernel."""
        self._cursor = Matcher(self._constraint)
        self._cursor.charge(self._constraint.options.budget())
        kernel = self._cursor._kernel
        self._preparation = preparation(self._constraint, kernel)
        self._tokens: list[int] | None = None  # of the shortest word that are still to be read, the next one last
        self._masked = set[int]()
        self._row = np.zeros((1, self._constraint.vocabulary.words), np.int32)
        self._patient = self._constraint.options.budget()  # of masks: others need not wait for one that takes long
        self._patient.wanted = kernel.is_wanted
        self._kernel = kernel  # last: a call that is broken off here is as good as none

    def _read_text(self, over: Callable[[], bool]) -> bool:
        """Visit the states along a shortest word; say whether there is time left for more."""
        try:
            with metered(self._budget()):
                if self._tokens is None:
                    self._tokens = self._cursor.shortest_completion()[::-1]
                    self._mask()
                rest = time.monotonic()
                while self._tokens and self._has_room():
                    if over() or self._visited == self._left:
                        return False
                    self._cursor.advance(self._tokens[-1])
                    self._tokens.pop()
                    self._mask()
                    if (now := time.monotonic()) >= rest:
                        time.sleep(0)
                        rest = now + _SLICE
        except (LimitExceeded, Rejected):
            self._tokens = []  # too much work here; elsewhere may be less
        return True

    def _prepare(self, over: Callable[[], bool]) -> None:
        """Make what all masks are made of, at most so many parts as states were asked for."""
        prepared = 0
        while self._preparation is not None and prepared != self._left and self._has_room() and not over():
            try:
                if not self._preparation.go_on(self._budget()):
                    self._preparation = None
            except LimitExceeded:
                pass  # too much work here; elsewhere may be less
            prepared += 1

    def _budget(self) -> Budget:
        """Return what the text, or one part, may take."""
        most = self._constraint.options.max_work
        return Budget(None if most is None else most // _SHARE)

    def _has_room(self) -> bool:
        """Say whether the kernel may learn more."""
        constraint, kernel = self._constraint, self._kernel
        return not kernel.is_full() or constraint.vocabulary.kernels.may_grow(kernel, constraint.options.cache_bytes)

    def _mask(self) -> None:
        state = self._cursor._last[0]
        if state >= 0 and state not in self._masked:
            self._cursor._kernel.fill(state, self._row, 0, self._patient)
            self._masked.add(state)
            self._visited += 1


def preparation(constraint: CompiledGrammar, kernel: Any) -> Any:
    """Return what prepares a grammar's parts, None where the kernel is the plain one, which has no parts."""
    if isinstance(kernel, PlainKernel):
        return None
    from constrained.engine.kernel._kernel import Preparation

    return Preparation(kernel, constraint._root)
