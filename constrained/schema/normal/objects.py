"""Objects: what their keywords mean, sets of property names, and the sketches from which `ObjectShape` is made.

`properties`, `patternProperties`, `additionalProperties` and `propertyNames` each constrain the values (or the
presence) of the keys of such a set.  Names stay names, so that the common schema never builds an automaton.

A sketch is a conjunction of constraints.  Two kinds of constraint are enough: "the value of every key in K belongs
to C" and "some key in K is present with a value in C"; each is the complement of the other.  For a single key they
are kept as a name and its conjunction. Sketches are narrowed only while they are built and shared after; a union of
sketches is a tuple of them (see `alternatives`).

A keyword is a function that narrows the sketch of its schema.  In the shape that a sketch becomes every name is
decided, the other keys are cut into disjoint cells, and the clauses simplified.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from constrained import regex
from constrained.caches import cached
from constrained.errors import LimitExceeded, UnsupportedSchema
from constrained.regex import ANY_TEXT, NEVER, Expr
from constrained.schema.reading.check import MOST_COUNTED
from constrained.schema.reading.document import NOTHING, Node, both, denials, keyword_of, located
from constrained.schema.reading.keywords import OTHER_KEYS
from constrained.schema.strings import sets as texts
from constrained.schema.strings.sets import Texts, is_spelled, listed
from constrained.schema.values import (
    ALWAYS,
    Absent,
    Clause,
    Conj,
    HasNamed,
    HasOther,
    ObjectShape,
    Obligation,
    Present,
    negation,
)
from constrained.work import frozen_in_turns, sorted_in_turns, spend

if TYPE_CHECKING:
    from constrained.schema.reading.document import Node

@dataclass(slots=True, unsafe_hash=True)  # never changed; a frozen one takes three times as long to make
class PropertyNames:
    """The keys in `names` or in one of the languages; with `outside`, all other keys."""

    outside: bool
    names: frozenset[str] = frozenset()
    languages: tuple[Expr, ...] = ()

    def __contains__(self, key: str) -> bool:
        if key in self.names:
            return not self.outside
        if not self.languages:
            return self.outside
        return any(_holds(language, key) for language in self.languages) is not self.outside

    def others(self) -> Expr:
        """Return the set as a language, for keys that are not in `names`."""
        if not self.languages:
            return ANY_TEXT if self.outside else NEVER
        inside = regex.union(*self.languages) if len(self.languages) > 1 else self.languages[0]
        return regex.complement(inside) if self.outside else inside

    def __invert__(self) -> PropertyNames:
        return PropertyNames(not self.outside, self.names, self.languages)

    def __or__(self, other: PropertyNames) -> PropertyNames:
        """Return the union.  Names that one side lists are decided one by one; the rest are languages."""
        if not self.outside and not other.outside:
            return PropertyNames(
                False, self.names | other.names, tuple(dict.fromkeys(self.languages + other.languages))
            )
        if not self.languages and not other.languages:
            if self.outside and other.outside:
                return PropertyNames(True, self.names & other.names)
            outer, inner = (self, other) if self.outside else (other, self)
            return PropertyNames(True, outer.names - inner.names)
        names = frozenset(name for name in self.names | other.names if name not in self and name not in other)
        rest = regex.complement(regex.union(self.others(), other.others()))
        return PropertyNames(
            True, names, () if rest is NEVER else (_without(rest, (self.names | other.names) - names),)
        )


ALL_KEYS = PropertyNames(True)
NO_KEYS = PropertyNames(False)


@cached(4096, 200)
def _holds(language: Expr, key: str) -> bool:
    """Patterns are asked of the same few names in every conjunction, 28 times each in a schema of 23 KB."""
    return regex.matches(language, key)


def _without(language: Expr, names: frozenset[str]) -> Expr:
    return regex.intersect(language, regex.complement(regex.literals(names))) if names else language


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
    value = sketch.named.get(key, ALWAYS)
    for keys, conj in sketch.regions:
        if key in keys:
            value = both(value, conj)
    return value


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
    denied = [of_clause(frozenset(clause))] if clause else []
    if sketch.min:
        denied.append(ObjectSketch(max=sketch.min - 1))
    if sketch.max is not None:
        denied.append(ObjectSketch(min=sketch.max + 1))
    for pair in sketch.clauses:
        contrary = ObjectSketch()
        for part in pair:
            if isinstance(part, Absent):
                contrary.required[part.key] = None
            else:
                assert isinstance(part, Present)
                contrary.named[part.key] = NOTHING
        denied.append(contrary)
    return tuple(denied)


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


_REQUIRING = ("dependentRequired", "dependencies")
_FEW_NAMES = 16  # keys of a pattern that are named one by one


def properties(sketch: ObjectSketch, value: dict[str, Any], node: Node) -> None:
    sketch.named = node.each_below(value.items(), "properties")


def pattern_properties(sketch: ObjectSketch, value: dict[str, Any], node: Node) -> None:
    sketch.regions += tuple(
        (PropertyNames(False, *_matching(pattern)), conj)
        for pattern, conj in node.each_below(value.items(), "patternProperties").items() if conj
    )


def additional_properties(sketch: ObjectSketch, value: Any, node: Node) -> None:
    """SPEC: applies to the keys that neither "properties" nor "patternProperties" of the same schema name."""
    conj = node.below(value, "additionalProperties")
    if conj:
        sketch.regions += ((PropertyNames(True, *_mentioned(node)), conj),)


def _mentioned(node: Node) -> tuple[frozenset[str], tuple[Expr, ...]]:
    matching = [_matching(pattern) for pattern in node.schema.get("patternProperties", ())]
    return frozenset(node.schema.get("properties", ())).union(*(names for names, _ in matching)), tuple(
        part for _, languages in matching for part in languages
    )


@cached(4096)
def _matching(pattern: str) -> tuple[frozenset[str], tuple[Expr, ...]]:
    """Return the keys that a pattern finds: by name if they are few, as with ``^name$``, else as a language."""
    language = texts.of_pattern(pattern)
    few = texts.listed(language, _FEW_NAMES)
    return (frozenset(), (language,)) if few is None else (frozenset(few), ())


def evaluated(node: Node) -> PropertyNames:
    """Return the keys that the keywords of the schema itself evaluate."""
    if "additionalProperties" in node.schema:
        return ALL_KEYS
    return PropertyNames(False, *_mentioned(node))


def named(node: Node) -> tuple[PropertyNames, bool]:
    """Return the keys that the schema itself names, all of them where it says what others are, and whether it describes
    objects by their keys.

    A key that is required without a word about its value is named, too.
    """
    schema, rules = node.schema, node.resource.dialect.rules
    if any(word in schema and word in rules for word in OTHER_KEYS):
        return ALL_KEYS, True
    keys, languages = _mentioned(node)
    wanted = [schema.get("required", ())]
    for word in _REQUIRING:
        if word in schema and word in rules:
            wanted += [keys for keys in schema[word].values() if type(keys) is list]
    if type(schema.get("const")) is dict and "const" in rules:
        wanted.append(schema["const"])
    patterns = schema.get("patternProperties", {})
    describes = "properties" in schema or any(part is not False for part in patterns.values())
    return PropertyNames(False, keys.union(*wanted), languages), describes


def property_names(sketch: ObjectSketch, names: Texts) -> None:
    """Forbid all keys outside a set of names; the caller normalises the subschema."""
    if names.only is not None:
        sketch.regions += ((PropertyNames(True, names.only), NOTHING),)
    elif names.language is ANY_TEXT:
        if names.barred:
            sketch.regions += ((PropertyNames(False, names.barred), NOTHING),)
    else:
        sketch.regions += ((PropertyNames(True, languages=(names.expr(),)), NOTHING),)


def required(sketch: ObjectSketch, value: list[str], node: Node) -> None:
    for key in value:
        sketch.required[key] = None


def dependent_required(sketch: ObjectSketch, value: dict[str, Any], node: Node) -> None:
    """Draft 7's "dependencies" may have schemas among its values, see `plans.dependent_schemas`."""
    sketch.clauses += tuple(
        frozenset((Absent(key), Present(name)))
        for key, names in value.items() if type(names) is list for name in dict.fromkeys(names) if name != key
    )


