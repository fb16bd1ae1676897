"""What tells the members of a union apart: constants, a required property with a few texts (tagged unions), switches.

Switches: conditionals on the value of one property (``if``/``then`` on a tag, chains of ``else``), read as one.

    {"if": {"properties": {"kind": {"const": "a"}}}, "then": A}  ─┐         kind is "a": A    kind is "b": B
    {"if": {"properties": {"kind": {"const": "b"}}}, "then": B}  ─┴─►       any other kind: -    no kind: A and B

One at a time, n conditionals are conjoined in n² steps on conjunctions of up to n conditions.  Together they are one
alternative for each set of values that no condition tells apart, one for all other values, and one for objects without
the property, under which conditions that do not require it hold.

Tested in tests/test_schema_unions.py: the same verdicts as one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Hashable, Iterator, Sequence
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

from constrained.schema.normal.arrays import ArraySketch
from constrained.schema.normal.objects import ObjectSketch
from constrained.schema.normal.plans import JoinKind, Operation, plan_of
from constrained.schema.normal.scalars import OBJECT
from constrained.schema.number_sets import exact
from constrained.schema.reading.document import NOTHING, both, denials
from constrained.schema.values import ALWAYS, ArrayShape, Conj, ObjectShape
from constrained.work import spend

Tags: TypeAlias = frozenset[Hashable]  # values, equal where JSON Schema says so
TagsOf: TypeAlias = Callable[[Conj], Tags | None]  # of the values that a conjunction allows, if they are a few scalars


def of_conj(conj: Conj) -> tuple[Any] | None:
    """Return the value of a conjunction that says "const" and nothing else."""
    if len(conj) != 1:
        return None
    (signed,) = conj
    schema = signed.node.schema
    if not signed.positive or type(schema) is not dict or len(schema) != 1 or "const" not in schema:
        return None
    return (schema["const"],)


def of_object(part: ObjectSketch | ObjectShape) -> dict[str, Any] | None:
    """Return the only object of a shape or sketch whose keys are all required and constants."""
    if isinstance(part, ObjectShape):
        closed, named = not part.cells, dict(part.named)
    else:
        closed, named = is_closed(part), part.named
    if not closed or part.clauses or len(part.required) != len(named):
        return None
    constant = {}
    for key, conj in named.items():
        value = of_conj(conj)
        if value is None:
            return None
        constant[key] = value[0]
    return constant


def of_array(part: ArraySketch | ArrayShape) -> list[Any] | None:
    """Return the only array of a shape or sketch of one length whose items are constants."""
    if part.clauses or part.counts or part.unique is False or not part.min == part.max == len(part.prefix):
        return None
    constant = []
    for conj in part.prefix:
        value = of_conj(conj)
        if value is None:
            return None
        constant.append(value[0])
    return constant


_WORTH_IT = 4  # members from which on an index beats looking at all pairs


def rivals(
    members: Sequence[Sequence[Any]], parts: Callable[[Any], Collection[Any]],
    part: Callable[[Any, Any], Conj], tags: TagsOf, constant: Callable[[Any], Any],
) -> list[list[int]]:
    """Return, for each member of a union, the other members that may share a value with it.

    parts: the keys (or places) that all objects (or arrays) of a sketch have; part: what stands there; constant: the
    only value of a sketch, None if it is not plain that there is one.
    Cost: linear in the members where they are tagged; the answer is "all others" where they are not.
    """
    sketches = [sketch for member in members for sketch in member]
    if len(members) < _WORTH_IT or not sketches:
        return all_others(members)
    if None not in map(constant, sketches):
        spend(8 * len(sketches))
        return _sharing([frozenset([_resembling(constant(sketch)) for sketch in member]) for member in members])
    best: list[list[int]] | None = None
    for place in parts(sketches[0]):
        spend(1 + len(sketches) // 4)
        if not all(place in parts(sketch) for sketch in sketches):
            continue
        constants = [[tags(part(sketch, place)) for sketch in member] for member in members]
        if any(one is None for member in constants for one in member):
            continue
        sharing = _sharing([Tags().union(*(one or () for one in member)) for member in constants])
        if best is None or sum(map(len, sharing)) < sum(map(len, best)):
            best = sharing
        if not any(best):
            break
    return _by_keys(members) if best is None else best


_DEEPEST = 8  # levels of values that are told apart


def _resembling(value: Any, depth: int = 0) -> Hashable:
    """Return what is the same for all values that are equal to one, and for few others."""
    spend(1)
    if isinstance(value, (list, dict)) and depth > _DEEPEST:
        return None
    if isinstance(value, list):
        return tuple([_resembling(one, depth + 1) for one in value])
    if isinstance(value, dict):
        return frozenset([(key, _resembling(one, depth + 1)) for key, one in value.items()])
    return exact(value) if isinstance(value, (float, Decimal)) else value


def _by_keys(members: Sequence[Sequence[Any]]) -> list[list[int]]:
    """Return the others that allow all keys that a member requires, where every member is one sketch of objects that
    allows the keys it names only.
    """
    if not all(
        len(member) == 1 and isinstance(member[0], ObjectSketch) and member[0].required and is_closed(member[0])
        for member in members
    ):
        return all_others(members)
    homes: dict[str, list[int]] = {}
    for index, (sketch,) in enumerate(members):
        spend(len(sketch.named) // 4)
        for key in sketch.named:
            homes.setdefault(key, []).append(index)
    others = []
    for index, (sketch,) in enumerate(members):
        rarest = min((homes.get(key, []) for key in sketch.required), key=len)
        spend(1 + len(rarest))
        others.append(
            [other for other in rarest if other != index and members[other][0].named.keys() >= sketch.required.keys()]
        )
    return others


def is_closed(sketch: ObjectSketch) -> bool:
    """Return True if a sketch allows no key that it does not name."""
    return any(
        conj == NOTHING and keys.outside and not keys.languages and keys.names <= sketch.named.keys()
        for keys, conj in sketch.regions
    )


def all_others(members: Sequence[Sequence[object]]) -> list[list[int]]:
    """Return for each member of a union the indices of all others; a member without sketches has and is no rival."""
    some = [index for index, member in enumerate(members) if member]
    spend(len(some) ** 2 // 32)
    return [[other for other in some if other != index] if member else [] for index, member in enumerate(members)]


def _sharing(tags: list[Tags]) -> list[list[int]]:
    homes: dict[Hashable, list[int]] = {}
    for index, texts in enumerate(tags):
        for text in texts:
            homes.setdefault(text, []).append(index)
    return [sorted({other for text in texts for other in homes[text]} - {index}) for index, texts in enumerate(tags)]


MANY = 8  # conditionals on one key; from so many on they are read together
Sketches: TypeAlias = tuple[Any, ...]  # of objects or arrays
Asking: TypeAlias = Generator[Any, Any, Any]

Ask: TypeAlias = Callable[[Conj], Asking]


class Case(NamedTuple):
    """A condition on the key's value, and what follows from it."""

    condition: Conj
    value: Conj  # what the condition asks of the key; one signed node
    tags: Tags  # the same as values
    optional: bool  # an object without the key satisfies the condition
    then: Conj


