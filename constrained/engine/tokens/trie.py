"""Texts by id → the flat arrays that engines read: their bytes, their trie, their numbers of characters.

    classes of bytes ──► TokenTrie: nodes in preorder, and which classes lie below each ──► Layout: all arrays

Compiled where that is installed (128,000 texts of Llama 3: 19 ms, half of it sorting), else in plain Python.
Tested in tests/test_trie.py and tests/test_saved_vocabulary.py.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from constrained.errors import VocabularyError

# ======================================================================================================================
# Classes of bytes, and which of them lie below each node of a trie: what a walk may skip.
#
# In most text languages most characters change nothing: in `[^.]*[.]md` all but "." and what the spelling forbids lead
# back to where they were read.  If only such characters lie below a node, then every token there stays inside the text,
# and nobody needs to walk there.  That is one test of two sets, if bytes have few classes: 64 bits a node, 2 MB for
# Llama 3.
#
# Source: ours.
# ======================================================================================================================

MALFORMED = 63  # the class of a byte that is not well-formed UTF-8 after those before it
INSIDE = 62  # of any other byte inside a character: one that leads back to nowhere in the middle of a character

# the code points of the leading bytes of one class, surrogates left out; "\u2028" and "\u2029" have few companions
LEADS = (
    (0x80, 0x7FF), (0x800, 0x1FFF), (0x2000, 0x2FFF), (0x3000, 0xCFFF), (0xD000, 0xD7FF), (0xE000, 0xFFFF),
    (0x10000, 0x10FFFF),
)

_ALONE = "\t\n\r !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
_TOGETHER = (
    "01", "23456789", "abc", "def", "ghi", "jkl", "mno", "pqr", "stu", "vwx", "yz", "ABC", "DEF", "GHIJ", "KLM",
    "NOPQ", "RST", "UVWXYZ",
)


def _bits() -> npt.NDArray[np.uint64]:
    groups = [group.encode() for group in (*_ALONE, *_TOGETHER)]
    groups.append(bytes(set(range(0x80)) - set(b"".join(groups))))  # control characters
    groups += [bytes(range(chr(low).encode()[0], chr(high).encode()[0] + 1)) for low, high in LEADS]
    assert len(groups) <= INSIDE
    bits = np.zeros(256, np.uint64)
    for number, group in enumerate(groups):
        bits[list(group)] |= np.uint64(1 << number)
    bits[0x80:0xC0] = np.uint64(1 << INSIDE)
    bits[[0xC0, 0xC1, *range(0xF5, 0x100)]] = np.uint64(1 << MALFORMED)
    return bits


BITS = _bits()  # (256,) uint64, the set of a byte's class; 0xF0, say, and all other bytes of a class have the same
BITS.flags.writeable = False


def classes_below(
    byte: npt.NDArray[np.uint8], end: npt.NDArray[np.int32], depth: npt.NDArray[np.int32]
) -> npt.NDArray[np.uint64]:
    """Return the set of classes of the bytes below each node of a `TokenTrie`, (nodes,) uint64, as bits.

    A node is taken for the end of a character, as if bytes above it that are not well-formed ended one; where a walk
    gets to it in the middle of a character it must not use its set.
    """
    if not len(byte):
        return np.zeros(0, np.uint64)
    own = np.append(BITS[byte], np.uint64(0))
    own[:-1][_malformed(byte, depth)] |= np.uint64(1 << MALFORMED)
    starts = np.arange(1, len(byte) + 1, dtype=np.int64)
    ranges: npt.NDArray[np.int64] = np.stack((starts, end.astype(np.int64)), axis=1).ravel()
    below = np.bitwise_or.reduceat(own, ranges)[::2].copy()
    below[end == starts] = 0  # no node below: reduceat gives the next one
    return below


def _malformed(byte: npt.NDArray[np.uint8], depth: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """Say for each node whether its byte is no UTF-8 behind those above it; behind such a byte a new character
    starts.
    """
    left = np.zeros(len(byte), np.int8)  # bytes that the character at the node still needs
    least, most = np.full(len(byte), 0x80, np.uint8), np.full(len(byte), 0xBF, np.uint8)  # what the next one may be
    needs = np.select([byte < 0xC2, byte < 0xE0, byte < 0xF0, byte < 0xF5], [0, 1, 2, 3], 0).astype(np.int8)
    for lead, low, high in ((0xE0, 0xA0, 0xBF), (0xED, 0x80, 0x9F), (0xF0, 0x90, 0xBF), (0xF4, 0x80, 0x8F)):
        least[byte == lead], most[byte == lead] = low, high
    wrong = np.zeros(len(byte), np.bool_)
    for level, parent in _levels(depth):
        if len(parent):
            open_, fits = left[parent] > 0, (least[parent] <= byte[level]) & (byte[level] <= most[parent])
            wrong[level] = (open_ & ~fits) | (~open_ & (byte[level] >= 0x80) & (byte[level] < 0xC0))
            left[level] = np.where(open_ & fits, left[parent] - 1, needs[level])
        else:
            wrong[level], left[level] = (byte[level] >= 0x80) & (byte[level] < 0xC0), needs[level]
    return wrong


def _levels(depth: npt.NDArray[np.int32]) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Yield, depth by depth, the nodes of a trie in preorder, ascending, and the node above each; none above the first.

    That is the node before, as a rule; the others are searched.
    """
    order = np.argsort(depth, kind="stable")
    upper = np.zeros(0, np.int64)
    for number, level in enumerate(np.split(order, np.cumsum(np.bincount(depth)[1:-1])), 1):
        above = level - 1 if number > 1 else upper
        if number > 1:
            far = np.flatnonzero(depth[above] != number - 1)
            above[far] = upper[np.searchsorted(upper, level[far]) - 1]
        yield level, above
        upper = level


