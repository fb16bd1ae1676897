"""Schemas by content: a request that brings the same tools as the last one gets the same machines.

Schemas are mutable and belong to their callers.  So the key of a schema is its content as bytes, and what is kept is
made from those bytes.  `marshal` (version 2, which has no back references) writes equal bytes exactly for equal values
of equal types in equal order: 1, 1.0 and true differ, which JSON text in Python does not guarantee for keys and
subclasses.  Nobody reads the bytes but this process.

Only values of Python's own types have a name, and not too many of them, as parts that occur in many places are written
out in all of them.
"""

from __future__ import annotations

import marshal
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, Generic, TypeVar
from weakref import WeakSet, ref

from constrained.caches import charge, forgets
from constrained.work import unlocked_at_fork

LARGEST = 100_000  # values in a schema that is looked up
_PER_BYTE = 20  # bytes of what is made of a byte of a name, estimated

Made = TypeVar("Made")


def _no_name(values: Any, most: int) -> Any:
    return None


try:
    from constrained.schema._content import is_within, plain_copy
except ImportError:  # no compiler: nothing is found by content, and schemas are copied as they are read
    is_within = plain_copy = _no_name


def content(*values: Any, most: int | None = None) -> bytes | None:
    """Return a name of some values, None if they are more than `most`, or not plain.  Cost: 0.02 µs per value."""
    try:
        return marshal.dumps(values, 2) if is_within(values, LARGEST if most is None else most) else None
    except ValueError:  # of another type, or nested too deeply
        return None


def content_of(schema: Any, documents: Any, *others: Any) -> tuple[bytes | None, Any]:
    """Return a name of a schema, its documents and other, small values, as `content`, and a copy of the schema, if
    nothing in it is of a kind that JSON lacks, or a number that is not finite; else None.

    The copy is what has the name, also if another thread changes the schema meanwhile.
    """
    copy = plain_copy(schema, LARGEST)
    key = content(schema if copy is None else copy, documents, *others)
    return key, None if key is None else copy


def values_of(key: bytes) -> Any:
    """Return the values that a name was made from, as new objects."""
    return marshal.loads(key)


class Recent(Generic[Made]):
    """What was made of the contents that were asked for last.

    What was asked for once is found as long as somebody else holds it; what is asked for again is held here.  So a
    stream of schemas that never come back costs no memory, and leaves the collector nothing to walk.
    Bounds: `most` entries, and `most_bytes` of names altogether; the entries that have not been asked for longest go.
    A name that would push out a quarter of the others is not kept.
    stays: what is asked for is held from the first time on, and not forgotten with what strangers bring.
    Threads: any; two that make the same thing at once both keep what the first one made.
    """

    def __init__(self, most: int, most_bytes: int, *, stays: bool = False) -> None:
        self._most, self._left, self._longest, self._stays = most, most_bytes, most_bytes >> 2, stays
        self._made: OrderedDict[bytes, ref[Made]] = OrderedDict()
        self._held: dict[bytes, Made] = {}
        self.unlock()
        unlocked_at_fork(self)

    def unlock(self) -> None:
        """Begin with a lock that nobody holds."""
        self._lock = Lock()
        if not self._stays:
            _all.add(self)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._left += sum(map(len, self._made))
            self._made.clear()
            self._held.clear()

    def found(self, key: bytes | None, make: Callable[[], Made]) -> Made:
        """Return what was made for a key, or make it; what has no key is made every time."""
        if key is None:
            return make()
        known = self.get(key)
        if known is not None:
            return known
        return self.put(key, make())

    def get(self, key: bytes) -> Made | None:
        with self._lock:
            known = self._made.get(key)
            made = None if known is None else known()
            if made is not None:
                self._made.move_to_end(key)
        if made is not None and key not in self._held:
            self._hold(key, made)
        return made

    def _hold(self, key: bytes, made: Made) -> None:
        """Keep what is asked for again, until it is not asked for any more."""
        if not self._stays:
            charge(_PER_BYTE * len(key))  # first: this may empty all caches
        with self._lock:
            if key in self._made:
                self._held[key] = made

    def put(self, key: bytes, made: Made) -> Made:
        """Keep what was made; return what is kept."""
        if len(key) > self._longest:
            return made
        with self._lock:
            known = self._made.get(key)
            kept = None if known is None else known()
            if kept is None:
                kept, self._made[key] = made, ref(made)
            if known is None:
                self._left -= len(key)
                while self._left < 0 or len(self._made) > self._most:
                    oldest, _ = self._made.popitem(last=False)
                    self._held.pop(oldest, None)
                    self._left += len(oldest)
            else:  # it was asked for before, and perhaps forgotten
                self._made.move_to_end(key)
        if (known is not None or self._stays) and key not in self._held:
            self._hold(key, kept)
        return kept


_all: WeakSet[Recent[Any]] = WeakSet()


@forgets
def _forget() -> None:
    for recent in list(_all):
        recent.clear()
