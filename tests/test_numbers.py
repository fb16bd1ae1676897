"""Number languages against `Fraction`: all short texts, random long ones, and no state without a way to the end.

The oracle never looks at digits: it reads a text with `Fraction` and asks the range's own inequalities.
"""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache

import jsonschema
import pytest

from constrained.machine import Language
from constrained.schema import number_texts
from constrained.schema.normal.normalise import normalise
from constrained.schema.number_sets import decimal_text, normal, whole_number
from constrained.schema.number_texts import (
    CANONICAL_NUMBERS,
    JSON_NUMBERS,
    PYTHON_NUMBERS,
    NumberSpelling,
    canonical_text,
    number_language,
)
from constrained.schema.reading.check import load
from constrained.schema.values import NumberRange

SKELETONS = {
    JSON_NUMBERS: r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?",
    PYTHON_NUMBERS: r"-?((0|[1-9](_?\d)*)(\.(\d(_?\d)*)?)?|\.\d(_?\d)*)([eE][+-]?\d(_?\d)*)?",
}
ALPHABETS = {JSON_NUMBERS: "-015.e+", CANONICAL_NUMBERS: "-015.e+", PYTHON_NUMBERS: "-05._e"}


def holds(numbers: NumberRange, value: Fraction) -> bool:
    """Say whether a value lies in a range: the definition, word by word."""
    if numbers.low is not None and (value < numbers.low or (numbers.low_open and value == numbers.low)):
        return False
    if numbers.high is not None and (value > numbers.high or (numbers.high_open and value == numbers.high)):
        return False
    if numbers.integer is not None and numbers.integer != (value.denominator == 1):
        return False
    return all((value / m).denominator == 1 for m in numbers.multiples) and all(
        (value / m).denominator != 1 for m in numbers.not_multiples)


def test_the_normal_form_of_a_range_has_its_numbers():
    """Bounds, open and not, integers and steps, where they meet and where they do not."""
    bounds = [None, *(Fraction(n, 2) for n in range(-2, 5))]
    probes = [Fraction(n, 4) for n in range(-10, 14)]
    steps = [(), (Fraction(2),), (Fraction(1, 2),), (Fraction(3, 2), Fraction(1))]
    for low, high, low_open, high_open, integer, multiples in itertools.product(
        bounds, bounds, (False, True), (False, True), (None, True, False), steps
    ):
        numbers = NumberRange(integer, low, low_open, high, high_open, multiples)
        found = normal(numbers)
        for value in probes:
            assert holds(numbers, value) == (found is not None and holds(found, value)), (numbers, found, value)


@pytest.mark.parametrize("digits", [1, 3999, 4000, 4001, 4299, 4300, 4301, 8000, 9001])
def test_integers_of_any_length(digits):
    for value in (10 ** (digits - 1), 10**digits - 1):
        assert whole_number(decimal_text(value)) == value
        assert len(decimal_text(value)) == digits


def is_canonical(text: str, *, integer: bool) -> bool:
    """Say whether json.dumps could have written the text, were floats of unbounded precision (and not all large ones
    with exponents).
    """
    if re.fullmatch(r"-?[1-9]\d*|0", text):
        return True
    if integer:
        return False
    if re.fullmatch(r"-?(0|[1-9]\d*)\.(\d*[1-9]|0)", text):
        return True
    return re.fullmatch(r"-?[1-9](\.\d*[1-9])?e(\+(1[6-9]|[2-9]\d|[1-9]\d\d+)|-(0[5-9]|[1-9]\d+))", text) is not None


def fits_canonical(numbers: NumberRange, text: str, value: Fraction) -> bool:
    if numbers.low is not None and numbers.low == numbers.high:
        return text == canonical_text(value)  # a constant is written in one way
    return is_canonical(text, integer=numbers.integer is True)


def run(language: Language, text: str) -> Language | None:
    for char in text:
        found = [target for low, high, target in language.edges() if low <= ord(char) <= high]
        assert len(found) < 2
        if not found:
            return None
        language = found[0]
    return language


def reader(start: Language) -> Callable[[str], Language | None]:
    """Return what runs texts from a state; a beginning that many of them have is run once."""
    known: dict[str, Language | None] = {"": start}

    def read(text: str) -> Language | None:
        if text not in known:
            before = read(text[:-1])
            known[text] = None if before is None else run(before, text[-1])
        return known[text]

    return read


def held(numbers: NumberRange, spelling: NumberSpelling) -> Iterator[tuple[str, Fraction, bool]]:
    """Yield the short texts of a spelling, their values, and whether these lie in a range; asked once of each value."""
    known: dict[int, bool] = {}
    for text, value in texts(spelling, LENGTHS[spelling]):
        if id(value) not in known:  # equal values are one object
            known[id(value)] = holds(numbers, value)
        yield text, value, known[id(value)]