# ======================================================================================================================
# Token byte strings → a trie in flat arrays, walked in one forward pass.
#
# Nodes lie in preorder, so a walk needs no stack of pointers: an allowed byte goes on to the next node, a forbidden one
# jumps to `end`, the node after the subtree.  A trie of linked objects was refused: the 128,000 texts of Llama 3 make
# 274,520 nodes, which take 7 MB here and 100 MB as Python objects.  Two builders give the same arrays: `grown`, a loop
# over bytes that a reader can check, and the compiled `_tokens` (8 ms for Llama 3, a fiftieth of the loop's time).
# Source: skip pointers over a preorder trie are folklore (toktrie of llguidance stores them too).
# ======================================================================================================================

@dataclass(frozen=True, slots=True, eq=False)
class TokenTrie:
    """All texts of a set of tokens, as a trie in preorder; the root is not stored.

    Invariants, for every node i:
      subtree of i        = nodes i ≤ j < end[i];  its children are i + 1, end[i + 1], end[end[i + 1]], … while < end[i]
      tokens that end at i = ids[first[i]:first[i + 1]], ascending; several where texts are equal
      tokens below or at i = ids[first[i]:first[end[i]]]
    Siblings ascend by byte, so `ids` lists the tokens sorted by (bytes, id).
    """

    records: npt.NDArray[np.int32]  # (nodes + 1, 4) end, first, depth, byte: one node, one cache line
    ids: npt.NDArray[np.int32]  # (tokens,) token ids
    roots: npt.NDArray[np.int32]  # (256,) the root's child for each byte, -1: none
    below: npt.NDArray[np.uint64]  # (nodes,) classes of the bytes below each node, see `classes_below`

    @classmethod
    def build(cls, tokens: Sequence[bytes | None]) -> TokenTrie:
        """Return the trie of the texts of tokens, by id; texts may repeat and must not be empty, None stands for none.

        >>> t = TokenTrie.build([b"b", b"ab", b"a", b"b"])
        >>> bytes(t.byte.tolist()), t.end.tolist(), t.depth.tolist(), t.first.tolist(), t.ids.tolist()
        (b'abb', [2, 2, 3], [1, 2, 1], [0, 1, 2, 4], [2, 1, 0, 3])
        """
        texts = [(text, token) for token, text in enumerate(tokens) if text is not None]
        if any(not text for text, _ in texts):
            raise ValueError("an empty text has no node")
        return grown(sorted(texts))

    @property
    def nodes(self) -> int:
        return len(self.records) - 1

    @property
    def end(self) -> npt.NDArray[np.int32]:
        """Exclusive end of each node's subtree, (nodes,)."""
        return self.records[:-1, 0]

    @property
    def first(self) -> npt.NDArray[np.int32]:
        """Where each node's tokens start in ids, (nodes + 1,)."""
        return self.records[:, 1]

    @property
    def depth(self) -> npt.NDArray[np.int32]:
        """Bytes read at each node, from 1, (nodes,)."""
        return self.records[:-1, 2]

    @property
    def byte(self) -> npt.NDArray[np.int32]:
        """The byte that leads to each node, (nodes,)."""
        return self.records[:-1, 3]

    def goes_on(self, text: bytes) -> bool:
        """Say whether some token starts with a text and is longer."""
        at, stop = 0, self.nodes
        for byte in text:
            while at < stop and self.byte[at] != byte:
                at = int(self.end[at])
            if at >= stop:
                return False
            at, stop = at + 1, int(self.end[at])
        return at < stop


