"""How much memory do a vocabulary, a mask and a constraint take?

    python -m constrained.benchmarks.memory

Arrays are counted by their own size, the tables of Python objects by `sys.getsizeof`, a constraint by what a fresh
kernel reports: the number that its bound (``compile(…, cache_bytes=…)``) is compared with.  At the bound the kernel,
which all constraints share, starts afresh.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import fields

import numpy as np

from constrained import ChatFormat, Constraint, Vocabulary, compile

from . import vocabularies
from .cases import format_cases, text_of


def vocabulary_bytes(vocabulary: Vocabulary) -> tuple[int, int]:
    """Return the bytes of the table of texts, in Python and in flat arrays, and those of the trie."""
    arrays = (*vocabulary.spelled, vocabulary.characters, *vocabulary.by_characters)
    table = sys.getsizeof(vocabulary.tokens) + sum(
        sys.getsizeof(text) for text in vocabulary.tokens if text is not None
    )
    table += sum(array.nbytes for array in arrays)
    trie = sum(getattr(vocabulary.trie, field.name).nbytes for field in fields(vocabulary.trie))
    return table, trie


def growth(vocabulary: Vocabulary) -> Iterator[tuple[str, int, int, int]]:
    """Yield, per format with five tools: its name, masks filled, bytes after compiling, bytes after reading a call."""
    bitmask = np.zeros((1, vocabulary.words), np.int32)
    for case in format_cases():
        if case.format is None or len(case.tools) not in (0, 5):
            continue
        grammar = ChatFormat.load(case.format).grammar(list(case.tools) or None)
        vocabulary.kernels.clear()  # else all formats would share one
        constraint = compile(grammar, vocabulary)
        before, masks = _held(constraint), 0
        matcher = constraint.matcher()
        for token in vocabularies.encode(vocabulary, text_of(case)):
            matcher.fill_mask(bitmask)
            matcher.advance(token)
            masks += 1
        yield case.format, masks, before, _held(constraint)


def _held(constraint: Constraint) -> int:
    return constraint.place()[0].cached_bytes()


def main() -> None:
    """Print the figures for the Llama 3 vocabulary, or for the embedded one."""
    vocabulary = vocabularies.llama3() or vocabularies.embedded()
    table, trie = vocabulary_bytes(vocabulary)
    print(
        f"vocabulary of {vocabulary.size:,} ids: texts {table / 1e6:.1f} MB, trie {trie / 1e6:.1f} MB; a mask is "
        f"{4 * vocabulary.words / 1024:.1f} KiB"
    )
    for format, masks, before, after in growth(vocabulary):
        print(f"{format}: {before / 1024:.0f} KiB when compiled, {after / 1024:.0f} KiB after a call of {masks} tokens")


if __name__ == "__main__":
    main()
