"""The check before a schema is compiled: keyword values have the right form, references resolve, patterns parse.

One iterative pass over the schemas (not over the values in `enum` or `default`), so depth is no limit; its cost is a
few microseconds per subschema.  Validating against the metaschema, the alternative, costs a thousand times as much and
reports in the metaschema's words. What is right but cannot be compiled is reported later, by the normalisation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from decimal import Decimal
from typing import Any, NoReturn, TypeAlias
from urllib.parse import unquote

from constrained.errors import GrammarError, LimitExceeded, SchemaError, UnsupportedSchema, shown
from constrained.regex.facts import LARGE_PATTERN, size
from constrained.schema.reading.document import (
    MAY_REFER,
    NOTHING,
    Document,
    Library,
    Reference,
    Resource,
    Schema,
    Target,
    Where,
    joined,
    pointer,
    split_fragment,
)
from constrained.schema.reading.keywords import (
    DRAFTS,
    REFERRING,
    TYPES,
    Applies,
    Dialect,
    Holds,
    OfKind,
    applying,
    named,
)
from constrained.schema.reading.notes import ANNOTATIONS
from constrained.schema.strings.formats import INEXACT, KNOWN
from constrained.schema.strings.sets import of_pattern
from constrained.schema.values import ALWAYS, Conj
from constrained.work import let_go, spend

_NAMING = frozenset({"$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"})
_RISKY = named(lambda keyword: keyword.risky)
_SPECIAL = _NAMING.union(_RISKY, REFERRING)
_UNIONS = applying(Applies.AS_BRANCH)
_PORTION = 200  # units that are spent at once
_PATTERNS = ("pattern", "patternProperties")
_REQUIRING = ("dependentRequired", "dependencies")
_FEW = 7  # patterns of keys, which cut these into 128 parts at most
_MANY = 100  # keys that require others, arrays and objects that are listed: more are risky, see `Library`
_LARGE_FORMATS = frozenset({"idn-hostname", "regex"})
MANY_BITS = 300  # of a number
_COUNTS = named(lambda keyword: keyword.counts)
_NUMERIC = named(lambda keyword: keyword.measures)
_LOOKED_AT = _NUMERIC | frozenset((*_PATTERNS, *_REQUIRING, "required", "uniqueItems", "format"))
_ONLY_STR = frozenset({str})
_INDEX = re.compile("0|[1-9][0-9]{0,8}")  # SPEC: RFC 6901 §4
MOST_COUNTED = (1 << 31) - 1  # characters, items or keys: more than any text has
MOST_DIGITS = 4_000  # of a number; Python itself refuses to write somewhat longer ones
MOST_BITS = 13_000

_Below: TypeAlias = tuple[Any, Resource, Where, int]  # a schema, its resource and place, the id of the one it stands in
# types of which any value fits, what says whether another fits, where subschemas are, whether it is looked at
_Form: TypeAlias = tuple[Collection[type], Callable[[Any], bool], Holds, bool]


def check(library: Library, resource: Resource) -> None:
    """Check a document and everything that it refers to; afterwards `library.targets` holds every reference.

    Raises: SchemaError: a keyword's value has the wrong form, or a reference leads nowhere.
    """
    _survey(library, resource.root, resource, resource.where)
    while library.references:
        reference = library.references.pop()
        spend(4)
        target = _resolve(library, reference)
        library.targets[id(reference.schema), reference.keyword] = target
        if target.dynamic is not None:
            library.dynamic = True
        if type(target.schema) is dict and "$ref" in target.schema:  # perhaps it leads back
            library.risky.append(reference.schema)
        if id(target.schema) not in library.outer:
            _survey(library, target.schema, target.resource, target.where)


def _survey(library: Library, root: Schema, resource: Resource, where: Where) -> None:
    """Check the schemas below `root` that no survey has seen yet; collect identifiers and references."""
    outer, work = library.outer, 0
    todo: list[_Below] = [(root, resource, where, 0)]
    while todo:
        schema, resource, where, holder = todo.pop()
        if schema is True or schema is False:
            continue
        if type(schema) is not dict:
            _refuse(where)
        if id(schema) in outer:
            library.further_outer.append((id(schema), holder))
            continue
        outer[id(schema)] = holder
        work += 5
        if work > _PORTION:
            spend(work)
            work = 0
        entries: Iterable[tuple[str, Any]] = schema.items()
        if not _SPECIAL.isdisjoint(schema):
            resource, entries = _entered(library, schema, resource, where)
        dialect, holder = resource.dialect, id(schema)
        forms: dict[str, _Form] = dialect.tables.get("forms") or _forms_of(dialect)
        for keyword, value in entries:
            form = forms.get(keyword)
            if form is None:
                if keyword not in ANNOTATIONS:
                    library.unknown.append((keyword, where, dialect))
                continue
            kinds, fits, holds, looked_at = form
            if type(value) not in kinds and not fits(value):
                raise _misfit(keyword, value, dialect, where)
            if looked_at:
                _check_value(library, schema, keyword, where, dialect)
            if holds:
                todo += _subschemas(holds, keyword, value, resource, where, holder)
    spend(work)


def _refuse(where: Where) -> NoReturn:
    because = "a schema is an object, true or false"
    raise SchemaError("not a schema", where=pointer(where), because=because, instead="true, for any value")


def _entered(
    library: Library, schema: dict[str, Any], resource: Resource, where: Where
) -> tuple[Resource, Iterable[tuple[str, Any]]]:
    """Note the names, references and combinations of a schema; return its resource, and the keywords that count."""
    if not _NAMING.isdisjoint(schema):
        resource = library.enter(schema, resource, where)
    if not _RISKY.isdisjoint(schema) and not _is_union_of_types(schema):
        library.risky.append(schema)
    entries: Iterable[tuple[str, Any]] = schema.items()
    for keyword in REFERRING:
        if keyword in schema and keyword in resource.dialect.rules:
            library.references.append(Reference(schema, keyword, resource, where))
            if resource.dialect.refers_by(schema) is None:  # combined with others
                library.risky.append(schema)
            if resource.dialect.reference_stands_alone:
                entries = [(name, schema[name]) for name in ("$ref", "definitions") if name in schema]
    return resource, entries


def _is_union_of_types(schema: dict[str, Any]) -> bool:
    """Say whether a schema combines nothing but members of different types, so that it has one alternative of each."""
    (keyword, *others) = _RISKY.intersection(schema)
    members = schema[keyword]
    if others or keyword not in _UNIONS or type(members) is not list or len(members) > len(TYPES):
        return False
    types = [part["type"] if type(part) is dict and _SPECIAL.isdisjoint(part) and type(part.get("type")) is str else ""
             for part in members]
    return len({*types}) == len(types) and "" not in types and not {"integer", "number"}.issubset(types)


def _check_value(library: Library, schema: dict[str, Any], keyword: str, where: Where, dialect: Dialect) -> None:
    """Check what a keyword's value says, its form being right."""
    value = schema[keyword]
    if keyword in _NUMERIC:
        _check_numbers(library, schema, keyword, value, where)
    elif keyword in _PATTERNS:
        library.risky += (schema,) if _check_patterns(keyword, value, where) else ()
    elif keyword in _REQUIRING:
        library.risky += (schema,) if len(value) > _MANY else ()
        library.undescribed = True
    elif keyword == "required":
        described = schema.get("properties")
        library.undescribed |= type(described) is not dict or any(key not in described for key in value)
    elif keyword == "uniqueItems":
        library.risky += (schema,) if value and _allows_lists(schema) else ()
    elif value in INEXACT:
        library.risky += (schema,) if value in _LARGE_FORMATS else ()
        library.inexact.append((pointer((where, keyword)), value))
    elif value not in KNOWN:
        library.unknown.append((f"format:{value}", where, dialect))


