"""The calls of a turn as one machine, for formats whose calls are numbered or named by an id; and what is in a call
from its arguments on, for formats that write these before the tool's name.

A grammar without a memory can say what an id looks like, not that it is the next number or that no other call has it.
Here the state between two calls carries what the ids so far allow: the number of the next call, or the set of ids that
are taken.  Everything else is what the rules would be: the call with its slots, the tools' names, their arguments, what
stands between two calls.

    part 0 ─ text ─► … ─ name ─► … ─ call_id ─► … ─ arguments ─► … ─► end of the call ─ separator ─► part 0

All tools run in one state until the name tells them apart; the machine of a tool's arguments is made when it is called.

Left out of `to_lark`, with a comment that says so: that ids count, and that none comes twice.

Where the name comes last, all tools run side by side until it tells them apart, and one mask must know the first keys
of all of them:

    { ─┬─ keys and values of tool_1 ─ } ─► , "name": "tool_1"}
       └─ keys and values of tool_2 ─ } ─► , "name": "tool_2"}

As one machine they cost a grammar what one tool costs; what each of them takes is made when that mask is asked for.
Tested against an alternative of the grammar for each tool (tests/test_name_last.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

from constrained.formats.binding.arguments import Arguments
from constrained.formats.binding.beginnings import UnreadObject
from constrained.formats.binding.rules import Sequence
from constrained.grammar import Literal, Pattern, Ref, Special
from constrained.grammar.ir import EmbeddedLanguage
from constrained.grammar.lark.printer import quoted
from constrained.machine import END, Bytes, Dispatch, Edges, Language, LiteralSet, Quoting, State, Text
from constrained.once import once
from constrained.regex import parse_python
from constrained.schema.lark_rules import LarkRules
from constrained.schema.surfaces.punctuation import Token

Way = tuple[State, State]  # what reads arguments, and what names their tool behind them

UNKNOWN = -1  # the number of a call as masks have it, which do not look at a number's text
COUNTED, UNIQUE, FREE = "counted", "unique", "free"  # how ids are given


@dataclass(frozen=True)
class Calls:
    """One call or more, with ids; what a grammar embeds.

    call, between: sequences of texts and special tokens; in `call` the slots `name`, `arguments` and one of another
    name for the id. names: the tools' names as they are written, sorted, and machines[i] the arguments of names[i]; or,
    for any tool, the language of names and one machine.  ids: one of `COUNTED` (first, first + 1, …; first None: any
    number), `UNIQUE` (texts of `shape`) and `FREE`.
    """

    call: Sequence
    between: Sequence
    names: tuple[str, ...] | Language
    machines: tuple[EmbeddedLanguage, ...]
    ids: str
    shape: Pattern
    first: int | None
    most: int | None
    specials: frozenset[str]

    @property
    def widened(self) -> tuple[Any, ...]:
        return tuple(entry for machine in self.machines for entry in machine.widened)

    @property
    def notes(self) -> tuple[Any, ...]:
        return tuple(entry for machine in self.machines for entry in getattr(machine, "notes", ()))

    @property
    def narrowed(self) -> tuple[Any, ...]:
        return tuple(entry for machine in self.machines for entry in getattr(machine, "narrowed", ()))

    @property
    def markers(self) -> frozenset[str]:
        """The texts that can be special tokens."""
        texts = {symbol.text for symbol in (*self.call, *self.between) if isinstance(symbol, Literal)}
        inner: list[frozenset[str]] = [getattr(machine, "markers", frozenset()) for machine in self.machines]
        return frozenset(texts).union(*inner)

    def with_specials(self, names: Collection[str]) -> Calls:
        known = [
            machine.with_specials(names) if hasattr(machine, "with_specials") else machine for machine in self.machines
        ]
        return replace(self, machines=tuple(known), specials=self.specials - self.markers | self.markers & set(names))

    def state(self) -> State:
        return CallPlace(self, 0, self.first, 0, frozenset(), -1)

    def to_lark(self, prefix: str, *, lookahead: bool = True) -> list[str]:
        free = replace(self, ids=FREE, first=None)
        return [
            *LarkRules(prefix, lookahead=lookahead).write(free.state()),
            "// wider: that call ids count, and that none comes twice, is left out",
        ]

    @cached_property
    def fingerprint(self) -> str:
        """A name of the content, the same in any process."""
        inner = [getattr(machine, "fingerprint", None) or machine.to_lark("value") for machine in self.machines]
        names = self.names if isinstance(self.names, tuple) else "any"
        shown = (
            self.call,
            self.between,
            names,
            inner,
            self.ids,
            self.shape.source,
            self.first,
            self.most,
            sorted(self.specials),
        )
        return hashlib.sha256(repr(shown).encode()).hexdigest()

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    @cached_property
    def least_between_ids(self) -> int | None:
        """Bytes that lie at least between two ids, None where special tokens do."""
        read = [symbol for symbol in (*self.call, *self.between) if not isinstance(symbol, Ref)]
        texts = [symbol.text for symbol in read if isinstance(symbol, Literal) and symbol.text not in self.specials]
        return sum(len(text.encode()) for text in texts) if len(texts) == len(read) else None

    @cached_property
    def counted(self) -> bool:
        """Whether the number of calls matters: for what may follow, not for ids."""
        return self.most is not None


class CallPlace(NamedTuple):
    """A place in a call; equal places have equal continuations."""

    calls: Calls
    part: int  # of the call; beyond its end the separator follows
    number: int | None  # of this call, if ids count; None: any, as it is the first one; or UNKNOWN
    written: int  # calls before this one, as far as their number matters
    used: frozenset[str]  # ids of earlier calls
    tool: int  # whose name has been read, -1: none yet

    def expand(self) -> Edges:
        calls = self.calls
        if self.part == len(calls.call):
            return self._end()
        if self.part > len(calls.call):
            return self._fixed(calls.between[self.part - len(calls.call) - 1])
        symbol = calls.call[self.part]
        if symbol == Ref("name"):
            return self._name()
        if symbol == Ref("arguments"):
            return Edges(calls=((calls.machines[self.tool].state(), self._next),))
        if isinstance(symbol, Ref):
            return self._id()
        return self._fixed(symbol)

    @property
    def _next(self) -> CallPlace:
        if self.part == len(self.calls.call) + len(self.calls.between):
            return self._replace(part=0, tool=-1)
        return self._replace(part=self.part + 1)

    def _fixed(self, symbol: object) -> Edges:
        assert isinstance(symbol, (Literal, Special))
        name = symbol.text if isinstance(symbol, Literal) else symbol.name
        if isinstance(symbol, Special) or name in self.calls.specials:
            return Token(name, self._next).expand()
        return Bytes(name.encode(), self._next).expand()

    def _end(self) -> Edges:
        calls = self.calls
        written = self.written + 1 if calls.counted else 0
        if calls.most is not None and written >= calls.most:
            return Edges(accepting=True)
        number = self.number if self.number in (None, UNKNOWN) else self.number + 1
        following = self._replace(written=written, number=number, tool=-1)
        after = following._replace(part=0) if not calls.between else following._replace(part=self.part + 1)
        return after.expand()._replace(accepting=True)

    def _name(self) -> Edges:
        names = self.calls.names
        if isinstance(names, tuple):
            return Edges(calls=((Text(Quoting.RAW, LiteralSet(names)), Named(self)),))
        return Edges(calls=((Text(Quoting.RAW, names), self._next._replace(tool=0)),))

    def _id(self) -> Edges:
        calls = self.calls
        if calls.ids == COUNTED and self.number not in (None, UNKNOWN):
            return Bytes(str(self.number).encode(), self._next).expand()
        if calls.ids == COUNTED:
            return Edges(calls=((_FIRST_NUMBER if self.number is None else _NUMBER, Numbered(self)),))
        shape = Text(Quoting.RAW, calls.shape.language)
        return Edges(calls=((shape, Unused(self) if calls.ids == UNIQUE else self._next),))


_FIRST_NUMBER = Text(Quoting.RAW, parse_python("0|[1-9][0-9]{0,2}"))  # where earlier calls are not known
_NUMBER = Text(Quoting.RAW, parse_python("0|[1-9][0-9]*"))


class Named(Dispatch):
    """What follows a tool's name."""

    __slots__ = ("at",)
    refuses = False

    def __init__(self, at: CallPlace) -> None:
        self.at = at

    def after(self, label: int) -> State:
        return self.at._next._replace(tool=label)


