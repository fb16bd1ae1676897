"""Numbers between bounds, which are compiled, next to their plain twins: the same edges for the same units of work."""

from __future__ import annotations

import itertools
import re
from fractions import Fraction
from typing import Any

import pytest

from constrained import caches
from constrained.schema import number_texts
from constrained.schema.number_sets import normal
from constrained.schema.number_texts import (
    CANONICAL_NUMBERS,
    JSON_NUMBERS,
    PYTHON_NUMBERS,
    NumberSpelling,
    number_language,
)
from constrained.schema.values import NumberRange
from constrained.work import Budget, metered

pytest.importorskip("constrained.schema._scan", reason="no compiler")
from constrained.schema._scan import walk_from

MOST_STATES = 600  # of one language that are looked at
ENDS = [
    None, "0", "1", "-1", "5", "12", "-0.5", "255", "0.001", "99.5", "1000", "2147483647", "-32768", "1e20",
    "123456789e300",
]  # fmt: skip
SPELLINGS = {"json": JSON_NUMBERS, "python": PYTHON_NUMBERS, "canonical": CANONICAL_NUMBERS}
EXPONENTS = [None, 0, 1, 7, 10, 16, 99, 105, 1 << 39, 1 << 41, 10**30]


@pytest.fixture(autouse=True)
def afresh() -> Any:
    """Units are those of who comes first."""
    _forget()
    yield
    _forget()


