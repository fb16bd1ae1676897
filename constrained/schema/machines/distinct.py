"""Arrays whose items must be distinct (uniqueItems): exact, by value.

The scalars written so far are part of the position and are left out of what may come next, so that 1, 1.0 and 10e-1
count as one value, and a string is refused in every spelling.  Arrays and objects as items are told apart where there
are few of them (an enum, say): each value is a machine of its own.  Where there are many, an item is not called, as a
callee of the engine forgets what it read: `OpenItem` holds the state inside the item's machine, the states to return
to, and the value under construction (`Built`); only texts are called, and recorded.

    OpenItem ─ byte ─► OpenItem ─ text ─► Recorded ─► … ─ last byte ─► the position behind, which knows the value

`Built` knows its *rivals*: the values written before that agree with it so far.  Only the last byte of an item can make
it equal to an earlier one; it is refused there, and so is everything before from which nothing else can be reached
(`is_live`).  That is seldom asked: most values leave all rivals behind with their first few characters, and from there
on an item is as free as any other, and the texts inside it have their ordinary masks.  Where rivals are left, their
next texts are the special ones of `Dispatch`, and all others lead to a free item.

Two values are equal as JSON Schema says: 1 is 1.0 and 1e0 and not true; the order of keys and the spelling do not
matter.  Equality is that of 128-bit digests, so that a state of 1,000 items is compared in constant time.  Everything
here is persistent: the states of a machine share what they have in common.

Where some items are counted (``contains``), they are read kind by kind, see `counts.Kinds`.

Left out: "not uniqueItems", and items under further conditions (some negations).  Both raise UnsupportedSchema.
An item costs some 20 µs a byte between texts when it is first read, ten times what an item does that need not be
distinct.
SPEC: JSON Schema core 2020-12 §4.2.2 (instance equality).  Tested in tests/test_unique_items.py against jsonschema.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from fractions import Fraction
from hashlib import blake2b
from operator import itemgetter
from struct import pack
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from constrained.caches import cached
from constrained.errors import LimitExceeded, UnsupportedSchema
from constrained.machine import END, Bytes, Dispatch, Edges, Language, LiteralSet, Quoting, State, Text
from constrained.once import once
from constrained.regex import NEVER, Expr, matches
from constrained.schema.machines.object import Begin, Entry, ObjectPosition
from constrained.schema.machines.text import is_endless, scarce_from, without_dead_ends
from constrained.schema.normal.counts import Kinds, matched, values_below
from constrained.schema.number_sets import (
    MOST_DIGITS,
    NUMBERS,
    are_few,
    constant,
    contains,
    is_within,
    keys_in,
    near,
    number_key,
    number_text,
    number_value,
)
from constrained.schema.number_texts import NumberTexts, canonical_text, number_language
from constrained.schema.reading.document import NOTHING
from constrained.schema.strings.sets import listed
from constrained.schema.values import ArrayShape, Conj
from constrained.work import place as place_at_work
from constrained.work import spend

if TYPE_CHECKING:
    from constrained.schema.machines.array import ArrayPosition
    from constrained.schema.machines.value import Values


# ======================================================================================================================
# Words of bytes, and texts that they do not write, as far as that is plain to see: a way out that does not write a text
# again serves all places where this text may not come again.  A word is looked through as it stands, and nobody reads
# it: what may be written by an escape counts as written.
# ======================================================================================================================

_PLAIN = re.compile(r"[^\x00-/:-@\[-`{-\x7f]+")  # characters that are written as themselves or by their numbers
_BY_NUMBER = re.compile(r"\\[uUxXN0-7]|&#")
# whole texts in quotes without escapes, and whether they are keys; also some of what only looks like one, as a text may
# end with a quote
_QUOTED = re.compile(r"""(?=(?:"([^"\\]*)"|'([^'\\]*)')(\s*:)?)""")


