"""`embed`: a schema as a machine that a grammar can call.

    schema ── reading ──► Conj ── machines.value.Values, of a surface ──► State

Compiling is lazy, but what cannot be compiled exactly must be reported now and not in the middle of a generation.  So a
schema that uses a keyword which may be out of reach is walked once, without making machines (`limits.survey`).
"""

from __future__ import annotations

import hashlib
import json as json_module
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeAlias

from constrained.errors import GrammarError, LimitExceeded, SchemaError, shown
from constrained.machine import State, Widened
from constrained.once import once
from constrained.python_types import is_python_type, schema_of, schema_of_callable
from constrained.schema.by_content import Recent, content_of, values_of
from constrained.schema.conflict import conflict
from constrained.schema.limits import survey, widen
from constrained.schema.machines.value import Values
from constrained.schema.normal.normalise import is_live
from constrained.schema.profiles import PROFILES, bounded_numbers, loadable_formats
from constrained.schema.reading.check import load
from constrained.schema.reading.document import NOTHING, located, pointer_of
from constrained.schema.reading.notes import Note, notes_of, report, undescribed
from constrained.schema.strings.formats import NARROWED, WIDENED
from constrained.schema.surfaces.punctuation import (
    LONGEST_GAP,
    SPELLINGS,
    WHITESPACES,
    Punctuation,
    Whitespace,
    arguments,
    json,
    layout,
    python,
)
from constrained.schema.surfaces.tags import Members, Tags, check_arguments, check_names, check_quoted, quoted
from constrained.schema.values import Conj
from constrained.work import Budget, begin, metered, place, thread

# whitespace, spelling, the longest run of blanks, texts that strings must not spell → how values are punctuated
PunctuationOf: TypeAlias = Callable[[Whitespace, str, int, tuple[str, ...]], Punctuation]
# What a document that has been read and generated from once takes: fitted to 120 schemas, 6 KB to 770 KB.
EMPTY_BYTES, UNIT_BYTES = 32_000, 80
Outer: TypeAlias = Callable[["SchemaOptions", Values, Conj], State]  # how the outermost object is written, if otherwise


def _as_arguments(options: SchemaOptions, values: Values, conj: Conj) -> State:
    ways = options.whitespace, options.spelling, options.max_whitespace, options.avoid
    return values.object_written_as(arguments(*ways), conj)


def _between_tags(options: SchemaOptions, values: Values, conj: Conj) -> State:
    assert options.tags is not None
    return Members(values, options.tags).start(conj)


SURFACES: dict[str, tuple[PunctuationOf, Outer | None]] = {
    "json": (json, None),
    "python": (python, None),
    "arguments": (python, _as_arguments),
    "tagged": (json, _between_tags),
    "quoted": (json, None),  # with `SchemaOptions.quote` it is `tags.quoted` instead
}
_CHECKS: dict[str, Callable[[Conj], None]] = {"arguments": check_arguments, "tagged": check_names}

_ALLOWED: dict[str, tuple[Any, ...]] = {
    "surface": tuple(SURFACES),
    "whitespace": WHITESPACES,  # or separators and indent
    "spelling": SPELLINGS,
    "property_order": ("any", "schema"),
    "unsupported": ("raise", "widen"),
    "closed": (False, True),
    "formats": ("assert", "dialect", "annotate", "loadable"),
    "numbers": ("any", "bounded"),
}

_NO_NAMES: frozenset[str] = frozenset()
LARK_WORK = 300_000  # units of printing as Lark, after which markers are left out of account


@dataclass(frozen=True, slots=True)
class SchemaOptions:
    """How a schema is written and read; the parameters of `embed`."""

    surface: str = "json"
    whitespace: Whitespace = "flexible"
    spelling: str = "any"
    property_order: str = "any"
    unsupported: str = "raise"
    closed: bool = False
    formats: str = "assert"
    tags: Tags | None = None
    quote: str | None = None
    numbers: str = "any"
    max_whitespace: int = LONGEST_GAP
    avoid: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, values in _ALLOWED.items():
            value = getattr(self, name)
            spelled_out = name == "whitespace" and isinstance(value, tuple) and len(value) == 3  # see `layout`
            if spelled_out or isinstance(value, (str, int)) and value in values:
                continue
            raise SchemaError(f"unknown {name} {shown(value)}", instead="one of: " + ", ".join(map(repr, values)))
        if type(self.max_whitespace) is not int or not 0 <= self.max_whitespace <= LONGEST_GAP:
            raise SchemaError(
                f"max_whitespace is {shown(self.max_whitespace)}",
                because="it is how many blanks may stand in a row",
                instead=f"from 0 to {LONGEST_GAP}",
            )
        if (self.surface == "tagged") != (self.tags is not None):
            raise SchemaError(
                f"surface {self.surface!r} with tags {shown(self.tags)}",
                instead="surface 'tagged' and its tags, or neither",
            )
        if (self.surface == "quoted") != (self.quote is not None):
            raise SchemaError(
                f"surface {self.surface!r} with quote {shown(self.quote)}",
                instead="surface 'quoted' and its quote, or neither",
            )


