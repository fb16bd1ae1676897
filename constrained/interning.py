"""A hash-consing table with generational eviction: of one key there is one node as long as somebody holds it.

      node(key) ──▶ recent ──forget──▶ old ──forget──▶ leaving ──┬──▶ nothing, if only the table held it
                      ▲                 │                 │      └──▶ held, weakly, as long as somebody else does
                      └──── asked for ──┴─────────────────┴───────────┘

`recent` and `old` hold nodes, so that what is built again and again is found; what nobody asked for between two calls
of `forget` leaves them, a few nodes at a time.  Every node is in one of the four places at any moment, and whoever
looks for it looks in the order in which nodes move: threads may look while another one forgets, and never make a second
node of a key that has one.

Refused: one weak table, which costs 0.5 µs per node built instead of 0.1, and a `WeakValueDictionary` for what is held,
which takes 0.5 µs to say that it has no such node; forgetting all, by which a node that lives on
as the key of a mask would get a double, and loops of an automaton would not close.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from sys import getrefcount
from threading import Lock
from typing import Any, Generic, TypeVar
from weakref import ref

Interned = TypeVar("Interned")
Key = tuple[Any, ...]


def _references() -> int:
    """Return how many references the interpreter counts of what a table holds alone, looked at as `_let_go` does."""
    leaving = {0: object()}
    node = leaving[0]
    return getrefcount(node)


_ALONE = _references()


class Table(Generic[Interned]):
    """Nodes by key.  `recent` is read by whoever builds nodes; `setdefault` of it is atomic."""

    __slots__ = ("_constant", "_forgetting", "_held", "_leaving", "_old", "_steps", "has_older", "recent")

    def __init__(self) -> None:
        self.recent: dict[Key, Interned] = {}
        self.has_older = False  # whether anything has ever been forgotten; else nobody need call `older`
        self._old: dict[Key, Interned] = {}
        self._leaving: dict[Key, Interned] = {}
        self._held: dict[Key, ref[Interned]] = {}
        self._constant: dict[Key, Interned] = {}
        self._forgetting = Lock()
        self._steps: Iterator[None] = iter(())  # what is left of letting go, a node a step

    def keep(self) -> None:
        """Never forget the nodes that there are now."""
        self._constant = dict(self.recent)

    def keep_too(self, nodes: dict[Key, Interned]) -> None:
        """Never forget some more nodes, by their keys; whoever calls this holds them."""
        self._constant = {**self._constant, **nodes}
        self.recent.update(nodes)

    def older(self, key: Key) -> Interned | None:
        """Return a node that is not among the recent ones; None where there is none.

        A key is hashed each time that it is looked for, so nothing is looked for in a table without nodes.
        """
        holder_of_key = (self._old and self._old.get(key)) or (self._leaving and self._leaving.get(key))
        if holder_of_key:
            return holder_of_key
        holder = self._held.get(key) if self._held else None
        return None if holder is None else holder()

    def _hold(self, key: Key, node: Interned) -> None:
        """Find a node as long as somebody else holds it; a key may have got another node by the time it is lost."""
        held = self._held

        def lost(holder: ref[Interned]) -> None:
            if held.get(key) is holder:
                del held[key]

        held[key] = ref(node, lost)

    def forget(self, strip: Callable[[Interned], None]) -> None:
        """Begin to let go of what nobody asked for since the last time; `strip` frees a node of what can be computed
        again.

        While another thread is at it, nothing is done.
        """
        if self._forgetting.acquire(blocking=False):
            try:
                for _ in self._steps, self._letting_go(strip):  # what is left of a turn, also if that was interrupted
                    deque(_, maxlen=0)
                self.has_older = True  # before anything moves
                self._leaving = self._old
                self._old = self.recent
                self.recent = dict(self._constant)
                self._steps = self._letting_go(strip)
            finally:
                self._forgetting.release()

    def let_go(self, count: int) -> bool:
        """Go on for so many steps of 0.3 µs; say whether something is left.  While another thread is at it, nothing is
        done.
        """
        if not self._forgetting.acquire(blocking=False):
            return True
        try:
            return sum(1 for _ in islice(self._steps, count)) == count
        finally:
            self._forgetting.release()

    def _letting_go(self, strip: Callable[[Interned], None]) -> Iterator[None]:
        """A node that nobody else holds needs no place among those that are still found: half the time.  Parents
        are younger than their parts, so they go first, and their parts are held by nobody then.
        """
        leaving, old = self._leaving, self._old
        keys = []
        for key in list(leaving):
            if key in old or key in self.recent:
                del leaving[key]
            else:
                strip(leaving[key])
                keys.append(key)
            yield
        while keys:
            key = keys.pop()
            node = leaving[key]
            if getrefcount(node) > _ALONE:
                self._hold(key, node)
            del leaving[key], node
            yield
