"""How a tool's arguments begin, which is plain to see before their machine is made.

    … "tool_4" ─ 2 ─► ( ─► {machine of tool_42 behind its bracket}

A mask in the middle of names meets the end of each name that one token can complete, and must know what may be read
there.  That is a bracket, or the first sign of a tag: what the schema says stands behind it.  So fifty names
that a token may end take no more than that, and the schema of one tool is read when its call is written.

    {"arguments": { ─► "city" or "unit", of fifty tools ─ key ─► {value, of the tools that have this key}

Where arguments come before the tool's name, one mask must know the first keys of all tools.  These are the names in
``properties``.  What stands behind a key is read alone, by its content: fifty tools that have a key in common mostly
have its value in common, too.

Tested against the machines themselves (tests/test_waiting_arguments.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple, Protocol, TypeAlias

from constrained.machine import END, Dispatch, Edges, MarkerSafe, ObjectTable, Quoting, State, Text
from constrained.once import once
from constrained.schema import EmbeddedSchema, embed
from constrained.schema.by_content import content
from constrained.schema.key_masks import mask_of
from constrained.schema.normal.quick import NOTES, without_notes
from constrained.schema.surfaces.punctuation import LONGEST_GAP, Token, json, spelled, unmarked
from constrained.schema.surfaces.tags import Tags

try:
    from constrained.schema._scan import table_in_sight
except ImportError:  # no compiler
    table_in_sight = None

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

    notes = NOTES

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options, self.made = options, dict[object, State]()
        self.marks = marks = json(options["whitespace"], options["spelling"], LONGEST_GAP, options["avoid"])
        self.punctuation = marks.comma, marks.keys.colon, marks.gap, marks.objects.closing
        self.ordered = options["property_order"] == "schema"
        self._quoting: Quoting | MarkerSafe = marks.keys.quoting

    def state(self, schema: Mapping[str, Any]) -> State:
        """Return the state of a plain schema."""
        schema = without_notes(schema)
        key = content(schema)
        if key is None:
            return embed(schema, **self._options).state()
        if key not in self.made:
            self.made[key] = embed(schema, **self._options).state()
        return self.made[key]

    def see(self, keys: Iterable[str]) -> None:
        """Look for markers in the keys of all objects that will be asked for, instead of in those of each."""
        self._quoting = unmarked(self._quoting, ("\0".join(keys),))

    def quoting(self, keys: Iterable[str]) -> Quoting | MarkerSafe:
        """Return how the keys of an object are quoted."""
        return unmarked(self._quoting, ("\0".join(keys),)) if isinstance(self._quoting, MarkerSafe) else self._quoting


class UnreadObject:
    """The state behind the opening bracket of an object in JSON that has the keys in ``properties`` and no others;
    compared by identity.  Its schema is plain (`normal.quick.is_plain`).
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
        parts, properties = self._parts, self._schema["properties"]
        quoting = parts.quoting(properties)
        if isinstance(quoting, MarkerSafe):
            return None
        if table_in_sight is None:
            return self.plain_table(quoting)
        required = self._schema.get("required")
        table: ObjectTable = table_in_sight(properties, required, parts.ordered, quoting, parts.punctuation, parts)
        return table

    def plain_table(self, quoting: Quoting) -> ObjectTable:
        """As `_scan.table_in_sight`."""
        properties, required = self._schema["properties"], self._schema.get("required")
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