class Switch(NamedTuple):
    """The first case that holds decides."""

    key: str
    cases: tuple[Case, ...]
    otherwise: Conj


Taken: TypeAlias = dict[int, Case]  # by number of the switch: the case that holds; of the others, none does


def by_key(
    operands: Sequence[Conj], ask: Ask, tags: TagsOf
) -> Generator[Any, Any, tuple[list[list[Switch]], list[Conj]]]:
    """Sort the operands of a conjunction into conditionals that are best read together, by key, and others."""
    by_name: dict[str, list[tuple[Switch, Conj]]] = {}
    others: list[Conj] = []
    for operand in operands if len(operands) >= MANY else ():
        operation = _conditional(operand)
        switch = (yield from _switch(operation, ask, tags)) if operation else None
        if switch is None:
            others.append(operand)
        else:
            by_name.setdefault(switch.key, []).append((switch, operand))
    if not any(_is_worth_it([switch for switch, _ in same]) for same in by_name.values()):
        return [], list(operands)
    together = []
    for same in by_name.values():
        switches = [switch for switch, _ in same]
        if _is_worth_it(switches):
            together.append(switches)
        else:
            others += [operand for _, operand in same]
    return together, others


def chain(operation: Operation, ask: Ask, tags: TagsOf) -> Generator[Any, Any, Switch | None]:
    """Return a conditional with its chain of "else" as one switch, if it is worth while."""
    if _conditional(operation.operands[2]) is None:
        return None
    switch = yield from _switch(operation, ask, tags)
    return switch if switch is not None and _is_worth_it([switch]) else None


def _is_worth_it(switches: list[Switch]) -> bool:
    return sum(len(switch.cases) for switch in switches) >= MANY


