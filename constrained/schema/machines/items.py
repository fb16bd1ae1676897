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

import threading
from collections.abc import Callable, Iterator
from fractions import Fraction
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, cast

from constrained.machine import END, Bytes, Dispatch, Edges, State, Text
from constrained.schema.machines.object import ObjectPosition
from constrained.schema.machines.object_keys import Begin, Entry
from constrained.schema.machines.recorded_values import NONE, Built, Earlier, Whole
from constrained.schema.machines.texts import ItemText, Recorded
from constrained.schema.numeric.language import NumberTexts, number_language
from constrained.schema.numeric.ranges import constant
from constrained.schema.strings.absent import lacks_key
from constrained.work import spend

if TYPE_CHECKING:
    from constrained.schema.machines.array import ArrayPosition
    from constrained.schema.machines.distinct import Distinct

_UNITS = 20  # of work, to look at one state
_FEW_PLACES = 16  # that are looked at for a text that leads on
_DEEPEST = 3  # searches inside of one another
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

    __slots__ = ("_hash", "_outer", "after", "built", "earlier", "home", "place")

    def __init__(self, home: Distinct, after: State, place: Place, built: Built, earlier: Earlier = NONE,
                 outer: int | None = None) -> None:
        self.home, self.after, self.place, self.built, self.earlier = home, after, place, built, earlier
        self._hash: int | None = None  # PERF: most items of a search are never compared with others
        self._outer = outer  # hash of `after`

    def __hash__(self) -> int:
        if self._hash is None:
            if self._outer is None:
                self._outer = hash(self.after)
            self._hash = hash((self._outer, self.place, self.built))
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, OpenItem) and hash(self) == hash(other) and self.built == other.built
            and self.place == other.place and self.home is other.home and self.after == other.after
        )

    def at(self, place: Place, built: Built | Whole) -> State | None:
        """Return what follows here in the machine with this value, None if it leads nowhere."""
        if isinstance(built, Whole):
            if built.is_used:
                return None
            return self.behind(built) if built.known else self.after
        item = self.moved(place, built)
        return item if is_live(item) else None

    def moved(self, place: Place, built: Built) -> OpenItem:
        return OpenItem(self.home, self.after, place, built, self.earlier, self._outer)

    def expand(self) -> Edges:
        spend(_UNITS)
        ranges: dict[int, State] = {}
        calls: list[tuple[State, State | Dispatch]] = []
        built, here = self.built, self.place.ways()
        for byte, place in here.bytes:
            following = self.at(place, built.byte(byte))
            if following is not None and ranges.setdefault(byte, following) != following:
                calls.append((Bytes(bytes((byte,)), END), following))
        for callee, place in here.gaps:
            calls.append((callee, self.moved(place, built)))
        for text in here.texts:
            calls += self._recorded(text)
        single = [(byte, byte, target) for byte, target in sorted(ranges.items(), key=itemgetter(0))]
        return Edges(ranges=tuple(single), calls=tuple(calls))

    def shared(self, way_of: Callable[[State], str | None]) -> tuple[str, State] | None:
        """Return a way out that all places share which lead on alike, and the state that it was searched from; see
        `State.shared`.

        Where no earlier value can be met any more, a place is like the one where the item may be written again, and
        each of its keys too but those that the shortest way out of that one writes.
        """
        if not self.built.known or self.built.live_rivals():
            return None
        keys, kept = _NONE.union(*map(_keys, self.frames())), _NONE
        for _ in range(2):
            wider = self._wider(keys - kept)
            way = None if wider == self else way_of(wider)
            if way is None:
                return None
            again = frozenset([key for key in keys - kept if not lacks_key(way, key, quoted=self.home.quotes_keys)])
            if not again:
                return None if keys == kept and self.built.may_be_in(way) else (way, wider)
            kept |= again
        return None

    def _wider(self, keys: frozenset[str]) -> OpenItem:
        """Return the place in an item that may be written again, and some keys too."""
        returns: Return | None = None
        for then in reversed([*self._frames_around()]):
            returns = Return(_without(then, keys), returns)
        return self.moved(self.home.place(_without(self.place.state, keys), returns), self.built.forgotten())

    # -- what is written here and nowhere else, see `engine.budget.ways` ------------------------------------------

    def alone(self) -> OpenItem | None:
        """Return the same place where this is the only item; None: its value is not known."""
        return OpenItem(self.home, END, self.place, self.built.alone()) if self.built.known else None

    def frames(self) -> Iterator[State]:
        """Yield the states whose ways out, one after the other, are the rest of an item, whatever its value is."""
        yield self.place.state
        yield from self._frames_around()

    def _frames_around(self) -> Iterator[State]:
        at = self.place.returns
        while at is not None:
            yield at.then
            at = at.parent

    def only_move(self) -> tuple[int, OpenItem | Whole] | None:
        """Return the byte that has to come, with what it leads to; None: something else may come."""
        spend(_UNITS // 4)
        here = self.place.ways()
        return self._move(*here.bytes[0]) if len(here.bytes) == 1 and not here.texts else None

    def moves(self) -> tuple[list[tuple[int, OpenItem | Whole]], list[Recorded]]:
        """Return what a byte leads to, an item that is complete to its value, and the texts, without blanks."""
        spend(_UNITS // 2)
        here = self.place.ways()
        return [self._move(byte, place) for byte, place in here.bytes], [Recorded(self, text) for text in here.texts]

    def _move(self, byte: int, place: Place) -> tuple[int, OpenItem | Whole]:
        built = self.built.byte(byte)
        return byte, built if isinstance(built, Whole) else self.moved(place, built)

    def used(self) -> frozenset[int]:
        """Return the digests of the values that the item may not have."""
        spend(1 + self.earlier.count // 16)
        return frozenset([whole.digest for whole in self.earlier])

    def behind(self, whole: Whole) -> State:
        """Return what follows an item of this value, which no earlier one has."""
        return self.home.behind(cast("ArrayPosition", self.after), whole)

    def _recorded(self, text: ItemText) -> Iterator[tuple[State, Dispatch]]:
        """Yield the calls that read a text, without those texts that lead nowhere.

        PERF: numbers that no earlier value has are read apart from the others, whose spellings no set of texts lists:
        together, what follows is asked for behind each of a thousand tokens of three digits.
        """
        recorded, callee = Recorded(self, text), text.callee
        dead = frozenset([rival for rival in recorded.rivals() if self._is_dead(recorded, rival)])
        numbers = callee.language
        if isinstance(numbers, NumberTexts) and recorded.has_small_rivals() and not isinstance(text.then, Dispatch):
            rivals = frozenset(map(Fraction, recorded.rivals()))
            others = number_language(numbers.ranges, numbers.spelling, rivals)
            if others.edges():
                beside = Text(callee.quoting, others)
                yield beside, Recorded(self, text.narrowed(beside), ())
            shared = sorted(map(Fraction, filter(recorded.reads, recorded.rivals() - dead)))
            if shared:
                taken = Text(callee.quoting, number_language(tuple(map(constant, shared)), numbers.spelling))
                yield taken, Recorded(self, text.narrowed(taken))
        elif not dead:
            yield callee, recorded
        elif (language := recorded.without(dead)) is not None:
            yield Text(callee.quoting, language), recorded

    def _is_dead(self, recorded: Recorded, rival: str) -> bool:
        target = recorded.target(rival)
        return target is None or not target.leads_on() and recorded.after_text(rival) is None


class Place:
    """A place in the machine of an item, whatever its value is so far: a state, and the states to return to.

    Made by `Distinct.place`, so that what was found out about one is known to all items that come there.
    """

    __slots__ = ("_hash", "_leads_on", "_ways", "home", "returns", "state")

    def __init__(self, home: Distinct, state: State, returns: Return | None) -> None:
        self.home, self.state, self.returns = home, state, returns
        self._hash = hash((state, returns))
        self.forget()

    def forget(self) -> None:
        """Let go of other places."""
        self._ways: Ways | None = None
        self._leads_on: bool | None = None

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Place) and self._hash == other._hash
            and self.state == other.state and self.returns == other.returns
        )

    def ways(self) -> Ways:
        """Return what leaves this place."""
        found = self._ways
        if found is None:
            found = self._ways = _inlined(self)
        return found

    def leads_on(self) -> bool:
        """Say whether a text of which there are endlessly many lies on some way out; False also where that is not seen
        at a few places, or in a search inside of searches, as of sets of sets of sets.
        """
        if self._leads_on is None and _searches.depth < _DEEPEST:
            _searches.depth += 1
            try:
                self._look_for_endless()
            finally:
                _searches.depth -= 1
            if not _searches.depth:  # what is only found from further out is looked for again there
                self._leads_on = bool(self._leads_on)
        return bool(self._leads_on)

    def _look_for_endless(self) -> None:
        """Note that this place leads on, and those on the way from here, where that is seen at a few places."""
        trail: list[Place] = []
        seen: set[Place] = set()
        open_: list[Iterator[Place]] = [iter((self,))]
        while open_ and self._leads_on is None:
            following = next((place for place in open_[-1] if place not in seen), None)
            if following is None:
                del open_[-1], trail[-1:]
            elif following._leads_on or any(text.is_endless for text in following.ways().texts):
                for place in (*trail, following):
                    place._leads_on = True
            elif len(seen) < _FEW_PLACES:
                spend(_UNITS // 4)
                seen.add(following)
                trail.append(following)
                open_.append(_further(following))
            else:
                break


class _Searches(threading.local):
    """How many searches for texts of which there are endlessly many this thread is in, one inside the other."""

    depth = 0


_searches = _Searches()


def _further(place: Place) -> Iterator[Place]:
    """Yield the place itself and those that follow it."""
    yield place
    for text in place.ways().texts:
        yield from text.behind()
    for _, following in place.ways().bytes:
        yield following


class Ways(NamedTuple):
    """The edges of a place, and of all that is called there but texts, each with where it leads."""

    bytes: list[tuple[int, Place]]
    gaps: list[tuple[State, Place]]  # what may stand between texts
    texts: list[ItemText]


def _inlined(place: Place) -> Ways:
    home, found = place.home, Ways([], [], [])
    gap = home.gap
    todo = [(place.state, place.returns)]
    seen = set(todo)
    while todo:
        state, returns = todo.pop()
        spend(_UNITS)
        edges = state.expand()
        for low, high, target in edges.ranges:
            behind = home.place(target, returns)
            found.bytes.extend([(byte, behind) for byte in range(low, high + 1)])
        places = [(returns.then, returns.parent)] if edges.accepting and returns is not None else []
        for callee, after in edges.calls:
            if not isinstance(callee, Text):
                places.append((callee, returns if after is END else Return(_state(after), returns)))
            elif callee == gap:
                found.gaps.append((callee, home.place(_state(after), returns)))
            else:
                found.texts.append(ItemText(home, callee, after, returns))
        for inner in places:
            if inner not in seen:
                seen.add(inner)
                todo.append(inner)
    return found


def _keys(state: State) -> frozenset[str]:
    """Return the keys that no schema names and that a state refuses as they were written."""
    if isinstance(state, (Entry, Begin)):
        return _NONE.union(*[after.others for _, after in state.options])
    return state.others if isinstance(state, ObjectPosition) else _NONE


def _without(state: State, keys: frozenset[str]) -> State:
    """Return a state that takes some keys again."""
    if not keys or keys.isdisjoint(_keys(state)):
        return state
    if isinstance(state, (Entry, Begin)):
        options = [(conj, after._replace(others=after.others - keys)) for conj, after in state.options]
        return state._replace(options=tuple(options))
    assert isinstance(state, ObjectPosition)
    return state._replace(others=state.others - keys)


def _state(after: State | Dispatch) -> State:
    assert not isinstance(after, Dispatch), "only texts are dispatched upon"
    return after


def is_live(item: OpenItem) -> bool:
    """Say whether an item can end as something that was not written before.

    Every way out of it that no rival takes is as good as any: what the machines offer can be completed.  So only the
    ways of rivals are followed, each once: where keys may come in any order, in ascending order.
    PERF: nearly every place leads to a text of which there are endlessly many, more than were ever written; that is
    known of a place whatever was written, so that it is found out once.
    Cost: as many states as the rivals have entries left.
    """
    todo, seen = [item], set()
    while todo:
        at = todo.pop()
        if not at.built.live_rivals() or at.place.leads_on():
            return True
        if at in seen:
            continue
        seen.add(at)
        for byte, place in at.place.ways().bytes:
            built = at.built.byte(byte)
            if isinstance(built, Built):
                todo.append(at.moved(place, built))
            elif not built.is_used:
                return True
        for text in at.place.ways().texts:
            recorded = Recorded(at, text)
            if recorded.offers_more(recorded.rivals()):
                return True
            for rival in recorded.rivals():
                if recorded.reads(rival):
                    following = recorded.following(rival)
                    if following is not None:
                        todo.append(following)
    return False
