"""What a tool's schema says of arguments: which types it allows at a place, and whether values fit it.

Types are those of the normal form, so references and combinations count (`Allowed`): texts between tags mean what the
types at their place say, and objects and arrays are nested where these say so.  A schema that cannot be compiled, and a
place that it does not speak of, allow anything.

The verdict is the engine's (`Judge`): the value is written as compact JSON and read by the same machines that make
masks, so that what was generated is accepted, and nothing else is.  `jsonschema` only says what is wrong with what was
refused, where, by which keyword and why; where it finds nothing wrong (formats that it does not know), the place stays
general.  Schemas that the engine cannot compile exactly are left to `jsonschema` alone.

Numbers that no machine writes (non-finite) do not occur: the readers refuse them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

from constrained.engine.compiled import CompiledGrammar, compile_grammar
from constrained.engine.plain import DEAD
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.errors import ConstrainedError, LimitExceeded, SchemaError, UnsupportedSchema
from constrained.formats.tools import Tool
from constrained.grammar import Embedded, Grammar, Rule
from constrained.once import once
from constrained.regex import matches, parse_ecma
from constrained.schema import embed
from constrained.schema.by_content import Recent, content
from constrained.schema.normal.normalise import normalise
from constrained.schema.reading.check import load
from constrained.schema.reading.document import NOTHING, pointer_of
from constrained.schema.reading.keywords import OTHER_KEYS
from constrained.schema.surfaces.tags import KINDS, kinds_of
from constrained.schema.values import ALWAYS, Conj, Value
from constrained.work import Budget, Preempted, current, metered, spend

# -- types -------------------------------------------------------------------------------------------------------------

_EVERY = frozenset(KINDS)


class Allowed:
    """The values that may stand at a place; several sets of them, where several shapes of what is around it do."""

    __slots__ = ("__weakref__", "_items", "_members", "conjs", "kinds", "values")

    def __init__(self, conjs: Iterable[Conj]) -> None:
        self.conjs = tuple(dict.fromkeys(conjs))
        self.values: tuple[Value, ...] = tuple([normalise(conj) for conj in self.conjs])
        self.kinds = frozenset([kind for value in self.values for kind in kinds_of(value)]) or _EVERY
        self._members: dict[str, Allowed] = {}
        self._items: dict[int, Allowed] = {}

    def member(self, key: str) -> Allowed:
        """Return what the value of a key may be."""
        if key not in self._members:
            self._members[key] = Allowed(self._found(key)) if self.values else self
        return self._members[key]

    def item(self, index: int) -> Allowed:
        """Return what an item may be."""
        shapes = [shape for value in self.values for shape in value.arrays]
        at = min(index, max((len(shape.prefix) for shape in shapes), default=0))
        if at not in self._items:
            self._items[at] = (
                Allowed(shape.prefix[at] if at < len(shape.prefix) else shape.rest for shape in shapes)
                if shapes
                else ANYTHING
            )
        return self._items[at]

    def _found(self, key: str) -> Iterable[Conj]:
        for value in self.values:
            for shape in value.objects:
                named = dict(shape.named)
                if key in named:
                    yield named[key]
                else:
                    yield from (conj for language, conj in shape.cells if matches(language, key))

    def keys(self) -> tuple[str, ...]:
        """Return the keys that an object may have by name."""
        shapes = [shape for value in self.values for shape in value.objects]
        return tuple(dict.fromkeys(key for shape in shapes for key, conj in shape.named if conj != NOTHING))

    def unnamed(self, value: Any) -> tuple[Allowed, list[str | int]] | None:
        """Return what a value inside of another may be whose key nobody names, and the way to it."""
        parts: Iterable[tuple[Any, Any]] = ()
        if isinstance(value, dict) and any(inner.objects for inner in self.values):
            for key in value:
                if all(conj == NOTHING for conj in self._found(key)):
                    return self, [key]
            parts = value.items()
        elif isinstance(value, list):
            parts = enumerate(value)
        for step, part in parts:
            spend()
            inner = (self.member if isinstance(value, dict) else self.item)(step).unnamed(part)
            if inner is not None:
                return inner[0], [step, *inner[1]]
        return None


ANYTHING = Allowed([ALWAYS])
_recent: Recent[Allowed] = Recent(most=256, most_bytes=1 << 20)


def allowed_by(schema: Any, *, closed: bool = False) -> Allowed:
    """Return what a schema allows; closed: as in `schema.embed`."""
    return _recent.found(content(schema, closed), lambda: _read(schema, closed))


def _read(schema: Any, closed: bool) -> Allowed:
    try:
        return Allowed([load(schema, closed=closed)])
    except ConstrainedError:  # what cannot be compiled may be anything
        return ANYTHING


# -- verdicts ----------------------------------------------------------------------------------------------------------

@dataclass(frozen=True, slots=True)
class Misfit:
    """Why arguments do not fit: the pointer of the value, the keyword and its place in the schema, and what it asks
    for.

    `unknown`: the value's name may not be there.
    """

    pointer: str
    keyword: str | None
    schema_pointer: str | None
    because: str
    expected: str
    unknown: bool = False


_OTHERS = "additionalProperties"
_PER_CHECK = 20  # units of work for a keyword and a value, as `jsonschema` checks them
_AT_ONCE = 4_096  # bytes for which nobody else waits
_FOR_WORDS = 200_000  # units of work


@dataclass(frozen=True, eq=False)
class _Machine:
    """What reads arguments of a schema; None: the engine cannot compile it exactly."""

    constraint: CompiledGrammar | None


_compiled: Recent[_Machine] = Recent(most=256, most_bytes=1 << 20)


@dataclass(frozen=True)
class Judge:
    """Judges the arguments of a tool; closed: as in `schema.embed`."""

    tool: Tool
    closed: bool = True

    @once
    def _machine(self) -> _Machine:
        schema, closed = self.tool.parameters, self.closed
        return _compiled.found(content(schema, closed), lambda: _machine(schema, closed))

    def misfit(self, arguments: Any, *, python: bool) -> Misfit | None:
        """Return why arguments do not fit, or None where they do; python: how values are worded."""
        constraint = self._machine.constraint
        if constraint is not None and self._walks(constraint, compact(arguments).encode()):
            return None
        worded = self._worded(arguments, python=python)
        if worded is not None or constraint is None:
            return worded
        return Misfit("", None, None, "the tool's schema does not allow them", "arguments that fit the schema")

    @staticmethod
    def _walks(constraint: CompiledGrammar, written: bytes) -> bool:
        """Return whether a text is a word, at the cost of the work at hand."""
        while True:
            kernel, state = constraint.place()
            try:
                for at in range(0, len(written), _AT_ONCE):
                    state = kernel.step_bytes(state, written[at : at + _AT_ONCE])
                    if state == DEAD:
                        return False
                return kernel.is_final(state)
            except Preempted:
                constraint.leave(kernel)

    def _worded(self, arguments: Any, *, python: bool) -> Misfit | None:
        """Return what is wrong in words; to find them may take little work where the verdict is known without."""
        outer, schema = current(), self.tool.parameters
        if self._machine.constraint is None:
            return _worded(arguments, schema, python=python) or self._unnamed(arguments)
        mine = Budget(_FOR_WORDS if outer is None else min(outer.left, _FOR_WORDS))
        before = mine.left
        try:
            with metered(mine):
                return _worded(arguments, schema, python=python) or self._unnamed(arguments)
        except LimitExceeded:
            return None
        finally:
            spend(before - mine.left)

    def _unnamed(self, arguments: Any) -> Misfit | None:
        """Return which key is too much where no keys are allowed but those that the schema names."""
        try:
            unnamed = allowed_by(self.tool.parameters, closed=True).unnamed(arguments) if self.closed else None
        except (RecursionError, UnsupportedSchema):
            return None
        if unnamed is None:
            return None
        at, path = unnamed
        because = f"Additional properties are not allowed ({path[-1]!r} was unexpected)"
        place = f"{pointer_of(at.conjs[0])}/{_OTHERS}"
        return Misfit(_pointer(map(str, path)), _OTHERS, place, _short(because), _one_of(at.keys()), unknown=True)


@lru_cache(maxsize=1)
def _bytes() -> Vocabulary:
    return Vocabulary([bytes([byte]) for byte in range(256)])


def _machine(schema: Mapping[str, Any], closed: bool) -> _Machine:
    try:
        machine = embed(schema, whitespace="compact", closed=closed)
        grammar = Grammar({"start": Rule("start", ((Embedded("arguments", machine),),))})
        return _Machine(compile_grammar(grammar, _bytes()))
    except UnsupportedSchema:
        return _Machine(None)


_encoded = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def compact(value: Any) -> str:
    """Return the JSON text of a value without whitespace; of any depth, with numbers of any length.

    >>> compact({"a": [1, Decimal("1E+400"), {}]})
    '{"a":[1,1E+400,{}]}'
    """
    try:
        return _encoded(value)
    except (TypeError, ValueError, RecursionError):  # a `Decimal`, an integer of more digits than Python writes, depth
        pass
    pieces: list[str] = []
    work: list[tuple[bool, Any]] = [(False, value)]
    while work:
        verbatim, item = work.pop()
        spend()
        if verbatim:
            pieces.append(item)
        elif isinstance(item, dict):
            work.append((True, "}"))
            for index, (key, member) in enumerate(reversed(item.items())):
                work += [
                    (False, member),
                    (True, ("," if index + 1 < len(item) else "") + json.dumps(key, ensure_ascii=False) + ":"),
                ]
            work.append((True, "{"))
        elif isinstance(item, (list, tuple)):
            work.append((True, "]"))
            for index, member in enumerate(reversed(item)):
                work += [(False, member), *([(True, ",")] if index + 1 < len(item) else [])]
            work.append((True, "["))
        elif isinstance(item, Decimal) or (isinstance(item, int) and not isinstance(item, bool)):
            pieces.append(str(Decimal(item)))
        else:
            pieces.append(json.dumps(item, ensure_ascii=False))
    return "".join(pieces)


# -- words -------------------------------------------------------------------------------------------------------------


def _worded(arguments: Any, schema: Any, *, python: bool) -> Misfit | None:
    """Return what `jsonschema` finds wrong, the most telling first; it loads here, in a third of a format's time."""
    import jsonschema

    wrong = (RecursionError, SchemaError, jsonschema.SchemaError, ValueError, TypeError, KeyError, ArithmeticError)
    try:
        kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        validator = _extended(kind)(schema, format_checker=kind.FORMAT_CHECKER)
        error = jsonschema.exceptions.best_match(validator.iter_errors(arguments))
    except wrong:
        return None
    if error is None:
        return None
    path = [str(part) for part in error.absolute_path]
    keyword, unknown = str(error.validator), False
    expected = _expected(keyword, error.validator_value)
    if keyword == "required" and isinstance(error.instance, dict):
        expected = f"the property {next((name for name in error.validator_value if repr(name) in error.message), '')!r}"
    if keyword in OTHER_KEYS and isinstance(error.instance, dict):
        known = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
        extra = next((name for name in error.instance if name not in known), None)
        path, unknown = [*path, *([extra] if extra is not None else [])], extra is not None
        expected = _one_of(known)
    because = error.message
    if not python and because.startswith(shown := repr(error.instance)):
        because = compact(error.instance) + because.removeprefix(shown)
    return Misfit(
        _pointer(path), keyword, "#" + _pointer(map(str, error.absolute_schema_path)), _short(because), expected,
        unknown,
    )