def _allows_lists(schema: dict[str, Any]) -> bool:
    """Say whether the type that a schema states, if it does, may be that of an array."""
    kind = schema.get("type", "array")
    return kind == "array" or type(kind) is list and "array" in kind


def _forms_of(dialect: Dialect) -> dict[str, _Form]:
    """Return what the values of a dialect's keywords must be, and where their subschemas are."""
    forms: dict[str, _Form] = {}
    for keyword, rule in dialect.rules.items():
        kinds = rule.fits.kinds if isinstance(rule.fits, OfKind) else ()
        forms[keyword] = kinds, rule.fits, rule.holds, keyword in _LOOKED_AT
    dialect.tables["forms"] = forms
    return forms


def _subschemas(
    holds: Holds, keyword: str, value: Any, resource: Resource, where: Where, holder: int
) -> list[_Below]:
    """Return the subschemas in a keyword's value; lists of strings among them are none."""
    here: Where = (where, keyword)
    if type(value) is list:
        return [(schema, resource, (here, index), holder) for index, schema in enumerate(value)]
    if holds is Holds.MAP or holds is Holds.SCHEMA_OR_STRINGS_MAP:
        entries = value.items()
        parts = entries if holds is Holds.MAP else [entry for entry in entries if type(entry[1]) is not list]
        return [(schema, resource, (here, name), holder) for name, schema in parts]
    return [(value, resource, here, holder)]