def grown(texts: Sequence[tuple[bytes, int]]) -> TokenTrie:
    """Build from texts and their ids, sorted, byte by byte: the readable twin of `_tokens.lay_out`."""
    byte: list[int] = []
    end: list[int] = []
    depth: list[int] = []
    first: list[int] = []
    ids: list[int] = []
    path: list[int] = []  # the nodes of the previous text
    before = b""
    for text, token in texts:
        shared = 0
        while shared < min(len(before), len(text)) and before[shared] == text[shared]:
            shared += 1
        for node in path[shared:]:
            end[node] = len(byte)
        del path[shared:]
        for at in range(shared, len(text)):
            path.append(len(byte))
            byte.append(text[at])
            end.append(0)
            depth.append(at + 1)
            first.append(len(ids))
        ids.append(token)
        before = text
    for node in path:
        end[node] = len(byte)
    first.append(len(ids))
    records = np.zeros((len(byte) + 1, 4), np.int32)
    records[:-1, 0], records[:, 1], records[:-1, 2], records[:-1, 3] = end, first, depth, byte
    children = np.flatnonzero(records[:-1, 2] == 1)
    roots = np.full(256, -1, np.int32)
    roots[records[children, 3]] = children
    below = classes_below(np.array(byte, np.uint8), np.array(end, np.int32), np.array(depth, np.int32))
    return TokenTrie(records, np.array(ids, np.int32), roots, below)


# -- all arrays of a vocabulary ---------------------------------------------------------------------------------------

Ints = npt.NDArray[np.int32]
Octets = npt.NDArray[np.uint8]
MOST_BYTES = (1 << 31) - 2  # of all texts together: places are int32
MOST_LONGEST = 1 << 20  # bytes of one text; tokenizers have some hundreds
COUNTS = ("size", "bytes", "tokens", "nodes", "longest")  # what the shapes of all arrays follow from


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """What engines read of a vocabulary; nobody writes to it.

    Invariants: data[starts[i] : starts[i + 1]] is the text of token i, empty where it has none; all else follows from
    these two.
    """

    starts: Ints  # (size + 1,)
    data: Octets  # (bytes + 1,) all texts by id, one after another, and a 0
    trie: TokenTrie
    characters: Ints  # (tokens,) how many characters begin in the text at the same place of trie.ids
    fewest_first: Ints  # (tokens,) trie.ids, fewest characters first
    with_at_most: Ints  # (longest + 1,) how many tokens have at most 0, 1, … characters

    @classmethod
    def of_tokens(cls, tokens: Sequence[bytes | None]) -> Layout:
        """Return the layout of non-empty texts by id; None stands for none.

        Raises: VocabularyError: 2 GB of texts, or one of a megabyte: its trie takes some 40 bytes for each of them.
        """
        starts = np.zeros(len(tokens) + 1, np.int64)
        texts = [text or b"" for text in tokens]
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        if lengths.max(initial=0) > MOST_LONGEST:
            because = f"it has {int(lengths.max()):,} bytes, the limit is {MOST_LONGEST:,}"
            raise VocabularyError("a text is too long", where=f"token {int(lengths.argmax())}", because=because)
        np.cumsum(lengths, out=starts[1:])
        if starts[-1] > MOST_BYTES:
            raise VocabularyError("the texts are too long", because=f"together they have {int(starts[-1]):,} bytes")
        data = np.frombuffer(b"".join([*texts, b"\0"]), np.uint8)
        return _made(starts.astype(np.int32), data)

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Layout:
        """Return the layout that arrays by name describe, of the shapes of `shapes`, once all of them are checked.

        Raises: ValueError: the arrays are no layout.
        """
        starts, data = arrays["starts"], arrays["data"]
        if starts[0] != 0 or starts[-1] != len(data) - 1 or data[-1] != 0 or (starts[1:] < starts[:-1]).any():
            raise ValueError("its texts do not stand one after another")
        if len(arrays["ids"]) != np.count_nonzero(starts[1:] > starts[:-1]):
            raise ValueError("its trie lacks tokens")
        if not _holds(arrays):
            raise ValueError("its trie is not that of its texts")
        return _put_together(arrays)

    @property
    def longest(self) -> int:
        """The bytes of the longest text."""
        return len(self.with_at_most) - 1

    def arrays(self) -> Iterator[tuple[str, npt.NDArray[Any]]]:
        """Yield each array with its name, the trie's among them."""
        for part in (self, self.trie):
            yield from ((field.name, getattr(part, field.name)) for field in fields(part) if field.name != "trie")

    def fingerprint(self, special: Mapping[str, int], stop: Sequence[int], dummy_prefix: bool) -> str:
        """Return SHA-256 of the texts and what else a vocabulary consists of, in hexadecimal digits; the same in every
        process.
        """
        lengths = np.diff(self.starts)
        lengths[lengths == 0] = -1
        digest = hashlib.sha256(json.dumps([sorted(special.items()), stop, dummy_prefix]).encode())
        digest.update(lengths.astype("<i4").tobytes())
        digest.update(self.data[:-1].tobytes())
        return digest.hexdigest()

    def texts(self) -> tuple[bytes | None, ...]:
        """Return the texts by id, None where there is none."""
        return cut(self.starts, self.data)