def _one_of(keys: Collection[str]) -> str:
    return f"one of the properties {', '.join(map(repr, keys))}" if keys else "no property"


def _pointer(parts: Any) -> str:
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def _short(text: str) -> str:
    return text if len(text) <= 300 else f"{text[:200]} … {text[-80:]}"


def _expected(keyword: str, value: Any) -> str:
    if keyword == "type":
        return " or ".join(value) if isinstance(value, list) else str(value)
    if keyword == "enum" and isinstance(value, list):
        return _short(" or ".join(json.dumps(member, ensure_ascii=False) for member in value))
    return (
        _short(f"{keyword} {json.dumps(value, ensure_ascii=False)}")
        if isinstance(value, (str, int, float, list))
        else keyword
    )


@lru_cache(maxsize=16)
def _extended(kind: Any) -> Any:
    """Return a validator class that counts what it does."""
    import jsonschema

    checks = {**kind.VALIDATORS, "pattern": _pattern}
    counted = {keyword: _counted(keyword, check) for keyword, check in checks.items()}
    return jsonschema.validators.extend(kind, counted)  # type: ignore[no-untyped-call]


def _counted(keyword: str, check: Any) -> Any:
    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        pairs = len(instance) ** 2 // 8 if keyword == "uniqueItems" and isinstance(instance, list) else 0
        spend(_PER_CHECK + pairs + (len(value) if isinstance(value, (list, dict)) else 0))
        return check(validator, value, instance, schema)

    return counted


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Any:
    """A pattern by our own regular expressions: linear, and ECMA's."""
    import jsonschema

    if validator.is_type(instance, "string") and not matches(parse_ecma(pattern), instance):
        yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")