def _misfit(keyword: str, value: object, dialect: Dialect, where: Where) -> SchemaError:
    rule = dialect.rules[keyword]
    drafts = [uri for uri, other in DRAFTS if keyword in other.rules and other.rules[keyword].fits(value)]
    ways = [rule.instead] if rule.instead and value is not None else []
    ways += [f'"$schema": "{drafts[0]}", which says it so'] if drafts else []
    ways += [f'leave "{keyword}" out'] if value is None else []
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (RecursionError, ValueError):  # too deep, or a number of too many digits
        text = shown(value)
    text = text if len(text) <= 60 else text[:57] + "…"
    return SchemaError(
        f"malformed keyword {keyword!r}", where=pointer((where, keyword)), because=f"{text} is not {rule.expected}",
        instead=", or ".join(ways) or None,
    )


def _check_numbers(library: Library, schema: dict[str, Any], keyword: str, value: Any, where: Where) -> None:
    """Refuse numbers that nothing can be made of; leave out bounds that no text can reach."""
    if keyword in _COUNTS and value >= MOST_COUNTED:
        if keyword.startswith("min"):
            raise UnsupportedSchema(
                f"cannot compile keyword {keyword!r}",
                where=pointer((where, keyword)),
                because="no text can be so long",
                instead="a smaller number",
            )
        schema[keyword] = MOST_COUNTED
        return
    kind = type(value)
    if kind is list and _ONLY_STR.issuperset(map(type, value)) or kind is int and value.bit_length() <= MANY_BITS:
        return
    todo: list[tuple[Any, Where]] = [(value, (where, keyword))]
    seen: set[int] = set()  # of lists and objects, which may contain themselves
    while todo:
        part, at = todo.pop()
        kind = type(part)
        if kind in (list, dict):
            if id(part) in seen:
                continue
            seen.add(id(part))
        if kind is list:
            if not _ONLY_STR.issuperset(map(type, part)):
                todo += [(entry, (at, index)) for index, entry in enumerate(part)]
        elif kind is dict:
            todo += [(entry, (at, key)) for key, entry in part.items()]
        elif (
            kind is int
            and part.bit_length() > MOST_BITS
            or kind is Decimal
            and part
            and abs(part.adjusted()) > MOST_DIGITS
        ):
            raise UnsupportedSchema(
                "cannot compile a number", where=pointer(at), because=f"it has more than {MOST_DIGITS:,} digits"
            )
        elif kind is int and part.bit_length() > MANY_BITS:
            library.risky += () if library.risky and library.risky[-1] is schema else (schema,)
    library.risky += (schema,) if len(seen) > _MANY else ()


