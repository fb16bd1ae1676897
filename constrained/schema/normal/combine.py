"""Conjunction, union and complement of sketches: the boolean part of the normalisation of arrays and objects.

A signed schema becomes a union of sketches.  The complement of a schema is the union of the complements of its
keywords; `oneOf` is "this one and none of the others", where "none of the others" is left out as soon as the two are
seen to be disjoint, which is what keeps a tagged union of n members at n alternatives.  A union of sketches that each
say one small thing ("a is absent", "some item is …") is joined into one clause, which is what keeps conjunctions of
unions from multiplying out.

Annotations: `unevaluatedProperties` asks which keywords *held*, so its operands are taken apart further.  In mode
`SOME` each alternative claims some set of subschemas that do hold, which is enough for "all other keys are in C",
because a larger claim only weakens it; in mode `EXACT`, for the complement, the alternatives say of every contributing
subschema whether it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from constrained.errors import LimitExceeded, UnsupportedSchema
from constrained.schema.keywords.by_type import SortedKeywords, plan_of
from constrained.schema.normal.naming import named_within
from constrained.schema.normal.requests import Mode, Steps, ask, ask_not
from constrained.schema.normal.switches import Switch, Tags, all_but, by_key, cells, chain
from constrained.schema.reading.nodes import NOTHING, Node, bared, both
from constrained.schema.reading.places import at_keyword
from constrained.schema.sketches import arrays, objects
from constrained.schema.sketches.arrays import ArraySketch, Never, denials
from constrained.schema.sketches.constants import rivals as constant_rivals
from constrained.schema.sketches.domains import Domain, Sketch, Sketches
from constrained.schema.sketches.objects import HasIn, ObjectSketch
from constrained.schema.sketches.operations import JoinKind, Operation
from constrained.schema.sketches.property_names import ALL_KEYS, NO_KEYS
from constrained.schema.sketches.scalars import EVERY_TYPE, OBJECT
from constrained.schema.values import ALWAYS, Conj, ItemFrom
from constrained.work import spend

MOST_ALTERNATIVES = 2_000
MOST_MEMBERS = 10_000  # of a union of objects, which one machine reads together, see `machines.union`
_UNIONS = JoinKind.ANY, JoinKind.ONE
_MANY = 8  # members of a union from which on it is worth while to look what they are


@dataclass(frozen=True, slots=True)
class Combination:
    """The boolean operations on unions of sketches of one type."""

    type: int  # ARRAY or OBJECT
    domain: Domain
    own: Callable[[Node, SortedKeywords, int, Mode], Sketch]  # what the keywords of the schema itself say
    never: Never
    tags: Callable[[Conj], Tags | None]  # the values that a conjunction allows, if they are a few scalars
    rivals: Callable[[list[Sketches]], list[list[int]]]  # for each member of a union, the others that may meet it

    def _ask(self, conj: Conj, mode: Mode = Mode.PLAIN) -> Steps:
        return (yield from ask(conj, self.type, (self.domain.full,), mode))

    def _ask_not(self, conj: Conj) -> Steps:
        return (yield from ask_not(conj, self.type, (self.domain.full,)))

    def conjoin(self, left: Sketches, right: Sketches, node: Node) -> Sketches:
        """Return the pairwise conjunctions that are not seen to be empty."""
        if len(left) == 1 and left[0] is self.domain.full:
            return right
        if len(right) == 1 and right[0] is self.domain.full:
            return left
        found: list[Sketch] = []
        bound = most = max(MOST_ALTERNATIVES, len(left), len(right))
        for one in left:
            spend(2 * len(right))
            for other in right:
                joined = self.domain.merge(one, other, self.never)
                if joined is not None:
                    found.append(joined)
            if len(found) > bound:
                bound = self._check(found, node, most)
        if len(found) > most:
            self._check(found, node, most)
        return tuple(found)

    def disjoin(self, parts: Iterable[Sketches], node: Node) -> Sketches:
        """Return the union; sketches that amount to a clause are joined into one."""
        clause: frozenset[Any] | None = None
        only: Sketch = None  # the sketch of the clause, as long as there is just one
        found: list[Sketch] = []
        for part in parts:
            spend(1 + 3 * len(part))
            for sketch in part:
                if sketch is self.domain.full:
                    return (sketch,)
                single = self.domain.as_clause(sketch)
                if single is None:
                    found.append(sketch)
                else:
                    only, clause = (sketch, single) if clause is None else (None, clause | single)
        if clause is not None:
            found.append(self.domain.of_clause(clause) if only is None else only)
            if found[-1] is self.domain.full:
                return (self.domain.full,)
        self._check(found, node, self._most_members)
        return tuple(found)

    @property
    def _most_members(self) -> int:
        return MOST_MEMBERS if self.type == OBJECT else MOST_ALTERNATIVES

    def _check(self, found: list[Sketch] | Sketches, node: Node, most: int = MOST_ALTERNATIVES) -> int:
        """Refuse too many alternatives, and return from how many on to look again; of constants there may be any
        number, see `machines.listed`.
        """
        if len(found) > most:
            spend(len(found) * 2)
            if sum([self.domain.constant(sketch) is None for sketch in found]) > most:
                raise _too_many(node, most)
        return 2 * len(found)

    def positive(self, node: Node, mode: Mode) -> Steps:
        plan = plan_of(node)
        unevaluated = plan.unevaluated.get(self.type)
        inner = Mode.SOME if unevaluated is not None and mode is not Mode.EXACT else mode
        own = self.own(node, plan, self.type, inner)
        if inner is Mode.ALONE and (own.describes or not _is_alone(plan.operations, self.type)):
            inner = Mode.NAMED
        found: Sketches = (own,)
        for operation in plan.operations:
            if operation.types & self.type:
                try:
                    found = self.conjoin(found, (yield from self._operation(operation, node, inner, own)), node)
                except (LimitExceeded, UnsupportedSchema) as error:
                    raise at_keyword(error, node, operation.keyword) from None
        if inner is Mode.NAMED and mode is Mode.ALONE and not own.describes and named_within([node])[1]:
            found = tuple(replace(sketch, describes=True) for sketch in found)
        if unevaluated is None:
            return found
        if self.type == OBJECT:
            seen = ALL_KEYS if mode else objects.FULL.seen
            return tuple(replace(objects.with_unseen(sketch, unevaluated), seen=seen) for sketch in found)
        seen_items = None if mode else 0
        narrowed = (arrays.with_unseen(sketch, _or_seen(sketch, unevaluated, node)) for sketch in found)
        return tuple(replace(sketch, seen=seen_items, seen_items=()) for sketch in narrowed if sketch is not None)

    def _operation(self, operation: Operation, node: Node, mode: Mode, beside: Sketch) -> Steps:
        """Return what an operation allows; it is only asked where `beside` holds, what the other keywords of its schema
        say.
        """
        operands = operation.operands
        kind = operation.kind
        if kind is JoinKind.ALL:
            found: Sketches = (self.domain.full,)
            together, others = (
                (yield from by_key(operands, self._ask, self.tags)) if self.type == OBJECT else ([], list(operands))
            )
            for same in together:
                found = self.conjoin(found, (yield from self._switched(same, node, mode, beside)), node)
            for operand in others:
                found = self.conjoin(found, (yield from self._ask(operand, mode)), node)
            return found
        if kind is JoinKind.ANY:
            if mode is Mode.ALONE:
                return (yield from self._any_apart(operation, node))
            if mode:
                return (yield from self._any_annotated(operation, node, mode, beside))
            parts = []
            for operand in operands:
                parts.append((yield from self._ask(operand)))
            return self.disjoin(parts, node)
        if kind is JoinKind.ONE:
            return (yield from self._exactly_one(operation, node, mode, beside))
        if kind is JoinKind.NOT:
            return (yield from self._ask_not(operands[0]))
        if kind is JoinKind.IF:
            switch = (yield from chain(operation, self._ask, self.tags)) if self.type == OBJECT else None
            if switch is not None:
                return (yield from self._switched([switch], node, mode, beside))
            return (yield from self._if(operation, node, mode, beside))
        return (yield from self._when(operation, node, mode))

    def _switched(self, switches: list[Switch], node: Node, mode: Mode, beside: Sketch) -> Steps:
        """Return what conditionals on one key allow, where `beside` holds."""
        contrary = []
        for switch in switches:
            contrary.append((yield from self._ask(switch.otherwise, mode)))
        without = all_but(contrary, (self.domain.full,), partial(self.conjoin, node=node))
        found: list[Sketch] = []
        for base, taken in cells(switches):
            part = self.conjoin((base,), without(taken), node) if self.conjoin((beside,), (base,), node) else ()
            for case in taken.values() if part else ():
                part = self.conjoin(part, (yield from self._ask(case.condition, mode)), node) if mode else part
                part = self.conjoin(part, (yield from self._ask(case.then, mode)), node)
            found += part
        self._check(found, node, self._most_members)
        return tuple(found)

    def _exactly_one(self, operation: Operation, node: Node, mode: Mode, beside: Sketch) -> Steps:
        """Return "this one and none of the others" for each operand; an other that is disjoint where `beside` holds
        needs no mention.
        """
        operands = operation.operands
        annotated, plain = [], []
        for operand in operands:
            annotated.append((yield from self._ask(operand, mode)))
            bare = bared(operand)
            plain.append((yield from self._ask(bare)) if mode or bare is not operand else annotated[-1])
        if sum([sketches == (self.domain.full,) for sketches in plain]) > 1:
            return ()
        found: list[Sketch] = []
        placed = [self.conjoin((beside,), sketches, node) for sketches in plain]
        rivals = self._rivals(placed)
        if self._are_open(placed, rivals):
            contrary = []
            for operand in operands:
                contrary.append((yield from self._ask_not(operand)))
            if all(len(part) == 1 for part in contrary):
                spend(len(operands) ** 2 >> 1)  # each member names what all others ask for
                without = all_but(contrary, (self.domain.full,), partial(self.conjoin, node=node))
                return tuple(
                    [
                        sketch
                        for index, own in enumerate(annotated)
                        for sketch in self.conjoin(own, without((index,)), node)
                    ]
                )
        bound = self._most_members
        for index, own in enumerate(annotated):
            for sketch in own:
                alone: Sketches = (sketch,)
                here = self.conjoin((beside,), (sketch,), node)
                for other in rivals[index]:
                    spend(1 + len(here) * len(placed[other]))
                    if any(not self.domain.disjoint(one, rival, self.never) for one in here for rival in placed[other]):
                        alone = self.conjoin(alone, (yield from self._ask_not(operands[other])), node)
                found += alone
            if len(found) > bound:
                bound = self._check(found, node, self._most_members)
        self._check(found, node, self._most_members)
        return tuple(found)

    def _are_open(self, members: list[Sketches], rivals: list[list[int]]) -> bool:
        """Say whether the members of a union are many that meet each other, by a look at what the first one meets."""
        if self.type != OBJECT or len(members) < _MANY or not members[0] or len(rivals[0]) < len(members) - 1:
            return False
        spend(len(members))
        met = [
            other
            for other in members[1:]
            if not all(self.domain.disjoint(members[0][0], sketch, self.never) for sketch in other)
        ]
        return 2 * len(met) > len(members)

    def _rivals(self, members: list[Sketches]) -> list[list[int]]:
        """Return, for each member of a union, the others that may meet it."""
        if (
            len(members) >= _MANY
            and self.domain.constant(members[0][0] if members[0] else self.domain.full) is not None
        ):
            found = constant_rivals([map(self.domain.constant, member) for member in members])
            if found is not None:
                return found
        return self.rivals(members)

    def _if(self, operation: Operation, node: Node, mode: Mode, beside: Sketch) -> Steps:
        condition, then, otherwise = operation.operands
        if mode and mode is not Mode.EXACT:
            parts = []
            for operand in operation.operands:
                parts += yield from self._ask(operand, mode)
            mode = mode if self._add(parts, beside) else Mode.PLAIN
        if not mode and not then and not otherwise:
            return (self.domain.full,)
        if not then and mode and mode is not Mode.EXACT and not otherwise:
            return (self.domain.full, *(yield from self._ask(condition, mode)))
        contrary = yield from self._ask_not(condition)
        yes = yield from self._ask(then, mode)
        no = yield from self._ask(otherwise, mode)
        if not mode and not otherwise and all(self.domain.as_clause(sketch) is not None for sketch in yes):
            return self.disjoin((contrary, yes), node)
        holds = yield from self._ask(condition, mode)
        return self.conjoin(holds, yes, node) + self.conjoin(contrary, no, node)

    def _when(self, operation: Operation, node: Node, mode: Mode) -> Steps:
        key = operation.key
        inner = yield from self._ask(operation.operands[0], mode)
        absent = ObjectSketch({key: NOTHING})
        if not mode and all(self.domain.as_clause(sketch) is not None for sketch in inner):
            return self.disjoin(((absent,), inner), node)
        return (absent, *self.conjoin((ObjectSketch(required={key: None}),), inner, node))

    def _add(self, parts: Iterable[Sketch], beside: Sketch) -> bool:
        """Say whether some sketch has seen what the one beside it has not."""
        if self.type == OBJECT:
            return any(
                part.describes > beside.describes or part.seen is not NO_KEYS and part.seen | beside.seen != beside.seen
                for part in parts
            )
        return any(part.seen != self.domain.full.seen or part.seen_items for part in parts)

    def _any_apart(self, operation: Operation, node: Node) -> Steps:
        """Return the union, each member with the keys that it names itself."""
        found: list[Sketch] = []
        silent = []
        for operand in operation.operands:
            part = yield from self._ask(operand, Mode.ALONE)
            if any(sketch.describes for sketch in part):
                found += part
            else:
                silent.append((yield from self._ask(operand)))
        self._check(found, node, self._most_members)
        return (*found, *self.disjoin(silent, node))

    def _any_annotated(self, operation: Operation, node: Node, mode: Mode, beside: Sketch) -> Steps:
        """Return the union over the sets of operands that hold, as far as these evaluate anything."""
        silent: list[Sketches] = []
        none: Sketches = (self.domain.full,)  # no contributing operand is claimed to hold
        some: Sketches = ()  # at least one is
        for operand in operation.operands:
            part = yield from self._ask(operand, mode)
            if not self._add(part, self.domain.full if mode is Mode.EXACT else beside):
                silent.append((yield from self._ask(operand)) if self.type == OBJECT else part)
                continue
            joined = self.conjoin(none + some, part, node)
            if mode is Mode.EXACT:
                contrary = yield from self._ask_not(operand)
                none, some = self.conjoin(none, contrary, node), self.conjoin(some, contrary, node)
            some += joined
            self._check(some, node)
        return some + self.conjoin(none, tuple(sketch for part in silent for sketch in part), node)

    def negative(self, node: Node) -> Steps:
        """Return the union of the complements of the keywords."""
        plan = plan_of(node)
        if not plan.types & self.type:
            return (self.domain.full,)
        parts = [self.domain.deny(self.own(node, plan, self.type, Mode.PLAIN))]
        for operation in plan.operations:
            if operation.types & self.type:
                try:
                    parts.append((yield from self._contrary(operation, node)))
                except (LimitExceeded, UnsupportedSchema) as error:
                    raise at_keyword(error, node, operation.keyword) from None
        unevaluated = plan.unevaluated.get(self.type)
        if unevaluated:
            own = self.own(node, plan, self.type, Mode.EXACT)
            found: Sketches = (own,)
            for operation in plan.operations:
                if operation.types & self.type:
                    try:
                        found = self.conjoin(
                            found, (yield from self._operation(operation, node, Mode.EXACT, own)), node
                        )
                    except (LimitExceeded, UnsupportedSchema) as error:
                        raise at_keyword(error, node, operation.keyword) from None
            parts.append(tuple(self._some_unseen(sketch, unevaluated) for sketch in found))
        return self.disjoin(parts, node)

    def _some_unseen(self, sketch: Sketch, conj: Conj) -> Sketch:
        """Return the sketch with some key (item) that nothing has evaluated outside `conj`."""
        (outside,) = denials(conj)
        if self.type == OBJECT:
            return replace(
                sketch, seen=objects.FULL.seen, clauses=(*sketch.clauses, frozenset({HasIn(~sketch.seen, outside)}))
            )
        for part in sketch.seen_items:
            outside = both(outside, next(iter(denials(part)), NOTHING))
        clause = frozenset() if sketch.seen is None else frozenset({ItemFrom(sketch.seen, outside)})
        return replace(sketch, seen=0, seen_items=(), clauses=(*sketch.clauses, clause))

    def _contrary(self, operation: Operation, node: Node) -> Steps:
        operands = operation.operands
        kind = operation.kind
        if kind is JoinKind.NOT:
            return (yield from self._ask(operands[0]))
        if kind is JoinKind.WHEN:
            contrary = yield from self._ask_not(operands[0])
            return self.conjoin((ObjectSketch(required={operation.key: None}),), contrary, node)
        if kind is JoinKind.IF:
            condition, then, otherwise = operands
            holds = yield from self._ask(condition)
            yes = self.conjoin(holds, (yield from self._ask_not(then)), node)
            fails = yield from self._ask_not(condition)
            return yes + self.conjoin(fails, (yield from self._ask_not(otherwise)), node)
        denied = []
        for operand in operands:
            denied.append((yield from self._ask_not(operand)))
        if kind is JoinKind.ALL:
            return self.disjoin(denied, node)
        found: Sketches = (self.domain.full,)
        for part in denied:
            found = self.conjoin(found, part, node)
        if kind is JoinKind.ONE:
            for index, operand in enumerate(operands):
                for other in operands[:index]:
                    found += self.conjoin((yield from self._ask(operand)), (yield from self._ask(other)), node)
                self._check(found, node)
        return found


def _is_alone(operations: Iterable[Operation], type_: int) -> bool:
    """Say whether at most one of some operations describes the values of a type, and it is a union or a reference."""
    found = [part for part in operations if part.types & type_ and part.kind is not JoinKind.NOT]
    return len(found) < 2 and all(
        part.kind in _UNIONS or part.kind is JoinKind.ALL and len(part.operands) == 1 for part in found
    )


def _too_many(node: Node, most: int) -> UnsupportedSchema:
    return UnsupportedSchema(
        "cannot compile a combination of schemas",
        where=node.pointer,
        because=f"it has more than {most:,} alternatives",
        instead='give the members of "oneOf" a required property with "const" that tells them apart',
    )


def _or_seen(sketch: ArraySketch, conj: Conj, node: Node) -> Conj:
    """Return the union of a conjunction and the items that "contains" has evaluated."""
    parts = [part for part in (conj, *sketch.seen_items) if part != NOTHING]
    if not sketch.seen_items or not all(parts):
        return conj if all(parts) else ALWAYS
    if len(parts) < 2:
        return parts[0] if parts else NOTHING
    union, new = node.document.union(parts, node.where)
    if new:
        any_of = Operation(JoinKind.ANY, tuple(parts), "anyOf")
        union.plan = SortedKeywords(EVERY_TYPE, operations=(any_of,), plain=False)
    return union.conj