def lacks(word: str, text: str) -> bool:
    """Say that a word of bytes does not write a text, as letters of it are missing; False also where it may not."""
    run = max(_PLAIN.findall(text), key=len, default="")
    spend(1 + (len(run) + len(word)) // 1000)
    return run != "" and _bytes(run) not in word and not _BY_NUMBER.search(word)


def lacks_key(word: str, key: str, *, quoted: bool) -> bool:
    """Say that a word of bytes that begins outside of strings does not write a key; False also where it may not.

    quoted: keys stand in quotes, so that letters inside another text do not count.

    >>> lacks_key('{"kind":"k"}', "k", quoted=True), lacks_key('{"k":"kind"}', "k", quoted=True)
    (True, False)
    """
    return _lacks_quoted(word, key, _quoted(word)[1]) if quoted else lacks(word, key)


def lacks_text(word: str, text: str, *, quoted: bool) -> bool:
    """As `lacks_key`, of a key or string."""
    return _lacks_quoted(word, text, _quoted(word)[0]) if quoted else lacks(word, text)


def _lacks_quoted(word: str, text: str, written: frozenset[str]) -> bool:
    spend(1 + len(text) // 1000)
    escaped = _BY_NUMBER.search(word) if _PLAIN.fullmatch(text) else "\\" in word
    return _bytes(text) not in written and not escaped


def _bytes(text: str) -> str:
    """Return the bytes of a text as a word has them."""
    return text.encode("utf-8", "replace").decode("latin-1")


@cached(64)
def _quoted(word: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the texts in quotes of a word, and which of them are keys."""
    spend(1 + len(word) // 32)
    texts = [(double or single, colon) for double, single, colon in _QUOTED.findall(word)]
    return frozenset([text for text, _ in texts]), frozenset([text for text, colon in texts if colon])


# ======================================================================================================================
# Values, read event by event, in any spelling and any order of keys
# ======================================================================================================================

# of an atom: a str, a bool, None, a number's key; of an array: a tuple of nodes; of an object: a dict of nodes
Content: TypeAlias = Any
TypedContent: TypeAlias = tuple[str, Content]  # (JSON type, content)
Item: TypeAlias = tuple[str, object]  # (JSON type, value), as in `schema.normal.counts`
Rival: TypeAlias = tuple[TypedContent, Any]  # a container of an earlier value, and the rival that it is a part of

WORDS = {"true": ("boolean", True), "false": ("boolean", False), "null": ("null", None),
         "True": ("boolean", True), "False": ("boolean", False), "None": ("null", None)}
_OPENING = {ord("{"): "object", ord("["): "array", ord("("): "array"}
_CLOSING = frozenset(b"}])")
_MODULUS = 1 << 128
SCALAR_KINDS = frozenset({"null", "boolean", "number", "string"})
MOST_REMEMBERED = 1 << 24  # characters of arrays and objects in one array of distinct items


def _digest(*parts: bytes) -> int:
    lengths = pack(f"<{len(parts)}Q", *map(len, parts))
    return int.from_bytes(blake2b(lengths + b"".join(parts), digest_size=16).digest(), "little")


def _digest_of_atom(node: TypedContent) -> int:
    kind, content = node
    if kind == "string":
        return _digest(b"s", content.encode("utf-8", "surrogatepass"))
    if kind == "number":
        return _digest(b"n", number_text(content).encode())
    return _digest(b"w", repr(content).encode())


class Whole(NamedTuple):
    """A finished value; equal if the digests are."""

    node: TypedContent
    digest: int
    size: int  # characters, about
    known: bool = True
    is_used: bool = False  # an earlier value is the same

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Whole) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


Earlier: TypeAlias = frozenset[Whole]  # the composite values written so far
NONE: Earlier = frozenset()


class Written(NamedTuple):
    """The values of the items so far."""

    scalars: frozenset[Item] = frozenset()
    composites: Earlier = NONE

    def plus(self, item: Item) -> Written:
        if item[0] in SCALAR_KINDS:
            return Written(self.scalars | {item}, self.composites)
        return self.plus_whole(whole_of(item))

    def plus_whole(self, whole: Whole) -> Written:
        """Raise LimitExceeded where the values are too long to be remembered."""
        composites = self.composites | {whole}
        if sum([earlier.size for earlier in composites]) > MOST_REMEMBERED:
            raise LimitExceeded(
                "too much to remember for uniqueItems",
                where=place_at_work(),
                because=f"the items have more than {MOST_REMEMBERED:,} characters",
                instead='bound the array with "maxItems"',
            )
        return Written(self.scalars, composites)

    def without(self, items: Iterable[Item]) -> list[Item]:
        """Return those of some items that have not been written."""
        scalars, composites = self.scalars, self.composites
        return [item for item in items if (
            item not in scalars if item[0] in SCALAR_KINDS else whole_of(item) not in composites)]


NOTHING_WRITTEN = Written()


class Built:
    """A container under construction, inside of others; never changed.

    parts: its finished entries, newest first, as linked (entry, before).  key: of the value to come.  word: the letters
    of true, false or null so far.  rivals: containers of earlier values that have the same entries so far, and lie
    where this one lies. known: False once a text was read of which only the machine knows that it was none of the
    special ones; the value is then nobody's equal. floor: in a search, the keys up to this one are behind.
    """

    __slots__ = (
        "_hash", "count", "depth", "floor", "going_on", "key", "kind", "known", "parent", "parts", "rivals", "size",
        "total", "word",
    )  # fmt: skip

    def __init__(
        self,
        parent: Built | None,
        kind: str,
        rivals: tuple[Rival, ...] | Earlier,
        *,
        count: int = 0,
        parts: Any = None,
        total: int = 0,
        key: str | None = None,
        word: str = "",
        known: bool = True,
        size: int = 2,
        floor: str | None = None,
    ) -> None:
        self.parent, self.kind, self.rivals = parent, kind, rivals
        self.count, self.parts, self.total = count, parts, total
        self.key, self.word, self.known, self.size, self.floor = key, word, known, size, floor
        self.going_on: dict[TypedContent, list[Rival]] | None = None
        self.depth: int = parent.depth + 1 if parent is not None else 1
        self._hash = hash((parent, self._content()))

    def __hash__(self) -> int:
        return self._hash

    def _content(self) -> tuple[object, ...]:
        """Return what is known of this container alone."""
        return self.kind, self.total, self.key, self.word, self.known, self.floor

    def __eq__(self, other: object) -> bool:
        one: object = self
        while isinstance(one, Built) and isinstance(other, Built) and one is not other:
            if one.depth != other.depth or hash(one) != hash(other) or one._content() != other._content():
                return False
            one, other = one.parent, other.parent
        return one is other

    @property
    def expects_key(self) -> bool:
        return self.kind == "object" and self.key is None

    def live_rivals(self) -> Iterable[Rival]:
        """Return the rivals; at the start all values written so far that are of the same type."""
        if isinstance(self.rivals, frozenset):
            return [(whole.node, None) for whole in self.rivals if whole.node[0] == self.kind]
        return self.rivals

    def candidates(self) -> frozenset[Any]:
        """Return the keys, or the contents of atoms, with which some rival goes on."""
        if self.expects_key:
            written = self._keys()
            return frozenset(key for (_, content), _ in self.live_rivals() for key in content if key not in written)
        return frozenset(self._going_on())

    def _keys(self) -> set[str]:
        keys, at = set(), self.parts
        while at is not None:
            (key, _), at = at
            keys.add(key)
        return keys

    def _going_on(self) -> dict[TypedContent, list[Rival]]:
        """Return the atoms with which rivals go on, each with these rivals.  Kept, as a search asks for one after
        the other.
        """
        if self.going_on is None:
            by_atom: dict[TypedContent, list[Rival]] = {}
            for rival in self.live_rivals():
                node = self._next(rival)
                if node is not None and node[0] not in ("array", "object"):
                    by_atom.setdefault(node, []).append(rival)
            spend(1 + len(by_atom))
            self.going_on = by_atom
        return self.going_on

    def _next(self, rival: Rival) -> TypedContent | None:
        """Return what a rival has where the next value comes."""
        (_, content), _ = rival
        if self.kind == "object":
            member: TypedContent | None = content.get(self.key)
            return member
        return content[self.count] if self.count < len(content) else None

    # -- what a search may forget --------------------------------------------------------------------------------------

    def forgotten(self) -> Built:
        """Return a container of which nothing is known but what it is, as if nobody's equal had been written."""
        parent = None if self.parent is None else self.parent.forgotten()
        return Built(parent, self.kind, (), key=None if self.key is None else "", word=self.word, known=False)

    def alone(self) -> Built:
        """Return a container with the same entries, as if nothing had been written before."""
        parent = None if self.parent is None else self.parent.alone()
        return self._but(parent=parent, rivals=(), floor=None)

    def may_be_in(self, word: str) -> bool:
        """Say whether a word of bytes may write the entries so far once more; False where one of them is a number or
        a string of letters that the word does not have.
        """
        at: Built | None = self
        while at is not None:
            parts = at.parts
            while parts is not None:
                (_, (kind, content)), parts = parts
                if lacks(word, content) if kind == "string" else kind == "number" and content not in keys_in(word):
                    return False
            at = at.parent
        return True

    # -- events --------------------------------------------------------------------------------------------------------

    def byte(self, byte: int) -> Built | Whole:
        """Read a byte between texts."""
        kind = _OPENING.get(byte)
        if kind is not None:
            rivals = tuple(
                [
                    (node, rival)
                    for rival in self.live_rivals()
                    if (node := self._next(rival)) is not None and node[0] == kind
                ]
            )
            return Built(self, kind, rivals if self.known else (), known=self.known)
        if byte in _CLOSING:
            return self._closed()
        if not 0x41 <= byte <= 0x7A:  # a comma, a colon, whitespace
            return self
        word = self.word + chr(byte)
        if word in WORDS:
            return self._with(WORDS[word], _digest_of_atom(WORDS[word]), len(word))
        return self._but(word=word)

    def text(self, text: str | None, *, number: bool, searching: bool = False) -> Built | None:
        """Read a text: a key, a string or a number; None: one that no rival has.  Return None for a key that a search
        leaves to others.
        """
        if text is None or not self.known:
            return Built(self.parent, self.kind, (), known=False, key="" if self.expects_key else None)
        if not self.expects_key:
            node: TypedContent = ("number", number_key(text)) if number else ("string", text)
            return self._with(node, _digest_of_atom(node), len(text) + 2)
        if searching and self.floor is not None and text <= self.floor:
            return None
        rivals = tuple([rival for rival in self.live_rivals() if text in rival[0][1]])
        return self._but(
            key=text, rivals=rivals, size=self.size + len(text) + 4, floor=text if searching else self.floor
        )

    def _but(self, **changes: Any) -> Built:
        made = Built.__new__(Built)  # every byte of an item makes some
        made.parent, made.kind, made.rivals, made.depth = self.parent, self.kind, self.rivals, self.depth
        made.count, made.parts, made.total, made.key = self.count, self.parts, self.total, self.key
        made.word, made.known, made.size, made.floor = self.word, self.known, self.size, self.floor
        made.going_on = None
        for name, value in changes.items():
            setattr(made, name, value)
        made._hash = hash((made.parent, made._content()))
        return made

    def _with(self, node: TypedContent, digest: int, size: int, survivors: Iterable[Rival] | None = None) -> Built:
        """Return this container with one more entry; survivors: its rivals that have it, where that is known."""
        if not self.known:
            return Built(self.parent, self.kind, (), known=False)
        if survivors is None:
            survivors = self._going_on().get(node, ())
        written = digest.to_bytes(16, "little")
        if self.kind == "object":
            assert self.key is not None
            total = (self.total + _digest(self.key.encode("utf-8", "surrogatepass"), written)) % _MODULUS
        else:
            total = _digest(self.total.to_bytes(16, "little"), written)
        return self._but(
            count=self.count + 1,
            parts=((self.key, node), self.parts),
            total=total,
            key=None,
            word="",
            size=self.size + size + 2,
            rivals=tuple(survivors),
        )

    def _closed(self) -> Built | Whole:
        """Return the container around this one with it as an entry, or the finished value."""
        entries, at = [], self.parts
        while at is not None:
            entry, at = at
            entries.append(entry)
        content: Content = (
            dict(reversed(entries)) if self.kind == "object" else tuple([node for _, node in reversed(entries)])
        )
        node: TypedContent = (self.kind, content)
        digest = _digest(self.kind.encode(), self.total.to_bytes(16, "little"), self.count.to_bytes(8, "little"))
        if self.parent is None:
            return Whole(
                node,
                digest,
                self.size,
                self.known,
                self.known and any(len(theirs) == self.count for (_, theirs), _ in self.live_rivals()),
            )
        survivors = [up for (_, theirs), up in self.live_rivals() if len(theirs) == self.count]
        parent = self.parent
        if not self.known:
            return Built(parent.parent, parent.kind, (), known=False)
        return parent._with(node, digest, self.size, survivors)


def whole_of(item: Any) -> Whole:
    """Return one of the arrays and objects of `counts.values_below`, which nest a few levels deep, as a whole value."""
    whole = _filled(None, item)
    assert isinstance(whole, Whole)
    return whole


def _filled(at: Built | None, item: Any) -> Built | Whole:
    kind, value = item
    spend(10)
    if kind in ("array", "object"):
        inner = Built(at, kind, ())
        for entry in sorted(value, key=repr) if kind == "object" else value:
            if kind == "object":
                inner = inner._but(key=entry[0])
            filled = _filled(inner, entry[1] if kind == "object" else entry)
            assert isinstance(filled, Built)
            inner = filled
        return inner._closed()
    assert at is not None
    node: TypedContent = (kind, number_key(canonical_text(Fraction(value))) if kind == "number" else value)
    return at._with(node, _digest_of_atom(node), len(str(value)))


# ======================================================================================================================
# Texts inside an item
# ======================================================================================================================

CLOSING = b"}])"
_LONGEST_NUMBER = 100  # digits of numbers that are left out of a language; longer ones are asked for


class ItemText:
    """A text that may come at a place inside an item, and where it leads: the same for all items there."""

    __slots__ = ("_home", "_returns", "_targets", "callee", "is_endless", "number", "special", "then")

    def __init__(self, home: Distinct, callee: Text, then: State | Dispatch, returns: Return | None) -> None:
        self._home, self.callee, self.then, self._returns = home, callee, then, returns
        self.number = callee.quoting is Quoting.RAW
        self.is_endless = is_endless(callee.language)
        self._targets: dict[str | None, Place] = {}
        self.special: frozenset[str] = frozenset()
        if isinstance(then, Dispatch):
            self.special = then.special if self.texts is None else frozenset(self.texts)

    @property
    def texts(self) -> tuple[str, ...] | None:
        """All texts that may stand here but for those that are excluded, None where they are not listed."""
        language = self.callee.language
        return language.texts if isinstance(language, LiteralSet) else None

    def narrowed(self, callee: Text) -> ItemText:
        """Return the same place for some of the texts."""
        return ItemText(self._home, callee, self.then, self._returns)

    def target(self, text: str | None) -> Place | None:
        """Return what follows in the machine of the item, None if the text is refused.

        Kept where it is no ordinary text, as every item asks for these again.
        """
        then, key = self.then, text if isinstance(self.then, Dispatch) else None
        place = self._targets.get(key)
        if place is None:
            state: State | None
            if not isinstance(then, Dispatch):
                state = then
            elif self.texts is None or then.records:
                state = then.after_text(text)
            else:
                state = then.after(self.texts.index(text)) if text in self.texts else None
            if state is None:
                return None
            place = self._home.place(state, self._returns)
            if key is None or key in self.special:
                self._targets[key] = place
        return place

    def behind(self) -> Iterator[Place]:
        """Yield what may follow, once for all texts that are ordinary."""
        language, targets = self.callee.language, iter([self.target(None)])
        if isinstance(language, LiteralSet) and isinstance(self.then, Dispatch) and not self.then.records:
            texts, excluded = language.texts, language.excluded
            targets = (self.target(text) for index, text in enumerate(texts) if not excluded >> index & 1)
        return (target for target in targets if target is not None)

    def frames(self) -> Iterator[State]:
        """Yield the states whose ways out are the rest of an item behind the text, but for what one of a few texts
        decides.
        """
        then: State | Dispatch | None = self.then
        if isinstance(then, Dispatch):
            then = then.after_text(None) if then.records else None
        if then is not None:
            yield then
        at = self._returns
        while at is not None:
            yield at.then
            at = at.parent


class Recorded(Dispatch):
    """What follows a text inside an item."""

    records = True

    def __init__(self, item: OpenItem, text: ItemText, rivals: Collection[str] | None = None) -> None:
        self._item, self._text, self._then, self.callee = item, text, text.then, text.callee
        self._number = text.number
        self._rivals = None if rivals is None else frozenset(rivals)
        self.special = text.special | self.rivals()
        then = text.then
        inner, inner_by = (then.tells_from, then.told_by) if isinstance(then, Dispatch) else (None, b"")
        self.told_by = CLOSING if inner is None else CLOSING + inner_by if inner_by else b""
        self.refuses = bool(self._rivals) or isinstance(then, Dispatch) and then.refuses
        self.tells_from = self._tells_from(inner)

    def _tells_from(self, inner: int | None) -> int | None:
        """Return how many bytes behind the text it takes to tell which one it was, see `Dispatch.tells_from`; inner:
        for what the machine of the item asks.

        Whatever an ordinary text is, no earlier item is met any more.  Where there are always others, the item matters
        only to one that would be the same, which writes this text too: one of endlessly many, so that the other item is
        not refused before it does, but perhaps behind a key. Such tokens hold two texts, and are tried anyway.
        """
        item = self._item
        if self._text.is_endless and item.home.never_lacks:
            return inner
        here = item.built.depth + 1  # the closing brackets, and a comma that may be too much
        return here if inner is None else min(inner, here)

    @property
    def alike(self) -> bool:  # type: ignore[override]
        """Whether an ordinary text matters only because another item may have it in the same place, see `Dispatch`."""
        return self._item.home.alike and self._is_any()

    @property
    def earlier(self) -> int:  # type: ignore[override]
        """The earlier items."""
        return len(self._item.earlier)

    def _is_any(self) -> bool:
        """Say whether what comes next only asks which text it was to refuse it again."""
        told = self._then.alike if isinstance(self._then, Dispatch) else True
        return told and not self._number and isinstance(self.callee.language, Expr)

    def frames(self) -> Iterator[State]:
        """As of the text."""
        return self._text.frames()

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

    def target(self, text: str | None) -> Place | None:
        """Return what follows in the machine of the item, None if the text is refused."""
        if text is None and self._number and self._rivals:
            return None  # 1.0 is special where 1 is, and a set of texts cannot say so: every text is asked for
        return self._text.target(text)

    def after_text(self, text: str | None) -> State | None:
        target = self.target(text)
        built = None if target is None else self._item.built.text(text, number=self._number)
        return None if target is None or built is None else self._item.at(target, built)

    def following(self, text: str, *, ascending: bool = True) -> OpenItem | None:
        """Return the item after a text that a search reads; ascending: None also for a key before one that was written,
        where keys have any order.
        """
        target = self.target(text)
        if target is None:
            return None
        ascending = ascending and not self._item.home.ordered
        built = self._item.built.text(text, number=self._number, searching=ascending)
        return None if built is None else self._item.moved(target, built)

    def needed(self) -> str | None:
        """Return a key that has to be written sooner or later and may as well come now."""
        texts = self._text.texts
        if texts is None or not isinstance(self._then, Dispatch) or self._item.home.ordered:
            return None
        language: Any = self.callee.language
        left = self._then.wanted & ~language.excluded
        return texts[(left & -left).bit_length() - 1] if left else None

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
            rest = number_language(language.ranges, language.spelling, short)
            return rest if rest.edges() else None  # the others are refused when they end
        return without_dead_ends(language, dead)

    def offers_more(self, few: frozenset[str]) -> bool:
        """Say whether some text is not among these and is not refused."""
        language: Any = self.callee.language
        if self._text.is_endless:
            return True
        if isinstance(language, LiteralSet):
            return any(
                not language.excluded >> index & 1
                and text not in few
                and not (self._number and _is_among(text, few))
                and self.following(text) is not None
                for index, text in enumerate(language.texts)
            )
        if isinstance(language, NumberTexts):
            beyond = frozenset([near(text, language.ranges) for text in few])
            return bool(number_language(language.ranges, language.spelling, beyond).edges())
        used = few | self._then.special if isinstance(self._then, Dispatch) else few
        spend(1 + len(used) // 4)
        texts = listed(language, len(used))
        return texts is None or not used.issuperset(texts)

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


# ======================================================================================================================
# The machine of one item
# ======================================================================================================================

_UNITS = 20  # of work, to look at one state
_FEW_PLACES = 16  # that are looked at for a text that leads on
_DEEPEST = 3  # searches inside of one another
_NONE: frozenset[str] = frozenset()


class Return:
    """The states to return to, innermost first.  Made by `Distinct.returning`, so that equal ones are one object."""

    __slots__ = ("parent", "then")

    def __init__(self, then: State, parent: Return | None) -> None:
        self.then, self.parent = then, parent


class OpenItem:
    """A position inside an item.  Equal ones read the same.

    earlier: the values that the item may not have, as far as they are arrays and objects.
    """

    __slots__ = ("_hash", "_outer", "after", "built", "earlier", "home", "place")

    def __init__(self, home: Distinct, after: State, place: Place, built: Built, earlier: Earlier = NONE,
                 outer: int | None = None) -> None:
        self.home, self.after, self.place, self.built, self.earlier = home, after, place, built, earlier
        self._hash: int | None = None  # most items of a search are never compared with others
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
            returns = self.home.returning(_without(then, keys), returns)
        return self.moved(self.home.place(_without(self.place.state, keys), returns), self.built.forgotten())

    # -- what is written here and nowhere else, see `budget.ways` ------------------------------------------

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
        spend(1 + len(self.earlier) // 16)
        return frozenset([whole.digest for whole in self.earlier])

    def behind(self, whole: Whole) -> State:
        """Return what follows an item of this value, which no earlier one has."""
        return self.home.behind(cast("ArrayPosition", self.after), whole)

    def _recorded(self, text: ItemText) -> Iterator[tuple[State, Dispatch]]:
        """Yield the calls that read a text, without those texts that lead nowhere.

        Numbers that no earlier value has are read apart from the others, whose spellings no set of texts lists:
        together, what follows is asked for behind each of a thousand tokens of three digits.
        """
        recorded, callee = Recorded(self, text), text.callee
        dead = frozenset([rival for rival in recorded.rivals() if self._is_dead(recorded, rival)])
        numbers = callee.language
        if isinstance(numbers, NumberTexts) and recorded.has_small_rivals() and not isinstance(text.then, Dispatch):
            spend(12 * len(recorded.rivals()))
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

    __slots__ = ("_leads_on", "_ways", "home", "returns", "state")

    def __init__(self, home: Distinct, state: State, returns: Return | None) -> None:
        self.home, self.state, self.returns = home, state, returns
        self.forget()

    def forget(self) -> None:
        """Let go of other places."""
        self._ways: Ways | None = None
        self._leads_on: bool | None = None

    def ways(self) -> Ways:
        """Return what leaves this place."""
        known = self._ways
        if known is None:
            known = self._ways = _inlined(self)
        return known

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
    home, ways = place.home, Ways([], [], [])
    gap = home.gap
    todo = [(place.state, place.returns)]
    seen = set(todo)
    while todo:
        state, returns = todo.pop()
        spend(_UNITS)
        edges = state.expand()
        for low, high, target in edges.ranges:
            behind = home.place(target, returns)
            ways.bytes.extend([(byte, behind) for byte in range(low, high + 1)])
        places = [(returns.then, returns.parent)] if edges.accepting and returns is not None else []
        for callee, after in edges.calls:
            if not isinstance(callee, Text):
                places.append((callee, returns if after is END else home.returning(_state(after), returns)))
            elif callee == gap:
                ways.gaps.append((callee, home.place(_state(after), returns)))
            else:
                ways.texts.append(ItemText(home, callee, after, returns))
        for inner in places:
            if inner not in seen:
                seen.add(inner)
                todo.append(inner)
    return ways


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
    Nearly every place leads to a text of which there are endlessly many, more than were ever written; that is
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


# ======================================================================================================================
# The items of an array
# ======================================================================================================================

Calls: TypeAlias = "list[tuple[State, State | Dispatch]]"

_MOST_LISTED = 65
_FEW = 64  # numbers and texts
_MOST_PLACES = 400  # kinds of places inside an item that are looked at
_MOST_KEPT = 10_000  # places of items, with what is known about them


class AfterText(Dispatch):
    """What follows a string or a number, which must not come again; used ones are refused."""

    records = True

    def __init__(self, after: ArrayPosition, used: frozenset[Item], *, number: bool, tells_from: int | None = None,
                 alike: bool = False, whole: State | None = None) -> None:
        self._after, self.tells_from, self.alike, self._whole = after, tells_from, alike, whole
        self._item = self.compared = _number if number else _string
        self._used = self.refused = used

    @property
    def elsewhere(self) -> tuple[Text, ...] | None:
        """Ways out read all strings, also where this one is among those that are left; see `Distinct.items`."""
        return ((self._whole,) if isinstance(self._whole, Text) else ()) if self.alike else None

    @once
    def refuses(self) -> bool:
        """The language of numbers leaves the used ones out, but for those that are too long to write down."""
        if self._item is _string:
            return True
        return any(kind == "number" and not isinstance(value, Fraction) for kind, value in self._used)

    @once
    def special(self) -> frozenset[str]:
        """The used strings, and the empty one, as one token can hold it twice."""
        return frozenset() if self._item is _number else _texts(self._used) | {""}

    def after_text(self, text: str | None) -> State | None:
        if text is None:
            return self._after
        item = self._item(text)
        return None if item in self._used else self._after._replace(written=self._after.written.plus(item))


def _string(text: str) -> Item:
    return "string", text


@cached(4096)  # what is tried behind each item is the same object, so that sets need not compare fractions
def _number(text: str) -> Item:
    return "number", number_value(text)


def _constant(conj: Conj, item: Item) -> Conj:
    """Return the conjunction of one value."""
    node = next(iter(conj)).node
    return node.document.constant(_plain(item), node.where)


def _plain(item: Any) -> Any:
    """Return the JSON value of an item."""
    kind, value = item
    if kind == "array":
        return [_plain(part) for part in value]
    if kind == "object":
        return {key: _plain(part) for key, part in value}
    return value


class Distinct:
    """The items of one array whose items must be distinct."""

    def __init__(self, values: Values, shape: ArrayShape) -> None:
        if shape.unique is False:
            raise UnsupportedSchema(
                "cannot compile the complement of uniqueItems", because="two equal items can be any two",
                instead='state which items are equal, or set unsupported="widen"')
        if shape.clauses or shape.counts and shape.prefix:
            raise UnsupportedSchema(
                "cannot compile uniqueItems",
                because="it stands beside conditions on single items: a negated schema, or contains beside prefixItems",
                instead='drop one of them, or set unsupported="widen"',
            )
        self._values, self._shape = values, shape
        self._kinds = Kinds(shape, values.never, values.value) if shape.counts else None
        self._places: dict[tuple[State, Return | None], Place] = {}
        self._returns: dict[tuple[State, Return | None], Return] = {}
        self._starts: dict[Conj, list[tuple[bytes, str, State]]] = {}
        # the values of positions with composite values: a few, each with its machine
        self._listed: dict[Conj, dict[Item, State]] = {}
        conjs = [kind.conj for kind in self._kinds.all] if self._kinds is not None else (*shape.prefix, shape.rest)
        for conj in dict.fromkeys(conjs):
            value = values.value(conj)
            if value.arrays or value.objects:
                few: frozenset[Any] | None = _few_composites(conj, values)
                if few is not None:
                    self._listed[conj] = {item: values.state(_constant(conj, item)) for item in sorted(few, key=repr)}

    @once
    def alike(self) -> bool:
        """Whether all items are read in one way: at a place inside of an item stands a text of one language, whichever
        item it is and whatever is written around it.  See `Dispatch.alike`.
        """
        if self._shape.prefix or self._shape.counts:
            return False
        seen, queue = {self._shape.rest}, [self._shape.rest]
        for conj in queue:
            spend(1)
            value = self._values.value(conj)
            if len(value.arrays) > 1 or len(value.objects) > 1 or len(seen) > _MOST_PLACES:
                return False
            parts: list[Conj] = []
            for array in value.arrays:
                if array.clauses or array.counts:
                    return False
                parts += [*array.prefix, array.rest]
            for shape in value.objects:
                if shape.clauses:
                    return False
                parts += [part for _, part in (*shape.named, *shape.cells)]
            fresh = [part for part in dict.fromkeys(parts) if part not in seen and part != NOTHING]
            seen.update(fresh)
            queue += fresh
        return True

    @once
    def never_lacks(self) -> bool:
        """Whether one more item may come whatever was written, so that what was matters to nothing but to an item that
        would be the same; False also where that is not plain to see.
        """
        shape = self._shape
        plain = not (shape.prefix or shape.counts or shape.rest in self._listed) and self.quotes_keys
        return plain and any(self.place(state, None).leads_on() for _, _, state in self._opened(shape.rest))

    @property
    def gap(self) -> State | None:
        return self._values.punctuation.gap

    @property
    def ordered(self) -> bool:
        """Whether keys come in the order of the schema."""
        return self._values.ordered

    @once
    def quotes_keys(self) -> bool:
        """Whether the keys of all objects in items stand in quotes."""
        return self._values.punctuation.keys.quoting != Quoting.RAW

    def forgotten(self, written: Written) -> frozenset[Item]:
        """Return the numbers and strings that were written: of most of them nobody asks again, see `written_again`."""
        kinds = ("number",) if self._kinds is not None else ("number", "string")
        return frozenset([item for item in written.scalars if item[0] in kinds])

    def written_again(self, word: str, items: frozenset[Item]) -> frozenset[Item]:
        """Return those of some numbers and strings that a word of bytes may write: of the strings, of numbers all or
        none.
        """
        strings = self._values.punctuation
        quoted = strings.quote is None and strings.strings != Quoting.RAW
        numbers = any(("number", number_value(text)) in items for text in NUMBERS.findall(word))
        return frozenset([
            item for item in items
            if (numbers if item[0] == "number" else not lacks_text(word, str(item[1]), quoted=quoted))
        ])

    def place(self, state: State, returns: Return | None) -> Place:
        """Return the place behind all that has come to its end there; kept."""
        while state is END and returns is not None:
            state, returns = returns.then, returns.parent
        behind = self._places.get((state, returns))
        if behind is None:
            if len(self._places) >= _MOST_KEPT:
                for place in self._places.values():
                    place.forget()
                self._places.clear()
                self._returns.clear()
            behind = self._places[state, returns] = Place(self, state, returns)
        return behind

    def returning(self, then: State, parent: Return | None) -> Return:
        frame = self._returns.get((then, parent))
        if frame is None:
            frame = self._returns[then, parent] = Return(then, parent)
        return frame

    def behind(self, after: ArrayPosition, whole: Whole) -> State:
        """Return the position behind an array or object that was not written before."""
        return after._replace(written=after.written.plus_whole(whole))

    def items(self, written: Written, index: int, after: ArrayPosition, *, hurried: bool = False) -> Calls:
        """Return the calls that read the next item: a value that has not been written and leaves enough for the items
        to come.

        hurried: numbers and strings that have been written are refused when they are complete, instead of left out of
        the language, which is then the same behind all items; but for a few of them, which may all be written.
        """
        reserved = self._reserved(written, index)
        return self._read(self._shape.at(index), written, reserved, after, index=index, hurried=hurried)

    def counted(
        self, written: Written, counts: tuple[int, ...], length: int
    ) -> Iterator[tuple[Conj, tuple[int, ...]]]:
        """Yield what the next item may be where some are counted, each with how often the counts are met then."""
        assert self._kinds is not None
        many = len(written.scalars) + len(written.composites)
        for kind, met in self._kinds.options(many, lambda items: len(written.without(items)), counts, length):
            yield kind.conj, met

    def of_kind(self, conj: Conj, written: Written, after: ArrayPosition, *, hurried: bool) -> Calls:
        """Return the calls that read an item that `counted` has yielded."""
        return self._read(conj, written, frozenset(), after, index=None, hurried=hurried)

    def _read(
        self, conj: Conj, written: Written, reserved: frozenset[Item], after: ArrayPosition,
        *, index: int | None, hurried: bool,
    ) -> Calls:
        """Return the calls that read an item of a conjunction; index: its place, None: of one kind of several."""
        spend(1 + len(written.scalars) // 8 + (0 if hurried else len(written.composites)))
        if conj in self._listed:
            listed = self._listed[conj]
            return [
                (listed[item], after._replace(written=written.plus(item)))
                for item in written.without(listed)
                if item not in reserved
            ]
        used = written.scalars | reserved
        value, marks = self._values.value(conj), self._values.punctuation
        words: list[tuple[bytes, Item]] = [
            (marks.true if boolean else marks.false, ("boolean", boolean)) for boolean in sorted(value.booleans)]
        words += [(marks.null, ("null", None))] if value.null else []
        calls: Calls = [
            (Bytes(word, END), after._replace(written=written.plus(item))) for word, item in words if item not in used]
        if value.numbers:
            spend(len(value.numbers) // 2)  # they are hashed
            left_out = used if not hurried or are_few(value.numbers, _FEW) else ()
            tells = 1 if index is None else None
            language = number_language(
                value.numbers, marks.numbers, frozenset(item for _, item in left_out if isinstance(item, Fraction))
            )
            if language.edges():
                calls.append((Text(Quoting.RAW, language), AfterText(after, used, number=True, tells_from=tells)))
        strings = None if value.strings is NEVER else value.strings
        if strings is not None and not (hurried and scarce_from(strings, _FEW + 2 * len(used)) != 0):
            strings = without_dead_ends(strings, _texts(used))
        if strings is not None:
            tells_from = 1 if index is None else self._tells_from(written, index + 1)
            alike = index is not None and not self._shape.prefix
            whole = self._values.string(value.strings) if strings is not value.strings else None
            follows = AfterText(after, used, number=False, tells_from=tells_from, alike=alike, whole=whole)
            calls.append((self._values.string(strings), follows))
        return calls + self._composites(conj, written, reserved, after, hurried=hurried)

    def _composites(
        self, conj: Conj, written: Written, reserved: frozenset[Item], after: ArrayPosition, *, hurried: bool
    ) -> list[tuple[State, State | Dispatch]]:
        """Return the calls that read the opening bracket of an array or object, as far as one is left; hurried: which
        is not asked.
        """
        earlier = written.composites.union(whole_of(item) for item in reserved if item[0] not in SCALAR_KINDS)
        items = [
            (opening, OpenItem(self, after, self.place(state, None), Built(None, kind, earlier), earlier))
            for opening, kind, state in self._opened(conj)
        ]
        return [(Bytes(opening, END), item) for opening, item in items if hurried or is_live(item)]

    def _opened(self, conj: Conj) -> list[tuple[bytes, str, State]]:
        """Return the states behind the opening brackets of an item; kept, so that all items share what is known about
        them.
        """
        opened = self._starts.get(conj)
        if opened is None:
            value, marks = self._values.value(conj), self._values.punctuation
            opened = [(brackets.opening, "array", self._values.opened_array(value.arrays, index, conj))
                     for index, brackets in enumerate(marks.arrays if value.arrays else ())]
            if value.objects:
                opened.append((marks.objects.opening, "object", self._values.opened_object(value.objects, marks, conj)))
            self._starts[conj] = opened
        return opened

    def _tells_from(self, written: Written, index: int) -> int | None:
        """Return how many bytes it takes to tell at item `index` that one more string is used; see
        `Dispatch.tells_from`.
        """
        conj = self._shape.at(index)
        if conj in self._listed or self._may_lack:
            return 1  # the comma
        strings = self._values.value(conj).strings
        characters = scarce_from(strings, len(_texts(written.scalars)) + 1) if strings is not NEVER else None
        return None if characters is None else 2 + characters if characters else 1  # behind comma and quote

    def _reserved(self, written: Written, index: int) -> frozenset[Item]:
        """Return the values that a later item cannot do without."""
        domains = [self._few(at) for at in range(index + 1, min(self._shape.min, len(self._shape.prefix) + 1))]
        rest_needs = max(0, self._shape.min - max(index + 1, len(self._shape.prefix)))
        if not any(domains):
            return frozenset()
        if rest_needs and domains[-1] is not None and len(self._shape.prefix) < self._shape.min:
            domains += [domains[-1]] * (rest_needs - 1)
        if len(set(domains)) == 1 and self._few(index) == domains[0]:
            return frozenset()
        # in an order that no hash decides, as work depends on it
        listed = {domain: sorted(domain, key=repr) for domain in dict.fromkeys(domains) if domain is not None}
        left = [written.without(listed[domain]) for domain in domains if domain is not None]
        chosen = matched(left)
        if chosen is None:  # the values of this position are among them
            return frozenset(item for domain in left for item in domain)
        return frozenset(
            item  # type: ignore[misc]
            for item, position in chosen.items()
            if matched(left, _given_up(chosen, item), item) is None
        )

    def _few(self, index: int) -> frozenset[Item] | None:
        """Return the values of a position if they are few enough to run out, None otherwise."""
        if self._shape.min < 2:
            return None
        # items, by its documentation
        return values_below(self._shape.at(index), self._shape.min, self._values.value)  # type: ignore[return-value]

    @once
    def _may_lack(self) -> bool:
        """Whether some position can run out of values while more items are needed."""
        return any(self._few(index) is not None for index in range(len(self._shape.prefix) + 1))

    def continues(self, written: Written, index: int, after: ArrayPosition) -> bool:
        """Say whether some value is left for the next item."""
        conj = self._shape.at(index)
        value = self._values.value(conj)
        if conj not in self._listed and (value.arrays or value.objects):
            if any(self.place(state, None).leads_on() for _, _, state in self._opened(conj)):
                return True
            return bool(self.items(written, index, after))
        few: frozenset[Any] | None = values_below(
            conj, len(written.scalars) + len(written.composites) + 1, self._values.value
        )
        return few is None or bool(written.without(few))


def _few_composites(conj: Conj, values: Values) -> frozenset[Any] | None:
    """Return the values of items that can be arrays or objects, None if they are many or cannot be listed."""
    try:
        return values_below(conj, _MOST_LISTED, values.value)
    except UnsupportedSchema:
        return None


def _texts(items: frozenset[Item]) -> frozenset[str]:
    return frozenset(str(text) for kind, text in items if kind == "string")


def _given_up(chosen: dict[object, int], item: object) -> dict[object, int]:
    left = chosen.copy()  # without hashing the others again
    del left[item]
    return left