@cache
def texts(spelling: NumberSpelling, length: int) -> list[tuple[str, Fraction]]:
    """Return every number text of the spelling's skeleton up to a length over its small alphabet; equal values are one
    object.
    """
    skeleton = re.compile(SKELETONS.get(spelling, SKELETONS[JSON_NUMBERS]))
    found: list[tuple[str, Fraction]] = []
    values: dict[Fraction, Fraction] = {}
    for size in range(1, length + 1):
        for chars in itertools.product(ALPHABETS[spelling], repeat=size):
            text = "".join(chars)
            if skeleton.fullmatch(text):
                found.append((text, values.setdefault(Fraction(text), Fraction(text))))
    return found


def reached(start: Language, alphabet: str, depth: int, most: int = 20_000) -> list[Language]:
    """Return the states that texts of up to `depth` characters reach, the farthest first: from others one gets there."""
    seen, level = {start: None}, [start]
    for _ in range(depth):
        level = list(
            {
                t: None
                for s in level
                for low, high, t in s.edges()
                if t not in seen and any(low <= ord(c) <= high for c in alphabet)
            }
        )
        seen.update(dict.fromkeys(level))
        if len(seen) > most:
            break
    return list(reversed(seen))


def ends(state: Language, known: set[Language], most: int = 1000) -> bool:
    """Say whether a state reaches acceptance, breadth first; undecided after `most` states counts as yes.

    known: states that do; those on the way found join them.
    """
    before, queue = {state: state}, [state]
    for at in queue:
        if at.accepts or at in known:
            while at is not state:
                known.add(at)
                at = before[at]
            known.add(state)
            return True
        for _, _, target in at.edges():
            if target not in before:
                before[target] = at
                queue.append(target)
        if len(queue) > most:
            return True
    return False


def fraction(text: str | None) -> Fraction | None:
    return None if text is None else Fraction(text)


def some(
    low: str | None = None,
    high: str | None = None,
    *,
    integer: bool | None = None,
    ends: str = "[]",
    multiples: str = "",
    holes: str = "",
) -> NumberRange:
    return NumberRange(
        integer, fraction(low), ends[0] == "(", fraction(high), ends[1] == ")", tuple(map(Fraction, multiples.split())),
        tuple(map(Fraction, holes.split())))


TABLE = [
    some(),
    some(integer=True),
    some(integer=False),
    some("0"),
    some("0", ends="(]"),
    some(None, "0"),
    some("1", integer=True),
    some("0", "0"),
    some("5", "5"),
    some("-0.5", "-0.5"),
    some("0", "100", integer=True),
    some("0", "1"),
    some("0", "1", ends="()"),
    some("-1", "1"),
    some("-1", "1", ends="()"),
    some("1.5", "1.55"),
    some("0.05", "0.051", ends="()"),
    some("99", "101", ends="()"),
    some("1", "15", integer=True),
    some("11", "15", integer=True),
    some("-15", "115", integer=True),
    some("51", None, integer=True),
    some("0.15", "150", multiples="0.05"),
    some(multiples="5"),
    some(multiples="0.5"),
    some(multiples="1.5"),
    some(multiples="7"),
    some(multiples="4", integer=True),
    some(multiples="25"),
    some(multiples="0.25 0.1"),
    some("3", "50", multiples="15"),
    some("1", "1000", multiples="0.01"),
    some(multiples="0.001"),
    some(holes="5"),
    some(holes="5", integer=True),
    some(holes="0.5"),
    some("0", "2", integer=False),
    some("1", "2", integer=False, multiples="0.5"),
    some("10", "60", holes="10", integer=True),
    some("0", "20", multiples="5", holes="10"),
    some("0.001", "0.002"),
    some("1e-7", "1e-5"),
    some("1e15", "1e17"),
    some("1e20", None),
    some("-1e300", "1e300"),
    some("0", "1e18", integer=True),
    some("-9223372036854775808", "9223372036854775807", integer=True),
    some("123456789", "123456799", integer=True),
    some("0.1", "0.3", ends="()", multiples="0.1"),
    some("-5", "-1", ends="()", integer=True),
    some(None, "-0.001"),
    some("50", "51", holes="0.1"),
    some(multiples="2", holes="3 5"),
    some("100000", None, multiples="100000"),
]


