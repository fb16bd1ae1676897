"""Texts by id → the flat arrays that engines read: their bytes, their trie, their numbers of characters.

Compiled where that is installed (128,000 texts of Llama 3: 19 ms, half of it sorting), else by the readable twin.
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

from constrained.engine.tokens.trie import TokenTrie, grown
from constrained.errors import VocabularyError

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
        found: tuple[bytes | None, ...] = compiled.texts(starts, data)
        return found
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
