"""The protocol between languages and the engine: what a machine state is.

Grammars, regular expressions and JSON Schemas turn into *machine states*; the engine determinises them while it reads
bytes. Everything is lazy: a state is an object that can list its outgoing edges once, when somebody first gets there.
The alternative, compiling a grammar into tables up front, costs time for parts that a generation never visits and makes
bounds such as ``maxLength: 10000`` expensive.

Two alphabets meet here.  A `State` reads bytes (and special tokens); a `Language` reads the code points of a text
*value*. `Text` joins them: it is the state that reads a text of a language in a quoting (quotes, escapes,
UTF-8).

This module holds no algorithm; the engine's two kernels (`engine.plain` and the compiled one) give the
meaning, and the law of the mask tests it.  Left out on purpose: nullable callees and left recursion.  Lowering removes
both, so that every call reads a byte.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

try:
    from constrained._work import TextRange
except ImportError:  # no compiler
    TextRange = None


class Quoting(IntEnum):
    """How a text value stands in the output: which quotes, and which escapes between them."""

    RAW = 0  # UTF-8, no quotes
    JSON = 1  # RFC 8259 string, every spelling
    JSON_CANONICAL = 2  # the spelling of json.dumps(…, ensure_ascii=False)
    PYTHON = 3  # str literal in either quote, every escape of ast.literal_eval but \N{…}
    PYTHON_CANONICAL = 4  # the spelling of repr()

    __hash__ = int.__hash__  # a part of many keys, and that of an enumeration is a call of Python


_QUOTINGS = tuple(Quoting)


class MarkerSafe(int):
    """A canonical quoting in which no text spells a marker: the character that would complete one is escaped.

    As a number it is the quoting without markers, which reads what this one writes.
    """

    markers: tuple[str, ...]
    _hash: int

    def __new__(cls, base: Quoting, markers: tuple[str, ...]) -> MarkerSafe:
        made = super().__new__(cls, base)
        made.markers, made._hash = markers, hash((int(base), markers))  # a part of many keys
        return made

    @property
    def base(self) -> Quoting:
        return _QUOTINGS[self]  # to ask an enumeration for its member takes 1 µs

    def __eq__(self, other: object) -> bool:
        return (
            self is other or isinstance(other, MarkerSafe) and int(self) == int(other) and self.markers == other.markers
        )

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        return MarkerSafe, (self.base, self.markers)


class Edges(NamedTuple):
    """What leaves a machine state.

    Invariants: ranges are inclusive and disjoint; every target is live (some word leads from it to acceptance); a
    callee never accepts the empty word; no chain of calls returns to its own state without reading a byte.
    """

    ranges: tuple[tuple[int, int, State], ...] = ()  # (low byte, high byte, next)
    calls: tuple[tuple[State, State | Dispatch], ...] = ()  # (callee, state after it)
    tokens: tuple[tuple[str, State], ...] = ()  # (special token name, next)
    accepting: bool = False


class Widened(NamedTuple):
    """An entry of the ledger of exactness: where a language is larger, or smaller, than what was asked for."""

    pointer: str  # of a keyword in a schema; or "rule x", "terminal X" of a grammar
    keyword: str
    because: str


@runtime_checkable
class State(Protocol):
    """A machine state: hashable; equal states denote the same language; `expand` is called at most once per kernel.

    It may also have `way_out() -> Edges`: fewer edges, along which some shortest word still lies (see
    `budget.ways`); `equal_ways() -> Hashable | None`: a key of states that shortest words lead to and
    whose shortest words are as long; and `shared(way_of) -> tuple[str, State] | None`: a shortest word of a state that
    many share and that reads more, and this state, where the word is one of both; `way_of` finds shortest words.
    """

    def expand(self) -> Edges: ...


@runtime_checkable
class ItemPosition(State, Protocol):
    """A state inside an item that has to differ from earlier ones, as a search for shortest ways asks it; see
    `budget.ways`.
    """

    after: State  # behind the item, if nobody asks for its value

    def alone(self) -> ItemPosition | None:
        """Return the same place where nothing was written before; None: its value is not known, so it is nobody's
        equal.
        """
        ...

    def frames(self) -> Iterator[State]:
        """Yield the states whose ways out, one after the other, are the rest of an item, whatever its value is."""
        ...

    def used(self) -> frozenset[int]:
        """Return the digests of the values that the item may not have."""
        ...

    def behind(self, value: Any) -> State:
        """Return what follows an item of this value, whose `digest` is none of those."""
        ...


@runtime_checkable
class Language(Protocol):
    """A state of a text language over code points; surrogates never occur.

    What a kernel may also ask, to be faster: `literal_set`, `counted`, `universal_over` (see `regex.Expr`), `goes_on`
    (see number states), `labelled` (see `regex.markers`), `outline` (see `Outline`).
    """

    @property
    def accepts(self) -> bool: ...

    def edges(self) -> Sequence[tuple[int, int, Language]]:
        """Return (low, high, next): inclusive code point ranges, sorted, disjoint, every target non-empty."""
        ...

    def __hash__(self) -> int: ...

    def mask_key(self, horizon: int) -> Hashable:
        """Return a key shared by languages that agree on all continuations of up to `horizon` characters."""
        ...


class Outline(NamedTuple):
    """Edges of a language whose ranges others share: what has thousands of ranges costs no more than its targets.

    `edges()` says the same, range by range.
    """

    ranges: tuple[tuple[int, int, int], ...]  # (low, high, way): sorted, disjoint; one object for all that share them
    targets: tuple[Language | None, ...]  # where each way leads; None: nowhere


class Dispatch:
    """The state after a text whose continuation depends on the text that was read.

    Behind `Text(quoting, LiteralSet)` the kernel calls `after(label)`, the index of the text in the set.  With
    ``records`` set, behind any other language, it calls `after_text(text)` with the decoded text, or with None for
    "some text outside `special`".

    Invariants: for every text t outside `special`, each word of after_text(t) is a word of after_text(None).  Behind a
    key "a" that no schema names, for instance, both read a colon, a value and a further key; after_text("a") refuses a
    second "a", after_text(None) takes it.  So masks ask after_text(None) once, for all such texts.  A token can only
    tell the two apart if it reads `tells_from` bytes behind the text, one of them in `told_by` unless that is empty, or
    the whole of a second such text; then a mask looks at the token by itself.
    `alike` (with ``records``): texts outside `special` matter only in that what follows may refuse the same text again,
    where it reads a text of the same language as here, or of one that has none of its texts.
    `elsewhere` (with ``records``): as `alike`, but what follows may also refuse the text where it reads one of these
    texts; () where they are alike, None: it is not known where.
    `keyed` (with ``records``): the text is a key in quotes, so that a second such text stands behind a colon, a value
    and a comma; a token that holds two texts, but not these, cannot tell.
    `earlier`: how many values besides the `special` texts what follows may have to differ from.
    None as result: the text is refused.
    `compared` (with ``records``): what decides whether a text is one of the `refused` ones; None: only `after_text`
    knows, and with it too `after_text` may refuse more.
    """

    records: bool = False
    refuses: bool = True  # False: every text of the language is taken, or can be continued to one that is
    special: frozenset[str] = frozenset()
    tells_from: int | None = None  # bytes behind the text; None: no number of them tells
    told_by: bytes = b""
    alike: bool = False
    earlier: int = 0
    keyed: bool = False
    compared: Callable[[str], Hashable] | None = None
    refused: frozenset[Hashable] = frozenset()
    wanted: int = 0  # bitmask of the labels of texts that have to be written sooner or later; none has to be named

    @property
    def elsewhere(self) -> tuple[Text, ...] | None:
        return () if self.alike else None

    def after(self, label: int) -> State | None:
        raise AssertionError(f"{type(self).__name__} follows no literal set")

    def after_text(self, text: str | None) -> State | None:
        raise AssertionError(f"{type(self).__name__} does not record")


class _End:
    """The state that accepts and has no edges."""

    __slots__ = ()

    def expand(self) -> Edges:
        return Edges(accepting=True)

    def __repr__(self) -> str:
        return "END"

    def __reduce__(self) -> str:
        return "END"


END = _End()


_LONG = 64  # fixed bytes that are read in halves


class Bytes(NamedTuple):
    """Fixed bytes, then another state."""

    data: bytes  # at least one byte
    then: State

    def expand(self) -> Edges:
        if len(self.data) > _LONG:  # so that all the rests of n bytes are n log n, not their square
            half = len(self.data) // 2
            return Bytes(self.data[:half], Bytes(self.data[half:], self.then)).expand()
        first, rest = self.data[0], self.data[1:]
        return Edges(ranges=((first, first, Bytes(rest, self.then) if rest else self.then),))


class Text(NamedTuple):
    """A text of `language` in a `quoting`, quotes included; accepts at its end.  The kernels expand it
    themselves.
    """

    quoting: Quoting | MarkerSafe
    language: Language

    def expand(self) -> Edges:
        raise AssertionError("kernels expand Text themselves")


class PlainRange:
    """What a `LiteralSet` consists of, as the compiled `TextRange`."""

    __slots__ = ("texts", "excluded", "low", "high", "depth")

    def __init__(
        self, texts: tuple[str, ...], excluded: int = 0, low: int = 0, high: int | None = None, depth: int = 0
    ) -> None:
        self.texts, self.excluded, self.low, self.depth = texts, excluded, low, depth
        self.high = len(texts) if high is None else high

    def _key(self) -> tuple[object, ...]:
        return (self.texts, self.excluded, self.low, self.high, self.depth)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlainRange) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((id(self.texts), self.excluded, self.low, self.high, self.depth))


if TYPE_CHECKING or TextRange is None:  # noqa: SIM108 - mypy reads this
    _Range = PlainRange
else:
    _Range = TextRange


class LiteralSet(_Range):
    """A finite set of texts, read as a trie that nobody builds: a range of a sorted tuple and a depth.

    The texts read so far agree on their first `depth` characters; ``texts[low:high]`` are those that remain.  Texts
    whose bit is set in `excluded` do not belong to the set (properties already written), without a new tuple for every
    subset.

    Invariants: texts is sorted and without duplicates; low < high; some text of the range is not excluded.
    Cost: a step is a binary search; nothing is allocated but the successor.
    """

    __slots__ = ()

    @property
    def label(self) -> int:
        """Index of the text that ends here; only meaningful where `accepts`."""
        return self.low

    @property
    def accepts(self) -> bool:
        return len(self.texts[self.low]) == self.depth and not self.excluded >> self.low & 1

    def _live(self, low: int, high: int) -> bool:
        width = high - low
        return self.excluded >> low & ((1 << width) - 1) != (1 << width) - 1

    def edges(self) -> tuple[tuple[int, int, LiteralSet], ...]:
        out, texts, depth = [], self.texts, self.depth
        at = self.low + (len(texts[self.low]) == depth)
        while at < self.high:
            char = texts[at][depth]
            end = at + 1
            if end < self.high and texts[end][depth] == char:
                end = bisect_right(texts, char, end, self.high, key=lambda text: text[depth])  # now
            if self._live(at, end):
                out.append((ord(char), ord(char), LiteralSet(texts, self.excluded, at, end, depth + 1)))
            at = end
        return tuple(out)

    def members(self) -> list[str]:
        """Return the texts, in order, without what has been read of them."""
        texts = self.texts[self.low : self.high]
        if self.excluded:
            texts = tuple([text for at, text in enumerate(texts, self.low) if not self.excluded >> at & 1])
        return [text[self.depth :] for text in texts] if self.depth else [*texts]

    def mask_key(self, horizon: int) -> Hashable:
        return self


class ObjectTable(NamedTuple):
    """An object as facts: what a kernel may run natively instead of expanding states one by one.

    A state that has it as `object_table` stands behind the opening bracket, with nothing written; its `expand` gives
    the same language.  So does that of a state inside, which has an `ObjectPlace` as `object_place`.
    Invariants: names is sorted; required is within usable, and each choice has usable names; every value and cell
    language is non-empty; a cell's language has, wherever it is alive, more texts than will ever be written, so that
    refusing written ones leads into no dead end.
    """

    names: tuple[str, ...]
    required: int  # bitmask of names that must be written
    usable: int  # bitmask of names that may be
    special: frozenset[str]  # the names, which no cell may spell
    cells: tuple[Language, ...]  # disjoint languages of all other keys
    value: Callable[[int], State]  # what reads the value of names[i], or of cells[i - len(names)]
    # a name for colon and value of each cell, equal only where both machines are; None: no name
    shared: tuple[Hashable, ...]
    least: int  # number of keys
    most: int | None
    quoting: Quoting | MarkerSafe  # of the keys
    comma: State
    colon: State
    gap: State | None  # whitespace, at least one character
    closing: int  # byte
    order: Sequence[int] | None = None  # the names as they have to come, before all other keys; None: in any order
    # bitmasks of names of which one must be written at least; none of them where there is an order, or a `most`
    choices: Sequence[int] = ()


class ObjectPlace(NamedTuple):
    """A position between the brackets of an object that a kernel runs natively from there on.

    Invariant: some continuation closes the object.
    """

    table: ObjectTable
    phase: int  # 0: behind the bracket, 1: behind a value, 2: behind a comma
    padded: bool  # whitespace may come
    written: int  # bitmask of names
    others: frozenset[str]  # written keys without a name
    size: int  # number of written keys, no further than `least`, or `most` where there is one, as both look at it
    rank: int  # in order: of the first name that may still come
