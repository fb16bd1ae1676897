"""The machine of one item among distinct arrays or objects, run inside a state that knows what was written.

A callee of the engine forgets what it read.  So an item is not called: `OpenItem` holds the state inside the item's
machine, the states to return to, and the value under construction (`recorded_values`); only texts are called, and
recorded.

    OpenItem ─ byte ─► OpenItem ─ text ─► Recorded ─► … ─ last byte ─► the position behind, which knows the value

Only the last byte of an item can make it equal to an earlier one; it is refused there, and so is everything before from
which nothing else can be reached (`is_live`).  That is seldom asked: an item with no rival left, one that differs from
all earlier values already, is as free as any other, and the texts inside it have their ordinary masks.  Where rivals
are left, their next texts are the special ones of `Dispatch`, and all others lead to a free item.

PERF: an item costs some 20 µs a byte between texts when it is first read, ten times what an item does that need not be
distinct.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, cast

from constrained.machine import END, Bytes, Dispatch, Edges, State, Text
from constrained.schema.machines.object import Begin, Entry, ObjectPosition
from constrained.schema.machines.recorded_values import NONE, Built, Earlier, Whole, lacks
from constrained.schema.machines.texts import Recorded
from constrained.schema.numeric.language import NumberTexts, number_language
from constrained.schema.numeric.ranges import constant
from constrained.work import spend

if TYPE_CHECKING:
    from constrained.schema.machines.array import ArrayPosition
    from constrained.schema.machines.distinct import Distinct

MOST_PLACES = 10_000  # of the machines of items whose edges are kept
_UNITS = 20  # of work, to look at one state
_NONE: frozenset[str] = frozenset()


class Return:
    """The states to return to, innermost first; compared by content, however many there are."""

    __slots__ = ("_hash", "parent", "then")

    def __init__(self, then: State, parent: Return | None) -> None:
        self.then, self.parent = then, parent
        self._hash: int = hash((then, parent._hash if parent is not None else 0))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        one: object = self
        while isinstance(one, Return) and isinstance(other, Return) and one is not other:
            if one._hash != other._hash or one.then != other.then:
                return False
            one, other = one.parent, other.parent
        return one is other


class OpenItem:
    """A position inside an item.  Equal ones read the same.

    earlier: the values that the item may not have, as far as they are arrays and objects.
    """

    __slots__ = ("_hash", "after", "built", "earlier", "home", "returns", "state")

    def __init__(
        self,
        home: Distinct,
        after: State,
        state: State,
        returns: Return | None,
        built: Built,
        earlier: Earlier = NONE,
    ) -> None:
        while state is END and returns is not None:
            state, returns = returns.then, returns.parent
        self.home, self.after, self.state, self.returns, self.built = home, after, state, returns, built
        self.earlier = earlier
        self._hash: int | None = None  # PERF: most items of a search are never compared with others

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((self.after, self.state, self.returns, self.built))
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, OpenItem) and hash(self) == hash(other) and self.built == other.built
            and self.state == other.state and self.returns == other.returns
            and self.home is other.home and self.after == other.after
        )

    def at(self, state: State, returns: Return | None, built: Built | Whole) -> State | None:
        """Return what follows here in the machine with this value, None if it leads nowhere."""
        if isinstance(built, Whole):
            if built.is_used:
                return None
            return self.behind(built) if built.known else self.after
        item = self.moved(state, returns, built)
        return item if is_live(item) else None

    def moved(self, state: State, returns: Return | None, built: Built) -> OpenItem:
        return OpenItem(self.home, self.after, state, returns, built, self.earlier)

    def edges(self) -> Inlined:
        """Return what leaves this place of the item's machine, whatever its value is so far; kept."""
        known = self.home.inlined
        found = known.get((self.state, self.returns))
        if found is None:
            if len(known) >= MOST_PLACES:
                known.clear()
            found = known[self.state, self.returns] = _inlined(self.state, self.returns)
        return found

    def expand(self) -> Edges:
        spend(_UNITS)
        ranges: dict[int, State] = {}
        calls: list[tuple[State, State | Dispatch]] = []
        here, gap = self.edges(), self.home.gap
        for byte, target, returns in here.bytes:
            following = self.at(target, returns, self.built.byte(byte))
            if following is not None and ranges.setdefault(byte, following) != following:
                calls.append((Bytes(bytes((byte,)), END), following))
        for callee, after, returns in here.texts:
            if callee == gap:
                calls.append((callee, self.moved(_state(after), returns, self.built)))
            else:
                calls += self._recorded(callee, after, returns)
        single = [(byte, byte, target) for byte, target in sorted(ranges.items(), key=itemgetter(0))]
        return Edges(ranges=tuple(single), calls=tuple(calls))

    def wider(self) -> OpenItem | None:
        """Return the place in an item that may be written again, and as a rule each of its keys too, where no earlier
        value can be met any more.
        """
        if not self.built.known or self.built.live_rivals():
            return None
        if not self._keys():
            return self.moved(self.state, self.returns, self.built.forgotten())
        returns: Return | None = None
        for then in reversed([*self._outer()]):
            returns = Return(_unwritten(then), returns)
        return self.moved(_unwritten(self.state), returns, self.built.forgotten())

    def _keys(self) -> frozenset[str]:
        """Return the keys that `wider` takes again; none where a word cannot be seen to lack each."""
        keys = _NONE.union(*map(_keys, self.frames()))
        return keys if all(lacks("", key) for key in keys) else _NONE

    # -- what is written here and nowhere else, see `engine.budget.item_ways` ------------------------------------------

    def alone(self) -> OpenItem | None:
        """Return the same place where this is the only item; None: its value is not known."""
        return OpenItem(self.home, END, self.state, self.returns, self.built.alone()) if self.built.known else None

    def frames(self) -> Iterator[State]:
        """Yield the states whose ways out, one after the other, are the rest of an item, whatever its value is."""
        yield self.state
        yield from self._outer()

    def _outer(self) -> Iterator[State]:
        at = self.returns
        while at is not None:
            yield at.then
            at = at.parent

    def only_move(self) -> tuple[int, OpenItem | Whole] | None:
        """Return the byte that has to come, with what it leads to; None: something else may come."""
        spend(_UNITS // 4)
        here = self.edges()
        if len(here.bytes) != 1 or any(callee != self.home.gap for callee, _, _ in here.texts):
            return None
        (byte, target, returns), built = here.bytes[0], self.built.byte(here.bytes[0][0])
        return byte, built if isinstance(built, Whole) else self.moved(target, returns, built)

    def moves(self) -> tuple[list[tuple[int, OpenItem | Whole]], list[Recorded]]:
        """Return what a byte leads to, an item that is complete to its value, and the texts, without blanks."""
        spend(_UNITS // 2)
        here = self.edges()
        bytewise: list[tuple[int, OpenItem | Whole]] = []
        for byte, target, returns in here.bytes:
            built = self.built.byte(byte)
            bytewise.append((byte, built if isinstance(built, Whole) else self.moved(target, returns, built)))
        texts = [entry for entry in here.texts if entry[0] != self.home.gap]
        return bytewise, [Recorded(self, callee, after, returns) for callee, after, returns in texts]

    def used(self) -> frozenset[int]:
        """Return the digests of the values that the item may not have."""
        spend(1 + self.earlier.count // 16)
        return frozenset([whole.digest for whole in self.earlier])

    def behind(self, whole: Whole) -> State:
        """Return what follows an item of this value, which no earlier one has."""
        return self.home.behind(cast("ArrayPosition", self.after), whole)

    def takes(self, word: str) -> bool:
        """Say that a word of `wider` does not write this item again; False also where it may."""
        keys = self._keys()
        return all(lacks(word, key) for key in keys) if keys else not self.built.may_be_in(word)

    def _recorded(
        self, callee: Text, after: State | Dispatch, returns: Return | None
    ) -> Iterator[tuple[State, Dispatch]]:
        """Yield the calls that read a text, without those texts that lead nowhere.

        PERF: numbers that no earlier value has are read apart from the others, whose spellings no set of texts lists:
        together, what follows is asked for behind each of a thousand tokens of three digits.
        """
        recorded = Recorded(self, callee, after, returns)
        dead = frozenset(text for text in recorded.rivals() if recorded.after_text(text) is None)
        numbers = callee.language
        if isinstance(numbers, NumberTexts) and recorded.has_small_rivals() and not isinstance(after, Dispatch):
            rivals = frozenset(map(Fraction, recorded.rivals()))
            others = number_language(numbers.ranges, numbers.spelling, rivals)
            if others.edges():
                yield Text(callee.quoting, others), Recorded(self, Text(callee.quoting, others), after, returns, ())
            shared = sorted(map(Fraction, filter(recorded.reads, recorded.rivals() - dead)))
            if shared:
                taken = Text(callee.quoting, number_language(tuple(map(constant, shared)), numbers.spelling))
                yield taken, Recorded(self, taken, after, returns)
        elif not dead:
            yield callee, recorded
        elif (language := recorded.without(dead)) is not None:
            yield Text(callee.quoting, language), recorded


class Inlined(NamedTuple):
    """The edges of a place, and of all that is called there but texts, each with the states to return to."""

    bytes: list[tuple[int, State, Return | None]]
    texts: list[tuple[Text, State | Dispatch, Return | None]]


def _inlined(state: State, returns: Return | None) -> Inlined:
    found = Inlined([], [])
    todo = [(state, returns)]
    seen = set(todo)
    while todo:
        state, returns = todo.pop()
        spend(_UNITS)
        edges = state.expand()
        for low, high, target in edges.ranges:
            found.bytes.extend((byte, target, returns) for byte in range(low, high + 1))
        places = [(returns.then, returns.parent)] if edges.accepting and returns is not None else []
        for callee, after in edges.calls:
            if isinstance(callee, Text):
                found.texts.append((callee, after, returns))
            else:
                places.append((callee, returns if after is END else Return(_state(after), returns)))
        for place in places:
            if place not in seen:
                seen.add(place)
                todo.append(place)
    return found


def _keys(state: State) -> frozenset[str]:
    """Return the keys that no schema names and that a state refuses as they were written."""
    if isinstance(state, (Entry, Begin)):
        return _NONE.union(*[after.others for _, after in state.options])
    return state.others if isinstance(state, ObjectPosition) else _NONE


def _unwritten(state: State) -> State:
    """Return a state that takes such keys again."""
    if isinstance(state, (Entry, Begin)):
        return state._replace(options=tuple([(conj, after._replace(others=_NONE)) for conj, after in state.options]))
    return state._replace(others=_NONE) if isinstance(state, ObjectPosition) else state


def _state(after: State | Dispatch) -> State:
    assert not isinstance(after, Dispatch), "only texts are dispatched upon"
    return after


def is_live(item: OpenItem) -> bool:
    """Say whether an item can end as something that was not written before.

    Every way out of it that no rival takes is as good as any: what the machines offer can be completed.  So only the
    ways of rivals are followed, each once: where keys may come in any order, in ascending order.
    Cost: as many states as the rivals have entries left.
    """
    todo, seen = [item], set()
    while todo:
        at = todo.pop()
        if not at.built.live_rivals():
            return True
        if at in seen:
            continue
        seen.add(at)
        for byte, target, returns in at.edges().bytes:
            built = at.built.byte(byte)
            if isinstance(built, Built):
                todo.append(at.moved(target, returns, built))
            elif not built.is_used:
                return True
        for callee, after, returns in at.edges().texts:
            if callee == at.home.gap:
                continue
            recorded = Recorded(at, callee, after, returns)
            if recorded.offers_more(recorded.rivals()):
                return True
            for text in recorded.rivals():
                if recorded.reads(text):
                    following = recorded.following(text)
                    if following is not None:
                        todo.append(following)
    return False
