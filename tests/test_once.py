"""`constrained.once`: computed when it is first asked for, and never again."""

from threading import Barrier, Thread

import pytest

from constrained.once import once


class Asked:
    """Something that counts how often it computes."""

    def __init__(self) -> None:
        self.times = 0

    @once
    def answer(self) -> list[int]:
        """The answer."""
        self.times += 1
        return [self.times]

    @once
    def nothing(self) -> None:
        self.times += 1

    @once
    def broken(self) -> int:
        self.times += 1
        raise ValueError("no")


def test_it_is_computed_once_for_each_object() -> None:
    one, other = Asked(), Asked()
    assert one.answer is one.answer
    assert one.nothing is one.nothing is None
    assert one.times == 2
    assert other.times == 0
    assert other.answer is not one.answer
    assert Asked.answer.__doc__ == "The answer."  # type: ignore[attr-defined]  # of the descriptor


def test_what_raises_is_asked_again() -> None:
    asked = Asked()
    for times in (1, 2):
        with pytest.raises(ValueError, match="no"):
            asked.broken  # noqa: B018 - asked for its error
        assert asked.times == times


def test_threads_agree_on_the_first_result() -> None:
    both = Barrier(2)

    class Slow:
        @once
        def answer(self) -> object:
            both.wait()  # both compute it
            return object()

    slow = Slow()
    found: list[object] = []
    threads = [Thread(target=lambda: found.append(slow.answer)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] is found[1] is slow.answer
