"""Rules whose terminals make demands of the text behind them, as plain rules.

A terminal may demand something of the rest of the input (see `lookahead`).  The demand is a language; reading a
character of the next terminal takes its derivative; once it is everything, it is met.  Rules are copied per demand that
is open where they begin and demands that may be open where they end, as in the intersection of a context-free with a
regular language.  Demands reach one character, hardly ever farther than the next terminal, so nearly always one copy of
a rule is enough, and where a demand is met whatever comes next (text without a marker, then the marker) nothing changes
at all.

Source: Y. Bar-Hillel, M. Perles, E. Shamir, On formal properties of simple phrase structure grammars (1961).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

from constrained.errors import GrammarError, LimitExceeded
from constrained.grammar.analysis import reaching
from constrained.grammar.ir import Embedded, Literal, Pattern, Ref, Sequence, Special, Symbol
from constrained.grammar.lark.lookahead import MARK_POINT, REST, Demanding
from constrained.grammar.lark.match_preference import preferred
from constrained.machine import Language
from constrained.regex import NEVER, Expr, complement, intersect, is_empty
from constrained.regex.expr import LAZY
from constrained.work import spend, working_on

MAX_COPIES = 200_000  # of rules
MAX_PLACES = 20_000  # of a terminal, times the demand it meets

Demand = Expr  # the rests of the input that are allowed; REST: all
_Open = frozenset[Demand]
_FREE: _Open = frozenset({REST})
_Key = tuple[str, Demand, _Open]  # of a copy: rule, demand at its beginning, demands at its end
_Rules = Mapping[str, tuple[tuple[Symbol | Demanding, ...], ...]]


def resolved(rules: _Rules, start: str) -> tuple[dict[str, tuple[Sequence, ...]], str]:
    """Return rules without demands, and the start rule; names stay, copies get new ones.

    Raises: LimitExceeded: demands that multiply the rules.
    """
    rules = {name: tuple(map(_with_closings, sequences)) for name, sequences in rules.items()}
    resolver = _Resolver(rules)
    for name in rules:
        resolver.ends(Ref(name), REST)  # of rules that are not used as well: they keep their names
    resolver.settle()
    while True:
        resolver.begin()
        for name in rules:
            resolver.copy(name, REST, resolver.ends(Ref(name), REST))
        found = resolver.copy(start, REST, frozenset(end for end in resolver.ends(Ref(start), REST) if end.accepts))
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
        # they make no demands
        self._calm = rules.keys() - reaching(rules, lambda symbol: isinstance(symbol, Demanding))
        self._ends: dict[tuple[str, Demand], set[Demand]] = {}
        # whose ends depend on the ends of a rule
        self._askers: dict[tuple[str, Demand], dict[tuple[str, Demand], None]] = {}
        self._unsettled: dict[tuple[str, Demand], None] = {}
        self._asker: tuple[str, Demand] | None = None
        self._terminals: dict[tuple[object, Demand], _Places] = {}
        self._literals: dict[tuple[Symbol | Demanding, Demand], _Open] = {}
        self._rank: dict[Demand, int] = {REST: 0}  # the order in which demands were met: their hashes are addresses
        self._same: dict[_Key, _Key] = {}  # copies known to derive the same texts
        self.begin()

    def begin(self) -> None:
        """Forget what was written."""
        self._names: dict[_Key, str] = {}
        self._pending: list[_Key] = []
        self._taken: set[str] = set()
        self.written: dict[str, tuple[Sequence, ...]] = {}

    # -- which demands are open where ----------------------------------------------------------------------------------

    def ends(self, symbol: Symbol | Demanding, demand: Demand) -> _Open:
        """Return the demands that may be open behind a symbol; of rules, as far as they are known."""
        if isinstance(symbol, Ref):
            return self._ends_of_rule(symbol.rule, demand)
        if isinstance(symbol, (Literal, Special)):
            if demand is REST:
                return _FREE
            key = symbol, demand
            if key not in self._literals:
                end = _after(demand, symbol.text if isinstance(symbol, Literal) else symbol.name)
                self._literals[key] = frozenset() if end is NEVER else frozenset({end})
                self._rank.setdefault(end, len(self._rank))
            return self._literals[key]
        if isinstance(symbol, Embedded) or (isinstance(symbol, Pattern) and not isinstance(symbol.language, Expr)):
            if demand is REST:
                return _FREE
            raise GrammarError(
                "a terminal looks ahead into another grammar",
                because="it is followed by a part that `define` gives, which is not looked into",
                instead="a literal between them, or a terminal without look-ahead",
            )
        return self._places(symbol, demand).ends

    def _ends_of_rule(self, name: str, demand: Demand) -> _Open:
        if demand is REST and name in self._calm:
            return _FREE
        key = name, demand
        if key not in self._ends:
            self._ends[key] = set()
            self._unsettled[key] = None
        if self._asker is not None:
            self._askers.setdefault(key, {})[self._asker] = None
        return frozenset(self._ends[key])

    def _ordered(self, demands: Iterable[Demand]) -> list[Demand]:
        return sorted(demands, key=self._rank.__getitem__)

    def _places(self, symbol: Symbol | Demanding, demand: Demand) -> _Places:
        assert isinstance(symbol, (Pattern, Demanding))
        key = symbol, demand
        if key not in self._terminals:
            with working_on(f"terminal /{symbol.source}/"):
                self._terminals[key] = _Places.explored(symbol, demand)
            for end in self._terminals[key].end:
                self._rank.setdefault(end, len(self._rank))
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
            number, found = 0, name
            while found in self._taken or (number and found in self._rules):
                number += 1
                found = f"{name}_{number}"
            self._taken.add(found)
            self._names[key] = found
            self._pending.append(key)
        return self._names[key]

    def write(self) -> None:
        while self._pending:
            name, demand, ends = key = self._pending.pop()
            if demand is REST and name in self._calm:
                # no demands in it, and all it uses keep their names
                self.written[self._names[key]] = self._rules[name]  # type: ignore[assignment]
                continue
            self.written[self._names[key]] = tuple(
                dict.fromkeys(
                    found for sequence in self._rules[name] for found in self._variants(sequence, demand, ends)
                )
            )

    def identify(self) -> bool:
        """Find copies that differ in nothing but their names; return whether there are any that were not known.

        Fewer copies let more places in other rules become one, so the rules are written again with what was found.
        Invariant: copies in one block have the same alternatives, up to blocks.  Source: E. Moore's partition
        refinement (1956).
        """
        count_of = Counter(rule for rule, _, _ in self._names)
        copies = {name: key for key, name in self._names.items() if count_of[key[0]] > 1}
        block: dict[str, object] = {name: rule for name, (rule, _, _) in copies.items()}
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
                for name in copies
            }
            numbers = {shape: number for number, shape in enumerate(dict.fromkeys(shapes.values()))}
            block = {name: numbers[shape] for name, shape in shapes.items()}
        first: dict[object, _Key] = {}
        known = len(self._same)
        for name, key in copies.items():
            if first.setdefault(block[name], key) != key:
                self._same[key] = first[block[name]]
        return len(self._same) > known

    def _variants(self, sequence: tuple[Symbol | Demanding, ...], demand: Demand, ends: _Open) -> list[Sequence]:
        """Return the alternative under a demand.

        Places in it are merged from the right: two demands that allow the same from there on are one place.
        """
        here = [{demand}]
        spend(4 + 4 * len(sequence))
        for symbol in sequence:
            here.append({end for one in self._ordered(here[-1]) for end in self.ends(symbol, one)})
        tails: dict[Demand, tuple[Sequence, ...]] = dict.fromkeys(self._ordered(here[-1] & ends), ((),))
        for symbol, before in zip(reversed(sequence), reversed(here[:-1]), strict=True):
            found: dict[Demand, tuple[Sequence, ...]] = {}
            for one in self._ordered(before):
                groups: dict[tuple[Sequence, ...], set[Demand]] = {}
                for end in self._ordered(self.ends(symbol, one)):
                    if end in tails:
                        groups.setdefault(tails[end], set()).add(end)
                heads = ((self._restricted(symbol, one, frozenset(group)), tail) for tail, group in groups.items())
                options = tuple((head, *rest) for head, tail in heads for rest in tail)
                if options:
                    found[one] = options
            tails = found
        return list(tails.get(demand, ()))

    def _restricted(self, symbol: Symbol | Demanding, demand: Demand, ends: _Open) -> Symbol:
        if isinstance(symbol, Ref):
            return Ref(self.copy(symbol.rule, demand, ends))
        if isinstance(symbol, (Literal, Special, Embedded)):
            return symbol
        return self._places(symbol, demand).ending(ends)


# -- terminals under a demand ------------------------------------------------------------------------------------------

Edges = Seq[tuple[int, int, Language]]
# accepts; (low, high, next row, or the language of the rest)
_Row = tuple[bool, tuple[tuple[int, int, "int | Expr"], ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Those texts of a terminal that leave certain demands open: a row of a table.

    Invariant: every row of the table is live.
    """

    table: tuple[_Row, ...]
    at: int = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Part) and self.table is other.table and self.at == other.at

    def __hash__(self) -> int:
        return hash((id(self.table), self.at))

    @property
    def accepts(self) -> bool:
        return self.table[self.at][0]

    def edges(self) -> tuple[tuple[int, int, Language], ...]:
        return tuple(
            (low, high, Part(self.table, to) if isinstance(to, int) else to) for low, high, to in self.table[self.at][1]
        )

    def mask_key(self, horizon: int) -> Hashable:
        return self

    def __repr__(self) -> str:
        return f"<row {self.at} of {len(self.table)}>"


