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

from collections.abc import Collection, Iterator
from fractions import Fraction
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from constrained.machine import END, Bytes, Dispatch, Edges, Language, LiteralSet, Quoting, State, Text
from constrained.regex import Expr, is_finite, matches
from constrained.schema.machines.recorded_values import Built, Whole
from constrained.schema.machines.texts import cut, without_dead_ends
from constrained.schema.numeric.keys import MOST_DIGITS, is_within, number_key, number_text
from constrained.schema.numeric.language import NumberTexts, number_language
from constrained.schema.numeric.ranges import constant, contains, near
from constrained.work import spend

if TYPE_CHECKING:
    from constrained.schema.machines.array import ArrayPosition
    from constrained.schema.machines.distinct import Distinct

CLOSING = b"}])"
MOST_PLACES = 10_000  # of the machines of items whose edges are kept
_UNITS = 20  # of work, to look at one state
_FEW_RIVALS = 4  # numbers of earlier values that a shortest way may write again
_LONGEST_NUMBER = 100  # digits of numbers that are left out of a language; longer ones are asked for


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
    """A position inside an item.  Equal ones read the same."""

    __slots__ = ("_hash", "after", "built", "home", "returns", "state")

    def __init__(
        self, home: Distinct, after: ArrayPosition, state: State, returns: Return | None, built: Built
    ) -> None:
        while state is END and returns is not None:
            state, returns = returns.then, returns.parent
        self.home, self.after, self.state, self.returns, self.built = home, after, state, returns, built
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
            return self.home.behind(self.after, built) if built.known else self.after
        item = OpenItem(self.home, self.after, state, returns, built)
        return item if is_live(item) else None

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
        return self._edges(hurried=False)

    def way_out(self) -> Edges:
        """Return the edges of `State.way_out`: no blanks, and of an object or array that may end here only its end."""
        return self._edges(hurried=True)

    def wider(self) -> OpenItem | None:
        """Return the place in an item that may be written again, where no earlier value can be met any more."""
        if not self.built.known or self.built.live_rivals():
            return None
        return OpenItem(self.home, self.after, self.state, self.returns, self.built.forgotten())

    def takes(self, word: str) -> bool:
        """Say that a word of `wider` does not write this item again; False also where it may."""
        return not self.built.may_be_in(word)

    def _edges(self, *, hurried: bool) -> Edges:
        spend(_UNITS)
        ranges: dict[int, State] = {}
        calls: list[tuple[State, State | Dispatch]] = []
        here, gap = self.edges(), self.home.gap
        for byte, target, returns in here.bytes:
            following = self.at(target, returns, self.built.byte(byte))
            if following is not None and hurried and byte in CLOSING:
                return Edges(ranges=((byte, byte, following),))
            if following is not None and ranges.setdefault(byte, following) != following:
                calls.append((Bytes(bytes((byte,)), END), following))
        for callee, after, returns in here.texts:
            if callee == gap:
                if not hurried:
                    calls.append((callee, OpenItem(self.home, self.after, _state(after), returns, self.built)))
            else:
                calls += self._recorded(callee, after, returns, hurried=hurried)
        single = [(byte, byte, target) for byte, target in sorted(ranges.items(), key=itemgetter(0))]
        return Edges(ranges=tuple(single), calls=tuple(calls))

    def _recorded(
        self, callee: Text, after: State | Dispatch, returns: Return | None, *, hurried: bool
    ) -> Iterator[tuple[State, Dispatch]]:
        """Yield the calls that read a text, without those texts that lead nowhere; hurried: these are refused when they
        are complete, instead of left out of the language, which is then the same in all items.

        PERF: numbers that no earlier value has are read apart from the others, whose spellings no set of texts lists:
        together, what follows is asked for behind each of a thousand tokens of three digits.
        """
        recorded = Recorded(self, callee, after, returns)
        if hurried:
            yield from self._hurried(recorded)
            return
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

    def _hurried(self, recorded: Recorded) -> Iterator[tuple[State, Dispatch]]:
        """Yield the calls of a shortest way.  Numbers that no earlier value has are read apart from the others, which
        are left out where there are many, as the ways multiply.
        """
        if not recorded.has_small_rivals():
            yield recorded.callee, recorded
            return
        more = recorded.offers_more(recorded.rivals())
        if more:
            yield recorded.callee, recorded.fresh()
        if not more or len(recorded.rivals()) <= _FEW_RIVALS:
            yield recorded.callee, recorded


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


def _state(after: State | Dispatch) -> State:
    assert not isinstance(after, Dispatch), "only texts are dispatched upon"
    return after


