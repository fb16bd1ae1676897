"""The context-independent masks of a vocabulary: what tokens do inside a text, kept by the text's language.

All kernels over a vocabulary look here first.  What has not been asked for longest goes first when the store is full.
A mask that has gone from the store may live on in kernels that use it, so memory is counted where masks are made and
freed, by `counter`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

STORE_BYTES = 1 << 25  # 16 KB a mask for 128,000 tokens: two thousand of them
ENTRY_BYTES = 1_500  # what a key takes, with the expression that is in it; an estimate


class MaskStore:
    """Masks by key, the least recently used first; may be emptied at any time: what is lost is time.

    entries: masks with their sizes by key.  The compiled kernels look there themselves, and what they find is the last
    to go; see `Builder`.

    digits: how many digits of a number tokens read at most, see `Trie.digits` of the compiled kernel; None: unasked.

    Invariant: what `put` was told about the masks that are here adds up to `most_bytes` at most.
    Threads: safe; two that miss the same mask both build it.  Interrupted at any point it has lost an entry at worst.
    """

    def __init__(self, most_bytes: int = STORE_BYTES) -> None:
        self.most_bytes = most_bytes
        # of the compiled kernel: `counter.bytes` is the memory of all masks that are alive, stored or not
        self.counter: Any = None
        self.digits: int | None = None
        self.entries: dict[Hashable, tuple[Any, int]] = {}
        self._room = most_bytes

    def put(self, key: Hashable, mask: Any, size: int) -> None:
        """Keep a mask of `size` bytes; where the store is full a quarter of it goes."""
        self.entries[key] = mask, size + ENTRY_BYTES
        self._room -= size + ENTRY_BYTES
        if self._room < 0:
            self._make_room()

    def clear(self) -> None:
        """Forget all masks."""
        self.entries.clear()
        self._room = self.most_bytes

    def held(self) -> int:
        """Return how many bytes the masks take, with those that only kernels still use; an estimate."""
        alive: int = self.counter.bytes if self.counter is not None else 0
        return alive + ENTRY_BYTES * len(self.entries)

    def _make_room(self) -> None:
        entries = list(self.entries.items())
        left = sum(size for _, (_, size) in entries)
        for key, (_, size) in entries:
            if left <= self.most_bytes - self.most_bytes // 4:
                break
            self.entries.pop(key, None)
            left -= size
        self._room = self.most_bytes - left
