"""Calls as machines: a tool's arguments, and the calls of a turn where more than rules is needed.

Arguments are made when the tool is called.  To compile a schema takes a fraction of a millisecond, mostly to find out
that it allows some value and can be compiled exactly.  For 500 tools of which one is called, that is most of the time
before the first token.  Nearly all schemas of tools use a handful of keywords for which both are plain to see
(`quick.surely_compilable`); they wait until their state is asked for.  All others are compiled at once, so that
whatever is wrong with a tool is reported when it is bound.  How waiting arguments begin is plain to see, too:

    … "tool_4" ─ 2 ─► ( ─► {machine of tool_42 behind its bracket}

A mask in the middle of names meets the end of each name that one token can complete, and must know what may be read
there.  That is a bracket, or the first sign of a tag: what the schema says stands behind it.  So fifty names
that a token may end take no more than that, and the schema of one tool is read when its call is written.

    {"arguments": { ─► "city" or "unit", of fifty tools ─ key ─► {value, of the tools that have this key}

Where arguments come before the tool's name, one mask must know the first keys of all tools.  These are the names in
``properties``.  What stands behind a key is read alone, by its content: fifty tools that have a key in common mostly
have its value in common, too.  All tools run side by side until the name tells them apart (`NameLast`):

    { ─┬─ keys and values of tool_1 ─ } ─► , "name": "tool_1"}
       └─ keys and values of tool_2 ─ } ─► , "name": "tool_2"}

As one machine they cost a grammar what one tool costs; what each of them takes is made when that mask is asked for.

Ids that are numbers or differ (`Calls`): a grammar without a memory can say what an id looks like, not that it is the
next number or that no other call has it.  Here the state between two calls carries what the ids so far allow: the
number of the next call, or the set of ids that are taken.  Everything else is what the rules would be: the call with
its slots, the tools' names, their arguments, what stands between two calls.

    part 0 ─ text ─► … ─ name ─► … ─ call_id ─► … ─ arguments ─► … ─► end of the call ─ separator ─► part 0

Left out of `to_lark`, with a comment that says so: that ids count, and that none comes twice.

Tested: no plain schema is refused when its time comes (`test_plain_schemas_compile`); against the machines themselves
(tests/test_waiting_arguments.py); against an alternative of the grammar for each tool (tests/test_name_last.py).
"""

from __future__ import annotations

import hashlib
import keyword
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, NamedTuple, Protocol, TypeAlias

from constrained.errors import SchemaError
from constrained.formats.binding.rules import Sequence as Symbols
from constrained.formats.binding.rules import fixed
from constrained.grammar import Literal, Pattern, Ref, Special, Symbol
from constrained.grammar.ir import EmbeddedLanguage
from constrained.machine import (
    END,
    Bytes,
    Dispatch,
    Edges,
    Language,
    LiteralSet,
    MarkerSafe,
    ObjectTable,
    Quoting,
    State,
    Text,
    Widened,
)
from constrained.once import once
from constrained.regex import complement, intersect, is_empty, matches, parse_python
from constrained.schema import EmbeddedSchema, embed
from constrained.schema.by_content import content
from constrained.schema.key_masks import mask_of
from constrained.schema.normal.quick import surely_compilable
from constrained.schema.reading.keywords import without_notes
from constrained.schema.reading.notes import Note
from constrained.schema.surfaces.punctuation import LONGEST_GAP, Token, json, spelled, unmarked
from constrained.schema.surfaces.tags import (
    CONTAINERS,
    NAME,
    Tags,
    check_quoted,
    raw_texts,
    why_no_argument,
    why_no_tag,
    why_not_bare,
)

# -- beginnings --------------------------------------------------------------------------------------------------------

Sign: TypeAlias = int | str  # a byte, or the name of a special token


class Made(Protocol):
    """What makes the machine of some arguments when it is asked for; compared by identity."""

    @property
    def machine(self) -> EmbeddedSchema: ...


class Beginning(NamedTuple):
    """The start of arguments of which nothing has been read."""

    made: Made
    signs: tuple[Sign, ...]

    def expand(self) -> Edges:
        made = self.made
        ranges = [(sign, sign, Begun(made, sign)) for sign in self.signs if isinstance(sign, int)]
        tokens = [(sign, Begun(made, sign)) for sign in self.signs if isinstance(sign, str)]
        return Edges(ranges=tuple(ranges), tokens=tuple(tokens))


