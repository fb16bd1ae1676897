"""The table of nodes: one node per key while it is held, and nothing kept that nobody holds."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from constrained import caches
from constrained.interning import Table
from constrained.regex import parse_python


class Node:
    """What a table may hold: it knows its parts and can be referred to weakly."""

    def __init__(self, *parts: Node) -> None:
        self.parts, self.stripped = parts, False


def strip(node: Node) -> None:
    node.stripped = True


def interned(table: Table[Node], *key: object) -> Node:
    found = table.recent.get(key)
    if found is None:
        found = table.older(key) or Node(*[part for part in key if isinstance(part, Node)])
        found = table.recent.setdefault(key, found)
    return found


def turn(table: Table[Node], strip: Callable[[Node], None] = strip) -> None:
    """Let go of all that nobody asked for since the last turn."""
    table.forget(strip)
    while table.let_go(7):
        pass


@pytest.mark.parametrize("turns", [1, 2, 3, 9])
def test_what_somebody_holds_is_found_however_often_the_table_forgets(turns):
    table = Table[Node]()
    part = interned(table, "part")
    whole = interned(table, part, 1)
    for _ in range(turns):
        turn(table)
    assert interned(table, "part") is part
    assert interned(table, part, 1) is whole


def test_what_is_asked_for_between_two_turns_keeps_what_it_computed():
    table = Table[Node]()
    for _ in range(5):
        assert not interned(table, "asked").stripped
        turn(table)


def test_what_nobody_holds_is_gone_after_two_turns_with_its_parts():
    table = Table[Node]()
    gone = weakref.ref(interned(table, interned(table, interned(table, "part"), 1), 2))
    part = weakref.ref(gone().parts[0].parts[0])
    turn(table)
    assert gone() is not None
    turn(table)
    assert gone() is None
    assert part() is None
    assert not table._held


def test_what_is_kept_for_good_is_never_stripped():
    table = Table[Node]()
    constant = interned(table, "constant")
    table.keep()
    for _ in range(4):
        turn(table)
        assert table.recent == {("constant",): constant}
    assert not constant.stripped


def test_a_turn_that_is_interrupted_loses_nothing():
    table = Table[Node]()
    held = [interned(table, number) for number in range(9)]
    turn(table)

    def interrupt(node: Node) -> None:
        if node is held[4]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        turn(table, interrupt)
    for _ in range(3):
        assert [interned(table, number) for number in range(9)] == held
        turn(table)


def test_a_table_lets_go_a_part_at_a_time():
    """What is asked for meanwhile is found, and has kept what it computed."""
    table = Table[Node]()
    gone = [weakref.ref(interned(table, number)) for number in range(100)]
    table.forget(strip)
    table.forget(strip)
    asked = interned(table, 99)
    left = []
    while table.let_go(30):
        left.append(sum(node() is not None for node in gone))
    assert left[0] == 100 and left == sorted(left, reverse=True) and 1 < left[-1] < 60
    assert [number for number, node in enumerate(gone) if node() is not None] == [99]
    assert interned(table, 99) is asked is gone[99]() and not asked.stripped
    assert not table.let_go(30)


def test_a_turn_ends_the_one_before():
    table = Table[Node]()
    gone = weakref.ref(interned(table, "gone"))
    for _ in range(3):
        table.forget(strip)
    assert gone() is None


def test_threads_that_look_while_others_forget_find_one_node_per_key():
    table, keys = Table[Node](), [(str(number),) for number in range(200)]
    held = {key: interned(table, *key) for key in keys}

    def look(turns: int) -> int:
        return sum(interned(table, *key) is not held[key] for _ in range(turns) for key in keys)

    def forget(turns: int) -> int:
        for _ in range(turns):
            turn(table)
            for number in range(50):
                interned(table, "other", number)
        return 0

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            wrong = [pool.submit(work, 40) for work in (look, forget, look, forget)]
            assert [found.result() for found in wrong] == [0, 0, 0, 0]
    finally:
        sys.setswitchinterval(interval)


def test_expressions_go_when_nobody_holds_them():
    caches.clear()
    gc.collect()
    language = weakref.ref(parse_python("gone[0-9]x*"))
    assert language() is not None
    caches.clear()
    assert language() is None


def test_more_is_kept_for_good_later():
    table = Table[Node]()
    turn(table)
    constant, held = interned(table, "constant"), interned(table, "held")
    table.keep_too({("constant",): constant})
    for _ in range(4):
        turn(table)
        assert table.recent == {("constant",): constant}
    assert held.stripped and not constant.stripped