_known_options = lru_cache(maxsize=64, typed=True)(SchemaOptions)

_recent: Recent[EmbeddedSchema] = Recent(most=256, most_bytes=1 << 18)  # with all that is made of them, some 10 MB


def embed(
    schema: Any,
    *,
    surface: str = "json",
    whitespace: Whitespace = "flexible",
    spelling: str = "any",
    property_order: str = "any",
    unsupported: str = "raise",
    closed: bool = False,
    formats: str = "assert",
    documents: Mapping[str, Any] | None = None,
    tags: Tags | None = None,
    quote: str | None = None,
    numbers: str = "any",
    max_whitespace: int = LONGEST_GAP,
    separators: Sequence[str] | None = None,
    indent: int | None = None,
    strict: bool = False,
    avoid: tuple[str, ...] = (),
) -> EmbeddedSchema:
    """Return the machine of the texts whose values are valid against a schema.

    surface: "json"; "python", literals as `ast.literal_eval` reads them; "arguments", an object as Python keyword
    arguments in parentheses; "tagged", an object as raw text between `tags`; "quoted", bare keys, and strings between
    the special token `quote`.
    whitespace: "flexible", at most `max_whitespace` blanks in a row; "canonical", ", " and ": "; "compact".
    separators, indent: in its place, a comma and a colon with blanks around them, and blanks a level, as `json.dumps`.
    spelling: "any" or "canonical", see the surfaces.  avoid: texts that no canonical string spells.
    property_order: "any", or "schema" for the order of ``properties``.
    unsupported: "raise", or "widen" what cannot be compiled and list it in `widened`.
    closed: objects have no keys but those that are mentioned.  strict: what `notes` would warn of is an error.
    formats: "assert" all known ones, only those of the schema's own "dialect", or none ("annotate"); "loadable":
    all, without the dates and times that readers refuse.
    numbers: "any", or "bounded", see `practical`.
    documents: by URI, what the schema may refer to.

    >>> embed({"type": "integer"}, spelling="canonical").to_lark("value")
    ['value: /0|-?[1-9][0-9]*/']

    Cost: 2 µs per subschema; machines are made when a generation gets there.  A schema that comes again is found by
    content, with all its machines, see `by_content`.
    Raises: SchemaError: it is malformed, or allows no value.  UnsupportedSchema: it cannot be compiled exactly.
    """
    if documents is not None:
        _check_documents(documents)
    if separators is not None or indent is not None or type(whitespace) is not str:
        whitespace = _laid_out(whitespace, separators, indent)
    written = surface, whitespace, spelling, property_order, unsupported, closed, formats
    further = quote, numbers, max_whitespace, avoid
    key, copy = content_of(schema, documents, *written, None if tags is None else tuple(tags), *further)
    embedded = None if key is None else _recent.get(key)
    if embedded is None:
        own = copy is not None and unsupported == "raise"  # what is widened is read several times
        given = *written, tags, *further
        try:
            options = _known_options(*given)  # most schemas come with the same ones
        except TypeError:  # one of them cannot be looked up, and is refused
            options = SchemaOptions(*given)
        made = EmbeddedSchema(copy if own else schema, options, documents, key, own=own)
        embedded = made if key is None else _recent.put(key, made)
    if embedded.notes:
        report(embedded.notes, strict=strict)
    return embedded


def _check_documents(documents: object) -> None:
    """Refuse what holds no schemas by URI."""
    if not isinstance(documents, Mapping):
        example = 'documents={"https://…": {…}}'
        raise SchemaError(f"documents is {shown(documents)}", because="it maps URIs to schemas", instead=example)


def _laid_out(whitespace: Any, separators: Sequence[str] | None, indent: int | None) -> Any:
    """Return how blanks are written: by name, or as separators and indent say."""
    if separators is not None or indent is not None:
        return layout(separators, indent)
    if isinstance(whitespace, (tuple, list)) and len(whitespace) == 3:  # as `options` holds it
        return layout(whitespace[:2], whitespace[2])
    return whitespace


class SchemaPart(NamedTuple):
    """The machine of the values in one place of a schema."""

    values: Values
    conj: Conj
    widened: tuple[Widened, ...] = ()

    @property
    def place(self) -> str:
        """The pointer of the subschema."""
        return pointer_of(self.conj)

    def state(self) -> State:
        return self.values.state(self.conj)