def min_properties(sketch: ObjectSketch, value: Any, node: Node) -> None:
    sketch.min = int(value)


def max_properties(sketch: ObjectSketch, value: Any, node: Node) -> None:
    sketch.max = int(value)


def constant(sketch: ObjectSketch, value: dict[str, Any], node: Node) -> None:
    """The object itself, for `const`."""
    for key, part in value.items():
        sketch.named[key] = node.document.constant(part, ((node.where, "const"), key))
    sketch.required = dict.fromkeys(value)
    sketch.regions += ((PropertyNames(True, frozenset(value)), NOTHING),)


Cells: TypeAlias = tuple[tuple[Expr, Conj], ...]

_SPELLED_OUT = 64  # a cell with no more keys than this becomes named keys
_MOST_CELLS = 500
_LONGEST_BEGINNING = 40  # characters


def shape(sketch: ObjectSketch, node: Node, never: Never) -> ObjectShape | None:
    """Return the sketch as a shape; None if it is seen to be empty.

    Errors name `node`.  `never` may answer False when in doubt; with an exact answer the obligations of the clauses are
    live.
    """
    if sketch.min > MOST_COUNTED:  # as the complement of a `maxProperties` that no object reaches: no text is so long
        return None
    named, cells = decided(sketch, node)
    required, clauses = sketch.required, list[Clause]()
    if sketch.clauses:
        required = dict(required)
        spelled = [_spelled(clause, named, cells) for clause in sketch.clauses]
        simplified = _simplify(spelled, named, required, cells, never)
        if simplified is None:
            return None
        clauses = simplified
    if (
        required
        and any(named[key] == NOTHING for key in required)
        or sketch.max is not None
        and sketch.max < max(sketch.min, len(required))
    ):
        return None
    return ObjectShape(tuple(named.items()), frozen_in_turns(required), cells, sketch.min, sketch.max, tuple(clauses))


