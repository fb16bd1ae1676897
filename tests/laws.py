"""The law of the mask, and others: what must hold of every constraint, checked along random walks; and a vocabulary
made to break them.

Import these from tests; they raise AssertionError with a reproducer.
"""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from typing import Any

import numpy as np

from constrained import Vocabulary

FRAGMENTS = (
    '"',
    "a",
    "b",
    "c",
    "ab",
    "abc",
    "hel",
    "lo wor",
    '": ',
    '":',
    '", "',
    '",',
    '"]',
    "[",
    '{"',
    "\\n",
    "\\u",
    "00",
    "e9",
    "\\u00e9",
    "\\ud83d",
    "\\ude00",
    "é",
    "日本",
    "日",
    "🎉",
    "12",
    "-",
    "0.",
    "}}",
    "},",
    'a": "',
    '"a":',
    'a": 1, "a": ',
    '"ab": 1, "ab',
    '@"abc"',
    '#"',
    '%"x-12"',
    '"""',
    "\\x41",
    "\\101",
    "\\",
    "'",
    "it's",
    "\\'",
    "<",
    "</",
    "<\\/",
)
SEPARATORS = (
    '"',
    '","',
    '":"',
    '":1,"',
    "a",
    "b",
    "ab",
    "aa",
    "1",
    '"a"',
    ',"a"',
    '":"","',
    '"a","b"',
    ",",
    '"]',
    '"}',
    ":",
    '""',
    ',""',
)


def hard_vocabulary(seed: int = 1, pairs: int = 300) -> Vocabulary:
    """Return a vocabulary whose tokens end and begin in the middle of everything: escapes, characters, keys, values."""
    picks = random.Random(seed)
    texts = [bytes([byte]) for byte in range(256)]
    for fragment in (*FRAGMENTS, *("".join(picks.choice(FRAGMENTS) for _ in range(2)) for _ in range(pairs))):
        spelled = fragment.encode()
        texts += [spelled, *([spelled[1:], spelled[:-1]] if len(spelled) > 2 else [])]
    return Vocabulary(texts, special={"<eos>": len(texts)}, stop=[len(texts)], size=len(texts) + 40)


def separating_vocabulary(size: int = 1200) -> Vocabulary:
    """Return a vocabulary whose tokens end one item or key and begin the next: where what was written tells in what may
    come.
    """
    picks = random.Random(1)
    texts = [bytes([byte]) for byte in range(256)]
    texts += ["".join(pieces).encode() for length in (2, 3) for pieces in itertools.product('",:ab]}1', repeat=length)]
    while len(texts) < size:
        texts.append("".join(picks.choices(SEPARATORS, k=picks.randint(2, 4))).encode())
    texts = list(dict.fromkeys(texts))
    return Vocabulary(texts, special={"<eos>": len(texts)}, stop=[len(texts)], size=len(texts) + 40)


def unpacked(mask: Any, size: int) -> Any:
    """Return a packed mask, (words,) 32-bit, as (size,) uint8."""
    return np.unpackbits(np.ascontiguousarray(mask).view(np.uint8), bitorder="little")[:size]


def varied(vocabulary: Vocabulary, allowed: list[int], picks: random.Random) -> int:
    """Choose an allowed token: first a first byte, then a token, so that rare ways are taken as often as common ones.
    """
    groups = defaultdict(list)
    for token in allowed:
        groups[(vocabulary.tokens[token] or b"special")[:1]].append(token)
    return picks.choice(groups[picks.choice(sorted(groups))])


def assert_kernels_agree(vocabulary: Vocabulary, places: list[tuple[Any, int]], steps: int, seed: int) -> bytes:
    """Walk along allowed tokens, each kernel from its start; at every position all must have the same mask, end and
    successor.
    """
    picks, kernels, states, read = (
        random.Random(seed),
        [kernel for kernel, _ in places],
        [start for _, start in places],
        [],
    )
    for _ in range(steps):
        masks = [unpacked(kernel.mask(state), vocabulary.size) for kernel, state in zip(kernels, states)]
        wrong = np.flatnonzero(np.any([masks[0] != mask for mask in masks[1:]], axis=0))
        assert not len(wrong), (
            f"after {vocabulary.decode(read)!r}: tokens {[(int(t), vocabulary.tokens[t]) for t in wrong[:5]]} differ"
        )
        assert len({kernel.is_final(state) for kernel, state in zip(kernels, states)}) == 1
        allowed = [int(token) for token in np.flatnonzero(masks[0]) if token not in vocabulary.stop]
        if not allowed:
            break
        read.append(varied(vocabulary, allowed, picks))
        states = [kernel.step_token(state, read[-1]) for kernel, state in zip(kernels, states)]
        assert all(states), f"{read} was allowed and is refused"
    return vocabulary.decode(read)


def assert_mask_is_accepts(matcher: Any) -> list[int]:
    """At one position: mask bit = accepts(id) for every id, before the mask is known and after.  Returns the allowed
    ids.
    """
    vocabulary = matcher.constraint.vocabulary
    row = np.zeros((1, vocabulary.words), np.int32)
    accepted = np.fromiter((matcher.accepts(token) for token in range(vocabulary.size)), np.uint8, vocabulary.size)
    matcher.fill_mask(row)
    mask = unpacked(row, vocabulary.words * 32)
    assert not mask[vocabulary.size :].any(), "padding bits are set"
    assert [bool(bit) for bit in accepted] == [matcher.accepts(token) for token in range(vocabulary.size)]
    wrong = np.flatnonzero(mask[: vocabulary.size] != accepted)
    assert not len(wrong), f"after {matcher.text()!r}: tokens {[(int(t), vocabulary.tokens[t]) for t in wrong[:5]]}"
    return [int(token) for token in np.flatnonzero(mask)]