class EmbeddedSchema:
    """A schema on a surface: what `grammar.Embedded` holds.  Compared by content; picklable; states are made on
    demand.
    """

    def __init__(
        self, schema: Any, options: SchemaOptions, documents: Mapping[str, Any] | None, key: bytes | None = None, *,
        own: bool = False,
    ) -> None:
        self.options = options
        # a name instead of the caller's objects, which may change
        self._source = (schema, documents) if key is None else key
        surface, self._outer = SURFACES[options.surface]
        ways = options.whitespace, options.spelling, options.max_whitespace, options.avoid
        inner = surface(*ways) if options.quote is None else quoted(options.quote, options.avoid)
        ordered = options.property_order == "schema"
        self._values = Values(inner, ordered=ordered)
        # the parts of the tags that some tokenizers have as tokens; the special token that stands around strings
        self.markers: frozenset[str] = _NO_NAMES if options.tags is None else frozenset(options.tags.markers)
        self.specials: frozenset[str] = _NO_NAMES if options.quote is None else frozenset({options.quote})
        self.widened: tuple[Widened, ...] = ()
        self.notes: tuple[Note, ...] = ()  # words of the schema that mean nothing, and may be thought to
        # where the texts are fewer than the specification's, and not because they were asked to be
        self.narrowed: tuple[Widened, ...] = ()
        self._heavy: tuple[Conj, ...] = ()  # what is inside and looks like much work to read
        outer = thread.budget
        before = (budget := outer or Budget()).left
        try:
            begin(budget)  # `metered` takes 4 µs more
            self._read(schema, documents, own=own)
        except LimitExceeded as error:
            raise located(error, "#") from None
        except RecursionError as error:
            at = place() or "#"
            raise LimitExceeded("the schema nests too deeply", where=at, instead="flatten it, or use $ref") from error
        finally:
            thread.budget = outer
        self.weight = EMPTY_BYTES + UNIT_BYTES * (before - budget.left)  # of what is kept of the document

    def _read(self, schema: Any, documents: Mapping[str, Any] | None, *, own: bool) -> None:
        options = self.options
        enforced = bounded_numbers(schema) if options.numbers == "bounded" else schema
        enforced = loadable_formats(enforced) if options.formats == "loadable" else enforced
        if options.unsupported == "widen":
            enforced, self.widened = widen(enforced, partial(self._surveyed, documents=documents, own=own))
        self._conj = self._surveyed(enforced, documents, own=own)
        if self._conj and self._conj != NOTHING:
            library = next(iter(self._conj)).node.document.library
            if library.inexact and options.formats != "annotate":
                self._enter_formats(library.inexact)
            if library.unknown:
                self.notes, library.unknown = notes_of(library.unknown), []  # nobody else asks
            if options.closed:
                self.notes += undescribed(library, library.resources[""])
        if not is_live(self._conj):
            raise conflict(self._conj)
        if self._outer is not None:
            _CHECKS[options.surface](self._conj)
            self.state()
        if options.tags is not None:
            for part, because in Members(self._values, options.tags).left_out(self._conj):
                self.narrowed += (Widened(pointer_of(part) if part else "#/additionalProperties", "type", because),)

    def _enter_formats(self, inexact: list[tuple[str, str]]) -> None:
        """Enter the formats that are asserted with another language than the specification's, by their pointers."""
        narrowed = [Widened(at, "format", f"{name}: {NARROWED[name]}") for at, name in inexact if name in NARROWED]
        widened = [Widened(at, "format", f"{name}: {WIDENED[name]}") for at, name in inexact if name not in NARROWED]
        self.narrowed, self.widened = self.narrowed + tuple(narrowed), self.widened + tuple(widened)

    def _surveyed(self, schema: Any, documents: Mapping[str, Any] | None, *, own: bool) -> Conj:
        if self.options.quote is not None:
            check_quoted(schema, self.options.quote, self.options.avoid)
        formats = "assert" if self.options.formats == "loadable" else self.options.formats
        conj = load(schema, remotes=documents, formats=formats, closed=self.options.closed, own=own)
        self._heavy = survey(conj, self._values)
        return conj

    @property
    def heavy(self) -> bool:
        """Whether its masks may be too much work, so that `compile` tries some."""
        return bool(self._heavy)

    def state(self) -> State:
        """Return the start state; it reads a value with nothing before or after it."""
        return self._values.state(self._conj) if self._outer is None else self._outer_state

    @once
    def _outer_state(self) -> State:
        assert self._outer is not None
        return self._outer(self.options, self._values, self._conj)

    @property
    def source(self) -> tuple[Any, Mapping[str, Any] | None]:
        """The schema, and the documents that it may refer to."""
        source = self._source
        return values_of(source)[:2] if isinstance(source, bytes) else source

    def heavy_parts(self) -> Iterator[SchemaPart | None]:
        """Yield the values inside that look like much work, as machines of their own; None: the whole does, as it
        always may between tags, where texts are written otherwise.
        """
        for conj in self._heavy if self.options.tags is None else (self._conj,):
            yield None if conj == self._conj else SchemaPart(self._values, conj)

    def with_specials(self, names: Collection[str]) -> EmbeddedSchema:
        """Return the same language with some of the `markers` as special tokens."""
        tags, specials = self.options.tags, tuple(sorted(self.markers & set(names)))
        if tags is None or specials == tags.specials:
            return self
        return self._with(tags=tags._replace(specials=specials))

    def describe(self) -> str:
        """Return what is enforced, for people: the normal form, and what `widened` left out."""
        from constrained.export.describe import describe

        left_out = [f"  {entry.pointer}\n    because: {entry.because}" for entry in self.widened]
        heading = ["not enforced, to be checked after generation:"] if left_out else []
        return "\n".join([describe(self._conj), *heading, *left_out])

    def to_lark(self, prefix: str, *, lookahead: bool = True) -> list[str]:
        """Return the machine as Lark definitions; the first one defines the rule `prefix`, the others' names start with
        it and "_".

        Strings may spell markers where it would take too many rules that they do not; a comment says so.  lookahead:
        whether terminals may look ahead.
        Raises: GrammarError: it would take too many all the same.
        """
        from constrained.export.schema_rules import MARKERS, LarkRules

        kept = tuple(text for text in self.options.avoid if text in ("</", self.options.quote))
        tags = self.options.tags and self.options.tags._replace(avoid=(), ends=())
        if (kept, tags) == (self.options.avoid, self.options.tags):
            return [*LarkRules(prefix, lookahead=lookahead).write(self.state())]
        try:
            with metered(Budget(LARK_WORK)):
                return [*LarkRules(prefix, lookahead=lookahead).write(self.state())]
        except (GrammarError, LimitExceeded):
            unguarded = self._with(avoid=kept, tags=tags)
        return [*LarkRules(prefix, lookahead=lookahead).write(unguarded.state()), MARKERS]

    def _with(self, **options: Any) -> EmbeddedSchema:
        """Return the same schema with other options."""
        schema, documents = self.source
        given = {name: getattr(self.options, name) for name in SchemaOptions.__slots__}
        return embed(schema, documents=documents, **{**given, **options})

    @once
    def fingerprint(self) -> str:
        """A name of the content: equal fingerprints mean equal machines, in any process."""
        schema, documents = self.source
        options = {name: getattr(self.options, name) for name in SchemaOptions.__slots__}
        text = json_module.dumps([schema, options, dict(documents or {})], default=repr)
        return hashlib.sha256(text.encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return self is other or isinstance(other, EmbeddedSchema) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.options)  # a schema's fingerprint costs more than a table gains from a better hash

    def __reduce__(self) -> tuple[Any, ...]:
        schema, documents = self.source
        return EmbeddedSchema, (schema, self.options, documents)

    def __repr__(self) -> str:
        return f"<schema on the {self.options.surface} surface, {self.fingerprint[:8]}>"


def machine_of(schema: Any, profile: str | None, switches: dict[str, Any]) -> EmbeddedSchema:
    """Return the machine of a schema, a Python type or a callable, under a profile and with the switches that were
    given.

    Raises: SchemaError: no such profile; what `embed` raises.
    """
    typed = type(schema) is not dict and is_python_type(schema)
    called = not typed and callable(schema)
    if profile is None:
        profile = "practical" if typed or called else "exact"
    if not isinstance(profile, str) or profile not in PROFILES:
        raise SchemaError(f"unknown profile {shown(profile)}", instead="one of: " + ", ".join(map(repr, PROFILES)))
    chosen = {**PROFILES[profile], **switches}
    if "whitespace" in switches and ("separators" in switches or "indent" in switches):
        other = "separators" if "separators" in switches else "indent"
        raise SchemaError(
            f"{other} beside whitespace",
            because="both say what stands between values",
            instead=f"one of them, whitespace={shown(switches['whitespace'])} or {other}",
        )
    if "max_whitespace" in switches and "whitespace" not in switches:
        chosen["whitespace"] = "flexible"
    if typed:
        schema = schema_of(schema, practical=profile == "practical")
    elif called:
        schema = schema_of_callable(schema)[2]
    return embed(schema, **chosen)