def decided(sketch: ObjectSketch, node: Node) -> tuple[dict[str, Conj], Cells]:
    """Return the values of all keys that are known by name, and the cells of the others."""
    names = _names(sketch)
    cells: Cells = ()
    while True:
        cells, small = _cells(sketch, names, node)
        if not small:
            break
        names.update(dict.fromkeys(small))
    named = {}
    patterns = sum([len(keys.languages) for keys, _ in sketch.regions])
    spend(2 + len(names) * (1 + len(sketch.regions) + 2 * patterns) // 2)
    for name in names:
        conj = sketch.named.get(name, ALWAYS) if is_spelled(name) else NOTHING
        for keys, part in sketch.regions:
            if name in keys:
                conj = both(conj, part)
        named[name] = conj
    return named, cells


def _names(sketch: ObjectSketch) -> dict[str, None]:
    names = {**dict.fromkeys(sketch.named), **sketch.required}
    for keys, _ in sketch.regions:
        if not keys.names <= names.keys():
            for name in sorted_in_turns(keys.names):
                names[name] = None
    for clause in sketch.clauses:
        for part in clause:
            if isinstance(part, HasIn):
                names.update(dict.fromkeys(sorted_in_turns([name for name in part.keys.names if name not in names])))
        keyed = {part.key for part in clause if isinstance(part, (HasNamed, Absent, Present))}
        names.update(dict.fromkeys(sorted(keyed)))
    return names


def _cells(sketch: ObjectSketch, names: dict[str, None], node: Node) -> tuple[Cells, list[str]]:
    """Return the cells, and the keys of finite cells that are small enough to be spelled out as names first."""
    everywhere: Conj = ALWAYS  # what holds for each key that is not named
    cuts: list[tuple[PropertyNames, Conj]] = []
    for keys, conj in sketch.regions:
        if keys.languages:
            cuts.append((keys, conj))
        elif keys.outside:
            everywhere = both(everywhere, conj)
    cuts += [
        (part.keys, ALWAYS)
        for clause in sketch.clauses
        for part in clause
        if isinstance(part, HasIn) and part.keys.languages
    ]
    if not cuts:
        return ((ANY_TEXT, everywhere),) if everywhere != NOTHING else (), []
    cells = []
    try:
        pieces = _pieces(tuple(dict.fromkeys([language for keys, _ in cuts for language in keys.languages])))
    except LimitExceeded as error:
        raise located(error, keyword_of(node, "patternProperties")) from None
    if pieces is None:
        raise UnsupportedSchema(
            "cannot compile the patterns of an object", where=keyword_of(node, "patternProperties"),
            because=f"they cut the keys into more than {_MOST_CELLS} parts",
            instead='use fewer overlapping patterns in "patternProperties"',
        )
    for language, members in pieces:
        conj = everywhere
        for keys, part in cuts:
            if members.isdisjoint(keys.languages) is keys.outside:
                conj = both(conj, part)
        if conj != NOTHING:
            cells.append((language, conj))
    small: list[str] = []
    for language, _ in cells:
        if language is not ANY_TEXT:
            texts = listed(language, len(names) + _SPELLED_OUT + sketch.min + len(sketch.clauses))
            small += [text for text in texts or () if text not in names]
    if not small:
        cells = [
            (language, conj) for language, conj in cells
            if language is ANY_TEXT or not regex.is_finite(language) or listed(language, len(names)) is None
        ]
    return tuple(cells), small


@cached(1024)
def _pieces(languages: tuple[Expr, ...]) -> list[tuple[Expr, frozenset[Expr]]] | None:
    """Cut all texts along some languages: return the parts that are not empty, and which of the languages each lies in;
    None if they are more than `_MOST_CELLS`.

    What lies outside all of them comes last; it is built once, so disjoint languages cost little.
    """
    cut: list[tuple[Expr, frozenset[Expr], str]] = []  # with the characters that all its texts begin with
    covered: list[Expr] = []
    for language in languages:
        pieces: list[tuple[Expr, frozenset[Expr], str]] = []
        met, beginning = False, _beginning(language)
        spend(len(cut))
        for piece in cut:
            old, members, begins = piece
            if not begins.startswith(beginning[: len(begins)]):
                pieces.append(piece)
                continue
            spend(20)
            inside = regex.intersect(old, language)
            if regex.is_empty(inside):
                pieces.append(piece)
                continue
            met = True
            outside = regex.intersect(old, regex.complement(language))
            within = regex.is_empty(outside)
            pieces.append((old if within else inside, members | {language}, max(begins, beginning, key=len)))
            if not within:
                pieces.append((outside, members, begins))
        rest = regex.intersect(language, regex.complement(regex.union(*covered))) if met else language
        if not regex.is_empty(rest):
            pieces.append((rest, frozenset((language,)), beginning))
        covered.append(language)
        cut = pieces
        if len(cut) > _MOST_CELLS:
            return None
    beyond = regex.complement(regex.union(*covered))
    parts = [(language, members) for language, members, _ in cut]
    return parts if regex.is_empty(beyond) else [*parts, (beyond, frozenset())]


@cached(4096)
def _beginning(language: Expr) -> str:
    """Return the first characters of a language's texts, as far as all have them in common.

    >>> _beginning(regex.parse_ecma("^ab[cd]"))
    'ab'
    """
    text = ""
    while len(text) < _LONGEST_BEGINNING and not language.accepts:
        edges = language.edges()
        if len(edges) != 1 or edges[0][0] != edges[0][1]:
            break
        text, language = text + chr(edges[0][0]), edges[0][2]
    return text


def _spelled(clause: frozenset[Obligation | HasIn], names: dict[str, Conj], cells: Cells) -> Clause:
    if HasIn not in map(type, clause):  # as most; an obligation is hashed by calls of Python
        return cast(Clause, clause)
    kept: set[Obligation] = set()
    for part in clause:
        if not isinstance(part, HasIn):
            kept.add(part)
            continue
        kept.update(HasNamed(name, part.value) if part.value else Present(name) for name in names if name in part.keys)
        others = part.keys.others()
        if others is not NEVER and any(
            others is ANY_TEXT or not regex.is_empty(regex.intersect(cell, others)) for cell, _ in cells
        ):
            kept.add(HasOther(others, part.value))
    return frozenset(kept)


def _simplify(
    clauses: list[Clause], named: dict[str, Conj], required: dict[str, None], cells: Cells, never: Never,
) -> list[Clause] | None:
    """Narrow `named` and `required` by the clauses that have one way left; return the other clauses, None if one has
    none.
    """
    changed = True
    while changed:
        changed = False
        kept: dict[Clause, None] = {}
        spend(2 * sum(map(len, clauses)))
        for clause in clauses:
            left = _open(clause, named, required, cells, never)
            if left is None:
                continue
            if not left:
                return None
            if _impose(left, named, required):
                changed = True
            else:
                kept[left] = None
        clauses = _least(kept)
    return clauses


def _least(clauses: Collection[Clause]) -> list[Clause]:
    """Return the clauses that hold no other one, which is looked for where its rarest obligation is met."""
    counts = Counter(part for clause in clauses for part in clause)
    spend(sum([count * count for count in counts.values()]) >> 3)
    with_rarest: dict[Obligation, list[Clause]] = {}
    for clause in clauses:
        with_rarest.setdefault(min(clause, key=counts.__getitem__), []).append(clause)
    return [clause for clause in clauses
            if not any(other < clause for part in clause for other in with_rarest.get(part, ()))]


def _open(
    clause: Clause, named: dict[str, Conj], required: dict[str, None], cells: Cells, never: Never
) -> Clause | None:
    """Return the obligations that can still hold; None if one of them holds anyway."""
    if any(_is_sure(part, clause, named, required, never) for part in clause):
        return None
    obligations: list[Obligation] = []
    for part in clause:
        if isinstance(part, Absent):
            if part.key not in required:
                obligations.append(part)
        elif isinstance(part, Present):
            if named[part.key] != NOTHING and not never(named[part.key]):
                obligations.append(part)
        elif isinstance(part, HasNamed):
            joined = both(named[part.key], part.value)
            if joined != NOTHING and not never(joined):
                obligations.append(part)
        else:
            assert isinstance(part, HasOther)
            keys = part.keys
            reached = (conj for cell, conj in cells
                       if keys is ANY_TEXT or keys is cell or not regex.is_empty(regex.intersect(cell, keys)))
            if not all(never(both(conj, part.value)) for conj in reached):
                obligations.append(part)
    return clause if len(obligations) == len(clause) else frozenset(obligations)


_CONSTANTS = ("const", "enum")


def _is_sure(
    part: Obligation, clause: Clause, named: dict[str, Conj], required: dict[str, None], never: Never
) -> bool:
    """Say whether an obligation of a clause holds anyway: of values, whether a required key cannot have the constants
    that it denies, as the tags of other members; False says nothing.
    """
    if isinstance(part, Absent):
        return named[part.key] == NOTHING or never(named[part.key])
    if isinstance(part, Present):
        return part.key in required or Absent(part.key) in clause
    if not isinstance(part, HasNamed) or part.key not in required:
        return False
    if part.value <= named[part.key]:
        return True
    signed = next(iter(part.value))
    schema = signed.node.schema
    if signed.positive or len(part.value) > 1 or type(schema) is not dict or schema.keys().isdisjoint(_CONSTANTS):
        return False
    return never(both(named[part.key], negation(part.value)))


def _impose(clause: Clause, named: dict[str, Conj], required: dict[str, None]) -> bool:
    """Make a clause with one way left, or about the value of one key, a constraint on that key."""
    keys = {getattr(part, "key", None) for part in clause}
    (key,) = keys if len(keys) == 1 else (None,)
    if key is None or len(clause) > 2:
        return False
    values = [part.value for part in clause if isinstance(part, HasNamed)]
    if len(clause) == 2:
        if Absent(key) not in clause or not values:
            return False
        named[key] = both(named[key], values[0])
    elif Absent(key) in clause:
        named[key] = NOTHING
    else:
        required[key] = None
        if values:
            named[key] = both(named[key], values[0])
    return True