def _switch(operation: Operation, ask: Ask, tags: TagsOf) -> Generator[Any, Any, Switch | None]:
    """Return a conditional as a switch, with the chain of its "else" as long as that asks for the same key."""
    key = ""
    cases: list[Case] = []
    following: Operation | None = operation
    rest: Conj = ALWAYS
    while following is not None:
        condition, then, otherwise = following.operands
        case_read = _case(condition, then, (yield from ask(condition)), tags)
        if case_read is None or cases and case_read[0] != key:
            break
        key, case = case_read
        cases.append(case)
        rest, following = otherwise, _conditional(otherwise)
    return Switch(key, tuple(cases), rest) if cases else None


def _conditional(operand: Conj) -> Operation | None:
    """Return the ``if`` of an operand that says nothing else about objects."""
    if len(operand) != 1:
        return None
    (signed,) = operand
    if not signed.positive:
        return None
    plan = plan_of(signed.node)
    if not plan.types & OBJECT or plan.objects or plan.names is not ALWAYS or plan.unevaluated.get(OBJECT) is not None:
        return None
    operations = [operation for operation in plan.operations if operation.types & OBJECT]
    return operations[0] if len(operations) == 1 and operations[0].kind is JoinKind.IF else None


def _case(condition: Conj, then: Conj, sketches: Sketches, tags: TagsOf) -> tuple[str, Case] | None:
    """Return the key that a condition asks for and the case, if the condition is about the value of one key, which is
    one of a few.
    """
    if len(sketches) != 1:
        return None
    (sketch,) = sketches
    if (
        len(sketch.named) != 1
        or sketch.regions
        or sketch.min
        or sketch.max is not None
        or sketch.clauses
        or not sketch.required.keys() <= sketch.named.keys()
    ):
        return None
    ((key, value),) = sketch.named.items()
    constants = tags(value) if len(value) == 1 else None
    return (key, Case(condition, value, constants, not sketch.required, then)) if constants else None


def cells(switches: Sequence[Switch]) -> Iterator[tuple[ObjectSketch, Taken]]:
    """Yield disjoint sets of objects, which are all, and the cases that hold in each.  Invariant: the switches have one
    key.
    """
    key = switches[0].key
    homes: dict[Hashable, list[tuple[int, int]]] = {}
    for number, switch in enumerate(switches):
        for at, case in enumerate(switch.cases):
            spend(2 + 2 * len(case.tags))
            for tag in case.tags:
                homes.setdefault(tag, []).append((number, at))
    for inside in dict.fromkeys(map(tuple, homes.values())):
        held = [switches[number].cases[at] for number, at in inside]
        value: Conj = ALWAYS
        for case in held:
            value = both(value, case.value)
        beside = {
            place: None
            for tag in frozenset.intersection(*(case.tags for case in held))
            for place in homes[tag]
            if place not in inside
        }
        spend(4 + 4 * len(beside))
        for number, at in beside:
            value = _without(value, switches[number].cases[at])
        taken: Taken = {}
        for number, at in inside:
            taken.setdefault(number, switches[number].cases[at])
        yield ObjectSketch({key: value}, required={key: None}), taken
    value = ALWAYS
    for switch in switches:
        for case in switch.cases:
            value = _without(value, case)
    yield ObjectSketch({key: value}, required={key: None}), {}
    absent = {
        number: case for number, switch in enumerate(switches) for case in reversed(switch.cases) if case.optional
    }
    yield ObjectSketch({key: NOTHING}), absent


def _without(value: Conj, case: Case) -> Conj:
    return both(value, *denials(case.value))


def all_but(
    parts: Sequence[Sketches], full: Sketches, conjoin: Callable[[Sketches, Sketches], Sketches]
) -> Callable[[Collection[int]], Sketches]:
    """Return what gives the conjunction of all parts but some; if each part is one sketch, of all but one in two
    steps.
    """
    before, behind = [full], [full]  # of the first so many parts, and of the last
    if all(len(part) == 1 for part in parts):
        for part, last in zip(parts, reversed(parts), strict=True):
            before.append(conjoin(before[-1], part))
            behind.append(conjoin(last, behind[-1]))

    def but(excluded: Collection[int]) -> Sketches:
        if len(before) > len(parts) and len(excluded) < 2:
            at = next(iter(excluded), len(parts))
            return conjoin(before[at], behind[max(len(parts) - at - 1, 0)])
        conjoined = full
        for number, part in enumerate(parts):
            conjoined = conjoined if number in excluded else conjoin(conjoined, part)
        return conjoined

    return but
