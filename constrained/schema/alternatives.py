"""Conjunction, union and complement of drafts: the boolean part of the normalisation.

For each type a signed schema becomes a union of drafts (for scalars: one set).  The complement of a schema is the union of the complements
of its keywords; `oneOf` is "this one and none of the others", where "none of the others" is left out as soon as the two are seen to be
disjoint, which is what keeps a tagged union of n members at n alternatives.

Annotations: `unevaluatedProperties` asks which keywords *held*, so its operands are taken apart further.  In mode `SOME` each alternative
claims some set of subschemas that do hold, which is enough for "all other keys are in C", because a larger claim only weakens it; in
mode `EXACT`, for the complement, the alternatives say of every contributing subschema whether it holds.

Schemas nested in place to any depth are walked by a stack of generators; a request yields until its operands are known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from threading import local
from typing import TYPE_CHECKING, Any, Callable, Generator, Iterable, NamedTuple, TypeAlias

from constrained.errors import SchemaError, UnsupportedSchema
from constrained.schema import arrays, objects
from constrained.schema.arrays import ArrayDraft, denials
from constrained.schema.documents import NOTHING, Node, both, ordered
from constrained.schema.keys import ALL_KEYS
from constrained.schema.keywords_object import evaluated
from constrained.schema.objects import HasIn, ObjectDraft
from constrained.schema.operations import Kind, Operation
from constrained.schema.plans import Plan, own_array, own_object, own_scalars, plan_of
from constrained.schema.scalars import ALL_SCALARS, ARRAY, EVERY_TYPE, NO_SCALARS, OBJECT, SCALAR, Scalars
from constrained.schema.texts import ALL_TEXTS
from constrained.schema.values import ALWAYS, Conj, ItemFrom, Literal

MOST_ALTERNATIVES = 2_000
_MOST_DEPTH = 3  # of required values that `surely_never` looks at


class Mode(IntEnum):
    """How much an alternative says about which subschemas hold."""

    PLAIN = 0  # nothing
    SOME = 1  # those that it counts as evaluating hold
    EXACT = 2  # those that it counts hold, and no others that would count


class Request(NamedTuple):
    """What is asked: the values of one type that a signed subschema allows."""

    literal: Literal
    type: int  # SCALAR, ARRAY or OBJECT
    mode: Mode = Mode.PLAIN


Draft: TypeAlias = Any  # ArrayDraft or ObjectDraft
Drafts: TypeAlias = tuple[Draft, ...]
Steps: TypeAlias = Generator[Request, Any, Any]


class Busy(Exception):
    """A request is already being worked on further out; who asked does without the answer."""


@dataclass(frozen=True, slots=True)
class Domain:
    """The operations on the drafts of one type."""

    full: Draft
    disjoint: Callable[..., bool]
    merge: Callable[..., Draft | None]
    deny: Callable[[Draft], Drafts]
    as_clause: Callable[[Draft], frozenset[Any] | None]
    of_clause: Callable[[frozenset[Any]], Draft]


DOMAINS = {
    ARRAY: Domain(arrays.FULL, arrays.disjoint, arrays.merge, arrays.deny, arrays.as_clause, arrays.of_clause),
    OBJECT: Domain(objects.FULL, objects.disjoint, objects.merge, objects.deny, objects.as_clause, objects.of_clause),
}


def scalars_of(conj: Conj) -> Scalars:
    """Return the scalars that belong to a conjunction."""
    found = ALL_SCALARS
    for literal in ordered(conj):
        found = found & _solve(Request(literal, SCALAR))
    return found


def drafts_of(conj: Conj, type_: int) -> Drafts:
    """Return the arrays (or the objects) that belong to a conjunction, as a union of drafts."""
    domain = DOMAINS[type_]
    found: Drafts = (domain.full,)
    for literal in ordered(conj):
        found = _conjoin(domain, found, _solve(Request(literal, type_)), literal.node)
    return found


def _solve(request: Request) -> Any:
    """Return the answer to a request, from the memo or by working off the requests that it leads to.

    Raises: SchemaError: a subschema applies itself in place, so that no value decides whether it is valid.
    Busy: the request is under way in a call further out.
    """
    memo = request.literal.node.document.memo
    known = memo.get(request)
    if known is not None:
        if known is _PENDING:
            raise Busy
        return known
    direct = _direct(request)
    if direct is not None:
        memo[request] = direct
        return direct
    stack = [(request, _steps(request))]
    memo[request] = _PENDING
    answer: Any = None
    try:
        while stack:
            current, steps = stack[-1]
            try:
                wanted = steps.send(answer)
            except StopIteration as stop:
                answer = current.literal.node.document.memo[current] = stop.value
                stack.pop()
                continue
            memo = wanted.literal.node.document.memo
            answer = memo.get(wanted)
            if answer is _PENDING:
                if any(wanted == other for other, _ in stack):
                    raise SchemaError(
                        "schema applies itself to the same value", where=wanted.literal.node.pointer,
                        because="no value decides whether it is valid", instead="break the cycle",
                    )
                raise Busy
            if answer is None:
                answer = _direct(wanted)
                if answer is None:
                    memo[wanted] = _PENDING
                    stack.append((wanted, _steps(wanted)))
                else:
                    memo[wanted] = answer
    finally:
        for current, _ in stack:
            current.literal.node.document.memo.pop(current, None)
    return answer


_PENDING = object()


def _direct(request: Request) -> Any:
    """Return the answer for a positive schema without operations, None otherwise: the common case needs no generator."""
    literal, type_, mode = request
    plan = plan_of(literal.node)
    if literal.positive and (plan.plain or not plan.types & type_):
        if type_ == SCALAR:
            return own_scalars(literal.node, plan)
        return (_own(literal.node, plan, type_, mode),) if plan.types & type_ else ()
    return None


def _own(node: Node, plan: Plan, type_: int, mode: Mode) -> Draft:
    if type_ == ARRAY:
        items = own_array(node, plan)
        if not mode and items is not arrays.FULL:
            items.seen, items.seen_items = 0, ()
        return items
    draft = own_object(node, plan, ALL_TEXTS if plan.names is ALWAYS else scalars_of(plan.names).strings)
    return replace(draft, seen=evaluated(node)) if mode and plan.objects else draft


def _steps(request: Request) -> Steps:
    literal, type_, mode = request
    if type_ == SCALAR:
        return _scalars(literal)
    if literal.positive:
        return _positive(literal.node, type_, mode)
    return _negative(literal.node, type_)


def _ask(conj: Conj, type_: int, mode: Mode = Mode.PLAIN) -> Steps:
    """Ask for an operand, which has one literal at most."""
    if not conj:
        return ALL_SCALARS if type_ == SCALAR else (DOMAINS[type_].full,)
    (literal,) = conj
    return (yield Request(literal, type_, mode))


def _ask_not(conj: Conj, type_: int) -> Steps:
    (contrary,) = denials(conj) or (NOTHING,)
    return (yield from _ask(contrary, type_))


# Scalars: a boolean algebra.


def _scalars(literal: Literal) -> Steps:
    if not literal.positive:
        return _outside((yield Request(literal.node.positive, SCALAR)), literal.node)
    plan = plan_of(literal.node)
    found = own_scalars(literal.node, plan)
    for operation in plan.operations:
        if found is NO_SCALARS:
            break
        if operation.types & SCALAR:
            found = found & (yield from _scalar_operation(operation, literal.node))
    return found


def _outside(scalars: Scalars, node: Node) -> Scalars:
    """Return the complement; not of a format whose language leaves texts out, because the wrong ones would be let in."""
    if scalars.strings.inexact:
        raise UnsupportedSchema(
            f"cannot compile the complement of format {scalars.strings.inexact!r}", where=node.pointer,
            because="the language of this format is not complete", instead='state what is allowed, or use "pattern"',
        )
    return ~scalars


def _scalar_operation(operation: Operation, node: Node) -> Steps:
    parts = []
    for operand in operation.operands:
        parts.append((yield from _ask(operand, SCALAR)))
    if operation.kind is Kind.NOT:
        return _outside(parts[0], node)
    if operation.kind is Kind.IF:
        condition, then, otherwise = parts
        if then is ALL_SCALARS and otherwise is ALL_SCALARS:
            return ALL_SCALARS
        return (condition & then) | (_outside(condition, node) & otherwise)
    found = ALL_SCALARS if operation.kind is Kind.ALL else NO_SCALARS
    twice = NO_SCALARS
    for part in parts:
        if operation.kind is Kind.ALL:
            found = found & part
        else:
            if operation.kind is Kind.ONE:
                twice = twice | (found & part)
            found = found | part
    return found & _outside(twice, node) if twice else found


# Arrays and objects: unions of drafts.


def _conjoin(domain: Domain, left: Drafts, right: Drafts, node: Node) -> Drafts:
    """Return the pairwise conjunctions that are not seen to be empty."""
    if len(left) == 1 and left[0] is domain.full:
        return right
    if len(right) == 1 and right[0] is domain.full:
        return left
    found = []
    for one in left:
        for other in right:
            joined = domain.merge(one, other, surely_never)
            if joined is not None:
                found.append(joined)
        if len(found) > MOST_ALTERNATIVES:
            raise _too_many(node)
    return tuple(found)


def _disjoin(domain: Domain, parts: Iterable[Drafts], node: Node) -> Drafts:
    """Return the union; drafts that amount to a clause are joined into one."""
    clause: frozenset[Any] | None = None
    only: Draft = None  # the draft of the clause, as long as there is just one
    found: list[Draft] = []
    for part in parts:
        for draft in part:
            if draft is domain.full:
                return (draft,)
            single = domain.as_clause(draft)
            if single is None:
                found.append(draft)
            else:
                only, clause = (draft, single) if clause is None else (None, clause | single)
    if clause is not None:
        found.append(domain.of_clause(clause) if only is None else only)
        if found[-1] is domain.full:
            return (domain.full,)
    if len(found) > MOST_ALTERNATIVES:
        raise _too_many(node)
    return tuple(found)


def _too_many(node: Node) -> UnsupportedSchema:
    return UnsupportedSchema(
        "cannot compile a combination of schemas", where=node.pointer, because=f"it has more than {MOST_ALTERNATIVES} alternatives",
        instead='give the members of "oneOf" a required property with "const" that tells them apart',
    )


def _positive(node: Node, type_: int, mode: Mode) -> Steps:
    domain, plan = DOMAINS[type_], plan_of(node)
    unevaluated = plan.unevaluated.get(type_)
    inner = Mode.SOME if unevaluated is not None and mode is Mode.PLAIN else mode
    found: Drafts = (_own(node, plan, type_, inner),)
    for operation in plan.operations:
        if operation.types & type_:
            found = _conjoin(domain, found, (yield from _operation(operation, node, type_, inner)), node)
    if unevaluated is None:
        return found
    if type_ == OBJECT:
        seen = ALL_KEYS if mode else objects.FULL.seen
        return tuple(replace(objects.with_unseen(draft, unevaluated), seen=seen) for draft in found)
    seen_items = None if mode else 0
    narrowed = (arrays.with_unseen(draft, _or_seen(draft, unevaluated, node)) for draft in found)
    return tuple(replace(draft, seen=seen_items, seen_items=()) for draft in narrowed if draft is not None)


def _or_seen(draft: ArrayDraft, conj: Conj, node: Node) -> Conj:
    """Return the union of a conjunction and the items that "contains" has evaluated."""
    parts = [part for part in (conj, *draft.seen_items) if part != NOTHING]
    if not draft.seen_items or not all(parts):
        return conj if all(parts) else ALWAYS
    if len(parts) < 2:
        return parts[0] if parts else NOTHING
    union, new = node.document.union(parts, node.where)
    if new:
        union.plan = Plan(EVERY_TYPE, operations=(Operation(Kind.ANY, tuple(parts), "anyOf"),), plain=False)
    return union.conj


def _operation(operation: Operation, node: Node, type_: int, mode: Mode) -> Steps:
    domain, operands = DOMAINS[type_], operation.operands
    kind = operation.kind
    if kind is Kind.ALL:
        found: Drafts = (domain.full,)
        for operand in operands:
            found = _conjoin(domain, found, (yield from _ask(operand, type_, mode)), node)
        return found
    if kind is Kind.ANY:
        if mode:
            return (yield from _any_annotated(operation, node, type_, mode))
        parts = []
        for operand in operands:
            parts.append((yield from _ask(operand, type_)))
        return _disjoin(domain, parts, node)
    if kind is Kind.ONE:
        return (yield from _exactly_one(operation, node, type_, mode))
    if kind is Kind.NOT:
        return (yield from _ask_not(operands[0], type_))
    if kind is Kind.IF:
        return (yield from _if(operation, node, type_, mode))
    return (yield from _when(operation, node, type_, mode))


def _exactly_one(operation: Operation, node: Node, type_: int, mode: Mode) -> Steps:
    """Return "this one and none of the others" for each operand; a disjoint other needs no mention."""
    domain, operands = DOMAINS[type_], operation.operands
    annotated, plain = [], []
    for operand in operands:
        annotated.append((yield from _ask(operand, type_, mode)))
        plain.append((yield from _ask(operand, type_)) if mode else annotated[-1])
    found: list[Draft] = []
    for index, own in enumerate(annotated):
        for draft in own:
            alone: Drafts = (draft,)
            for other, rivals in enumerate(plain):
                if other != index and any(not domain.disjoint(draft, rival, surely_never) for rival in rivals):
                    alone = _conjoin(domain, alone, (yield from _ask_not(operands[other], type_)), node)
            found += alone
        if len(found) > MOST_ALTERNATIVES:
            raise _too_many(node)
    return tuple(found)


def _if(operation: Operation, node: Node, type_: int, mode: Mode) -> Steps:
    domain = DOMAINS[type_]
    condition, then, otherwise = operation.operands
    if not mode and not then and not otherwise:
        return (domain.full,)
    if not then and mode is Mode.SOME and not otherwise:
        return (domain.full, *(yield from _ask(condition, type_, mode)))
    contrary = yield from _ask_not(condition, type_)
    yes = yield from _ask(then, type_, mode)
    no = yield from _ask(otherwise, type_, mode)
    if not mode and not otherwise and all(domain.as_clause(draft) is not None for draft in yes):
        return _disjoin(domain, (contrary, yes), node)
    holds = yield from _ask(condition, type_, mode)
    return _conjoin(domain, holds, yes, node) + _conjoin(domain, contrary, no, node)


def _when(operation: Operation, node: Node, type_: int, mode: Mode) -> Steps:
    domain, key = DOMAINS[type_], operation.key
    inner = yield from _ask(operation.operands[0], type_, mode)
    absent = ObjectDraft({key: NOTHING})
    if not mode and all(domain.as_clause(draft) is not None for draft in inner):
        return _disjoin(domain, ((absent,), inner), node)
    return (absent, *_conjoin(domain, (ObjectDraft(required={key: None}),), inner, node))


def _any_annotated(operation: Operation, node: Node, type_: int, mode: Mode) -> Steps:
    """Return the union over the sets of operands that hold, as far as these evaluate anything."""
    domain = DOMAINS[type_]
    silent: list[Drafts] = []
    none: Drafts = (domain.full,)  # no contributing operand is claimed to hold
    some: Drafts = ()  # at least one is
    for operand in operation.operands:
        part = yield from _ask(operand, type_, mode)
        if all(draft.seen == domain.full.seen and not getattr(draft, "seen_items", ()) for draft in part):
            silent.append(part)
            continue
        joined = _conjoin(domain, none + some, part, node)
        if mode is Mode.EXACT:
            contrary = yield from _ask_not(operand, type_)
            none, some = _conjoin(domain, none, contrary, node), _conjoin(domain, some, contrary, node)
        some += joined
        if len(some) > MOST_ALTERNATIVES:
            raise _too_many(node)
    return some + _conjoin(domain, none, tuple(draft for part in silent for draft in part), node)


# Complements.


def _negative(node: Node, type_: int) -> Steps:
    """Return the union of the complements of the keywords."""
    domain, plan = DOMAINS[type_], plan_of(node)
    if not plan.types & type_:
        return (domain.full,)
    parts = [domain.deny(_own(node, plan, type_, Mode.PLAIN))]
    for operation in plan.operations:
        if operation.types & type_:
            parts.append((yield from _contrary(operation, node, type_)))
    unevaluated = plan.unevaluated.get(type_)
    if unevaluated:
        found: Drafts = (_own(node, plan, type_, Mode.EXACT),)
        for operation in plan.operations:
            if operation.types & type_:
                found = _conjoin(domain, found, (yield from _operation(operation, node, type_, Mode.EXACT)), node)
        parts.append(tuple(_some_unseen(draft, unevaluated, type_) for draft in found))
    return _disjoin(domain, parts, node)


def _some_unseen(draft: Draft, conj: Conj, type_: int) -> Draft:
    """Return the draft with some key (item) that nothing has evaluated outside `conj`."""
    (outside,) = denials(conj)
    if type_ == OBJECT:
        return replace(draft, seen=objects.FULL.seen, clauses=(*draft.clauses, frozenset({HasIn(~draft.seen, outside)})))
    for part in draft.seen_items:
        outside = both(outside, next(iter(denials(part)), NOTHING))
    clause = frozenset() if draft.seen is None else frozenset({ItemFrom(draft.seen, outside)})
    return replace(draft, seen=0, seen_items=(), clauses=(*draft.clauses, clause))


def _contrary(operation: Operation, node: Node, type_: int) -> Steps:
    domain, operands = DOMAINS[type_], operation.operands
    kind = operation.kind
    if kind is Kind.NOT:
        return (yield from _ask(operands[0], type_))
    if kind is Kind.WHEN:
        contrary = yield from _ask_not(operands[0], type_)
        return _conjoin(domain, (ObjectDraft(required={operation.key: None}),), contrary, node)
    if kind is Kind.IF:
        condition, then, otherwise = operands
        holds = yield from _ask(condition, type_)
        yes = _conjoin(domain, holds, (yield from _ask_not(then, type_)), node)
        fails = yield from _ask_not(condition, type_)
        return yes + _conjoin(domain, fails, (yield from _ask_not(otherwise, type_)), node)
    denied = []
    for operand in operands:
        denied.append((yield from _ask_not(operand, type_)))
    if kind is Kind.ALL:
        return _disjoin(domain, denied, node)
    found: Drafts = (domain.full,)
    for part in denied:
        found = _conjoin(domain, found, part, node)
    if kind is Kind.ONE:
        for index, operand in enumerate(operands):
            for other in operands[:index]:
                found += _conjoin(domain, (yield from _ask(operand, type_)), (yield from _ask(other, type_)), node)
    return found


def surely_never(conj: Conj) -> bool:
    """Return True if certainly no value belongs to a conjunction; looks a few levels of required values deep.

    False may mean "not seen": the answer prunes alternatives, while `live` decides.
    """
    if not conj or conj == NOTHING:
        return bool(conj)
    memo = next(iter(conj)).node.document.memo
    key = "surely never", conj, _depth.level
    known: bool | None = memo.get(key)
    if known is not None or _depth.level == _MOST_DEPTH:
        return bool(known)
    _depth.level += 1
    try:
        found = memo[key] = _seems_empty(conj)
    except Busy:
        return False
    finally:
        _depth.level -= 1
    return found


class _Depth(local):
    level = 0  # of nested questions, per thread


_depth = _Depth()


def _seems_empty(conj: Conj) -> bool:
    types = EVERY_TYPE
    for literal in conj:
        if literal.positive:
            types &= plan_of(literal.node).types
    if types & SCALAR and scalars_of(conj):
        return False
    return not any(types & type_ and drafts_of(conj, type_) for type_ in (OBJECT, ARRAY))