@dataclass(eq=False)
class _Places:
    """The automaton of a terminal together with a demand: place = (what is left of the terminal, what is left of the
    demand).

    Where a terminal that demands nothing has met the demand, its own expression goes on: `ends` then holds REST.
    """

    symbol: Pattern | Demanding
    edges: list[list[tuple[int, int, int | Expr]]] = field(default_factory=list)
    # places that the edges lead to; None: the terminal goes on by itself
    targets: list[set[int | None]] = field(default_factory=list)
    # the demand that is open if the terminal ends here; NEVER: it cannot
    end: list[Demand] = field(default_factory=list)
    ends: _Open = frozenset()
    known: dict[_Open, Pattern] = field(default_factory=dict)

    @classmethod
    def explored(cls, symbol: Pattern | Demanding, demand: Demand) -> _Places:
        found = cls(symbol, ends=frozenset({REST}))
        demanding = isinstance(symbol, Demanding)
        if not demanding and demand is REST:
            return found
        own = symbol.pairs if isinstance(symbol, Demanding) else symbol.language
        assert isinstance(own, Expr), "parts appear in results only"
        work = {(own, demand): 0}
        for left, demand in (queue := list(work)):
            found.end.append(_end(left, demand, demanding=demanding))
            found.edges.append([])
            for low, high, left_then, demand_then in _together(left, demand):
                to: int | Expr = left_then
                if demanding or demand_then is not REST:
                    key = left_then, demand_then
                    to = work.setdefault(key, len(work))
                    if to == len(queue):
                        queue.append(key)
                found.edges[-1].append((low, high, to))
            found.targets.append({None if isinstance(to, Expr) else to for _, _, to in found.edges[-1]})
            spend(10 + 3 * len(found.edges[-1]) // 2)
            if len(work) > MAX_PLACES:
                raise LimitExceeded(
                    f"terminal {symbol.source} and the demands on it need more than {MAX_PLACES:,} states"
                )
        met = any(isinstance(to, Expr) for edges in found.edges for _, _, to in edges)
        found.ends = frozenset({*found.end, *((REST,) if met else ())} - {NEVER})
        return found

    def ending(self, ends: _Open) -> Pattern:
        """Return the texts of the terminal that leave one of some demands open, as the terminal itself where these are
        all.
        """
        if not self.end:
            assert isinstance(self.symbol, Pattern)
            return self.symbol
        if ends not in self.known:
            part, source = Part(self._table(ends)), self.symbol.source
            plain = self.symbol.language if isinstance(self.symbol, Pattern) else preferred(source)
            shape = [
                (accepts, [(low, high, to if isinstance(to, int) else "…") for low, high, to in edges])
                for accepts, edges in part.table
            ]
            digest = hashlib.sha256(repr(shape).encode()).hexdigest()[:16]  # a comment in the source tells parts apart
            narrowed = (
                self.symbol.narrowed
                if isinstance(self.symbol, Pattern)
                else self.symbol.name
                if self.symbol.longest
                else None
            )
            self.known[ends] = (
                Pattern(plain, source, narrowed)
                if same(part, plain)
                else Pattern(part, f"(?#{digest}){source}", narrowed)
            )
        return self.known[ends]

    def _table(self, ends: _Open) -> tuple[_Row, ...]:
        accepts = [end in ends for end in self.end]
        tails = REST in ends
        live = {at for at, targets in enumerate(self.targets) if accepts[at] or (tails and None in targets)}
        sources: dict[int | None, list[int]] = {}
        for at, targets in enumerate(self.targets):
            for to in targets:
                sources.setdefault(to, []).append(at)
        work = list(live)
        while work:
            new = [at for at in sources.get(work.pop(), ()) if at not in live]
            live.update(new)
            work += new
        spend(sum(map(len, self.edges)) // 2)
        row = {at: number for number, at in enumerate(sorted(live))}
        return tuple(
            (accepts[at], tuple((low, high, to if isinstance(to, Expr) else row[to]) for low, high, to in self.edges[at]
                                if (tails if isinstance(to, Expr) else to in live)))
            for at in row
        )


def _end(left: Expr, demand: Demand, *, demanding: bool) -> Demand:
    if not demanding:
        return demand if left.accepts else NEVER
    own = next((target for low, high, target in left.edges() if low <= MARK_POINT <= high), NEVER)
    if demand is REST or own is NEVER:
        return own
    return demand if own is REST else _simplest(intersect(own, demand))


def _together(left: Expr, demand: Demand) -> Iterator[tuple[int, int, Expr, Demand]]:
    """Yield what follows a character in a terminal and in a demand, where both go on."""
    for low, high, target, after in _overlaps(left.edges(), demand.edges()):
        assert isinstance(target, Expr)
        assert isinstance(after, Expr)
        yield low, high, target, after if demand is REST else _simplest(after)


def _overlaps(ours: Edges, others: Edges) -> Iterator[tuple[int, int, Language, Language]]:
    """Yield the ranges that two lists of sorted, disjoint edges share."""
    at = other_at = 0
    while at < len(ours) and other_at < len(others):
        (low, high, target), (first, last, after) = ours[at], others[other_at]
        if first <= high and low <= last:
            yield max(low, first), min(high, last), target, after
        if high <= last:
            at += 1
        if last <= high:
            other_at += 1


def _after(demand: Demand, text: str) -> Demand:
    for char in text:
        if demand is REST:
            return demand
        demand = _simplest(next((target for low, high, target in demand.edges() if low <= ord(char) <= high), NEVER))
    return demand


def _simplest(demand: Demand) -> Demand:
    """Return REST for a demand that every rest meets, NEVER for one that none does."""
    if demand.kind == LAZY:  # a row of a smallest automaton is neither
        return demand
    if demand is not REST and is_empty(intersect(REST, complement(demand))):
        return REST
    return NEVER if is_empty(demand) else demand


def same(part: Language, other: Language) -> bool:
    """Return whether two languages have the same texts; only what the first one makes of its own automaton is
    compared.
    """
    seen = {(part, other)}
    for left, right in (work := list(seen)):
        spend(10)
        if left is right:
            continue
        ours, others = left.edges(), right.edges()
        if left.accepts != right.accepts or _covered(ours) != _covered(others):
            return False
        new = {(target, after): None for _, _, target, after in _overlaps(ours, others) if (target, after) not in seen}
        seen.update(new)
        work.extend(new)
    return True


def _covered(edges: Iterable[tuple[int, int, object]]) -> list[tuple[int, int]]:
    """Return the characters with an edge, the mark taken as one of them."""
    found: list[tuple[int, int]] = []
    for low, high, _ in edges:
        low, high = low - (low - 1 == MARK_POINT), high + (high + 1 == MARK_POINT)
        if found and found[-1][1] + 1 >= low:
            low = found.pop()[0]
        found.append((low, high))
    return found
