"""A sketch → an `ObjectShape`: every name decided, the other keys cut into disjoint cells, the clauses simplified."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, cast

from constrained import regex
from constrained.caches import cached
from constrained.errors import LimitExceeded, UnsupportedSchema
from constrained.regex import ANY_TEXT, NEVER, Expr
from constrained.schema.reading.check import MOST_COUNTED
from constrained.schema.reading.nodes import NOTHING, Node, both
from constrained.schema.reading.places import keyword_of, located
from constrained.schema.sketches.objects import HasIn, Never, ObjectSketch
from constrained.schema.sketches.property_names import PropertyNames
from constrained.schema.strings.sets import is_spelled, listed
from constrained.schema.values import ALWAYS, Absent, Clause, Conj, HasNamed, HasOther, ObjectShape, Obligation, Present
from constrained.work import spend

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
    named, cells = _plainly_decided(sketch) or decided(sketch, node)
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
        and NOTHING in map(named.__getitem__, required)
        or sketch.max is not None
        and sketch.max < max(sketch.min, len(required))
    ):
        return None
    return ObjectShape(tuple(named.items()), frozenset(required), cells, sketch.min, sketch.max, tuple(clauses))


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
    spend(2 + len(names) * (1 + len(sketch.regions)) // 4)
    for name in names:
        conj = sketch.named.get(name, ALWAYS) if is_spelled(name) else NOTHING
        for keys, part in sketch.regions:
            if name in keys:
                conj = both(conj, part)
        named[name] = conj
    return named, cells


def _plainly_decided(sketch: ObjectSketch) -> tuple[dict[str, Conj], Cells] | None:
    """As `decided`, where names are all that tells keys apart; None: there may be more to it.

    PERF: most objects are such, and it is a third of the time.
    """
    if sketch.clauses:
        return None
    named, others = {**sketch.named}, ALWAYS
    for key in sketch.required:
        if key not in named:
            named[key] = ALWAYS
    for keys, conj in sketch.regions:
        if not keys.outside or keys.languages or not keys.names <= named.keys():
            return None
        others = both(others, conj)
        for key in named.keys() - keys.names:
            named[key] = both(named[key], conj)
    if not all(map(str.isascii, named)):
        return None
    spend(2 + len(named) * (1 + len(sketch.regions)) // 4)
    return named, () if others == NOTHING else ((ANY_TEXT, others),)


def _names(sketch: ObjectSketch) -> dict[str, None]:
    names = {**dict.fromkeys(sketch.named), **sketch.required}
    for keys, _ in sketch.regions:
        if not keys.names <= names.keys():
            names.update(dict.fromkeys(sorted(keys.names)))
    for clause in sketch.clauses:
        for part in clause:
            if isinstance(part, HasIn):
                names.update(dict.fromkeys(sorted(part.keys.names - names.keys())))
        names.update(
            dict.fromkeys(
                sorted({part.key for part in clause if isinstance(part, (HasNamed, Absent, Present))} - names.keys())
            )
        )
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
        pieces = _pieces(dict.fromkeys(language for keys, _ in cuts for language in keys.languages), node)
    except LimitExceeded as error:
        raise located(error, keyword_of(node, "patternProperties")) from None
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
            cell for cell in cells if cell[0] is ANY_TEXT or not regex.is_finite(cell[0]) or _has_other(cell[0], names)
        ]
    return tuple(cells), small


def _pieces(languages: Iterable[Expr], node: Node) -> list[tuple[Expr, frozenset[Expr]]]:
    """Cut all texts along some languages: return the parts that are not empty, and which of the languages each lies in.

    What lies outside all of them comes last; it is built once, so disjoint languages cost little.
    """
    found: list[tuple[Expr, frozenset[Expr], str]] = []  # with the characters that all its texts begin with
    covered: list[Expr] = []
    for language in languages:
        pieces: list[tuple[Expr, frozenset[Expr], str]] = []
        met, beginning = False, _beginning(language)
        spend(len(found))
        for piece in found:
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
            pieces.append((inside, members | {language}, max(begins, beginning, key=len)))
            outside = regex.intersect(old, regex.complement(language))
            if not regex.is_empty(outside):
                pieces.append((outside, members, begins))
        rest = regex.intersect(language, regex.complement(regex.union(*covered))) if met else language
        if not regex.is_empty(rest):
            pieces.append((rest, frozenset((language,)), beginning))
        covered.append(language)
        found = pieces
        if len(found) > _MOST_CELLS:
            raise UnsupportedSchema(
                "cannot compile the patterns of an object", where=keyword_of(node, "patternProperties"),
                because=f"they cut the keys into more than {_MOST_CELLS} parts",
                instead='use fewer overlapping patterns in "patternProperties"',
            )
    beyond = regex.complement(regex.union(*covered))
    parts = [(language, members) for language, members, _ in found]
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


def _has_other(language: Expr, names: dict[str, None]) -> bool:
    return listed(language, len(names)) is None


def _spelled(clause: frozenset[Obligation | HasIn], names: dict[str, Conj], cells: Cells) -> Clause:
    if HasIn not in map(type, clause):  # PERF: as most; an obligation is hashed by calls of Python
        return cast(Clause, clause)
    found: set[Obligation] = set()
    for part in clause:
        if not isinstance(part, HasIn):
            found.add(part)
            continue
        found.update(HasNamed(name, part.value) if part.value else Present(name) for name in names if name in part.keys)
        others = part.keys.others()
        if others is not NEVER and any(
            others is ANY_TEXT or not regex.is_empty(regex.intersect(cell, others)) for cell, _ in cells
        ):
            found.add(HasOther(others, part.value))
    return frozenset(found)


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
        spend(2 * sum(map(len, clauses)) + len(clauses) ** 2 // 8)
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
        clauses = [clause for clause in kept if not any(other < clause for other in kept)]
    return clauses


def _open(
    clause: Clause, named: dict[str, Conj], required: dict[str, None], cells: Cells, never: Never
) -> Clause | None:
    """Return the obligations that can still hold; None if one of them holds anyway."""
    found: list[Obligation] = []
    for part in clause:
        if isinstance(part, Absent):
            if named[part.key] == NOTHING or never(named[part.key]):
                return None
            if part.key not in required:
                found.append(part)
        elif isinstance(part, Present):
            if part.key in required or Absent(part.key) in clause:
                return None
            if named[part.key] != NOTHING and not never(named[part.key]):
                found.append(part)
        elif isinstance(part, HasNamed):
            if part.key in required and part.value <= named[part.key]:
                return None
            joined = both(named[part.key], part.value)
            if joined != NOTHING and not never(joined):
                found.append(part)
        else:
            assert isinstance(part, HasOther)
            if any(_reaches(part, cell) and not never(both(conj, part.value)) for cell, conj in cells):
                found.append(part)
    return clause if len(found) == len(clause) else frozenset(found)


def _reaches(part: HasOther, cell: Expr) -> bool:
    return part.keys is ANY_TEXT or part.keys is cell or not regex.is_empty(regex.intersect(cell, part.keys))


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
