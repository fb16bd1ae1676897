"""The kernels of a vocabulary: who shares one, and how much memory they may hold together.

Constraints with the same bounds join one young kernel, so that what one grammar has met is known to the next; a kernel
that has grown takes no new ones.  A kernel may grow by a lease at a time.  When all of them together reach the bound,
those that nobody has used for a while let go of what they hold, and whoever comes back to them starts again in another;
where all are in use, the one that asks for more is left for a fresh one, and goes when the last has left it.

Refused: eviction of single states.  States refer to each other by number, and those of one sequence belong together.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

# ======================================================================================================================
# The context-independent masks of a vocabulary: what tokens do inside a text, kept by the text's language.
#
# All kernels over a vocabulary look here first.  What has not been asked for longest goes first when the store is full.
# A mask that has gone from the store may live on in kernels that use it, so memory is counted where masks are made and
# freed, by `counter`.
# ======================================================================================================================

STORE_BYTES = 1 << 25  # 16 KB a mask for 128,000 tokens: two thousand of them
ENTRY_BYTES = 1_500  # what a key takes, with the expression that is in it; an estimate


class MaskStore:
    """Masks by key, the least recently used first; may be emptied at any time: what is lost is time.

    entries: masks with their sizes by key.  The compiled kernels look there themselves, and what they find is the last
    to go; see `Builder`.

    Invariant: what `put` was told about the masks that are here adds up to `most_bytes` at most.
    Threads: safe; two that miss the same mask both build it.  Interrupted at any point it has lost an entry at worst.
    """

    def __init__(self, most_bytes: int = STORE_BYTES) -> None:
        self.most_bytes = most_bytes
        # of the compiled kernel: `counter.bytes` is the memory of all masks that are alive, stored or not
        self.counter: Any = None
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
        entries = list(self.entries.copy().items())  # a list of them takes time, in which other threads keep more
        left = sum(size for _, (_, size) in entries)
        for key, (_, size) in entries:
            if left <= self.most_bytes - self.most_bytes // 4:
                break
            self.entries.pop(key, None)
            left -= size
        self._room = self.most_bytes - left


# -- kernels ----------------------------------------------------------------------------------------------------------

# New constraints join the vocabulary's kernel up to this size, and beyond it where it knows their grammar.
YOUNG_BYTES = 1 << 22
LEASE = 1 << 23  # bytes that a kernel may grow by before all are counted


class Kernels:
    """The kernels of one vocabulary.

    Invariant: after `join` and `may_grow` the kernels hold no more than the bound and a lease for each thread that
    works, estimated.
    """

    def __init__(self) -> None:
        self.masks = MaskStore()  # what the kernels share
        self.completions: Any = None  # see `CompiledGrammar.completions`
        self._joined: dict[Hashable, Any] = {}  # by their bounds
        # of constraints that had to leave the others
        self._own: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()
        self._live: WeakKeyDictionary[Any, None] = WeakKeyDictionary()
        # by kernel: the starts and patterns that were probed in it, and the units of work that were allowed for it
        self.probed: WeakKeyDictionary[Any, dict[Hashable, int]] = WeakKeyDictionary()

    def clear(self) -> None:
        """Let later constraints start afresh; those that are alive keep what they have."""
        self._joined.clear()
        self._own.clear()
        self.completions = None

    def held(self) -> int:
        """Return how many bytes all kernels hold, and the masks that they share; an estimate."""
        kernels: int = sum([kernel.cached_bytes() for kernel in self._alive()])
        return kernels + self.masks.held()

    def _alive(self) -> list[Any]:
        """Return the kernels, while other threads may add some."""
        return [kernel for known in self._live.keyrefs() if (kernel := known()) is not None]

    def join(self, key: Hashable, root: Any, make: Callable[[int], Any], bound: int, *, own: bool) -> Any:
        """Return the kernel with this key if it is young or knows a root, or a fresh one of `make(bytes that it may
        hold)`.
        """
        known: Any = self._own if own else self._joined
        kernel = known.get(key)
        if kernel is None or kernel.is_full() or (kernel.cached_bytes() > YOUNG_BYTES and not kernel.knows(root)):
            if bound > LEASE and self.held() > bound - LEASE:
                self._drop_idle(bound - LEASE, None)
            kernel = known[key] = make(min(LEASE, bound))
            self._live[kernel] = None
        return kernel

    def may_grow(self, kernel: Any, bound: int) -> bool:
        """Say whether a full kernel may go on, after others had to let go of theirs if need be."""
        if kernel.is_gone() or bound <= LEASE:
            return False
        if self.held() > bound - LEASE:
            self._drop_idle(bound - LEASE, kernel)
        if self.held() > bound - LEASE:
            return False
        kernel.allow(kernel.cached_bytes() + LEASE)
        return True

    def _drop_idle(self, most: int, asking: Any) -> None:
        """Forget the shared masks, and empty kernels that nobody has used since the last time, until all hold no more
        than `most` bytes.

        A kernel that is used in between gets another chance; it is the second-chance rule of page replacement.
        """
        self.masks.clear()
        for kernel in sorted(self._alive(), key=_size, reverse=True):
            if kernel is not asking and not kernel.was_used() and self.held() > most:
                kernel.drop_all()


def _size(kernel: Any) -> int:
    return int(kernel.cached_bytes())