class Recorded(Dispatch):
    """What follows a text inside an item."""

    records = True

    def __init__(
        self,
        item: OpenItem,
        callee: Text,
        then: State | Dispatch,
        returns: Return | None,
        rivals: Collection[str] | None = None,
    ) -> None:
        self._item, self.callee, self._then, self._returns = item, callee, then, returns
        self._number = callee.quoting is Quoting.RAW
        self._texts = callee.language.texts if isinstance(callee.language, LiteralSet) else None
        special = then.special if isinstance(then, Dispatch) else frozenset()
        self._rivals = None if rivals is None else frozenset(rivals)
        if self._texts is not None and isinstance(then, Dispatch):
            special = frozenset(self._texts)
        self.special = special | self.rivals()
        inner, inner_by = (then.tells_from, then.told_by) if isinstance(then, Dispatch) else (None, b"")
        self.told_by = CLOSING if inner is None else CLOSING + inner_by if inner_by else b""
        self.refuses = bool(self._rivals) or isinstance(then, Dispatch)
        here = item.built.depth + 1  # the closing brackets, and a comma that may be too much
        self.tells_from = here if inner is None else min(inner, here)

    @property
    def alike(self) -> bool:  # type: ignore[override]
        """Whether an ordinary text matters only because another item may have it in the same place, see `Dispatch`."""
        told = self._then.alike if isinstance(self._then, Dispatch) else True
        return told and not self._number and isinstance(self.callee.language, Expr) and self._item.home.alike

    def rivals(self) -> frozenset[str]:
        """Return the texts with which an earlier value goes on; of a number, those of any spelling are left to
        `after_text`.
        """
        if self._rivals is None:
            candidates = self._item.built.candidates()
            spend(len(candidates) // 2)
            if self._item.built.expects_key:
                self._rivals = candidates
            elif self._number:
                self._rivals = frozenset(number_text(content) for kind, content in candidates if kind == "number")
            else:
                self._rivals = frozenset(content for kind, content in candidates if kind == "string")
        return self._rivals

    def has_small_rivals(self) -> bool:
        """Say whether there are rivals, all of them numbers that are cheap as fractions."""
        return self._number and bool(self.rivals()) and all(is_within(text, _LONGEST_NUMBER) for text in self.rivals())

    def fresh(self) -> Recorded:
        """Return what follows a number that no earlier value has in this place; others are refused."""
        found = Recorded(self._item, self.callee, self._then, self._returns, self.rivals())
        keys = [content for kind, content in self._item.built.candidates() if kind == "number"]
        found.compared, found.refused = number_key, frozenset(keys)
        return found

    def after_text(self, text: str | None) -> State | None:
        if self.compared is not None and text is not None and self.compared(text) in self.refused:
            return None
        return self.following(text, searching=False)

    def following(self, text: str | None, *, searching: bool) -> State | None:
        if text is None and self._number and self._rivals:
            return None  # 1.0 is special where 1 is, and a set of texts cannot say so: every text is asked for
        if not isinstance(self._then, Dispatch):
            target: State | None = self._then
        elif self._texts is not None and not self._then.records:
            target = self._then.after(self._texts.index(text)) if text in self._texts else None
        else:
            target = self._then.after_text(text)
        built = (
            self._item.built.text(text, number=self._number, searching=searching and not self._item.home.ordered)
            if target is not None
            else None
        )
        if target is None or built is None:
            return None
        if searching:
            return OpenItem(self._item.home, self._item.after, target, self._returns, built)
        return self._item.at(target, self._returns, built)

    def without(self, dead: frozenset[str]) -> Language | None:
        """Return the language of the callee without these texts, or as much of them as leads nowhere; None if nothing
        is left.
        """
        language: Any = self.callee.language
        if isinstance(language, LiteralSet):
            barred = sum(
                1 << index
                for index, text in enumerate(language.texts)
                if text in dead or self._number and _is_among(text, dead)
            )
            left = language.excluded | barred
            return None if left == (1 << len(language.texts)) - 1 else LiteralSet(language.texts, left)
        if isinstance(language, NumberTexts):
            short = frozenset([Fraction(text) for text in dead if is_within(text, MOST_DIGITS)])
            found = number_language(language.ranges, language.spelling, short)
            return found if found.edges() else None  # the others are refused when they end
        return without_dead_ends(language, dead)

    def offers_more(self, few: frozenset[str]) -> bool:
        """Say whether some text is not among these and is not refused."""
        language: Any = self.callee.language
        if isinstance(language, LiteralSet):
            return any(
                not language.excluded >> index & 1
                and text not in few
                and not (self._number and _is_among(text, few))
                and self.following(text, searching=True) is not None
                for index, text in enumerate(language.texts)
            )
        if isinstance(language, NumberTexts):
            if any(numbers.low is None or numbers.high is None for numbers in language.ranges):
                return True  # there are infinitely many
            beyond = frozenset([near(text, language.ranges) for text in few])
            return bool(number_language(language.ranges, language.spelling, beyond).edges())
        refused = self._then.special if isinstance(self._then, Dispatch) else frozenset()
        endless = language.plain and not is_finite(language)  # PERF: as most are; no texts use it up
        return endless or cut(language, few | refused) is not None

    def reads(self, text: str) -> bool:
        """Say whether the callee reads a text."""
        language: Any = self.callee.language
        if isinstance(language, LiteralSet):
            return any(
                not language.excluded >> index & 1
                and (text == other or self._number and _is_among(other, frozenset((text,))))
                for index, other in enumerate(language.texts)
            )
        if isinstance(language, NumberTexts):
            value = near(text, language.ranges)
            return any(contains(numbers, value) for numbers in language.ranges)
        assert isinstance(language, Expr)
        return matches(language, text)


def _is_among(text: str, texts: frozenset[str]) -> bool:
    return number_key(text) in {number_key(other) for other in texts}


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
                todo.append(OpenItem(at.home, at.after, target, returns, built))
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
                    following = recorded.following(text, searching=True)
                    if isinstance(following, OpenItem):
                        todo.append(following)
    return False