def cut(starts: Ints, data: Octets) -> tuple[bytes | None, ...]:
    """Return the texts that stand one after another in `data`, None for those that are empty.

    starts: (texts + 1,) where each begins, and where the last one ends.
    """
    if (compiled := _compiled()) is not None:
        texts: tuple[bytes | None, ...] = compiled.texts(starts, data)
        return texts
    row, ends = data.tobytes(), starts.tolist()
    return tuple([row[start:end] or None for start, end in zip(ends[:-1], ends[1:], strict=True)])


def shapes(counts: Mapping[str, int]) -> dict[str, tuple[type[np.generic], tuple[int, ...]]]:
    """Return the type and shape of each array of a layout, by the numbers of `COUNTS`."""
    size, bytes_, tokens, nodes, longest = (counts[name] for name in COUNTS)
    return {
        "starts": (np.int32, (size + 1,)), "data": (np.uint8, (bytes_ + 1,)), "characters": (np.int32, (tokens,)),
        "fewest_first": (np.int32, (tokens,)), "with_at_most": (np.int32, (longest + 1,)),
        "records": (np.int32, (nodes + 1, 4)), "ids": (np.int32, (tokens,)), "roots": (np.int32, (256,)),
        "below": (np.uint64, (nodes,)),
    }  # fmt: skip


def _made(starts: Ints, data: Octets) -> Layout:
    compiled = _compiled()
    if compiled is None:
        return plain(starts, data)
    ids = compiled.sorted_ids(starts, data)
    shared, nodes, longest = compiled.measured(starts, data, ids)
    counts = (len(starts) - 1, len(data) - 1, len(ids), nodes, longest)
    wanted = shapes(dict(zip(COUNTS, counts, strict=True)))
    arrays: dict[str, npt.NDArray[Any]] = {name: np.empty(shape, kind) for name, (kind, shape) in wanted.items()}
    arrays |= {"starts": starts, "data": data, "ids": ids}
    compiled.lay_out(starts, data, ids, shared, arrays, False)
    return _put_together(arrays)


def _holds(arrays: Mapping[str, npt.NDArray[Any]]) -> bool:
    """Say whether arrays are those of their texts."""
    compiled, (starts, data, ids) = _compiled(), (arrays[name] for name in ("starts", "data", "ids"))
    if compiled is None:
        return all(np.array_equal(array, arrays[name]) for name, array in plain(starts, data).arrays())
    shared, nodes, longest = compiled.measured(starts, data, ids)
    if (nodes, longest) != (len(arrays["below"]), len(arrays["with_at_most"]) - 1):
        return False
    return bool(compiled.lay_out(starts, data, ids, shared, dict(arrays), True))


def _put_together(arrays: Mapping[str, npt.NDArray[Any]]) -> Layout:
    """Return the layout of arrays, which nobody may write to from now on."""
    for array in arrays.values():
        array.flags.writeable = False
    own = {field.name: arrays[field.name] for field in fields(Layout) if field.name != "trie"}
    return Layout(trie=TokenTrie(**{field.name: arrays[field.name] for field in fields(TokenTrie)}), **own)


def plain(starts: Ints, data: Octets) -> Layout:
    """Return a layout made step by step: the readable twin of `_tokens`, ten times slower."""
    whole, ends = data.tobytes(), starts.tolist()
    texts = [(whole[at:end], token) for token, (at, end) in enumerate(zip(ends[:-1], ends[1:], strict=True))]
    trie = grown(sorted(text for text in texts if text[0]))
    begun = np.append(0, np.cumsum((data & 0xC0) != 0x80))  # characters before each byte: what is inside one is none
    characters = (begun[starts[1:]] - begun[starts[:-1]]).astype(np.int32)[trie.ids]
    longest = int(np.diff(starts).max(initial=0))
    counts = np.cumsum(np.bincount(characters, minlength=longest + 1)).astype(np.int32)
    parts = {"starts": starts, "data": data, "characters": characters, "with_at_most": counts,
             "fewest_first": trie.ids[np.argsort(characters, kind="stable")]}  # fmt: skip
    return _put_together(parts | {field.name: getattr(trie, field.name) for field in fields(trie)})


@lru_cache(maxsize=1)
def _compiled() -> Any:
    """Return the compiled builder, None where it does not load; then neither does the kernel, which says why."""
    try:
        import constrained.engine.tokens._tokens as compiled
    except Exception:
        return None
    return compiled
