"""Classes of bytes, and which of them lie below each node of a trie: what a walk may skip.

In most text languages most characters change nothing: in `[^.]*[.]md` all but "." and what the spelling forbids lead
back to where they were read.  If only such characters lie below a node, then every token there stays inside the text,
and nobody needs to walk there.  That is one test of two sets, if bytes have few classes: 64 bits a node, 2 MB for
Llama 3.

Source: ours.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

MALFORMED = 63  # the class of a byte that is not well-formed UTF-8 after those before it
INSIDE = 62  # of any other byte inside a character: one that leads back to nowhere in the middle of a character

# the code points of the leading bytes of one class, surrogates left out; "\u2028" and "\u2029" have few companions
LEADS = (
    (0x80, 0x7FF),
    (0x800, 0x1FFF),
    (0x2000, 0x2FFF),
    (0x3000, 0xCFFF),
    (0xD000, 0xD7FF),
    (0xE000, 0xFFFF),
    (0x10000, 0x10FFFF),
)

_ALONE = "\t\n\r !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
_TOGETHER = (
    "01",
    "23456789",
    "abc",
    "def",
    "ghi",
    "jkl",
    "mno",
    "pqr",
    "stu",
    "vwx",
    "yz",
    "ABC",
    "DEF",
    "GHIJ",
    "KLM",
    "NOPQ",
    "RST",
    "UVWXYZ",
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

    PERF: that is the node before, as a rule; the others are searched.
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