class Numbered(Dispatch):
    """What follows the number of the first call, where it may be any.

    PERF: a state that knows its number, for each of 1,000 numbers that one token may write, took 6 ms.  Up to the
    number of the next call all of them read the same.
    """

    __slots__ = ("at", "tells_from")
    records = True
    refuses = False

    def __init__(self, at: CallPlace) -> None:
        self.at = at
        self.tells_from = at.calls.least_between_ids

    def after_text(self, text: str | None) -> State:
        return self.at._next._replace(number=UNKNOWN if text is None else int(text))


class Unused(Dispatch):
    """What follows an id, which no earlier call has."""

    __slots__ = ("at", "refused", "special")
    records = True
    alike = True
    compared = str

    def __init__(self, at: CallPlace) -> None:
        self.at = at
        self.special = self.refused = at.used

    def after_text(self, text: str | None) -> State | None:
        if text in self.special:
            return None
        used = self.special if text is None else self.special | {text}
        return self.at._next._replace(used=used)


class NameLast:
    """Arguments and the text behind them, which names their tool: what a grammar embeds; compared by identity.

    texts[i] stands behind the arguments that machines[i] reads; those among `specials` are special tokens.
    """

    def __init__(self, machines: list[Arguments], texts: list[str], specials: frozenset[str] = frozenset()) -> None:
        self.machines, self.texts, self._written = machines, texts, specials

    @property
    def widened(self) -> tuple[Any, ...]:
        return tuple(chain.from_iterable([machine.widened for machine in self.machines]))

    @property
    def narrowed(self) -> tuple[Any, ...]:
        return tuple(chain.from_iterable([machine.narrowed for machine in self.machines]))

    @property
    def notes(self) -> tuple[Any, ...]:
        return tuple(chain.from_iterable([machine.notes for machine in self.machines]))

    @property
    def weight(self) -> int:
        """Bytes that the compiled schemas keep alive."""
        return sum([machine.weight for machine in self.machines])

    @property
    def specials(self) -> frozenset[str]:
        """The special tokens that stand around strings."""
        return frozenset().union(*[machine.specials for machine in self.machines[:1]])  # the same for all

    @once
    def markers(self) -> frozenset[str]:
        """The texts that some tokenizers have as tokens."""
        return frozenset(self.texts).union(*[machine.markers for machine in self.machines[:1]])  # the same for all

    def with_specials(self, names: Collection[str]) -> NameLast:
        """Return the same calls with some of the `markers` as special tokens."""
        specials = self.markers.intersection(names)
        if specials == self._written:
            return self
        return NameLast([machine.with_specials(specials) for machine in self.machines], self.texts, specials)

    def state(self) -> State:
        return self._start

    @once
    def _start(self) -> State:
        return Start(self)

    def ways(self) -> tuple[list[tuple[UnreadObject, State]], list[Way]]:
        """Return the ways of the tools whose keys are in sight, from behind the bracket, and those of all others."""
        in_sight, others = list[tuple[UnreadObject, State]](), list[Way]()
        for machine, text in zip(self.machines, self.texts, strict=True):
            after: State = Token(text, END) if text in self._written else Bytes(text.encode(), END)
            inside = machine.inside()
            if inside is not None:
                in_sight.append((inside, after))
            else:
                others.append((machine.state(), after))
        UnreadObject.see([inside for inside, _ in in_sight])
        return in_sight, others

    def to_lark(self, prefix: str, *, lookahead: bool = True) -> list[str]:
        names = [f"{prefix}_{at}" for at in range(len(self.machines))]
        found = [f"{name} {quoted(text)}" for name, text in zip(names, self.texts, strict=True)]
        inner = [machine.to_lark(name, lookahead=lookahead) for name, machine in zip(names, self.machines, strict=True)]
        return [f"{prefix}: " + "\n    | ".join(found), *chain.from_iterable(inner)]

    @once
    def fingerprint(self) -> str:
        """A name of the content, the same in any process."""
        shown = self.texts, [machine.fingerprint for machine in self.machines], sorted(self._written)
        return hashlib.sha256(repr(shown).encode()).hexdigest()


class Start:
    """The start of the calls; compared by identity."""

    __slots__ = ("_calls",)

    def __init__(self, calls: NameLast) -> None:
        self._calls = calls

    def expand(self) -> Edges:
        in_sight, others = self._calls.ways()
        ranges = ((ord("{"), ord("{"), Opened(tuple(in_sight))),) if in_sight else ()
        return Edges(ranges=ranges, calls=tuple(others))


class Opened:
    """The calls behind the opening bracket that begins the arguments of many tools; compared by identity."""

    __slots__ = ("_ways",)

    def __init__(self, ways: tuple[Way, ...]) -> None:
        self._ways = ways

    def expand(self) -> Edges:
        return Edges(calls=self._ways)