class Begun(NamedTuple):
    """Arguments behind their first sign."""

    made: Made
    sign: Sign

    def expand(self) -> Edges:
        ways = tuple(_behind(self.made.machine.state(), self.sign))
        return Edges(calls=tuple([way for way in ways if way != (END, END)]), accepting=(END, END) in ways)


class Parts:
    """What reads the parameters of several tools, the same for those that are alike; options: of `schema.embed`.

    made: by names of their schemas.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options, self.made = options, dict[object, State]()
        self.marks = marks = json(options["whitespace"], options["spelling"], LONGEST_GAP, options["avoid"])
        self.punctuation = marks.comma, marks.keys.colon, marks.gap, marks.objects.closing
        self.ordered = options["property_order"] == "schema"
        self._quoting: Quoting | MarkerSafe = marks.keys.quoting

    def state(self, schema: Mapping[str, Any]) -> State:
        """Return the state of a plain schema."""
        key = content(without_notes(schema))
        state = self.made.get(key)
        if state is None:
            state = embed(without_notes(schema), **self._options).state()
            if key is not None:
                self.made[key] = state
        return state

    def see(self, keys: Iterable[str]) -> None:
        """Look for markers in the keys of all objects that will be asked for, instead of in those of each."""
        self._quoting = unmarked(self._quoting, ("\0".join(keys),))

    def quoting(self, keys: Iterable[str]) -> Quoting | MarkerSafe:
        """Return how the keys of an object are quoted."""
        return unmarked(self._quoting, ("\0".join(keys),)) if isinstance(self._quoting, MarkerSafe) else self._quoting


class UnreadObject:
    """The state behind the opening bracket of an object in JSON that has the keys in ``properties`` and no others;
    compared by identity.  Its schema is plain (`quick.surely_compilable`).
    """

    def __init__(self, made: Made, schema: Mapping[str, Any], parts: Parts) -> None:
        self._made, self._schema, self._parts = made, schema, parts

    @staticmethod
    def see(objects: Sequence[UnreadObject]) -> None:
        """Look for markers in all keys of the objects of a request at once, as else each looks at its own."""
        if objects:
            objects[0]._parts.see(chain.from_iterable([made._schema["properties"] for made in objects]))

    @once
    def object_table(self) -> ObjectTable | None:
        """What `machine.ObjectTable` says, but for the values from the schema as it was given."""
        properties, required = self._schema["properties"], self._schema.get("required")
        quoting = self._parts.quoting(properties)
        if isinstance(quoting, MarkerSafe):
            return None
        names = sorted(properties)
        index = dict(zip(names, range(len(names)), strict=True))
        needed = mask_of([index[name] for name in required], len(names)) if required else 0
        order = [index[name] for name in properties] if self._parts.ordered else None

        def value(which: int) -> State:
            return self._parts.state(properties[names[which]])

        return ObjectTable(
            tuple(names), needed, (1 << len(names)) - 1, frozenset(names), (), value, (), 0, None, quoting,
            *self._parts.punctuation, order,
        )  # fmt: skip

    def expand(self) -> Edges:
        return self._inside.expand()

    def way_out(self) -> Edges:
        way_out: Edges = self._inside.way_out()  # type: ignore[attr-defined]  # objects have it
        return way_out

    @once
    def _inside(self) -> State:
        """The same state of the schema that was read."""
        ((_, _, inside),) = self._made.machine.state().expand().ranges
        return inside


def signs_of(
    schema: Mapping[str, Any], options: Mapping[str, Any], is_written_whole: Callable[[Tags], bool]
) -> tuple[Sign, ...]:
    """Return what arguments can begin with, () where it takes their machine to say so.

    options: as of `Arguments`.  is_written_whole: whether the schema surely allows what is plain to see in it.
    """
    tags: Tags | None = options.get("tags")
    if tags is None:
        if options["surface"] == "arguments":
            return (ord("("),)
        return (ord("{"),) if schema.get("type") == "object" else ()
    if tags.opening:
        return (_first(tags.opening, tags.specials),)
    if not tags.key:
        return ()
    member, end = _first(tags.key, tags.specials), _first(tags.bare, tags.specials)
    if member == end:
        return (member,)
    if not is_written_whole(tags):
        return ()
    properties = schema.get("properties", {}).values()
    if properties and all("enum" in part for part in properties):  # raw text may hold none of them
        return ()
    return ((member,) if properties else ()) + (() if schema.get("required") else (end,))


@lru_cache(maxsize=256)
def _first(text: str, specials: tuple[str, ...]) -> Sign:
    """Return the first sign of a text that is not empty."""
    first = spelled(text, specials, END)
    return first.name if isinstance(first, Token) else text.encode()[0]


def _behind(state: State, sign: Sign) -> Iterator[tuple[State, State]]:
    """Yield what a state reads behind a sign that it begins with: a callee and what follows it."""
    edges = state.expand()
    targets = [then for low, high, then in edges.ranges if type(sign) is int and low <= sign <= high]
    targets += [then for name, then in edges.tokens if name == sign]
    yield from [(target, END) for target in targets]
    for callee, after in edges.calls:
        for inner, rest in () if isinstance(callee, Text) else _behind(callee, sign):
            assert rest is END, "tags call nothing"
            assert not isinstance(after, Dispatch)
            yield (after, END) if inner is END else (inner, after)


_NONE = frozenset[str]()

# -- arguments ---------------------------------------------------------------------------------------------------------

class Arguments:
    """The machine of a schema, as `grammar.Embedded` holds it; compared by identity; options are those of
    `schema.embed`.

    early: what reads their parts, where they are written before the tool's name and those of many tools are read side
    by side.  unread: what readers of the format cannot take, for `notes`.  plain: `surely_compilable` is known to hold.

    markers, specials: the parts of what stands around arguments that some tokenizers have as tokens, and the token that
    stands around strings.  widened: what was left out of the language's limits; nothing, for a plain schema.
    """

    __slots__ = (
        "_early", "_left_out", "_made", "_options", "_plain", "_schema", "markers", "notes", "specials", "widened",
    )  # fmt: skip

    def __init__(
        self, schema: Mapping[str, Any], options: Mapping[str, Any], tool: str = "any tool", early: Parts | None = None,
        unread: tuple[Note, ...] = (), *, plain: bool = False,
    ) -> None:
        surface, tags, quote = options["surface"], options.get("tags"), options.get("quote")
        schema, self._left_out = carried(schema, surface, tool) if surface in _REASONS else (schema, ())
        plain = plain and not self._left_out
        self._early, self._schema, self._options = early, schema, options
        self.markers = _NONE if tags is None else frozenset(tags.markers)
        self.specials = _NONE if quote is None else frozenset({quote})
        writable = surface not in _WRITABLE or _WRITABLE[surface](schema, options)
        self._plain = writable and (plain or surely_compilable(schema))
        try:
            self._made: EmbeddedSchema | None = None if self._plain else embed(schema, **options)
        except SchemaError as error:
            place = f"{tool} {error.where}" if error.where else tool
            raise type(error)(error.what, where=place, because=error.because, instead=error.instead) from error
        self.widened: tuple[Any, ...] = () if self._made is None else self._made.widened
        self.notes: tuple[Any, ...] = unread if self._made is None else (*unread, *self._made.notes)

    @property
    def machine(self) -> EmbeddedSchema:
        """The compiled schema."""
        if self._made is None:
            self._made = embed(self._schema, **self._options)
        return self._made

    @property
    def weight(self) -> int:
        """Bytes that the compiled schema keeps alive; what waits is small."""
        return 0 if self._made is None else self._made.weight

    def with_specials(self, names: Collection[str]) -> Arguments:
        """Return the same arguments with some of the `markers` as special tokens; what waits goes on waiting."""
        tags, specials = self._options.get("tags"), tuple(sorted(self.markers & set(names)))
        if tags is None or specials == tags.specials:
            return self
        marked = Arguments.__new__(Arguments)  # `copy.copy` takes 10 µs, and 50 tools may wait
        for name in Arguments.__slots__:
            setattr(marked, name, getattr(self, name))
        marked._options = {**self._options, "tags": tags._replace(specials=specials)}
        marked._made = None if self._made is None or self._plain else self._made.with_specials(names)
        return marked

    @property
    def narrowed(self) -> tuple[Any, ...]:
        """Where fewer arguments can be written than the schema allows: optional parameters that the format cannot
        carry, and of what stands between tags, what `Members.left_out` says.
        """
        tags = self._options.get("tags")
        if self._made is None and (tags is None or self._is_written_whole(tags)):
            return self._left_out
        return (*self._left_out, *self.machine.narrowed)

    @property
    def fingerprint(self) -> str:
        """A name of the content, the same in any process."""
        return self.machine.fingerprint

    def state(self) -> State:
        """Return the start state: one that waits for the first sign, where it is known."""
        inside = self.inside()
        if inside is not None:
            return Bytes(b"{", inside)
        signs = signs_of(self._schema, self._options, self._is_written_whole)
        return Beginning(self, signs) if signs else self.machine.state()

    def inside(self) -> UnreadObject | None:
        """Return the state behind the opening bracket, where the keys are in sight and may be needed early."""
        early = self._early
        if early and self._made is None and self._plain and _has_keys_in_sight(self._schema, self._options):
            return UnreadObject(self, self._schema, early)
        return None

    def _is_written_whole(self, tags: Tags) -> bool:
        """Return whether members can be written that are plain to see in the schema; False says nothing."""
        return self._plain and _is_written_whole(self._schema, tags, self._options["closed"])

    def to_lark(self, prefix: str, *, lookahead: bool = True) -> list[str]:
        return self.machine.to_lark(prefix, lookahead=lookahead)


def carried(
    schema: Mapping[str, Any], surface: str, tool: str, pointer: str = "#"
) -> tuple[Mapping[str, Any], tuple[Widened, ...]]:
    """Return a schema without the optional parameters whose names cannot be written, and a list of them.

    Those that are required stay, and so are refused where the schema is compiled.

    >>> carried({"properties": {"class": {}, "n": {}}}, "arguments", "any tool")[0]
    {'properties': {'class': False, 'n': {}}}
    """
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return schema, ()
    required = schema.get("required")
    kept, left_out = dict(properties), list[Widened]()
    for name, part in properties.items():
        because = _REASONS[surface](name) if isinstance(name, str) and part is not False else None
        if because is not None and not (isinstance(required, list) and name in required):
            kept[name] = False
            left_out.append(
                Widened(
                    _inside(pointer, name), "properties",
                    f"{tool}: the parameter {name!r} is left out, as the format cannot write its name: {because}",
                )
            )
        elif surface == "quoted" and isinstance(part, dict):  # at any depth
            kept[name], inner = carried(part, surface, tool, _inside(pointer, name))
            left_out += inner
    return ({**schema, "properties": kept}, tuple(left_out)) if left_out else (schema, ())


def _inside(pointer: str, name: object) -> str:
    return f"{pointer}/properties/{str(name).replace('~', '~0').replace('/', '~1')}"


_REASONS: dict[str, Callable[[str], str | None]] = {
    "arguments": why_no_argument, "tagged": why_no_tag, "quoted": why_not_bare,
}


def _is_written_whole(schema: Mapping[str, Any], tags: Tags, closed: object) -> bool:
    """Return whether each parameter of a plain schema is listed, is a string or none, and holds no elements."""
    parts = schema.get("properties", {}).values()
    if not (closed and "properties" in schema) and schema.get("additionalProperties") is not False:
        return False
    return all("enum" in part or type(part.get("type")) is str for part in parts) and not (
        tags.slot.elements and any(part.get("type") in CONTAINERS for part in parts)
    )


def _has_keys_in_sight(schema: Mapping[str, Any], options: Mapping[str, Any]) -> bool:
    """Return whether a plain schema is of objects in JSON with the keys in ``properties`` alone."""
    return (
        options["surface"] == "json"
        and schema.get("type") == "object"
        and "properties" in schema
        and (bool(options["closed"]) or "additionalProperties" in schema)  # which is false, in a plain schema
        and type(options["whitespace"]) is str
    )


def _are_keywords(schema: Mapping[str, Any], options: Mapping[str, Any]) -> bool:
    names = schema.get("properties", {})
    return isinstance(names, dict) and all(
        type(name) is str and name.isascii() and name.isidentifier() and not keyword.iskeyword(name) for name in names
    )


def _are_tags(schema: Mapping[str, Any], options: Mapping[str, Any]) -> bool:
    """Return whether tags can surely hold all members and the listed strings."""
    properties, tags = schema.get("properties", {}), options["tags"]
    if not isinstance(properties, dict) or not all(type(n) is str and re.fullmatch(NAME, n) for n in properties):
        return False
    return all(isinstance(part, dict) for part in properties.values()) and all(
        # words are looked at together, once for all tools
        type(text) is str and (_WORDS.fullmatch(text) and _words_are_raw(tags) or matches(raw_texts(tags), text))
        for part in properties.values() for text in part.get("enum", ())
    )


@lru_cache(maxsize=64)
def _words_are_raw(tags: Tags) -> bool:
    return is_empty(intersect(parse_python(_WORDS.pattern), complement(raw_texts(tags))))


_WORDS = re.compile("[0-9A-Za-z_ -]+")


def _are_quoted(schema: Mapping[str, Any], options: Mapping[str, Any]) -> bool:
    """Return whether bare keys and strings without an escape can hold what the schema lists."""
    try:
        check_quoted(schema, options["quote"], options["avoid"])
    except SchemaError:
        return False
    return True


_WRITABLE: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any]], bool]] = {
    "arguments": _are_keywords, "tagged": _are_tags, "quoted": _are_quoted,
}


# -- calls with ids, calls whose name comes last -----------------------------------------------------------------------

Way = tuple[State, State]  # what reads arguments, and what names their tool behind them

def _of_all(name: str) -> property:
    """Return the property of calls that is what all their arguments say under a name, in a row."""
    return property(lambda calls: tuple(chain.from_iterable([getattr(one, name, ()) for one in calls.machines])))


UNKNOWN = -1  # the number of a call as masks have it, which do not look at a number's text
COUNTED, UNIQUE, FREE = "counted", "unique", "free"  # how ids are given


@dataclass(frozen=True)
class Calls:
    """One call or more, with ids; what a grammar embeds.

    call, between: sequences of texts and special tokens; in `call` the slots `name`, `arguments` and one of another
    name for the id. names: the tools' names as they are written, sorted, and machines[i] the arguments of names[i]; or,
    for any tool, the language of names and one machine.  ids: one of `COUNTED` (first, first + 1, …; first None: any
    number), `UNIQUE` (texts of `shape`) and `FREE`.
    """

    call: Symbols
    between: Symbols
    names: tuple[str, ...] | Language
    machines: tuple[EmbeddedLanguage, ...]
    ids: str
    shape: Pattern
    first: int | None
    most: int | None
    specials: frozenset[str]

    widened, narrowed, notes = _of_all("widened"), _of_all("narrowed"), _of_all("notes")

    @property
    def markers(self) -> frozenset[str]:
        """The texts that can be special tokens."""
        texts = {symbol.text for symbol in (*self.call, *self.between) if isinstance(symbol, Literal)}
        inner: list[frozenset[str]] = [getattr(machine, "markers", frozenset()) for machine in self.machines]
        return frozenset(texts).union(*inner)

    def with_specials(self, names: Collection[str]) -> Calls:
        known = [
            machine.with_specials(names) if hasattr(machine, "with_specials") else machine for machine in self.machines
        ]
        return replace(self, machines=tuple(known), specials=self.specials - self.markers | self.markers & set(names))

    def state(self) -> State:
        return CallPlace(self, 0, self.first, 0, frozenset(), -1)

    def to_lark(self, prefix: str, *, lookahead: bool = True) -> list[str]:
        from constrained.export.schema_rules import LarkRules

        free = replace(self, ids=FREE, first=None)
        return [
            *LarkRules(prefix, lookahead=lookahead).write(free.state()),
            "// wider: that call ids count, and that none comes twice, is left out",
        ]

    @cached_property
    def fingerprint(self) -> str:
        """A name of the content, the same in any process."""
        inner = [getattr(machine, "fingerprint", None) or machine.to_lark("value") for machine in self.machines]
        names = self.names if isinstance(self.names, tuple) else "any"
        shown = (
            self.call, self.between, names, inner, self.ids, self.shape.source, self.first, self.most,
            sorted(self.specials),
        )
        return hashlib.sha256(repr(shown).encode()).hexdigest()

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    @cached_property
    def least_between_ids(self) -> int | None:
        """Bytes that lie at least between two ids, None where special tokens do."""
        read = [symbol for symbol in (*self.call, *self.between) if not isinstance(symbol, Ref)]
        texts = [symbol.text for symbol in read if isinstance(symbol, Literal) and symbol.text not in self.specials]
        return sum(len(text.encode()) for text in texts) if len(texts) == len(read) else None

    @cached_property
    def counted(self) -> bool:
        """Whether the number of calls matters: for what may follow, not for ids."""
        return self.most is not None


class CallPlace(NamedTuple):
    """A place in a call; equal places have equal continuations."""

    calls: Calls
    part: int  # of the call; beyond its end the separator follows
    number: int | None  # of this call, if ids count; None: any, as it is the first one; or UNKNOWN
    written: int  # calls before this one, as far as their number matters
    used: frozenset[str]  # ids of earlier calls
    tool: int  # whose name has been read, -1: none yet

    def expand(self) -> Edges:
        calls = self.calls
        if self.part == len(calls.call):
            return self._end()
        if self.part > len(calls.call):
            return self._fixed(calls.between[self.part - len(calls.call) - 1])
        symbol = calls.call[self.part]
        if symbol == Ref("name"):
            return self._name()
        if symbol == Ref("arguments"):
            return Edges(calls=((calls.machines[self.tool].state(), self._next),))
        if isinstance(symbol, Ref):
            return self._id()
        return self._fixed(symbol)

    @property
    def _next(self) -> CallPlace:
        if self.part == len(self.calls.call) + len(self.calls.between):
            return self._replace(part=0, tool=-1)
        return self._replace(part=self.part + 1)

    def _fixed(self, symbol: Symbol) -> Edges:
        name = fixed(symbol)
        assert name is not None
        if isinstance(symbol, Special) or name in self.calls.specials:
            return Token(name, self._next).expand()
        return Bytes(name.encode(), self._next).expand()

    def _end(self) -> Edges:
        calls = self.calls
        written = self.written + 1 if calls.counted else 0
        if calls.most is not None and written >= calls.most:
            return Edges(accepting=True)
        number = self.number if self.number in (None, UNKNOWN) else self.number + 1
        following = self._replace(written=written, number=number, tool=-1)
        after = following._replace(part=0) if not calls.between else following._replace(part=self.part + 1)
        return after.expand()._replace(accepting=True)

    def _name(self) -> Edges:
        names = self.calls.names
        if isinstance(names, tuple):
            return Edges(calls=((Text(Quoting.RAW, LiteralSet(names)), Named(self)),))
        return Edges(calls=((Text(Quoting.RAW, names), self._next._replace(tool=0)),))

    def _id(self) -> Edges:
        calls = self.calls
        if calls.ids == COUNTED and self.number not in (None, UNKNOWN):
            return Bytes(str(self.number).encode(), self._next).expand()
        if calls.ids == COUNTED:
            return Edges(calls=((_FIRST_NUMBER if self.number is None else _NUMBER, Numbered(self)),))
        shape = Text(Quoting.RAW, calls.shape.language)
        return Edges(calls=((shape, Unused(self) if calls.ids == UNIQUE else self._next),))


_FIRST_NUMBER = Text(Quoting.RAW, parse_python("0|[1-9][0-9]{0,2}"))  # where earlier calls are not known
_NUMBER = Text(Quoting.RAW, parse_python("0|[1-9][0-9]*"))


class Named(Dispatch):
    """What follows a tool's name."""

    __slots__ = ("at",)
    refuses = False

    def __init__(self, at: CallPlace) -> None:
        self.at = at

    def after(self, label: int) -> State:
        return self.at._next._replace(tool=label)


