"""The answers of the normalisation to "which values of this type?", worked off request by request.

`scalars_of` and `sketches_of` answer for conjunctions.  Schemas nested in place to any depth are walked by a stack of
generators (`Steps`); a schema without operations, the common case, is answered directly.  `surely_never` looks a few
levels down for a contradiction, so that alternatives that cannot be are dropped before they multiply.

Scalars are a boolean algebra, evaluated operand by operand.  Of arrays and objects, a signed schema becomes a union of
sketches.  The complement of a schema is the union of the complements of its keywords; `oneOf` is "this one and none of
the others", where "none of the others" is left out as soon as the two are seen to be disjoint, which is what keeps a
tagged union of n members at n alternatives.  A union of sketches that each say one small thing ("a is absent", "some
item is …") is joined into one clause, which is what keeps conjunctions of unions from multiplying out.

Annotations: `unevaluatedProperties` asks which keywords *held*, so its operands are taken apart further.  In mode
`SOME` each alternative claims some set of subschemas that do hold, which is enough for "all other keys are in C",
because a larger claim only weakens it; in mode `EXACT`, for the complement, the alternatives say of every
contributing subschema whether it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial
from operator import attrgetter
from threading import local
from typing import Any, NamedTuple, TypeAlias

from constrained.errors import LimitExceeded, UnsupportedSchema
from constrained.schema.normal import arrays, objects
from constrained.schema.normal.arrays import ArraySketch
from constrained.schema.normal.objects import (
    ALL_KEYS,
    NO_KEYS,
    HasIn,
    ObjectSketch,
    PropertyNames,
    closed,
    evaluated,
    named,
)
from constrained.schema.normal.plans import (
    JoinKind,
    Operation,
    SortedKeywords,
    own_array,
    own_object,
    own_scalars,
    plan_of,
)
from constrained.schema.normal.scalars import (
    ALL_SCALARS,
    ARRAY,
    EVERY_TYPE,
    NO_SCALARS,
    OBJECT,
    SCALAR,
    Scalars,
)
from constrained.schema.normal.unions import (
    Switch,
    Tags,
    all_but,
    by_key,
    cells,
    chain,
    of_array,
    of_object,
    rivals,
)
from constrained.schema.number_sets import is_constant
from constrained.schema.reading.document import NOTHING, Node, applies_itself, at_keyword, bared, both, denials, ordered
from constrained.schema.strings.sets import ALL_TEXTS
from constrained.schema.values import ALWAYS, Conj, ItemFrom, SignedNode
from constrained.work import spend

Sketch: TypeAlias = Any  # ArraySketch or ObjectSketch
Sketches: TypeAlias = tuple[Sketch, ...]


class Mode(IntEnum):
    """How much an alternative says about which subschemas hold; see `combine`."""

    PLAIN = 0  # nothing
    SOME = 1  # those that it counts as evaluating hold
    EXACT = 2  # those that it counts hold, and no others that would count
    NAMED = 3  # as SOME, of those that name keys
    ALONE = 4  # as NAMED, and nothing else says anything of the value: each member of a union has its own keys


class Query(NamedTuple):
    """What is asked: the values of one type that a signed subschema allows."""

    signed: SignedNode
    type: int  # SCALAR, ARRAY or OBJECT
    mode: Mode = Mode.PLAIN


Steps: TypeAlias = Generator[Query, Any, Any]


def ask(conj: Conj, type_: int, everything: Any, mode: Mode = Mode.PLAIN) -> Steps:
    """Ask for an operand, which has one signed node at most."""
    if not conj:
        return everything
    (signed,) = conj
    return (yield Query(signed, type_, mode))


def ask_not(conj: Conj, type_: int, everything: Any) -> Steps:
    """Ask for the complement of an operand."""
    (contrary,) = denials(conj) or (NOTHING,)
    return (yield from ask(contrary, type_, everything))


def named_within(nodes: Iterable[Node]) -> tuple[PropertyNames, bool]:
    """Return the keys that some schemas name and those that these apply to the same value, and whether any describes
    objects by their keys; a condition only names keys.
    """
    seen, describes = NO_KEYS, False
    met = dict.fromkeys(nodes, True)  # whether it describes the value
    queue = list(met)
    for node in queue:
        plan = plan_of(node)
        spend(2)
        names, here = named(node) if plan.objects else (NO_KEYS, False)
        seen, describes = seen | (ALL_KEYS if OBJECT in plan.unevaluated else names), describes or here and met[node]
        for operation in plan.operations:
            for number, operand in enumerate(operation.operands if operation.kind is not JoinKind.NOT else ()):
                for signed in operand:
                    if signed.node not in met:
                        met[signed.node] = met[node] and (number > 0 or operation.kind is not JoinKind.IF)
                        queue.append(signed.node)
    return seen, describes


def scalar_steps(signed: SignedNode) -> Steps:
    if not signed.positive:
        return ~(yield Query(signed.node, SCALAR))
    plan = plan_of(signed.node)
    scalars = own_scalars(signed.node, plan)
    for operation in plan.operations:
        if scalars is NO_SCALARS:
            break
        if operation.types & SCALAR:
            try:
                scalars = scalars & (yield from _scalar_operation(operation, signed.node))
            except LimitExceeded as error:
                raise at_keyword(error, signed.node, operation.keyword) from None
    return scalars


def _scalar_operation(operation: Operation, node: Node) -> Steps:
    parts = []
    for operand in operation.operands:
        parts.append((yield from ask(operand, SCALAR, ALL_SCALARS)))
    if operation.kind is JoinKind.NOT:
        return ~parts[0]
    if operation.kind is JoinKind.IF:
        condition, then, otherwise = parts
        if then is ALL_SCALARS and otherwise is ALL_SCALARS:
            return ALL_SCALARS
        return (condition & then) | (~condition & otherwise)
    if operation.kind is JoinKind.ALL:
        scalars = ALL_SCALARS
        for part in parts:
            scalars = scalars & part
        return scalars
    scalars, twice = _some_and_several(parts, overlaps=operation.kind is JoinKind.ONE)
    return scalars & ~twice if twice else scalars


def _some_and_several(parts: list[Scalars], *, overlaps: bool) -> tuple[Scalars, Scalars]:
    """Return the values in some part, and those in two or more if asked; joined by halves, so that n constants cost n
    log n.
    """
    joined = [(part, NO_SCALARS) for part in parts]
    while len(joined) > 1:
        spend(4 * len(joined))
        halves = zip(joined[::2], joined[1::2], strict=False)
        rest = joined[-1:] if len(joined) % 2 else []
        joined = [
            (one | other, twice | again | (one & other) if overlaps else NO_SCALARS)
            for (one, twice), (other, again) in halves
        ] + rest
    return joined[0] if joined else (NO_SCALARS, NO_SCALARS)


MOST_ALTERNATIVES = 2_000
MOST_MEMBERS = 10_000  # of a union of objects, which one machine reads together, see `machines.union`
_UNIONS = JoinKind.ANY, JoinKind.ONE
_MANY = 8  # members of a union from which on it is worth while to look what they are


@dataclass(frozen=True, slots=True)
class Combination:
    """The boolean operations on unions of sketches of one type."""

    type: int  # ARRAY or OBJECT
    full: Sketch
    disjoint: Callable[..., bool]
    merge: Callable[..., Sketch | None]
    deny: Callable[[Sketch], Sketches]
    as_clause: Callable[[Sketch], frozenset[Any] | None]
    of_clause: Callable[[frozenset[Any]], Sketch]
    constant: Callable[[Sketch], Any]  # the only value, None unless it is plain that there is only one
    certain: Callable[[Sketch], Collection[Any]]  # the places (or keys) of items (or members) that there surely are
    at: Callable[[Sketch, Any], Conj]  # what stands at such a place

    def _ask(self, conj: Conj, mode: Mode = Mode.PLAIN) -> Steps:
        return (yield from ask(conj, self.type, (self.full,), mode))

    def _ask_not(self, conj: Conj) -> Steps:
        return (yield from ask_not(conj, self.type, (self.full,)))

    def conjoin(self, left: Sketches, right: Sketches, node: Node) -> Sketches:
        """Return the pairwise conjunctions that are not seen to be empty."""
        if len(left) == 1 and left[0] is self.full:
            return right
        if len(right) == 1 and right[0] is self.full:
            return left
        conjoined: list[Sketch] = []
        bound = most = max(MOST_ALTERNATIVES, len(left), len(right))
        for one in left:
            spend(2 * len(right))
            for other in right:
                joined = self.merge(one, other, surely_never)
                if joined is not None:
                    conjoined.append(joined)
            if len(conjoined) > bound:
                bound = self._check(conjoined, node, most)
        if len(conjoined) > most:
            self._check(conjoined, node, most)
        return tuple(conjoined)

    def disjoin(self, parts: Iterable[Sketches], node: Node) -> Sketches:
        """Return the union; sketches that amount to a clause are joined into one."""
        clause: frozenset[Any] | None = None
        only: Sketch = None  # the sketch of the clause, as long as there is just one
        members: list[Sketch] = []
        for part in parts:
            spend(1 + 3 * len(part))
            for sketch in part:
                if sketch is self.full:
                    return (sketch,)
                single = self.as_clause(sketch)
                if single is None:
                    members.append(sketch)
                else:
                    only, clause = (sketch, single) if clause is None else (None, clause | single)
        if clause is not None:
            members.append(self.of_clause(clause) if only is None else only)
            if members[-1] is self.full:
                return (self.full,)
        self._check(members, node, self._most_members)
        return tuple(members)

    @property
    def _most_members(self) -> int:
        return MOST_MEMBERS if self.type == OBJECT else MOST_ALTERNATIVES

    def _check(self, found: list[Sketch] | Sketches, node: Node, most: int = MOST_ALTERNATIVES) -> int:
        """Refuse too many alternatives, and return from how many on to look again; of constants there may be any
        number, see `machines.union`.
        """
        if len(found) > most:
            spend(len(found) * 2)
            if sum([self.constant(sketch) is None for sketch in found]) > most:
                raise _too_many(node, most)
        return 2 * len(found)

    def positive(self, node: Node, mode: Mode) -> Steps:
        plan = plan_of(node)
        unevaluated = plan.unevaluated.get(self.type)
        inner = Mode.SOME if unevaluated is not None and mode is not Mode.EXACT else mode
        own = _own(node, plan, self.type, inner)
        if inner is Mode.ALONE and (own.describes or not _is_alone(plan.operations, self.type)):
            inner = Mode.NAMED
        sketches = yield from self._all_operations(plan, node, inner, own)
        if inner is Mode.NAMED and mode is Mode.ALONE and not own.describes and named_within([node])[1]:
            sketches = tuple(replace(sketch, describes=True) for sketch in sketches)
        if unevaluated is None:
            return sketches
        if self.type == OBJECT:
            seen = ALL_KEYS if mode else objects.FULL.seen
            return tuple(replace(objects.with_unseen(sketch, unevaluated), seen=seen) for sketch in sketches)
        seen_items = None if mode else 0
        narrowed = (arrays.with_unseen(sketch, _or_seen(sketch, unevaluated, node)) for sketch in sketches)
        return tuple(replace(sketch, seen=seen_items, seen_items=()) for sketch in narrowed if sketch is not None)

    def _all_operations(self, plan: SortedKeywords, node: Node, mode: Mode, own: Sketch) -> Steps:
        """Return what all keywords of a schema allow; `own`: those that are no operations."""
        parts: Sketches = (own,)
        for operation in plan.operations:
            if operation.types & self.type:
                spend(3)
                parts = yield from _at_its_keyword(self._joined(parts, operation, node, mode, own), node, operation)
        return parts

    def _joined(self, found: Sketches, operation: Operation, node: Node, mode: Mode, own: Sketch) -> Steps:
        return self.conjoin(found, (yield from self._operation(operation, node, mode, own)), node)

    def _operation(self, operation: Operation, node: Node, mode: Mode, beside: Sketch) -> Steps:
        """Return what an operation allows; it is only asked where `beside` holds, what the other keywords of its schema
        say.
        """
        operands = operation.operands
        kind = operation.kind
        if kind is JoinKind.ALL:
            sketches: Sketches = (self.full,)
            together, others = (
                (yield from by_key(operands, self._ask, _tags)) if self.type == OBJECT else ([], list(operands))
            )
            for same in together:
                sketches = self.conjoin(sketches, (yield from self._switched(same, node, mode, beside)), node)
            for operand in others:
                sketches = self.conjoin(sketches, (yield from self._ask(operand, mode)), node)
            return sketches
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
            switch = (yield from chain(operation, self._ask, _tags)) if self.type == OBJECT else None
            if switch is not None:
                return (yield from self._switched([switch], node, mode, beside))
            return (yield from self._if(operation, node, mode, beside))
        return (yield from self._when(operation, node, mode))

    def _switched(self, switches: list[Switch], node: Node, mode: Mode, beside: Sketch) -> Steps:
        """Return what conditionals on one key allow, where `beside` holds."""
        contrary = []
        for switch in switches:
            contrary.append((yield from self._ask(switch.otherwise, mode)))
        without = all_but(contrary, (self.full,), partial(self.conjoin, node=node))
        sketches: list[Sketch] = []
        for base, taken in cells(switches):
            part = self.conjoin((base,), without(taken), node) if self.conjoin((beside,), (base,), node) else ()
            for case in taken.values() if part else ():
                part = self.conjoin(part, (yield from self._ask(case.condition, mode)), node) if mode else part
                part = self.conjoin(part, (yield from self._ask(case.then, mode)), node)
            sketches += part
        self._check(sketches, node, self._most_members)
        return tuple(sketches)

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
        if sum([sketches == (self.full,) for sketches in plain]) > 1:
            return ()
        members: list[Sketch] = []
        placed = [self.conjoin((beside,), sketches, node) for sketches in plain]
        others = rivals(placed, self.certain, self.at, _tags, self.constant)
        if self._are_open(placed, others):
            contrary = []
            for operand in operands:
                contrary.append((yield from self._ask_not(operand)))
            if all(len(part) == 1 for part in contrary):
                spend(len(operands) ** 2 >> 1)  # each member names what all others ask for
                without = all_but(contrary, (self.full,), partial(self.conjoin, node=node))
                apart = [self.conjoin(own, without((index,)), node) for index, own in enumerate(annotated)]
                return tuple([sketch for part in apart for sketch in part])
        bound = self._most_members
        for index, own in enumerate(annotated):
            for sketch in own:
                alone: Sketches = (sketch,)
                here = self.conjoin((beside,), (sketch,), node)
                for other in others[index]:
                    spend(1 + len(here) * len(placed[other]))
                    if any(not self.disjoint(one, rival, surely_never) for one in here for rival in placed[other]):
                        alone = self.conjoin(alone, (yield from self._ask_not(operands[other])), node)
                members += alone
            if len(members) > bound:
                bound = self._check(members, node, self._most_members)
        self._check(members, node, self._most_members)
        return tuple(members)

    def _are_open(self, members: list[Sketches], rivals: list[list[int]]) -> bool:
        """Say whether the members of a union are many that meet each other, by a look at what the first one meets."""
        if self.type != OBJECT or len(members) < _MANY or not members[0] or len(rivals[0]) < len(members) - 1:
            return False
        spend(len(members))
        first = members[0][0]
        apart = [all(self.disjoint(first, sketch, surely_never) for sketch in other) for other in members[1:]]
        return 2 * apart.count(False) > len(members)

    def _if(self, operation: Operation, node: Node, mode: Mode, beside: Sketch) -> Steps:
        condition, then, otherwise = operation.operands
        if mode and mode is not Mode.EXACT:
            parts = []
            for operand in operation.operands:
                parts += yield from self._ask(operand, mode)
            mode = mode if self._add(parts, beside) else Mode.PLAIN
        if not mode and not then and not otherwise:
            return (self.full,)
        if not then and mode and mode is not Mode.EXACT and not otherwise:
            return (self.full, *(yield from self._ask(condition, mode)))
        contrary = yield from self._ask_not(condition)
        yes = yield from self._ask(then, mode)
        no = yield from self._ask(otherwise, mode)
        if not mode and not otherwise and all(self.as_clause(sketch) is not None for sketch in yes):
            return self.disjoin((contrary, yes), node)
        holds = yield from self._ask(condition, mode)
        return self.conjoin(holds, yes, node) + self.conjoin(contrary, no, node)

    def _when(self, operation: Operation, node: Node, mode: Mode) -> Steps:
        key = operation.key
        inner = yield from self._ask(operation.operands[0], mode)
        absent = ObjectSketch({key: NOTHING})
        if not mode and all(self.as_clause(sketch) is not None for sketch in inner):
            return self.disjoin(((absent,), inner), node)
        return (absent, *self.conjoin((ObjectSketch(required={key: None}),), inner, node))

    def _add(self, parts: Iterable[Sketch], beside: Sketch) -> bool:
        """Say whether some sketch has seen what the one beside it has not."""
        if self.type == OBJECT:
            return any(
                part.describes > beside.describes or part.seen is not NO_KEYS and part.seen | beside.seen != beside.seen
                for part in parts
            )
        return any(part.seen != self.full.seen or part.seen_items for part in parts)

    def _any_apart(self, operation: Operation, node: Node) -> Steps:
        """Return the union, each member with the keys that it names itself."""
        sketches: list[Sketch] = []
        silent = []
        for operand in operation.operands:
            part = yield from self._ask(operand, Mode.ALONE)
            if any(sketch.describes for sketch in part):
                sketches += part
            else:
                silent.append((yield from self._ask(operand)))
        self._check(sketches, node, self._most_members)
        return (*sketches, *self.disjoin(silent, node))

    def _any_annotated(self, operation: Operation, node: Node, mode: Mode, beside: Sketch) -> Steps:
        """Return the union over the sets of operands that hold, as far as these evaluate anything."""
        silent: list[Sketches] = []
        none: Sketches = (self.full,)  # no contributing operand is claimed to hold
        some: Sketches = ()  # at least one is
        for operand in operation.operands:
            part = yield from self._ask(operand, mode)
            if not self._add(part, self.full if mode is Mode.EXACT else beside):
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
            return (self.full,)
        parts = [self.deny(_own(node, plan, self.type, Mode.PLAIN))]
        for operation in plan.operations:
            if operation.types & self.type:
                parts.append((yield from _at_its_keyword(self._contrary(operation, node), node, operation)))
        unevaluated = plan.unevaluated.get(self.type)
        if unevaluated:
            own = _own(node, plan, self.type, Mode.EXACT)
            sketches = yield from self._all_operations(plan, node, Mode.EXACT, own)
            parts.append(tuple(self._some_unseen(sketch, unevaluated) for sketch in sketches))
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
        sketches: Sketches = (self.full,)
        for part in denied:
            sketches = self.conjoin(sketches, part, node)
        if kind is JoinKind.ONE:
            for index, operand in enumerate(operands):
                for other in operands[:index]:
                    sketches += self.conjoin((yield from self._ask(operand)), (yield from self._ask(other)), node)
                self._check(sketches, node)
        return sketches


def _at_its_keyword(steps: Steps, node: Node, operation: Operation) -> Steps:
    """Take some steps; errors name the keyword of the operation."""
    try:
        return (yield from steps)
    except (LimitExceeded, UnsupportedSchema) as error:
        raise at_keyword(error, node, operation.keyword) from None


def _is_alone(operations: Iterable[Operation], type_: int) -> bool:
    """Say whether at most one of some operations describes the values of a type, and it is a union or a reference."""
    describing = [part for part in operations if part.types & type_ and part.kind is not JoinKind.NOT]
    return len(describing) < 2 and all(
        part.kind in _UNIONS or part.kind is JoinKind.ALL and len(part.operands) == 1 for part in describing
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


_MOST_DEPTH = 3  # of required values that `surely_never` looks at


class Busy(Exception):
    """A request is already being worked on further out; who asked does without the answer."""


def scalars_of(conj: Conj) -> Scalars:
    """Return the scalars that belong to a conjunction."""
    return _scalars(tuple(ordered(conj)))


def _scalars(parts: tuple[SignedNode, ...]) -> Scalars:
    """Return the scalars of a conjunction's parts: joined by halves, so that n excluded constants cost n log n, and
    halves that begin alike, as n conditions and one more do, are joined once.
    """
    spend(1 + (len(parts) >> 4))
    if len(parts) == 1:
        return _solve(Query(parts[0], SCALAR))  # type: ignore[no-any-return]
    memo, key = parts[0].node.document.memo, ("scalars", parts)
    if key not in memo:
        middle = 1 << (len(parts) - 1).bit_length() - 1
        memo[key] = _scalars(parts[:middle]) & _scalars(parts[middle:])
    return memo[key]  # type: ignore[no-any-return]


def sketches_of(conj: Conj, type_: int) -> Sketches:
    """Return the arrays (or the objects) that belong to a conjunction, as a union of sketches."""
    parts = ordered(conj)
    if type_ == OBJECT and any(signed.positive and signed.node.document.closed for signed in parts):
        return _closed(parts)
    return _together_of(parts, type_, Mode.PLAIN)


def _together_of(parts: list[SignedNode], type_: int, mode: Mode) -> Sketches:
    combination = _COMBINATIONS[type_]
    sketches: Sketches = (combination.full,)
    spend(len(parts) + len(parts) // 2)
    for signed in parts:
        sketches = combination.conjoin(sketches, _solve(Query(signed, type_, mode)), signed.node)
    return sketches


def _closed(parts: list[SignedNode]) -> Sketches:
    """Return the objects without keys that no subschema names which holds; where these cannot be told apart, without
    keys that none names at all.
    """
    nodes = [signed.node for signed in parts if signed.positive]
    try:
        sketches = _together_of(parts, OBJECT, Mode.ALONE if len(parts) == 1 else Mode.NAMED)
        if len(parts) > 1 and sketches and named_within(nodes)[1]:
            sketches = tuple([replace(sketch, describes=True) for sketch in sketches])
    except UnsupportedSchema:
        seen, describes = named_within(nodes)
        sketches = _together_of(parts, OBJECT, Mode.PLAIN)
        sketches = tuple([replace(sketch, seen=seen, describes=describes) for sketch in sketches])
    return tuple([closed(sketch) for sketch in sketches])


def _solve(request: Query) -> Any:
    """Return the answer to a request, from the memo or by working off the requests that it leads to.

    Raises: SchemaError: a subschema applies itself in place, so that no value decides whether it is valid.
    Busy: the request is under way in a call further out.
    """
    memo = request.signed.node.document.memo
    known = memo.get(request)
    if known is not None:
        if known is _PENDING:
            raise Busy
        return known
    direct = _direct(request)
    if direct is not None:
        memo[request] = direct
        return direct
    memo[request] = _PENDING
    return _answered([(request, _steps(request))])


def _answered(stack: list[tuple[Query, Steps]]) -> Any:
    """Return the answer to the only request of a stack.

    A function of its own, and short: where memory ends inside a handler behind the 256th instruction of a function,
    CPython 3.11 tries to note the instruction for ever (tests/test_memory.py).
    """
    try:
        return _worked_off(stack)
    finally:
        while stack:  # one by one, as other threads wait for the end of a call of C that lets go of all of them
            current, _ = stack.pop()
            current.signed.node.document.memo.pop(current, None)


def _worked_off(stack: list[tuple[Query, Steps]]) -> Any:
    answer: Any = None
    while stack:
        current, steps = stack[-1]
        spend(4)
        try:
            wanted = steps.send(answer)
        except StopIteration as stop:
            answer = current.signed.node.document.memo[current] = stop.value
            stack.pop()
            continue
        memo = wanted.signed.node.document.memo
        answer = memo.get(wanted)
        if answer is _PENDING:
            if any(wanted == other for other, _ in stack):
                raise applies_itself(wanted.signed.node)
            raise Busy
        if answer is None:
            answer = _direct(wanted)
            if answer is None:
                memo[wanted] = _PENDING
                stack.append((wanted, _steps(wanted)))
            else:
                memo[wanted] = answer
    return answer


_PENDING = object()


def _direct(request: Query) -> Any:
    """Return the answer for a positive schema without operations, None otherwise: the common case needs no
    generator.
    """
    signed, type_, mode = request
    plan = plan_of(signed.node)
    if signed.positive and (plan.plain or not plan.types & type_):
        if type_ == SCALAR:
            return own_scalars(signed.node, plan)
        return (_own(signed.node, plan, type_, mode),) if plan.types & type_ else ()
    return None


def _own(node: Node, plan: SortedKeywords, type_: int, mode: Mode) -> Sketch:
    if type_ == ARRAY:
        items = own_array(node, plan)
        if not mode and items is not arrays.FULL:
            items.seen, items.seen_items = 0, ()
        return items
    sketch = own_object(node, plan, ALL_TEXTS if plan.names is ALWAYS else scalars_of(plan.names).strings)
    if not mode or not plan.objects:
        return sketch
    if mode < Mode.NAMED:
        return replace(sketch, seen=evaluated(node))
    seen, describes = named(node)
    return replace(sketch, seen=seen, describes=describes)


def _steps(request: Query) -> Steps:
    signed, type_, mode = request
    if type_ == SCALAR:
        return scalar_steps(signed)
    combination = _COMBINATIONS[type_]
    return combination.positive(signed.node, mode) if signed.positive else combination.negative(signed.node)


def surely_never(conj: Conj) -> bool:
    """Return True if certainly no value belongs to a conjunction; looks a few levels of required values deep.

    False may mean "not seen": the answer prunes alternatives, while `normal.satisfiable` decides.
    """
    if not conj or conj == NOTHING:
        return bool(conj)
    memo = next(iter(conj)).node.document.memo
    key = "surely never", conj, _depth.level
    known: bool | None = memo.get(key)
    if known is not None or _depth.level == _MOST_DEPTH:
        return bool(known)
    spend(4)
    verdict = _seems_empty_below(conj)
    if verdict is not None:
        memo[key] = verdict
    return bool(verdict)


def _seems_empty_below(conj: Conj) -> bool | None:
    """Return the answer of `surely_never` a level further down; None: it is being worked on further out."""
    _depth.level += 1
    try:
        return _seems_empty(conj)
    except Busy:
        return None
    finally:
        _depth.level -= 1


class _Depth(local):
    level = 0  # of nested questions, per thread


_depth = _Depth()


def _seems_empty(conj: Conj) -> bool:
    types = EVERY_TYPE
    for signed in conj:
        if signed.positive:
            types &= plan_of(signed.node).types
    if types & SCALAR and scalars_of(conj):
        return False
    return not any(types & type_ and sketches_of(conj, type_) for type_ in (OBJECT, ARRAY))


def _tags(conj: Conj) -> Tags | None:
    """Return the values of a conjunction if its keywords show that they are a finite set of scalars."""
    types = EVERY_TYPE
    for signed in conj:
        if signed.positive:
            types &= plan_of(signed.node).types
    if types & ~SCALAR:
        return None
    few = scalars_of(conj)
    texts, numbers = few.strings.only, [one.low for one in few.numbers if is_constant(one)]
    if texts is None or len(numbers) < len(few.numbers):
        return None
    return frozenset([*texts, *((number,) for number in numbers), *few.booleans, *((None,) if few.null else ())])


_COMBINATIONS = {
    ARRAY: Combination(
        ARRAY, arrays.FULL, arrays.disjoint, arrays.merge, arrays.deny, arrays.as_clause, arrays.of_clause, of_array,
        arrays.certain, arrays.item,
    ),
    OBJECT: Combination(
        OBJECT, objects.FULL, objects.disjoint, objects.merge, objects.deny, objects.as_clause, objects.of_clause,
        of_object, attrgetter("required"), objects.value_of,
    ),
}