def random_range(rng: random.Random) -> NumberRange | None:
    """Return a random satisfiable range with small numbers, so that bounds, divisors and texts meet."""
    def value() -> Fraction:
        return Fraction(rng.choice([0, 1, 5, 10, 11, 15, 50, 51, 55, 100, 101, 105, 115, 150, 500, 555])) * Fraction(
            10
        ) ** rng.randint(-3, 1)

    low, high = (value() * rng.choice((-1, 1)) if rng.random() < 0.6 else None for _ in range(2))
    if low is not None and high is not None and low > high:
        low, high = high, low
    steps = [value() or Fraction(1) for _ in range(rng.choice((0, 0, 0, 1, 1, 2)))]
    holes = [value() or Fraction(2) for _ in range(rng.choice((0, 0, 0, 1, 2)))]
    numbers = NumberRange(
        rng.choice((None, None, True, False)),
        low,
        rng.random() < 0.4,
        high,
        rng.random() < 0.4,
        tuple(steps),
        tuple(holes),
    )
    if low is not None and low == high and not holds(numbers, low):
        return None
    return numbers if number_language((numbers,), JSON_NUMBERS).edges() else None


RANDOM = [n for n in map(random_range, map(random.Random, range(100))) if n is not None]
LENGTHS = {JSON_NUMBERS: 6, CANONICAL_NUMBERS: 6, PYTHON_NUMBERS: 5}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("spelling", LENGTHS, ids=["json", "canonical", "python"])
@pytest.mark.parametrize("group", range(12))
def test_every_short_text(group: int, spelling: NumberSpelling) -> None:
    for numbers in (TABLE + RANDOM)[group::12]:
        read = reader(number_language((numbers,), spelling))
        for text, value, holding in held(numbers, spelling):
            at = read(text)
            expected = holding and (not spelling.canonical or fits_canonical(numbers, text, value))
            assert (at is not None and at.accepts) == expected, (numbers, text)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("spelling", LENGTHS, ids=["json", "canonical", "python"])
@pytest.mark.parametrize("group", range(12))
def test_every_state_is_live(group: int, spelling: NumberSpelling) -> None:
    for numbers in (TABLE + RANDOM)[group::12]:
        known: set[Language] = set()
        for state in reached(number_language((numbers,), spelling), ALPHABETS[spelling] + "3", 5, most=60):
            assert ends(state, known), numbers
            assert state.edges() or not getattr(state, "goes_on", False), numbers


def spelled(value: Fraction, rng: random.Random) -> str:
    """Return a random JSON spelling of a decimal."""
    shift = rng.randint(-6, 6)
    scaled, digits = abs(value) * Fraction(10) ** shift, 0
    while (scaled * 10**digits).denominator != 1:
        digits += 1
    whole = str(int(scaled * 10**digits)).zfill(digits + 1)
    text = whole[: len(whole) - digits] + ("." + whole[len(whole) - digits :] if digits else "")
    if rng.random() < 0.5:
        text += ("" if digits else ".") + "0" * rng.randint(1, 4)
    exponent = (
        f"{rng.choice('eE')}{'-' if shift > 0 else rng.choice(('', '+'))}{'0' * rng.randint(0, 2)}{abs(shift)}"
        if shift
        else ""
    )
    return ("-" if value < 0 else "") + text + exponent


@pytest.mark.parametrize("seed", range(30))
def test_long_spellings(seed: int) -> None:
    """Long texts near the bounds, inside and outside."""
    rng = random.Random(seed)
    numbers = rng.choice(TABLE)
    start = number_language((numbers,), JSON_NUMBERS)
    for _ in range(100):
        near = rng.choice([v for v in (numbers.low, numbers.high, Fraction(0), Fraction(10**18)) if v is not None])
        step = rng.choice((*numbers.multiples, Fraction(1), Fraction(1, 10**9)))
        value = near + step * rng.randint(-30, 30)
        text = spelled(value, rng)
        assert Fraction(text) == value
        at = run(start, text)
        assert (at is not None and at.accepts) == holds(numbers, value), (numbers, text)


@pytest.mark.parametrize("seed", range(20))
def test_canonical_holds_what_json_dumps_writes(seed: int) -> None:
    rng = random.Random(seed)
    start = number_language((some(),), CANONICAL_NUMBERS)
    for _ in range(200):
        value = rng.choice(
            (
                rng.uniform(-2, 2),
                rng.uniform(-2, 2) * 10.0 ** rng.randint(-30, 30),
                float(rng.randint(-99, 99)),
                rng.getrandbits(80),
            )
        )
        at = run(start, json.dumps(value))
        assert at is not None, value
        assert at.accepts, value