class Numbered(Dispatch):
    """What follows the number of the first call, where it may be any.

    A state that knows its number, for each of 1,000 numbers that one token may write, took 6 ms.  Up to the
    number of the next call all of them read the same.
    """

    __slots__ = ("at", "tells_from")
    records = True
    refuses = False
    elsewhere = ()

    def __init__(self, at: CallPlace) -> None:
        self.at = at
        self.tells_from = at.calls.least_between_ids

    def after_text(self, text: str | None) -> State:
        return self.at._next._replace(number=int(text) if text and text.isdecimal() else UNKNOWN)


class Unused(Dispatch):
    """What follows an id, which no earlier call has."""

    __slots__ = ("at", "refused", "special")
    records = True
    alike = True
    compared = str

    def __init__(self, at: CallPlace) -> None:
        self.at = at
        self.special = self.refused = at.used

    def after_text(self, text: str | None) -> State | None:
        if text in self.special:
            return None
        used = self.special if text is None else self.special | {text}
        return self.at._next._replace(used=used)


class NameLast:
    """Arguments and the text behind them, which names their tool: what a grammar embeds; compared by identity.

    texts[i] stands behind the arguments that machines[i] reads; those among `specials` are special tokens.
    """

    def __init__(self, machines: list[Arguments], texts: list[str], specials: frozenset[str] = frozenset()) -> None:
        self.machines, self.texts, self._written = machines, texts, specials

    widened, narrowed, notes = _of_all("widened"), _of_all("narrowed"), _of_all("notes")

    @property
    def weight(self) -> int:
        """Bytes that the compiled schemas keep alive."""
        return sum([machine.weight for machine in self.machines])

    @property
    def specials(self) -> frozenset[str]:
        """The special tokens that stand around strings."""
        return frozenset().union(*[machine.specials for machine in self.machines[:1]])  # the same for all

    @once
    def markers(self) -> frozenset[str]:
        """The texts that some tokenizers have as tokens."""
        return frozenset(self.texts).union(*[machine.markers for machine in self.machines[:1]])  # the same for all

    def with_specials(self, names: Collection[str]) -> NameLast:
        """Return the same calls with some of the `markers` as special tokens."""
        specials = self.markers.intersection(names)
        if specials == self._written:
            return self
        return NameLast([machine.with_specials(specials) for machine in self.machines], self.texts, specials)

    def state(self) -> State:
        """Return the start state, which is the machine itself."""
        return self

    def expand(self) -> Edges:
        in_sight, others = self.ways()
        ranges = ((ord("{"), ord("{"), Opened(tuple(in_sight))),) if in_sight else ()
        return Edges(ranges=ranges, calls=tuple(others))

    def ways(self) -> tuple[list[tuple[UnreadObject, State]], list[Way]]:
        """Return the ways of the tools whose keys are in sight, from behind the bracket, and those of all others."""
        in_sight, others = list[tuple[UnreadObject, State]](), list[Way]()
        for machine, text in zip(self.machines, self.texts, strict=True):
            after: State = Token(text, END) if text in self._written else Bytes(text.encode(), END)
            inside = machine.inside()
            if inside is not None:
                in_sight.append((inside, after))
            else:
                others.append((machine.state(), after))
        UnreadObject.see([inside for inside, _ in in_sight])
        return in_sight, others

    def to_lark(self, prefix: str, *, lookahead: bool = True) -> list[str]:
        from constrained.export.lark import quoted

        names = [f"{prefix}_{at}" for at in range(len(self.machines))]
        entries = [f"{name} {quoted(text)}" for name, text in zip(names, self.texts, strict=True)]
        inner = [machine.to_lark(name, lookahead=lookahead) for name, machine in zip(names, self.machines, strict=True)]
        return [f"{prefix}: " + "\n    | ".join(entries), *chain.from_iterable(inner)]

    @once
    def fingerprint(self) -> str:
        """A name of the content, the same in any process."""
        shown = self.texts, [machine.fingerprint for machine in self.machines], sorted(self._written)
        return hashlib.sha256(repr(shown).encode()).hexdigest()


class Opened:
    """The calls behind the opening bracket that begins the arguments of many tools; compared by identity."""

    __slots__ = ("_ways",)

    def __init__(self, ways: tuple[Way, ...]) -> None:
        self._ways = ways

    def expand(self) -> Edges:
        return Edges(calls=self._ways)
