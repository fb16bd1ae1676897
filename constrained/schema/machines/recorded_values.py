"""Arrays and objects as values that are compared: read event by event, in any spelling and any order of keys.

    text ── events (a bracket, a text, a word) ──► Built ── the last bracket ──► Whole: the value and its digest

`Built` is a value under construction, and knows its *rivals*: the values written before that agree with it so far.
Most values leave all rivals behind with their first few characters; from there on nothing has to be compared.
Everything here is persistent: the states of a machine share what they have in common.

Two values are equal as JSON Schema says: 1 is 1.0 and 1e0 and not true; the order of keys and the spelling do not
matter.  Equality is that of 128-bit digests, so that a state of 1,000 items is compared in constant time.

SPEC: JSON Schema core 2020-12 §4.2.2 (instance equality).  Tested in tests/test_unique_items.py against jsonschema.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from hashlib import blake2b
from struct import pack
from typing import Any, NamedTuple, TypeAlias

from constrained.errors import LimitExceeded
from constrained.schema.numeric.keys import keys_in, number_key
from constrained.schema.numeric.language import canonical_text
from constrained.schema.strings.absent import lacks
from constrained.work import place, spend

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
        negative, digits, exponent = content
        return _digest(b"-" if negative else b"+", digits.encode(), str(exponent).encode())
    return _digest(b"w", repr(content).encode())


class Whole(NamedTuple):
    """A finished value."""

    node: TypedContent
    digest: int
    size: int  # characters, about
    known: bool = True
    is_used: bool = False  # an earlier value is the same


class Earlier:
    """The composite values written so far, as a linked list; equal if the values are, in whatever order they came."""

    __slots__ = ("before", "count", "digest", "size", "whole")

    def __init__(self, whole: Whole | None = None, before: Earlier | None = None) -> None:
        self.whole, self.before = whole, before
        self.count: int = before.count + 1 if before is not None else 0
        self.digest: int = (before.digest + whole.digest) % _MODULUS if before is not None and whole is not None else 0
        self.size: int = before.size + whole.size if before is not None and whole is not None else 0

    def __iter__(self) -> Iterator[Whole]:
        at: Earlier | None = self
        while at is not None and at.whole is not None:
            yield at.whole
            at = at.before

    def __eq__(self, other: object) -> bool:
        return self is other or isinstance(other, Earlier) and (self.count, self.digest) == (other.count, other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)


NONE = Earlier()


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
        composites = Earlier(whole, self.composites)
        if composites.size > MOST_REMEMBERED:
            raise LimitExceeded(
                "too much to remember for uniqueItems",
                where=place(),
                because=f"the items have more than {MOST_REMEMBERED:,} characters",
                instead='bound the array with "maxItems"',
            )
        return Written(self.scalars, composites)

    def without(self, items: Iterable[Item]) -> list[Item]:
        """Return those of some items that have not been written."""
        digests = {whole.digest for whole in self.composites}
        return [
            item
            for item in items
            if (item not in self.scalars if item[0] in SCALAR_KINDS else whole_of(item).digest not in digests)
        ]


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
        self.parent, self.kind, self.rivals, self.count, self.parts, self.total = (
            parent,
            kind,
            rivals,
            count,
            parts,
            total,
        )
        self.key, self.word, self.known, self.size, self.floor = key, word, known, size, floor
        self.going_on: dict[TypedContent, list[Rival]] | None = None
        self.depth: int = parent.depth + 1 if parent is not None else 1
        self._hash: int | None = None

    def __hash__(self) -> int:
        if self._hash is None:  # PERF: most containers of a search are never compared with others
            nameless, at = [], self.parent
            while at is not None and at._hash is None:
                nameless.append(at)
                at = at.parent
            for outer in reversed(nameless):
                outer._hash = hash((outer.parent, outer._content()))
            self._hash = hash((self.parent, self._content()))
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
        if isinstance(self.rivals, Earlier):
            return [(whole.node, None) for whole in self.rivals if whole.node[0] == self.kind]
        return self.rivals

    def candidates(self) -> frozenset[Any]:
        """Return the keys, or the contents of atoms, with which some rival goes on."""
        if self.expects_key:
            written = self._keys()
            return frozenset(key for (_, content), _ in self.live_rivals() for key in content if key not in written)
        return frozenset(self._going_on())

    def _keys(self) -> set[str]:
        found, at = set(), self.parts
        while at is not None:
            (key, _), at = at
            found.add(key)
        return found

    def _going_on(self) -> dict[TypedContent, list[Rival]]:
        """Return the atoms with which rivals go on, each with these rivals.  PERF: kept, as a search asks for one after
        the other.
        """
        if self.going_on is None:
            found: dict[TypedContent, list[Rival]] = {}
            for rival in self.live_rivals():
                node = self._next(rival)
                if node is not None and node[0] not in ("array", "object"):
                    found.setdefault(node, []).append(rival)
            spend(1 + len(found))
            self.going_on = found
        return self.going_on

    def _next(self, rival: Rival) -> TypedContent | None:
        """Return what a rival has where the next value comes."""
        (_, content), _ = rival
        if self.kind == "object":
            found: TypedContent | None = content.get(self.key)
            return found
        return content[self.count] if self.count < len(content) else None

    # -- what a search may forget --------------------------------------------------------------------------------------

    def forgotten(self) -> Built:
        """Return a container of which nothing is known but what it is, as if nobody's equal had been written."""
        parent = None if self.parent is None else self.parent.forgotten()
        return Built(parent, self.kind, (), key=None if self.key is None else "", word=self.word, known=False)

    def alone(self) -> Built:
        """Return a container with the same entries, as if nothing had been written before."""
        parent = None if self.parent is None else self.parent.alone()
        made = self._but(rivals=(), floor=None)
        made.parent = parent
        return made

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
        made = Built.__new__(Built)  # PERF: every byte of an item makes some
        made.parent, made.kind, made.rivals, made.depth = self.parent, self.kind, self.rivals, self.depth
        made.count, made.parts, made.total, made.key = self.count, self.parts, self.total, self.key
        made.word, made.known, made.size, made.floor = self.word, self.known, self.size, self.floor
        made.going_on = made._hash = None
        for name, value in changes.items():
            setattr(made, name, value)
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
    found = _filled(None, item)
    assert isinstance(found, Whole)
    return found


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