def _check_patterns(keyword: str, value: Any, where: Where) -> bool:
    """Check patterns, and say whether the machine of one may be large, or many may cut keys into many parts."""
    if keyword == "pattern":
        return _check_pattern(value, (where, keyword))
    large = [_check_pattern(pattern, ((where, keyword), pattern)) for pattern in value]  # each of them is checked
    return True in large or len(large) > _FEW


def _check_pattern(pattern: str, where: Where) -> bool:
    try:
        return size(of_pattern(pattern)) >= LARGE_PATTERN
    except LimitExceeded as error:
        raise LimitExceeded(error.what, where=pointer(where), because=error.because, instead=error.instead) from error
    except GrammarError as error:
        kind = UnsupportedSchema if "backreference" in str(error) else SchemaError
        raise kind(
            f"pattern {pattern!r} cannot be used", where=pointer(where), instead=error.instead,
            because=": ".join(part for part in (error.what, error.because) if part),
        ) from error


def _resolve(library: Library, reference: Reference) -> Target:
    """Return what a reference points to, without regard to the dynamic scope."""
    schema, keyword, resource, where = reference
    text, at = schema[keyword], (where, keyword)
    uri, fragment = split_fragment(text, at)
    if uri:
        target, new = library.find(joined(resource.uri, uri, at), at)
        if new:
            _survey(library, target.root, target, target.where)
        resource = target
    if keyword == "$recursiveRef":
        return Target(resource.root, resource, resource.where, "" if resource.recursive else None)
    fragment = unquote(fragment)
    if not fragment or fragment.startswith("/"):
        return _walk(library, resource, fragment, text, at)
    if fragment not in resource.anchors:
        raise SchemaError(
            f"broken reference {text!r}", where=pointer(at), because=f"the document has no anchor {fragment!r}"
        )
    anchored, place = resource.anchors[fragment]
    overridable = keyword == "$dynamicRef" and fragment in resource.dynamic_anchors
    return Target(anchored, resource, place, fragment if overridable else None)


def _walk(library: Library, resource: Resource, fragment: str, text: str, at: Where) -> Target:
    """Follow a JSON pointer from the root of a resource; embedded resources that it crosses change the base."""
    value: Any = resource.root
    where = resource.where
    for step in fragment.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if type(value) is dict and step in value:
            value = value[step]
        elif type(value) is list and _INDEX.fullmatch(step) and int(step) < len(value):
            value = value[int(step)]
        else:
            raise SchemaError(
                f"broken reference {text!r}", where=pointer(at), because=f"there is no {step!r} in {pointer(where)}"
            )
        where = (where, step)
        resource = library.embedded.get(id(value), resource)
    if type(value) not in (dict, bool):
        raise SchemaError(f"broken reference {text!r}", where=pointer(at), because=f"{pointer(where)} is not a schema")
    return Target(value, resource, where)


def load(
    schema: object,
    *,
    remotes: Mapping[str, object] | None = None,
    dialect: Dialect | None = None,
    formats: str = "assert",
    closed: bool = False,
    own: bool = False,
) -> Conj:
    """Read and check a schema; return it as a conjunction.

    `remotes` maps URIs to further documents that it may refer to; nothing is fetched.  `dialect` is that of documents
    without ``$schema``.  formats: "assert" all that are known, those of the "dialect" only, or "annotate" none.
    closed: see `Document`.  own: the schema is JSON and nobody else's, so that it need not be copied.

    Raises: SchemaError: the schema or a reachable document is malformed, or a reference leads nowhere.
    Cost: 2 µs per subschema.
    """
    library = Library({} if remotes is None else remotes, dialect)
    resource = library.add(schema, "", "#", own=own)
    try:
        check(library, resource)
    except LimitExceeded as error:
        error.__traceback__ = None  # its frames hold on to schemas
        let_go(resource.root)
        raise
    document = Document(library, formats, closed)
    if isinstance(resource.root, bool) or not resource.root:
        return NOTHING if resource.root is False else ALWAYS
    root = document.node(resource.root, resource, (), "#")
    return root.conj if MAY_REFER.isdisjoint(resource.root) else document.follow(root)
