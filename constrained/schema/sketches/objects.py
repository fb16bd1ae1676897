"""Conjunctions of constraints on objects: the sketches from which `ObjectShape` is made.

Two kinds of constraint are enough: "the value of every key in K belongs to C" and "some key in K is present with a
value in C"; each is the complement of the other.  For a single key they are kept as a name and its conjunction.
Sketches are narrowed only while they are built and shared after; a union of sketches is a tuple of them (see
`alternatives`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from constrained.schema.reading.nodes import NOTHING, both
from constrained.schema.sketches.arrays import denials
from constrained.schema.sketches.property_names import ALL_KEYS, NO_KEYS, PropertyNames
from constrained.schema.values import ALWAYS, Absent, Conj, HasNamed, Obligation, Present
from constrained.work import spend

Never: TypeAlias = Callable[[Conj], bool]  # True: certainly without a value


@dataclass(frozen=True, slots=True)
class HasIn:
    """Some key of a set is present with a value in `value`; becomes `HasNamed` and `HasOther` once all names are
    known.
    """

    keys: PropertyNames
    value: Conj


@dataclass(slots=True)
class ObjectSketch:
    """The objects with values in named[k] at k and in C at the keys of K for (K, C) in regions, all required keys, and
    so on.

    `seen` are the keys that some keyword has evaluated; where an object is to be closed, those that one names.
    describes: some schema that takes part describes the object by its keys, so that closing it is meant.
    """

    named: dict[str, Conj] = field(default_factory=dict)
    regions: tuple[tuple[PropertyNames, Conj], ...] = ()
    required: dict[str, None] = field(default_factory=dict)
    min: int = 0
    max: int | None = None
    clauses: tuple[frozenset[Obligation | HasIn], ...] = ()
    seen: PropertyNames = NO_KEYS
    describes: bool = False


FULL = ObjectSketch()


def value_of(sketch: ObjectSketch, key: str) -> Conj:
    """Return the conjunction that the value of a key must satisfy."""
    found = sketch.named.get(key, ALWAYS)
    for keys, conj in sketch.regions:
        if key in keys:
            found = both(found, conj)
    return found


def disjoint(left: ObjectSketch, right: ObjectSketch, never: Never) -> bool:
    """Return True if certainly no object satisfies both sketches."""
    for one, other in ((left, right), (right, left)):
        if not one.required:
            continue
        spend(len(one.required) + len(other.regions) * len(one.required))
        for key in one.required:
            if other is left and key in left.required:
                continue
            here, there = value_of(one, key), value_of(other, key)
            joined = both(here, there)
            if joined == NOTHING or joined != here and joined != there and never(joined):
                return True
    if left.max is None and right.max is None:
        return False
    least = max(left.min, right.min, len({**left.required, **right.required}))
    return left.max is not None and left.max < least or right.max is not None and right.max < least


def merge(left: ObjectSketch, right: ObjectSketch, never: Never) -> ObjectSketch | None:
    """Return the conjunction of two sketches; None only if no object satisfies both."""
    if left is FULL:
        return right
    if right is FULL:
        return left
    if disjoint(left, right, never):
        return None
    here, there, regions = left.named, right.named, left.regions
    named = {**here, **there}
    work, shared = 4 + len(left.clauses) // 8, len(here) + len(there) - len(named)
    if named:
        work += (len(here) >> 3) + (len(there) >> 3) + shared // 2
    spend(work + len(regions) * len(right.regions))
    if right.regions:
        regions += tuple([part for part in right.regions if part not in regions])
    if shared:
        for key in there:
            if key in here:
                named[key] = both(here[key], there[key])
    most = left.max if right.max is None else right.max if left.max is None else min(left.max, right.max)
    return ObjectSketch(
        named,
        regions,
        {**left.required, **right.required},
        max(left.min, right.min),
        most,
        tuple(dict.fromkeys(left.clauses + right.clauses))
        if left.clauses and right.clauses
        else left.clauses or right.clauses,
        left.seen if right.seen is NO_KEYS else left.seen | right.seen,
        left.describes or right.describes,
    )


def deny(sketch: ObjectSketch) -> tuple[ObjectSketch, ...]:
    """Return the complement of what the keywords of one schema say (its clauses are pairs of `Absent` and
    `Present`).
    """
    clause: set[Obligation | HasIn] = set()
    for key, conj in sketch.named.items():
        clause.update(_has(key, other) for other in denials(conj))
    for keys, conj in sketch.regions:
        clause.update(HasIn(keys, other) for other in denials(conj))
    clause.update(Absent(key) for key in sketch.required)
    found = [of_clause(frozenset(clause))] if clause else []
    if sketch.min:
        found.append(ObjectSketch(max=sketch.min - 1))
    if sketch.max is not None:
        found.append(ObjectSketch(min=sketch.max + 1))
    for pair in sketch.clauses:
        contrary = ObjectSketch()
        for part in pair:
            if isinstance(part, Absent):
                contrary.required[part.key] = None
            else:
                assert isinstance(part, Present)
                contrary.named[part.key] = NOTHING
        found.append(contrary)
    return tuple(found)


def _has(key: str, value: Conj) -> Obligation:
    return HasNamed(key, value) if value else Present(key)


def as_clause(sketch: ObjectSketch) -> frozenset[Obligation | HasIn] | None:
    """Return the sketch as a clause, if it is the same as one."""
    if sketch.regions or sketch.min or sketch.max is not None:
        return None
    if sketch.clauses:
        return sketch.clauses[0] if len(sketch.clauses) == 1 and not sketch.named and not sketch.required else None
    if len(sketch.named) + len(sketch.required) == 1:
        for key, conj in sketch.named.items():
            return frozenset({Absent(key)}) if conj == NOTHING else frozenset({Absent(key), _has(key, conj)})
        return frozenset(Present(key) for key in sketch.required)
    if len(sketch.named) == 1 and sketch.named.keys() == sketch.required.keys():
        return frozenset(_has(key, conj) for key, conj in sketch.named.items())
    return None


def of_clause(clause: frozenset[Obligation | HasIn]) -> ObjectSketch:
    """Return the objects that satisfy a clause; one about the value of a single key becomes that key's constraint."""
    keys = {getattr(part, "key", None) for part in clause}
    if len(keys) == 1 and len(clause) <= 2:
        (key,) = keys
        if key is not None:
            return _of_single_key(key, clause)
    return ObjectSketch(clauses=(clause,))


def _of_single_key(key: str, clause: frozenset[Obligation | HasIn]) -> ObjectSketch:
    values = [part.value for part in clause if isinstance(part, HasNamed)]
    absent, present = Absent(key) in clause, Present(key) in clause
    if len(values) + absent + present == 1:
        if absent:
            return ObjectSketch({key: NOTHING})
        return ObjectSketch({key: values[0]} if values else {}, required={key: None})
    if absent and values:
        return ObjectSketch({key: values[0]})
    return FULL if absent and present else ObjectSketch(clauses=(clause,))


def with_unseen(sketch: ObjectSketch, conj: Conj) -> ObjectSketch:
    """Return the sketch with the values of all keys that nothing has evaluated in `conj`."""
    return replace(sketch, regions=(*sketch.regions, (~sketch.seen, conj))) if conj else sketch


def closed(sketch: ObjectSketch) -> ObjectSketch:
    """Return the sketch without keys that nothing names, if something names keys."""
    return with_unseen(sketch, NOTHING) if sketch.describes and sketch.seen != ALL_KEYS else sketch
