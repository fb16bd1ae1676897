"""Budgets of work units."""

from __future__ import annotations

import gc
import random
from types import SimpleNamespace
from typing import Any

import pytest

from constrained import work
from constrained.engine.compiled import CompileOptions
from constrained.errors import LimitExceeded
from constrained.work import CHECK, Budget, FullCollections, PlainBudget, current, metered, spend, working_on


def test_work_outside_of_any_block_is_free():
    assert current() is None
    spend(10**9)


def test_the_innermost_budget_counts_and_comes_back():
    with metered(Budget(10)) as outer:
        spend(4)
        with metered() as same, metered(Budget(3)) as inner:
            assert same is outer
            spend(3)
        assert (outer.left, inner.left, current()) == (6, 0, outer)
    assert current() is None


@pytest.mark.parametrize(
    ("budget", "remedy"),
    [
        (Budget(10), "do it in: with constrained.work.metered(constrained.work.Budget(…)):"),
        (CompileOptions(max_work=10).budget(), "compile(…, max_work=…) with more units"),
    ],
)
def test_a_spent_budget_names_the_place_and_what_allows_more(budget, remedy):
    with (
        metered(budget),
        working_on("#/properties/a"),
        working_on("pattern 'x+'"),
        pytest.raises(LimitExceeded) as caught,
    ):
        spend(11)
    assert caught.value.where == "#/properties/a pattern 'x+'"
    assert caught.value.instead == f"simplify it there, or {remedy}"


def test_refills_stop_at_the_limit():
    budget = Budget(10)
    budget.spend(8)
    budget.refill(3)
    assert budget.left == 5
    budget.refill(100)
    assert budget.left == 10


@pytest.mark.parametrize("limit", [None, 60, 5_000])
@pytest.mark.parametrize("share", [0, 7, 5_000])
def test_a_budget_is_renewed_behind_what_was_done(limit, share):
    renewed, other = Budget(limit, share=share), Budget(limit, share=share)
    for budget in (renewed, other):
        budget.spend(50)
    renewed.renew(12)
    other.renew()
    other.left -= 12
    assert (renewed.left, renewed._next_check) == (other.left, other._next_check)


def test_a_generation_may_take_thirty_milliseconds_a_token_for_ever():
    budget = CompileOptions().budget()
    for _ in range(200):
        budget.renew()
        budget.spend(31_000)
    assert budget.left > 0


@pytest.mark.parametrize(
    ("budget", "what"),
    [(Budget(None, deadline=-1), "out of time"), (Budget(None, cancelled=lambda: True), "cancelled")],
)
def test_deadlines_and_cancelling(budget, what):
    with metered(budget), pytest.raises(LimitExceeded, match=what):
        for _ in range(10_000):
            spend()


def test_full_collections_wait_for_the_end_of_work(monkeypatch):
    held, now, hosts = FullCollections(), 100.0, gc.get_threshold()
    monkeypatch.setattr(work, "full_collections", held)
    monkeypatch.setattr(work, "time", SimpleNamespace(monotonic=lambda: now))

    def put_off(*, collected: int) -> bool:
        """Work, collect young objects, and say whether full collections are still put off."""
        Budget().spend(2 * CHECK)
        held.note("stop", {"generation": collected})
        return gc.get_threshold()[2] == held.NEVER

    try:
        gc.set_threshold(700, 10, 5)
        assert not put_off(collected=1)  # it is for servers to ask for
        held.enabled = True
        assert put_off(collected=1)
        now += held.SHORT + 1  # nobody has worked meanwhile
        held.note("stop", {"generation": 0})
        assert gc.get_threshold() == (700, 10, 5)
        assert put_off(collected=1)
        now += held.LONG + 1  # somebody always has
        assert not put_off(collected=1)
        assert not put_off(collected=0)
        held.note("stop", {"generation": 2})
        assert put_off(collected=0)
    finally:
        gc.callbacks.remove(held.note)
        gc.set_threshold(*hosts)


class Place:
    place = "a place"


@pytest.mark.parametrize("limit", [None, 0, 60, 5_000, 10**6, 10**30])
@pytest.mark.parametrize("more", [{}, {"share": 70}, {"deadline": 1000.0}, {"cancelled": lambda: False}, {"deadline": -1.0}])
def test_compiled_budgets_count_as_the_plain_ones_do(limit: int | None, more: dict[str, Any]) -> None:
    pytest.importorskip("constrained._work", reason="no compiler")
    rng, compiled, plain = random.Random(7), Budget(limit, **more), PlainBudget(limit, **more)
    assert type(compiled) is not PlainBudget
    assert compiled.remedy == plain.remedy
    for _ in range(400):
        units, way = rng.choice([0, 1, 3, 40, 900, 3_000, 10**5, 10**40]), rng.randrange(6)
        outcomes = [_outcome(budget, way, units) for budget in (compiled, plain)]
        assert outcomes[0] == outcomes[1], (way, units)


def _outcome(budget: Any, way: int, units: int) -> Any:
    outer, found = work.thread.budget, None
    try:
        work.thread.budget = budget
        if way == 0:
            budget.spend(units)
        elif way == 1:
            budget.spend_nearby(units)
        elif way == 2:
            (spend if type(budget) is Budget else work.plain_spend)(units, Place())
        elif way == 3:
            (work.spend_nearby if type(budget) is Budget else work.plain_spend_nearby)(units)
        elif way == 4:
            budget.refill(min(units, 10**6))
        else:
            budget.renew(min(units, 10**6) if units < 10**5 else 0)
    except LimitExceeded as error:
        found = str(error), str(budget.placed(error))
    finally:
        work.thread.budget = outer
    return found, min(budget.left, work.NO_LIMIT) if budget.limit is None or budget.limit < 10**20 else None
