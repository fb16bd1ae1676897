"""Rules whose terminals make demands of the text behind them, as plain rules.

A terminal may demand something of the rest of the input (see `lookahead`).  Rules are copied per demand that is open
where they begin and demands that may be open where they end, as in the intersection of a context-free with a regular
language.  From

    start: A B | A "c"          A: /a(?!b)/          B: /[ab]+/

comes ``start: "a" B_1 | "a" "c"``, where B_1 has the texts of B that do not begin with "b" (`open_demands`).  Demands
reach one character, hardly ever farther than the next terminal, so nearly always one copy of a rule is enough, and
where a demand is met whatever comes next (text without a marker, then the marker) nothing changes at all.

Source: Y. Bar-Hillel, M. Perles, E. Shamir, On formal properties of simple phrase structure grammars (1961).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain, pairwise

from constrained.errors import GrammarError, LimitExceeded
from constrained.grammar.analysis import reaching
from constrained.grammar.lark.lexing.lookahead import Demanding
from constrained.grammar.lark.lexing.open_demands import Demand, DemandAutomaton, Demands, alphabet_of
from constrained.grammar.symbols import Embedded, Literal, Pattern, Ref, Sequence, Special, Symbol
from constrained.regex import Expr
from constrained.work import spend, working_on

MAX_COPIES = 200_000  # of rules
_WRITTEN_OUT = 8  # ways in which a part of an alternative is read; more become a rule, else those of parts multiply

_Open = frozenset[Demand]
_Key = tuple[str, Demand, _Open]  # of a copy: rule, demand at its beginning, demands at its end
_Rules = Mapping[str, tuple[tuple[Symbol | Demanding, ...], ...]]


def resolved(rules: _Rules, start: str) -> tuple[dict[str, tuple[Sequence, ...]], str]:
    """Return rules without demands, and the start rule; names stay, copies get new ones.

    Raises: LimitExceeded: demands that multiply the rules.
    """
    rules = {name: tuple(map(_with_closings, sequences)) for name, sequences in rules.items()}
    resolver = _Resolver(rules)
    every = resolver.demands.every
    for name in rules:
        resolver.ends(Ref(name), every)  # of rules that are not used as well: they keep their names
    resolver.settle()
    while True:
        resolver.begin()
        for name in rules:
            resolver.copy(name, every, resolver.ends(Ref(name), every))
        found = resolver.copy(start, every, frozenset(end for end in resolver.ends(Ref(start), every) if end.is_met))
        resolver.write()
        if not resolver.identify():
            return resolver.written, found


def _with_closings(sequence: tuple[Symbol | Demanding, ...]) -> tuple[Symbol | Demanding, ...]:
    """Return a sequence in which terminals that demand what closes them, and stand before it, demand nothing."""
    found = list(sequence)
    for at, symbol in enumerate(sequence):
        if isinstance(symbol, Demanding) and symbol.closed is not None:
            language, closing = symbol.closed
            behind = ""
            for after in sequence[at + 1 :]:
                if not isinstance(after, (Literal, Special)) or len(behind) >= len(closing):
                    break
                behind += after.text if isinstance(after, Literal) else after.name
            if behind.startswith(closing):
                found[at] = Pattern(language, symbol.source)
    return tuple(found)


class _Resolver:
    """Finds the demands under which each rule is entered and left, then writes the copies that are used."""

    def __init__(self, rules: _Rules) -> None:
        self._rules = rules
        spend(sum(map(len, rules.values())))
        self.demands = Demands(alphabet_of(chain.from_iterable(chain.from_iterable(rules.values()))))
        self._free: _Open = frozenset({self.demands.every})
        # they make no demands
        self._calm = rules.keys() - reaching(rules, lambda symbol: isinstance(symbol, Demanding))
        self._ends: dict[tuple[str, Demand], set[Demand]] = {}
        # whose ends depend on the ends of a rule
        self._askers: dict[tuple[str, Demand], dict[tuple[str, Demand], None]] = {}
        self._unsettled: dict[tuple[str, Demand], None] = {}
        self._asker: tuple[str, Demand] | None = None
        self._terminals: dict[tuple[object, Demand], DemandAutomaton] = {}
        self._same: dict[_Key, _Key] = {}  # copies known to derive the same texts
        self.begin()

    def begin(self) -> None:
        """Forget what was written."""
        self._names: dict[_Key, str] = {}
        self._shared: dict[tuple[Sequence, ...], str] = {}  # ways to read a part of an alternative -> the rule for them
        self._pending: list[_Key] = []
        self._taken: set[str] = set()
        self.written: dict[str, tuple[Sequence, ...]] = {}

    # -- which demands are open where ----------------------------------------------------------------------------------

    def ends(self, symbol: Symbol | Demanding, demand: Demand) -> _Open:
        """Return the demands that may be open behind a symbol; of rules, as far as they are known."""
        if isinstance(symbol, Ref):
            return self._ends_of_rule(symbol.rule, demand)
        if isinstance(symbol, (Literal, Special)):
            end = self.demands.after_text(demand, symbol.text if isinstance(symbol, Literal) else symbol.name)
            return frozenset() if end is None else frozenset({end})
        if isinstance(symbol, Embedded) or (isinstance(symbol, Pattern) and not isinstance(symbol.language, Expr)):
            if demand is self.demands.every:
                return self._free
            raise GrammarError(
                "a terminal looks ahead into another grammar",
                where=None if self._asker is None else f"rule '{self._asker[0]}'",
                because="it is followed by a part that `define` gives, which is not looked into",
                instead="a literal between them, or a terminal without look-ahead",
            )
        return self._places(symbol, demand).ends

    def _ends_of_rule(self, name: str, demand: Demand) -> _Open:
        if demand is self.demands.every and name in self._calm:
            return self._free
        key = name, demand
        if key not in self._ends:
            self._ends[key] = set()
            self._unsettled[key] = None
        if self._asker is not None:
            self._askers.setdefault(key, {})[self._asker] = None
        return frozenset(self._ends[key])

    def _ordered(self, demands: Iterable[Demand]) -> list[Demand]:
        return sorted(demands, key=lambda demand: demand.number)  # their hashes are addresses

    def _places(self, symbol: Symbol | Demanding, demand: Demand) -> DemandAutomaton:
        assert isinstance(symbol, (Pattern, Demanding))
        key = symbol, demand
        if key not in self._terminals:
            with working_on(f"terminal /{symbol.source}/"):
                self._terminals[key] = DemandAutomaton(symbol, demand, self.demands)
        return self._terminals[key]

    def settle(self) -> None:
        """Find the ends of all rules that have been asked about, and of those that these ask about."""
        while self._unsettled:
            key = name, demand = next(iter(self._unsettled))
            del self._unsettled[key]
            if len(self._ends) > MAX_COPIES:
                raise LimitExceeded(
                    "look-ahead and ignored terminals multiply the rules of the grammar",
                    because=f"the limit is {MAX_COPIES:,} copies",
                    instead="shorter look-ahead, or terminals that begin with other characters",
                )
            self._asker, size = key, len(self._ends[key])
            for sequence in self._rules[name]:
                spend(1 + len(sequence))
                here = {demand}
                for symbol in sequence:
                    here = {end for one in self._ordered(here) for end in self.ends(symbol, one)}
                self._ends[key] |= here
            if len(self._ends[key]) > size:
                self._unsettled |= self._askers.get(key, {})
        self._asker = None

    # -- copies --------------------------------------------------------------------------------------------------------

    def copy(self, name: str, demand: Demand, ends: _Open) -> str:
        """Return the name of the copy of a rule that begins with one demand and ends with any of some."""
        key = self._same.get((name, demand, ends), (name, demand, ends))
        if key not in self._names:
            self._names[key] = self._fresh(name)
            self._pending.append(key)
        return self._names[key]

    def _fresh(self, name: str) -> str:
        number, found = 0, name
        while found in self._taken or (number and found in self._rules):
            number += 1
            found = f"{name}_{number}"
        self._taken.add(found)
        return found

    def write(self) -> None:
        while self._pending:
            name, demand, ends = key = self._pending.pop()
            if demand is self.demands.every and name in self._calm:
                # no demands in it, and all it uses keep their names
                self.written[self._names[key]] = self._rules[name]  # type: ignore[assignment]
                continue
            variants = (
                found for sequence in self._rules[name] for found in self._variants(name, sequence, demand, ends)
            )
            self.written[self._names[key]] = tuple(dict.fromkeys(variants))

    def identify(self) -> bool:
        """Find copies that differ in nothing but their names; return whether there are any that were not known.

        Fewer copies let more places in other rules become one, so the rules are written again with what was found.
        Invariant: copies in one block have the same alternatives, up to blocks.  Source: E. Moore's partition
        refinement (1956).
        """
        count_of = Counter(rule for rule, _, _ in self._names)
        copies = {name: key for key, name in self._names.items() if count_of[key[0]] > 1}
        block: dict[str, object] = {name: rule for name, (rule, _, _) in copies.items()}
        block |= dict.fromkeys(self._shared.values(), "part of an alternative")
        count = 0
        while count != (count := len(set(block.values()))):
            spend(4 * len(block))
            shapes = {
                name: (
                    block[name],
                    *(
                        tuple(block.get(s.rule, s) if isinstance(s, Ref) else s for s in sequence)
                        for sequence in self.written[name]
                    ),
                )
                for name in block
            }
            numbers = {shape: number for number, shape in enumerate(dict.fromkeys(shapes.values()))}
            block = {name: numbers[shape] for name, shape in shapes.items()}
        first: dict[object, _Key] = {}
        known = len(self._same)
        for name, key in copies.items():
            if first.setdefault(block[name], key) != key:
                self._same[key] = first[block[name]]
        return len(self._same) > known

    def _variants(
        self, name: str, sequence: tuple[Symbol | Demanding, ...], demand: Demand, ends: _Open
    ) -> list[Sequence]:
        """Return an alternative of a rule under a demand.

        Where only one demand can be open, what stands before and behind is independent; each side that can be read in
        many ways is a rule, else the ways multiply.
        """
        here = [{demand}]
        spend(4 + 4 * len(sequence))
        for symbol in sequence:
            here.append({end for one in self._ordered(here[-1]) for end in self.ends(symbol, one)})
        here[-1] &= ends
        if not all(here):
            return []
        cuts = [0, *(at for at in range(1, len(sequence)) if len(here[at]) == 1), len(sequence)]
        found: list[Sequence] = [()]
        for at, to in pairwise(cuts):
            (begin,) = here[at]
            options = self._options(name, sequence[at:to], begin, here[at : to + 1])
            if len(cuts) > 2:
                options = self._short(name, options)
            found = [(*before, *option) for before in found for option in options]
        return found

    def _options(
        self, name: str, sequence: tuple[Symbol | Demanding, ...], demand: Demand, here: list[set[Demand]]
    ) -> tuple[Sequence, ...]:
        """Return the ways in which a part of an alternative is read; `here`: which demands are open at its places.

        DemandAutomaton are merged from the right: two demands that allow the same from there on are one place.
        """
        tails: dict[Demand, tuple[Sequence, ...]] = dict.fromkeys(self._ordered(here[-1]), ((),))
        for symbol, before in zip(reversed(sequence), reversed(here[:-1]), strict=True):
            tails = {one: self._short(name, options) for one, options in tails.items()}
            found: dict[Demand, tuple[Sequence, ...]] = {}
            for one in self._ordered(before):
                groups: dict[tuple[Sequence, ...], set[Demand]] = {}
                for end in self._ordered(self.ends(symbol, one)):
                    if end in tails:
                        groups.setdefault(tails[end], set()).add(end)
                heads = ((self._restricted(symbol, one, frozenset(group)), tail) for tail, group in groups.items())
                options = tuple((head, *rest) for head, tail in heads for rest in tail)
                spend(2 * len(groups) + 2 * len(options))
                if options:
                    found[one] = options
            tails = found
        return tails.get(demand, ())

    def _short(self, name: str, options: tuple[Sequence, ...]) -> tuple[Sequence, ...]:
        """Return the ways in which a part of an alternative is read, as one rule where they are many."""
        if len(options) <= _WRITTEN_OUT:
            return options
        if options not in self._shared:
            self._shared[options] = part = self._fresh(f"{name}_part")
            self.written[part] = options
        return ((Ref(self._shared[options]),),)

    def _restricted(self, symbol: Symbol | Demanding, demand: Demand, ends: _Open) -> Symbol:
        if isinstance(symbol, Ref):
            return Ref(self.copy(symbol.rule, demand, ends))
        if isinstance(symbol, (Literal, Special, Embedded)):
            return symbol
        return self._places(symbol, demand).ending(ends)
