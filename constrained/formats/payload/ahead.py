"""Readers of values beside the threads of the machine.

The characters of a value mean nothing to the threads that wait for its end, so a reader goes there at once, by its own
fast ways, and the machine asks what becomes of it when the other threads have got there.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...work import spend
from .pieces import Fault, Reader

# What becomes of each reader with a character: whether its value has ended, None: it meets a fault.
Outcomes = tuple[bool | None, ...]


class Ahead:
    """A reader that reads ahead of the threads: to the end of its value, to a fault, or to the end of the text.

    `place`: up to where nothing has become of it; `outcome`: what becomes of it with the character there.
    """

    __slots__ = ("reader", "place", "outcome", "fault")

    def __init__(self, reader: Reader) -> None:
        self.reader, self.place = reader, -1
        self.outcome: bool | None = False
        self.fault: Fault | None = None

    def reach(self, text: str, at: int, end: int, origin: int) -> int:
        """Return up to where in a text nothing becomes of it; it is at `at`, and the text begins at a place."""
        if self.outcome is False and self.place <= origin + at:
            self.reader.base = origin
            try:
                stop = self.reader.feed(text, at, end)
            except Fault as fault:
                self.place, self.outcome, self.fault = max(fault.at, origin + at), None, fault
            else:
                self.place, self.outcome = origin + stop - self.reader.done, self.reader.done
            spend(1 + ((self.place - origin - at) >> 5))
        return min(self.place - origin, end)


def outcomes_at(readers: Iterable[Ahead], place: int) -> Outcomes:
    """Return what becomes of readers with a character that they have reached."""
    return tuple([ahead.outcome if ahead.place == place else False for ahead in readers])