def _forget() -> None:
    number_texts._tables.clear()
    caches.clear(give_back=False)


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
@pytest.mark.parametrize("integer", [None, True, False])
@pytest.mark.parametrize("open_", [False, True])
def test_compiled_numbers_are_what_the_plain_ones_are(
    spelling: NumberSpelling, integer: bool | None, open_: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = list(itertools.product(ENDS, ENDS))[len(SPELLINGS) * open_ + 3 * bool(integer) :: 4]
    sets = [
        numbers
        for low, high in pairs
        if (numbers := normal(_range(low, high, integer, open_=open_))) is not None
    ]
    found = [_walked(numbers, spelling) for numbers in sets]
    _without_compiled(monkeypatch)
    _forget()
    for numbers, compiled in zip(sets, found, strict=True):
        assert _walked(numbers, spelling) == compiled, numbers


def _without_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = (number_texts, "quick_digits"), (number_texts, "quick_start")
    for module, name in ((number_texts, "BoundedStates"), (number_texts, "QuickStates"), *starts):
        monkeypatch.setattr(module, name, None)


def _range(low: str | None, high: str | None, integer: bool | None, *, open_: bool) -> NumberRange:
    least, most = (None if end is None else Fraction(end) for end in (low, high))
    return NumberRange(integer, least, open_ and least is not None, most, open_ and most is not None)


def _walked(numbers: NumberRange, spelling: NumberSpelling, without: frozenset[Fraction] = frozenset()) -> list[Any]:
    """Return what is met from the start on, state by state by its number, and the units that are spent on the way."""
    with metered(Budget()) as budget:
        todo: list[Any] = [number_language((numbers,), spelling, without)]
        known, found = {todo[0]: 0}, list[Any]()
        for state in todo:  # grows meanwhile
            edges = state.edges() if len(found) < MOST_STATES else ()
            for _, _, target in edges:
                if target not in known:
                    known[target] = len(todo)
                    todo.append(target)
            goes_on = bool(getattr(state, "goes_on", False))
            found.append((state.accepts, goes_on, [(low, high, known[to]) for low, high, to in edges], budget.left))
    return found


def test_numbers_that_are_left_out_are_read_with_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = NumberRange(low=Fraction(-3), high=Fraction(250))
    without = frozenset({Fraction(0), Fraction(25), Fraction("0.5")})
    compiled = _walked(numbers, JSON_NUMBERS, without)
    _without_compiled(monkeypatch)
    _forget()
    assert _walked(numbers, JSON_NUMBERS, without) == compiled


@pytest.mark.parametrize("spelling", [JSON_NUMBERS, PYTHON_NUMBERS], ids=["json", "python"])
def test_exponents_of_any_size(spelling: NumberSpelling, monkeypatch: pytest.MonkeyPatch) -> None:
    spans = [(low, high) for low in EXPONENTS[1:] for high in EXPONENTS if high is None or low <= high][::3]

    def outcomes() -> list[Any]:
        return [_texts(number_texts._digits(low, high, spelling)) for low, high in spans]

    compiled = outcomes()
    monkeypatch.setattr(number_texts, "quick_digits", None)
    assert outcomes() == compiled


@pytest.mark.parametrize("spelling", [JSON_NUMBERS, PYTHON_NUMBERS], ids=["json", "python"])
def test_starts_of_exponents_of_any_size(spelling: NumberSpelling, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = [end for size in EXPONENTS[1:] for end in (size, -(size or 0))]
    spans = [(low, high) for low in [None, *ends] for high in [None, *ends] if None in (low, high) or low <= high][::5]

    def outcomes() -> list[Any]:
        return [_texts(number_texts.exponent(span, spelling)) for span in spans]

    compiled = outcomes()
    _without_compiled(monkeypatch)
    _forget()
    assert outcomes() == compiled


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("spelling", [JSON_NUMBERS, PYTHON_NUMBERS], ids=["json", "python"])
@pytest.mark.parametrize("digits", [0, 1, 2, 3])
def test_states_for_few_digits_agree_on_them(
    digits: int, spelling: NumberSpelling, monkeypatch: pytest.MonkeyPatch, *, compiled: bool
) -> None:
    if not compiled:
        _without_compiled(monkeypatch)
    table, ends = number_texts.settled_states(spelling), [None, *range(-digits - 2, digits + 3)]
    todo = [(phase, least, most, whole, zeros, fraction, gap)
            for phase, whole, least, most, gap in itertools.product((1, 2, 3), (False, True), ends, ends, (False, True))
            for zeros in range(digits + 4 if whole else 1)
            for fraction in (range(1, digits + 3) if whole and phase == number_texts.FRACTION else (0,))]  # fmt: skip
    states = [state for key in todo if (state := table.state(*key)) is not None]
    known: dict[Any, Any] = {}
    found = {state.for_digits(digits) for state in states}
    assert len(states) > 10 * len(found)
    for state in states:
        assert _agreeing(state, digits, known) == _agreeing(state.for_digits(digits), digits, known)


def test_bounds_that_few_digits_do_not_tell_apart() -> None:
    """What is still compared with a bound stands for a settled state where the outcome makes no difference."""
    known: dict[Any, Any] = {}
    settled_kind, found = type(number_texts.settled_states(JSON_NUMBERS).state(1, None, None, False, 0, 0, False)), set()
    ends = [None, *(Fraction(end) for end in ("0.5", "1", "12", "99.5", "65535", "2147483647", "1e9"))]
    for least, most, integer, open_, spelling in itertools.product(
        ends, ends, (None, True), (False, True), (JSON_NUMBERS, PYTHON_NUMBERS)
    ):
        numbers = NumberRange(integer, least, open_ and least is not None, most, open_ and most is not None)
        if normal(numbers) is None:
            continue
        for state in [state for state in _reached(number_language((numbers,), spelling)) if _is_number(state)]:
            for digits in range(4):
                near = state.for_digits(digits)
                assert _agreeing(state, digits, known) == _agreeing(near, digits, known), (numbers, digits)
                found.add((type(state) is settled_kind, type(near) is settled_kind, digits))
    assert found == {(*kinds, digits) for kinds in ((True, True), (False, True), (False, False)) for digits in range(4)}


def test_walks_over_digits_say_what_the_states_do() -> None:
    texts = ["".join(text) for length in range(1, 4) for text in itertools.product("0159._eE+-", repeat=length)]
    texts = [text for text in texts if not re.search(r"e.*\d", text.lower())]
    ends, walked = [None, *(Fraction(end) for end in ("0.5", "1", "12", "99.5", "655", "1e9"))], 0
    for least, most, integer, open_, spelling in itertools.product(
        ends, ends, (None, True), (False, True), (JSON_NUMBERS, PYTHON_NUMBERS)
    ):
        numbers = NumberRange(integer, least, open_ and least is not None, most, open_ and most is not None)
        if normal(numbers) is None:
            continue
        reached = _reached(number_language((numbers,), spelling), 20)
        for state in {state.for_digits(3) for state in reached if _is_number(state)}:
            walk = walk_from(state, 3)
            walked += walk is not None
            for text in texts if walk is not None else ():
                assert walk.after(text.encode()) == _outcome(state, text), (numbers, text)
    assert walked > 500


def _outcome(state: Any, text: str) -> int:
    """Return 0 where a text leads nowhere, 2 where it may end, else 1."""
    for char in text:
        state = next((target for low, high, target in state.edges() if low <= ord(char) <= high), None)
        if state is None:
            return 0
    return 1 + state.accepts


def _reached(start: Any, most: int = 60) -> list[Any]:
    """Return the first states of a language that are met."""
    found, todo = {start}, [start]
    for state in itertools.islice(todo, most):  # grows meanwhile
        for _, _, target in state.edges():
            if target not in found:
                found.add(target)
                todo.append(target)
    return todo


def _is_number(state: Any) -> bool:
    """Say whether a state stands before any exponent."""
    return hasattr(state, "for_digits")


def _agreeing(state: Any, digits: int, known: dict[Any, Any]) -> Any:
    """Return a number that stands for what texts of so many digits lead to, none of them behind an "e"."""
    if (state, digits) not in known:
        after = tuple([
            (point, _agreeing(target, digits - (point in range(48, 58)), known))
            for low, high, target in state.edges()
            for point in range(low, high + 1)
            if point not in range(48, 58) or digits and _is_number(target)
        ])
        known[state, digits] = known.setdefault((state.accepts, after), len(known))
    return known[state, digits]


def _texts(state: Any, longest: int = 3) -> list[Any]:
    return [state.accepts] + [
        (low, high, _texts(target, longest - 1)) for low, high, target in state.edges() if longest
    ]