def test_a_union_is_read_at_once() -> None:
    start = number_language((some("1", "5", integer=True), some("3", "3.5"), some(multiples="100")), JSON_NUMBERS)
    for text, value in texts(JSON_NUMBERS, 5):
        at = run(start, text)
        expected = (
            1 <= value <= 5
            and value.denominator == 1
            or 3 <= value <= Fraction("3.5")
            or (value / 100).denominator == 1
        )
        assert (at is not None and at.accepts) == expected, text


ENUMS = [
    "0",
    "5",
    "1 10 100",
    "1 -1 0",
    "10 101 11 1011",
    "0.5 5 50 -0.05 51",
    "15 150 0.0015 1.5 1501",
    "1e20 1 100000",
    "0 0.1 0.11 0.101",
]


@pytest.mark.parametrize("spelling", LENGTHS, ids=["json", "canonical", "python"])
@pytest.mark.parametrize("listed", ENUMS)
def test_enumerations(listed: str, spelling: NumberSpelling) -> None:
    values = set(map(Fraction, listed.split()))
    start = number_language(tuple(NumberRange(low=value, high=value) for value in values), spelling)
    read = reader(start)
    for text, value in texts(spelling, LENGTHS[spelling]):
        at = read(text)
        expected = value in values and (not spelling.canonical or text == canonical_text(value))
        assert (at is not None and at.accepts) == expected, text
    known: set[Language] = set()
    assert all(ends(state, known) for state in reached(start, ALPHABETS[spelling], 6, most=300))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("spelling", LENGTHS, ids=["json", "canonical", "python"])
@pytest.mark.parametrize("group", range(9))
def test_numbers_without_some(group: int, spelling: NumberSpelling) -> None:
    """What uniqueItems asks for: the values that are written are cut out."""
    for numbers in (TABLE + RANDOM)[group::9]:
        if numbers.low is not None and numbers.low == numbers.high:
            continue
        gone = frozenset(map(Fraction, ENUMS[group].split()))
        start = number_language((numbers,), spelling, gone)
        read = reader(start)
        for text, value, holding in held(numbers, spelling):
            at = read(text)
            expected = (
                holding
                and value not in gone
                and (not spelling.canonical or fits_canonical(numbers, text, value))
            )
            assert (at is not None and at.accepts) == expected, (numbers, text)
        known: set[Language] = set()
        assert not start.edges() or all(
            ends(state, known) for state in reached(start, ALPHABETS[spelling], 5, most=60)
        ), numbers


def test_far_bounds_cost_few_states() -> None:
    """A three-digit token must not meet a thousand states."""
    for numbers in (
        some(),
        some("0", "1e18", integer=True),
        some("-1e300", "1e300"),
        some("1", None, integer=True),
        some("0", "1"),
    ):
        assert len(reached(number_language((numbers,), JSON_NUMBERS), "0123456789", 3)) < 60
    for spelling in LENGTHS:
        assert len(reached(number_language((some(),), spelling), "-+.e_0123456789", 30)) < 70
    assert len(reached(number_language((some(integer=True),), CANONICAL_NUMBERS), "-0123456789", 30)) < 10
    ten_thousand = tuple(NumberRange(low=Fraction(value), high=Fraction(value)) for value in range(10_000))
    assert len(reached(number_language(ten_thousand, JSON_NUMBERS), "0123456789", 1)) < 20


def test_states_are_forgotten_before_they_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(number_texts, "MOST_STATES", 5)
    ranges = (
        NumberRange(low=Fraction(1), not_multiples=(Fraction(8),)),
        NumberRange(multiples=(Fraction(21),), high=Fraction(2_345_678)),
    )
    number_language.cache_clear()
    language = number_language(ranges, JSON_NUMBERS)
    for text, value in texts(JSON_NUMBERS, 5):
        state = run(language, text)
        assert (state is not None and state.accepts) == any(holds(numbers, value) for numbers in ranges), text
    number_language.cache_clear()


@pytest.mark.parametrize(("schema", "sets"), [
    ({"not": {"anyOf": [{"multipleOf": step} for step in (2, 6.5, 5, 7, 11, 37)]}}, 1),
    ({"oneOf": [{"multipleOf": step} for step in (2, 3, 7.5, 11)]}, 4),
    ({"type": "integer", "not": {"anyOf": [{"multipleOf": step} for step in (2, 6, 6.5, 13)]}}, 1),
])
def test_sets_of_multiples_do_not_multiply(schema, sets):
    numbers = normalise(load({"type": "number", **schema})).numbers
    assert len(numbers) == sets
    allows = jsonschema.Draft202012Validator({"type": "number", **schema}).is_valid
    for value in (*range(-200, 200), 6.5, -19.5, 7.5, 37.5, 0.5):
        assert any(holds(one, Fraction(str(value))) for one in numbers) == allows(value), value
