"""Masks of bare numbers, where tokens hold one digit or three, points and exponents."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest
from laws import unpacked

from constrained import Grammar, Vocabulary, compile

BETWEEN = (".", "e", "E", "e-", ".e", "e+", "-1", "+1", "1}", "12,", ": 12", "..", "e.", "00 ")
BOUNDS = [(0, 65535), (1, None), (None, 99), (-32768, 32767), (0, 2**32 - 1), (1000, 4711), (0.5, 99.25), (None, 1e-3)]
PREFIXES = ("", "-", "0", "6", "65", "655", "6553", "65535", "429", "4294967", "4294967295", "100", "1000", "10.", "10.0")
PREFIXES += ("12.5", "3276", "0.", "0.00", "0.5", "1e", "1e-", "99", "9_9", "471", "47110")


def vocabulary(most: int, *others: str) -> Vocabulary:
    """Return one with all runs of up to `most` digits."""
    digits = ["".join(run) for length in range(2, most + 1) for run in itertools.product("0123456789", repeat=length)]
    texts = [bytes([byte]) for byte in range(256)] + [text.encode() for text in (*digits, *BETWEEN, *others)]
    random.Random(1).shuffle(texts)
    return Vocabulary(texts, special={"<eos>": len(texts)}, stop=[len(texts)])


VOCABULARIES = {
    "three digits": vocabulary(3),
    "one digit": vocabulary(1),
    "points inside": vocabulary(2, ".5", "1.5", "0.25", "12.50", "_1", "1_000"),
    "exponents": vocabulary(2, "e1", "1e5", "e-10", "12e+3", "0e0"),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("integer", [True, False], ids=["integer", "number"])
@pytest.mark.parametrize("surface", ["json", "python"])
@pytest.mark.parametrize("name", VOCABULARIES)
def test_masks_are_those_of_the_plain_kernel(name: str, surface: str, *, integer: bool) -> None:
    words = VOCABULARIES[name]
    for low, high in BOUNDS:
        schema: dict[str, Any] = {"type": "integer" if integer else "number"}
        schema |= {key: bound for key, bound in (("minimum", low), ("exclusiveMaximum", high)) if bound is not None}
        grammar = Grammar.from_json_schema({"type": "array", "items": schema}, surface=surface)
        places = [compile(grammar, words, kernel=kernel).place() for kernel in ("compiled", "plain")]
        for prefix in PREFIXES:
            masks = [_mask(kernel, state, "[" + prefix, words) for kernel, state in places]
            wrong = np.flatnonzero(masks[0] != masks[1])
            assert not len(wrong), (schema, prefix, [words.tokens[token] for token in wrong[:5]])


def _mask(kernel: Any, state: int, prefix: str, words: Vocabulary) -> Any:
    for byte in prefix.encode():
        state = kernel.step_byte(state, byte)
    return unpacked(kernel.mask(state), words.size)
