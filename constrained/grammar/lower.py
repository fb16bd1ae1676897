"""Productions rules as machine states, built when a generation first gets there.

A rule becomes a machine over its symbols: a state is a set of *items*, places in alternatives, as in LR parsing, and is
determinised over literal bytes, tokens and called machines alike.  500 alternatives that begin with the same text are
one state, one edge.

Left recursion cannot be left to calls, which would never read a byte.  All rules that are left-recursive through each
other share one machine, read bottom-up: it begins with whatever any of them can begin with, and when one of them has
been recognised it goes on with every place that follows it at the left end of another.  So ``e: e "+" t | t`` is the
loop ``t ("+" t)*``, with no stack at all.

Rules that are used in one place and do not recurse otherwise run inside their user's machine; helper rules of repeats
and groups are of this kind, and a repeat costs no call.  Machines never read the empty text; where a symbol can be
empty, its user skips it.

Refused: Greibach normal form (squares the grammar), and shared stacks in the engine (they cost every grammar, not only
these).

Tested against brute force on all tiny grammars, and against `lark` itself (`tests/test_lark.py`).
Source: left-linear grammars as automata, N. Chomsky and G. Miller (1958); items, D. Knuth (1965).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from typing import Any

from constrained.grammar.analysis import Facts, expression, factored, filled, is_empty, is_filled
from constrained.grammar.ir import Embedded, Literal, Pattern, Productions, Ref, Rule, Special, Symbol, name_of
from constrained.machine import END, Bytes, Edges, Quoting, State, Text
from constrained.regex import Expr
from constrained.work import spend

_MANY = 8  # patterns at one place that are read as one

AlternativeAt = (
    int  # a place in an alternative: a symbol and what follows; equal remainders of one rule are one position
)
DottedItem = tuple[AlternativeAt, int]  # and the bytes of its literal that have been read
# what follows from places: items in order and as a set, and whether a word of their rule ends there
Closure = tuple[tuple[DottedItem, ...], frozenset[DottedItem], bool]


class RuleState:
    """A machine state of a rule: the items that the symbols read so far lead to.  Interned: equal means identical."""

    __slots__ = ("_accepting", "_goal", "_items", "_lowering")

    def __init__(self, lowering: Lowering, goal: str, items: tuple[DottedItem, ...], accepting: bool) -> None:
        self._lowering, self._goal, self._items, self._accepting = lowering, goal, items, accepting

    def expand(self) -> Edges:
        return self._lowering.edges(self._goal, self._items, self._accepting)

    def __repr__(self) -> str:
        shown = sorted(self._lowering.show(item) for item in self._items)
        return f"<{self._goal}: {' | '.join([*shown, *(['(end)'] if self._accepting else [])])}>"


class Alone:
    """The lowering of a grammar that is nothing but an embedded machine, and the state before it.

    The facts about such a grammar's rules took a seventh of the time in which a small schema compiles.
    """

    __slots__ = ("_machine", "_specials")
    nullable = False

    def __init__(self, symbol: Embedded, specials: Collection[str]) -> None:
        self._machine, self._specials = symbol.machine, specials

    @property
    def start(self) -> State:
        return self

    def expand(self) -> Edges:
        spend(2)
        return Edges(calls=((_started(self._machine, self._specials), END),))

    def __repr__(self) -> str:
        return f"<{self._machine!r}>"


def lowered(grammar: Productions) -> Alone | Lowering:
    """Return the start of a grammar as a machine state, and whether it accepts the empty text.

    Raises: GrammarError: no word exists.
    """
    alternatives = grammar.rules[grammar.start].alternatives
    if len(alternatives) == 1 and len(alternatives[0]) == 1 and isinstance(alternatives[0][0], Embedded):
        return Alone(alternatives[0][0], grammar.specials)
    filled_in = None if grammar.frame is None else _filled_in(grammar, grammar.frame)
    return Lowering(grammar) if filled_in is None else grammar.frame._lowering.filled_in(filled_in, grammar.specials)


def _filled_in(grammar: Productions, frame: Productions) -> Mapping[str, Rule] | None:
    """Return the rules in which a grammar differs from its frame, if nothing else depends on what they read: each has
    words, none of them empty, and refers to no rule.
    """
    if frame.rules.keys() != grammar.rules.keys() or frame.start != grammar.start:
        return None
    other = {name: rule for name, rule in grammar.rules.items() if rule is not frame.rules[name]}
    for name in other:
        for sequence in (*(other[name].alternatives or ((),)), *(frame.rules[name].alternatives or ((),))):
            if Ref in map(type, sequence) or all(map(is_empty, sequence)) or not all(map(is_filled, sequence)):
                return None
    return other if isinstance(frame._lowering, Lowering) else None  # type: ignore[attr-defined]


def _started(machine: Any, specials: Collection[str]) -> State:
    """Return the start of an embedded machine; it writes its markers as the special tokens among `specials`."""
    state: State = (machine.with_specials(specials) if getattr(machine, "markers", None) else machine).state()
    return state


def _called(symbol: Symbol) -> object:
    """Return what tells calls apart: machines by identity, as equal schemas are one object (`schema.by_content`).

    All schemas with the same options have one hash, so that 3,000 in one table took 20 s.
    """
    return id(symbol.machine) if isinstance(symbol, Embedded) else symbol


class Lowering:
    """All machine states of one grammar.

    Positions are numbered; `_symbol[p]` is what is read at p (None at the end of an alternative), `_next[p]` what
    follows, `_rule[p]` whose alternative it is.  An item is *fresh* while its alternative has read nothing: there, a
    reference into the rule's own left component is the left recursion, which the machine has already begun.

    Invariant: every state is live, as `Facts` keeps only alternatives that derive a word.
    """

    def __init__(self, grammar: Productions) -> None:
        self._facts = facts = Facts(grammar)
        self._specials = grammar.specials
        self._symbol: list[Symbol | None] = []
        self._next: list[AlternativeAt] = []
        self._rule: list[str] = []
        self._known: dict[tuple[Symbol | str | None, AlternativeAt | str], AlternativeAt] = {}
        self._begins: dict[str, tuple[AlternativeAt, ...]] = {}  # left component -> first positions of its rules
        self._resume: dict[str, list[AlternativeAt]] = {}  # rule -> where to go on when it has been recognised
        self._closures: dict[tuple[str, tuple[AlternativeAt, ...], bool, bool], State] = {}
        # of positions below a number, what grammars in this frame share
        self._shared: dict[tuple[str, tuple[AlternativeAt, ...], bool], Closure] = {}
        self._shared_to = 0
        self._number(grammar.start)
        self.nullable = facts.nullable(Ref(grammar.start))
        self._start_with(grammar.start)

    def _start_with(self, start: str) -> None:
        self._goal = start
        self._states: dict[tuple[str, bool, frozenset[DottedItem]], State] = {}
        self._calls: dict[object, State] = {}
        self.start = self._begin(start, accepting=self.nullable)

    def filled_in(self, rules: Mapping[str, Rule], specials: frozenset[str]) -> Lowering:
        """Return the lowering of the grammar with other alternatives for some rules, see `_filled_in`."""
        made = copy(self)
        made._specials, made._known, made._begins = specials, self._known.copy(), self._begins.copy()
        made._symbol, made._next, made._rule = self._symbol.copy(), self._next.copy(), self._rule.copy()
        made._closures, made._shared_to = {}, 0 if self._inlined.intersection(rules) else len(self._symbol)
        for name, rule in rules.items():
            spend(2 + sum(map(len, rule.alternatives)))
            laid_out = [made._laid_out(name, sequence) for sequence in rule.alternatives]
            made._begins[self._facts.component[name]] = tuple(dict.fromkeys(laid_out))
        made._start_with(self._goal)
        return made

    # -- positions -----------------------------------------------------------------------------------------------------

    def _position(self, symbol: Symbol | None, then: AlternativeAt, rule: str) -> AlternativeAt:
        # A symbol's hash is a call of Python, and a text equals no other symbol
        key = (symbol.text if type(symbol) is Literal else symbol, rule if symbol is None else then)
        position = self._known.get(key)
        if position is None:
            position = self._known[key] = len(self._symbol)
            self._symbol.append(symbol)
            self._next.append(then)
            self._rule.append(rule)
        return position

    def _laid_out(self, rule: str, sequence: Sequence[Symbol]) -> AlternativeAt:
        """Return the first position of an alternative."""
        at = self._position(None, -1, rule)
        for read in filter(self._facts.filled, reversed(sequence)):  # the others are the empty text
            at = self._position(read, at, rule)
        return at

    def _number(self, start: str) -> None:
        """Lay out all alternatives, then find the left recursion and the rules that run inside their only user."""
        facts = self._facts
        begins: dict[str, list[AlternativeAt]] = {}
        fresh: dict[AlternativeAt, None] = {}
        for name, sequences in facts.rules.items():
            spend(2)
            for sequence in sequences:
                spend(1 + len(sequence))
                at = self._laid_out(name, sequence)
                begins.setdefault(facts.component[name], []).append(at)
                fresh[at] = None
                while at >= 0 and (symbol := self._symbol[at]) is not None and facts.nullable(symbol):
                    at = self._next[at]
                    fresh[at] = None
        self._begins = {component: tuple(dict.fromkeys(positions)) for component, positions in begins.items()}
        for at in fresh:
            if self._is_left_recursion(at):
                self._resume.setdefault(self._reference(at), []).append(self._next[at])
        self._inlined = self._choose_inlined(start)

    def _reference(self, at: AlternativeAt) -> str:
        symbol = self._symbol[at]
        assert isinstance(symbol, Ref)
        return symbol.rule

    def _is_left_recursion(self, at: AlternativeAt) -> bool:
        symbol = self._symbol[at]
        component = self._facts.component
        return isinstance(symbol, Ref) and component[symbol.rule] == component[self._rule[at]]

    def _choose_inlined(self, start: str) -> set[str]:
        """Return the left components with one user, entered by no call of their own; their users get the place to
        return to.
        """
        facts = self._facts
        past = set(self._next)
        uses: Counter[str] = Counter({facts.component[start]: 2})
        users: dict[str, AlternativeAt] = {}
        for at, symbol in enumerate(self._symbol):
            if isinstance(symbol, Ref):
                component = facts.component[symbol.rule]
                if not self._is_left_recursion(at):
                    uses[component] += 1
                    users[component] = at
                elif at in past:
                    uses[component] += 2
        inlined = {component for component in users if uses[component] == 1}
        for component in inlined:
            self._resume.setdefault(self._reference(users[component]), []).append(self._next[users[component]])
        return inlined

    # -- states --------------------------------------------------------------------------------------------------------

    def _begin(self, rule: str, *, accepting: bool = False) -> State:
        """Return the state at the start of a rule, which reads its words but the empty one."""
        return self._state(rule, self._begins[self._facts.component[rule]], fresh=True, accepting=accepting)

    def _state(
        self, goal: str, reached: Iterable[AlternativeAt], *, fresh: bool = False, accepting: bool = False
    ) -> State:
        """Return the state of all items that follow from the positions reached, which are found once."""
        key = (goal, tuple(reached), fresh, accepting)
        known = self._closures.get(key)
        if known is None:
            closures = self._shared if max(key[1]) < self._shared_to else dict[Any, Closure]()
            items, every, ends = closures.get(key[:3]) or closures.setdefault(key[:3], self._closure(*key[:3]))
            known = self._interned(goal, items, every, accepting=accepting or ends) if items else END
            self._closures[key] = known
        return known

    def _closure(self, goal: str, reached: tuple[AlternativeAt, ...], fresh: bool) -> Closure:
        """Return the items of a state, and whether a word of the goal ends there."""
        facts, items, accepting = self._facts, dict[DottedItem, None](), False
        work = [(at, fresh) for at in reached]
        seen = set(work)

        def reach(positions: Iterable[AlternativeAt], *, fresh: bool) -> None:
            new = [(at, fresh) for at in positions if (at, fresh) not in seen]
            seen.update(new)
            work.extend(new)

        while work:
            at, fresh = work.pop()
            symbol = self._symbol[at]
            if symbol is None:
                if not fresh:
                    accepting |= self._rule[at] == goal
                    reach(self._resume.get(self._rule[at], ()), fresh=False)
                continue
            if facts.nullable(symbol):
                reach((self._next[at],), fresh=fresh)
            if fresh and self._is_left_recursion(at):
                continue
            if isinstance(symbol, Ref) and (
                facts.component[symbol.rule] in self._inlined or self._ends_as_begun(goal, at)
            ):
                reach(self._begins[facts.component[symbol.rule]], fresh=True)
            else:
                items[at, 0] = None
        spend(2 * len(seen))
        return tuple(items), frozenset(items), accepting

    def _interned(
        self, goal: str, items: tuple[DottedItem, ...], every: frozenset[DottedItem], *, accepting: bool
    ) -> State:
        state = self._states.get((goal, accepting, every))
        if state is None:
            state = self._states[goal, accepting, every] = RuleState(self, goal, items, accepting)
        return state

    def _after(self, goal: str, reached: Sequence[AlternativeAt], inside: tuple[DottedItem, ...] = ()) -> State:
        """Return the state after symbols that were read, each up to one of these positions, and inside literals.

        Behind each of 800 keywords a program may go on with any of them: that is found once.
        """
        if not reached:
            return self._interned(goal, inside, frozenset(inside), accepting=False)
        behind = self._state(goal, reached)
        if not inside:
            return behind
        items, accepting = (behind._items, behind._accepting) if isinstance(behind, RuleState) else ((), True)
        spend((len(inside) + len(items)) >> 3)
        items = tuple(dict.fromkeys((*inside, *items)))
        return self._interned(goal, items, frozenset(items), accepting=accepting)

    def _behind_call(self, goal: str, reached: Sequence[AlternativeAt]) -> State:
        """As `_after`; of a text alone, as bytes.

        What stands behind the arguments of 50 tools needs no state of its own, 5 µs each.
        """
        if len(reached) == 1:
            symbol, then = self._symbol[reached[0]], self._next[reached[0]]
            if (type(symbol) is Literal and symbol.text not in self._specials
                    and type(self._symbol[then]) is not Literal):  # so this is no recursion
                return Bytes(symbol.text.encode(), self._after(goal, [then]))
        return self._after(goal, reached)

    def _ends_as_begun(self, goal: str, at: AlternativeAt) -> bool:
        """Return whether the machine's own rule stands at the end of one of its alternatives.

        Whatever completes the inner one completes the outer one, so the machine can begin anew instead of calling
        itself, and ``e: e "+" e | n`` needs no stack either.
        """
        symbol = self._symbol[at]
        return symbol == Ref(goal) and self._rule[at] == goal and self._symbol[self._next[at]] is None

    def _call(self, symbol: Symbol) -> State:
        """Return the start state of what a symbol calls."""
        key = _called(symbol)
        if key not in self._calls:
            if isinstance(symbol, Ref):
                called = self._begin(symbol.rule)
            elif isinstance(symbol, Embedded):
                called = _started(symbol.machine, self._specials)
            else:
                assert isinstance(symbol, Pattern)
                called = Text(Quoting.RAW, filled(symbol.language))
            self._calls[key] = called
        return self._calls[key]

    def edges(self, goal: str, items: tuple[DottedItem, ...], accepting: bool) -> Edges:
        """Return what leaves a state.

        Cost: linear in the items here and in those of the next states.
        """
        literals: dict[int, list[tuple[bytes, DottedItem]]] = {}
        tokens: dict[str, list[AlternativeAt]] = {}
        calls: dict[object, tuple[Symbol, list[AlternativeAt]]] = {}
        spend(2 * len(items))
        for at, offset in items:
            symbol = self._symbol[at]
            if isinstance(symbol, Special):
                tokens.setdefault(symbol.name, []).append(self._next[at])
            elif isinstance(symbol, Literal) and symbol.text in self._specials:
                tokens.setdefault(symbol.text, []).append(self._next[at])
            elif isinstance(symbol, Literal):
                rest = symbol.text.encode()[offset:]
                literals.setdefault(rest[0], []).append((rest, (at, offset)))
            elif symbol is not None:
                calls.setdefault(_called(symbol), (symbol, []))[1].append(self._next[at])
        return Edges(
            ranges=tuple((first, first, self._after_bytes(goal, group)) for first, group in sorted(literals.items())),
            calls=tuple(self._together([(symbol, self._behind_call(goal, group)) for symbol, group in calls.values()])),
            tokens=tuple((name, self._after(goal, group)) for name, group in tokens.items()),
            accepting=accepting,
        )

    def _together(self, calls: list[tuple[Symbol, State]]) -> list[tuple[State, State]]:
        """Return the calls, those of many patterns with the same state behind them as one call of their union.

        Two hundred terminals that read the same text are else two hundred configurations at each byte of it; few are
        left apart, so that a pattern that stands in several places has one mask.
        """
        if len(calls) < _MANY:
            return [(self._call(symbol), after) for symbol, after in calls]
        groups: dict[State, list[Expr]] = {}
        together: list[tuple[State, State]] = []
        for symbol, after in calls:
            if (language := expression(symbol)) is not None:
                groups.setdefault(after, []).append(language)
        for symbol, after in calls:
            language, alike = expression(symbol), groups.get(after, [])
            if language is None or len(alike) < _MANY:
                together.append((self._call(symbol), after))
            elif language is alike[0]:
                together.append((Text(Quoting.RAW, filled(factored(alike))), after))
        return together

    def _after_bytes(self, goal: str, group: list[tuple[bytes, DottedItem]]) -> State:
        """Return the state after the first byte of literals that share it; all bytes that they share are one chain."""
        if len(group) == 1:  # most names of 50 tools, 1 µs each
            ((shared, (at, _)),) = group
            then = self._after(goal, [self._next[at]])
            return Bytes(shared[1:], then) if len(shared) > 1 else then
        first, last = min(group)[0], max(group)[0]
        end = next(
            (at for at, (left, right) in enumerate(zip(first, last, strict=False)) if left != right),
            min(len(first), len(last)),
        )
        shared = first[:end]
        inside = tuple((at, offset + len(shared)) for rest, (at, offset) in group if len(rest) > len(shared))
        reached = [self._next[at] for rest, (at, _) in group if len(rest) == len(shared)]
        then = self._after(goal, reached, inside)
        return Bytes(shared[1:], then) if len(shared) > 1 else then

    def show(self, item: DottedItem) -> str:
        """Return an item as text, for people who debug."""
        at, offset = item
        shown = []
        while (symbol := self._symbol[at]) is not None:
            shown.append(name_of(symbol)[offset if isinstance(symbol, Literal) else 0 :])
            at, offset = self._next[at], 0
        return " ".join(shown)
