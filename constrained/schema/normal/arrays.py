"""Arrays: what their keywords mean, and conjunctions of these, the sketches from which `ArrayShape` is made.

A sketch is a conjunction; a union of sketches is a tuple of them (see `alternatives`).  Its complement is a union of
obligations (one item is not …, the array is shorter than …), most of which fit into one clause.  Sketches are narrowed
only while they are built and shared after.

A keyword is a function that narrows the sketch of its schema.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from constrained.errors import UnsupportedSchema
from constrained.schema.reading.document import NOTHING, Node, both, denials, rank
from constrained.schema.values import (
    ALWAYS,
    ArrayShape,
    Clause,
    Conj,
    Count,
    ItemAt,
    ItemFrom,
    LengthAtLeast,
    LengthBelow,
    Obligation,
    negation,
)
from constrained.work import spend

if TYPE_CHECKING:
    from constrained.schema.reading.document import Node

Never: TypeAlias = Callable[[Conj], bool]  # True: certainly without a value

_LONGEST_PREFIX = 10_000
_MOST_WAYS = 64  # to meet the clauses of distinct items


@dataclass(slots=True)
class ArraySketch:
    """The arrays a with a[i] in prefix[i], a[i] in rest beyond, min <= len(a) <= max, all counts and all clauses, and
    `unique`.

    `seen` counts the leading items that some keyword has evaluated (None: all of them); an item in one of `seen_items`
    counts too.
    """

    prefix: tuple[Conj, ...] = ()
    rest: Conj = ALWAYS
    min: int = 0
    max: int | None = None
    counts: tuple[Count, ...] = ()
    clauses: tuple[Clause, ...] = ()
    unique: bool | None = None
    seen: int | None = 0
    seen_items: tuple[Conj, ...] = ()


FULL = ArraySketch()


def item(sketch: ArraySketch, index: int) -> Conj:
    return sketch.prefix[index] if index < len(sketch.prefix) else sketch.rest


def certain(sketch: ArraySketch) -> range:
    """Return the places of items that an array has for sure, the further ones that are alike as one."""
    return range(min(len(sketch.prefix) + 1, sketch.min))


def disjoint(left: ArraySketch, right: ArraySketch, never: Never) -> bool:
    """Return True if certainly no array satisfies both sketches."""
    if left.unique is not None and right.unique is not None and left.unique != right.unique:
        return True
    least = max(left.min, right.min)
    if left.max is not None and left.max < least or right.max is not None and right.max < least:
        return True
    spend(1)
    for index in range(min(max(len(left.prefix), len(right.prefix)) + 1, least)):
        one, other = item(left, index), item(right, index)
        joined = both(one, other)
        if joined == NOTHING or joined != one and joined != other and never(joined):
            return True
    return False


def merge(left: ArraySketch, right: ArraySketch, never: Never) -> ArraySketch | None:
    """Return the conjunction of two sketches; None only if no array satisfies both."""
    if left is FULL:
        return right
    if right is FULL:
        return left
    if disjoint(left, right, never):
        return None
    longest = max(len(left.prefix), len(right.prefix))
    spend(4 + longest + len(left.counts) * len(right.counts) // 4 + len(left.clauses) // 8)
    most = left.max if right.max is None else right.max if left.max is None else min(left.max, right.max)
    return ArraySketch(
        tuple(both(item(left, index), item(right, index)) for index in range(longest)),
        both(left.rest, right.rest),
        max(left.min, right.min),
        most,
        _joined(left.counts, right.counts),
        _joined(left.clauses, right.clauses),
        left.unique if right.unique is None else right.unique,
        None if left.seen is None or right.seen is None else max(left.seen, right.seen),
        _joined(left.seen_items, right.seen_items),
    )


def _joined(left: tuple[object, ...], right: tuple[object, ...]) -> tuple:  # type: ignore[type-arg]
    return tuple(dict.fromkeys(left + right)) if left and right else left or right


def deny(sketch: ArraySketch) -> tuple[ArraySketch, ...]:
    """Return the complement of what the keywords of one schema say (such a sketch has no clauses)."""
    clause: set[Obligation] = set()
    for index, conj in enumerate(sketch.prefix):
        clause.update(ItemAt(index, other) for other in denials(conj))
    clause.update(ItemFrom(len(sketch.prefix), other) for other in denials(sketch.rest))
    if sketch.min:
        clause.add(LengthBelow(sketch.min))
    if sketch.max is not None:
        clause.add(LengthAtLeast(sketch.max + 1))
    for count in sketch.counts:
        if not count.item:  # it counts all items
            clause.update((LengthBelow(count.min),) if count.min else ())
            clause.update((LengthAtLeast(count.max + 1),) if count.max is not None else ())
    denied = [ArraySketch(clauses=(frozenset(clause),))] if clause else []
    for count in sketch.counts:
        if not count.item:
            continue
        if count.min == 1:
            denied.append(ArraySketch(rest=negation(count.item)))
        elif count.min:
            denied.append(ArraySketch(counts=(Count(count.item, 0, count.min - 1),)))
        if count.max is not None:
            denied.append(ArraySketch(counts=(Count(count.item, count.max + 1, None),)))
    if sketch.unique:
        denied.append(ArraySketch(unique=False))
    return tuple(denied)


def as_clause(sketch: ArraySketch) -> Clause | None:
    """Return the sketch as a clause, if it is the same as one."""
    bare = replace(sketch, seen=0, seen_items=())
    if len(sketch.clauses) == 1 and bare == ArraySketch(clauses=sketch.clauses):
        return sketch.clauses[0]
    if bare == ArraySketch(min=sketch.min) and sketch.min:
        return frozenset({LengthAtLeast(sketch.min)})
    if bare == ArraySketch(max=sketch.max) and sketch.max is not None:
        return frozenset({LengthBelow(sketch.max + 1)})
    if (
        len(sketch.counts) == 1
        and bare == ArraySketch(counts=sketch.counts)
        and (sketch.counts[0].min, sketch.counts[0].max) == (1, None)
    ):
        return frozenset({ItemFrom(0, sketch.counts[0].item)})
    last = len(sketch.prefix) - 1
    if last >= 0 and not any(sketch.prefix[:-1]) and bare == ArraySketch(prefix=sketch.prefix, min=sketch.min):
        if sketch.min == last + 1:
            return frozenset({ItemAt(last, sketch.prefix[-1])})
        if sketch.min == 0:
            return frozenset({LengthBelow(last + 1), ItemAt(last, sketch.prefix[-1])})
    return None


def of_clause(clause: Clause) -> ArraySketch:
    return ArraySketch(clauses=(clause,))


def shape(sketch: ArraySketch, node: Node, never: Never) -> ArrayShape | None:
    """Return the sketch as a shape with its clauses simplified; None if it is seen to be empty.

    Errors name `node`.  `never` may answer False when in doubt; with an exact answer the obligations of the clauses are
    live.
    """
    work = replace(sketch)
    clauses: list[Clause] = list(dict.fromkeys(sketch.clauses))
    changed = True
    while changed:
        changed = False
        _shorten(work, never)
        if work.max is not None and work.max < work.min:
            return None
        kept: list[Clause] = []
        spend(sum(map(len, clauses)))
        for clause in clauses:
            left = _simplified(clause, work, never)
            if left is None:
                continue
            if not left:
                return None
            if len(left) == 1 and _impose(next(iter(left)), work, node):
                changed = True
            else:
                kept.append(left)
        clauses = kept
    if work.max is not None and work.max < 2:
        if work.unique is False:
            return None
        work.unique = None
    counts = _counts(work)
    if counts is None or work.max is not None and work.max < work.min:
        return None
    prefix = list(work.prefix[: work.max])
    while prefix and prefix[-1] == work.rest:
        prefix.pop()
    return ArrayShape(tuple(prefix), work.rest, work.min, work.max, counts, tuple(dict.fromkeys(clauses)), work.unique)


def shapes(sketch: ArraySketch, node: Node, never: Never) -> Iterator[ArrayShape]:
    """Yield the shapes of a sketch: of distinct items one for each way to meet the clauses, as these are counted."""
    made = shape(sketch, node, never)
    clause = next((part for part in made.clauses if len(part) > 1), None) if made and made.unique else None
    if made is None or clause is None or math.prod(map(len, made.clauses)) > _MOST_WAYS:
        yield from () if made is None else (made,)
        return
    others = tuple([other for other in made.clauses if other is not clause])
    for part in sorted(clause, key=rank):
        way = ArraySketch(
            made.prefix, made.rest, made.min, made.max, made.counts, (*others, frozenset((part,))), made.unique
        )
        yield from shapes(way, node, never)


def _shorten(work: ArraySketch, never: Never) -> None:
    """Lower the maximum to the first position that allows no item."""
    for index, conj in enumerate((*work.prefix[: work.max], work.rest)):
        if conj and (work.max is None or index < work.max) and (conj == NOTHING or index < work.min and never(conj)):
            work.max = index
            return


def _simplified(clause: Clause, work: ArraySketch, never: Never) -> Clause | None:
    """Return the obligations that can still hold; None if one of them holds anyway."""
    obligations = set()
    for part in clause:
        if isinstance(part, LengthBelow):
            if work.max is not None and work.max < part.length:
                return None
            possible = work.min < part.length
        elif isinstance(part, LengthAtLeast):
            if work.min >= part.length:
                return None
            possible = work.max is None or work.max >= part.length
        else:
            assert isinstance(part, (ItemAt, ItemFrom))
            known = item(work, part.index)
            if isinstance(part, ItemAt):
                if work.min > part.index and part.item <= known:
                    return None
                dead = never(both(known, part.item))
            else:
                if work.min > part.index and any(
                    part.item <= item(work, index) for index in range(part.index, min(work.min, len(work.prefix) + 1))
                ):
                    return None
                dead = all(never(both(conj, part.item)) for conj in (*work.prefix[part.index :], work.rest))
            possible = not dead and (work.max is None or work.max > part.index)
        if possible:
            obligations.add(part)
    return frozenset(obligations)


def _impose(part: Obligation, work: ArraySketch, node: Node) -> bool:
    """Make a lone obligation a constraint of the sketch; "some item is …" has to stay a clause, but where items are
    distinct, which are read as they are counted.
    """
    if isinstance(part, LengthBelow):
        work.max = part.length - 1
    elif isinstance(part, LengthAtLeast):
        work.min = part.length
    elif isinstance(part, ItemAt):
        if part.index >= _LONGEST_PREFIX:
            raise UnsupportedSchema(
                "cannot compile an obligation on a far item", where=node.pointer, because=f"it is number {part.index}"
            )
        work.prefix += (work.rest,) * (part.index + 1 - len(work.prefix))
        work.prefix = (
            *work.prefix[: part.index],
            both(work.prefix[part.index], part.item),
            *work.prefix[part.index + 1 :],
        )
        work.min = max(work.min, part.index + 1)
    elif work.unique and isinstance(part, ItemFrom) and not part.index and len(part.item) == 1:
        work.counts += (Count(part.item, 1, None),)
    else:
        return False
    return True


def _counts(work: ArraySketch) -> tuple[Count, ...] | None:
    """Return the counts that say something; bounds on the number of all items move to the length.  None: they cannot
    hold.
    """
    counts_by_item: dict[Conj, Count] = {}
    for count in work.counts:
        if not count.item:
            work.min = max(work.min, count.min)
            work.max = count.max if work.max is None else work.max if count.max is None else min(work.max, count.max)
            continue
        known = counts_by_item.get(count.item)
        if known is not None:
            most = known.max if count.max is None else count.max if known.max is None else min(known.max, count.max)
            count = Count(count.item, max(known.min, count.min), most)
        if count.max is not None and count.max < count.min or count.item == NOTHING and count.min:
            return None
        if count.item != NOTHING and (count.min or count.max is not None):
            counts_by_item[count.item] = count
    return tuple(counts_by_item.values())


def with_unseen(sketch: ArraySketch, conj: Conj) -> ArraySketch | None:
    """Return the sketch with all items that nothing has evaluated in `conj` (which allows for `seen_items`); None if it
    is empty.
    """
    if sketch.seen is None or not conj:
        return sketch
    return merge(sketch, ArraySketch((ALWAYS,) * sketch.seen, conj), lambda _: False)


def items(sketch: ArraySketch, value: Any, node: Node) -> None:
    """SPEC 2020-12: "applies its subschema to all instance elements at indexes greater than the length of the
    "prefixItems" array".

    Until 2019-09 a list of schemas is what "prefixItems" is now.
    """
    if type(value) is list:
        sketch.prefix = node.listed(value, "items")
        if sketch.seen is not None:
            sketch.seen = len(value)
    else:
        sketch.rest = node.below(value, "items")
        sketch.seen = None


def prefix_items(sketch: ArraySketch, value: Any, node: Node) -> None:
    sketch.prefix = node.listed(value, "prefixItems")
    if sketch.seen is not None:
        sketch.seen = len(value)


def additional_items(sketch: ArraySketch, value: Any, node: Node) -> None:
    """SPEC 2019-09: ignored unless "items" is a list."""
    if type(node.schema.get("items")) is list:
        sketch.rest = node.below(value, "additionalItems")
        sketch.seen = None


def min_items(sketch: ArraySketch, value: Any, node: Node) -> None:
    sketch.min = max(sketch.min, int(value))


def max_items(sketch: ArraySketch, value: Any, node: Node) -> None:
    sketch.max = int(value)


def unique_items(sketch: ArraySketch, value: Any, node: Node) -> None:
    if value:
        sketch.unique = True


def contains(sketch: ArraySketch, value: Any, node: Node) -> None:
    """SPEC: at least one item by default; "minContains": 0 makes it vacuous.  2020-12: an item that matches is
    evaluated.
    """
    rules = node.resource.dialect.rules
    least = node.schema.get("minContains", 1) if "minContains" in rules else 1
    most = node.schema.get("maxContains") if "maxContains" in rules else None
    item = node.bare.below(value, "contains")
    sketch.counts = (Count(item, int(least), None if most is None else int(most)),)
    if "prefixItems" in rules:
        sketch.seen_items = (item,)


def constant(sketch: ArraySketch, value: list[Any], node: Node) -> None:
    """The array itself, for `const`."""
    sketch.prefix = tuple(
        node.document.constant(part, ((node.where, "const"), index)) for index, part in enumerate(value)
    )
    sketch.min = sketch.max = len(value)
