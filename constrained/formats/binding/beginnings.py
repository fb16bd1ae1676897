"""How a tool's arguments begin, which is plain to see before their machine is made.

    … "tool_4" ─ 2 ─► ( ─► {machine of tool_42 behind its bracket}

A mask in the middle of names meets the end of each name that one token can complete, and must know what may be read
there.  That is a bracket, or the first sign of a tag: what the schema says stands behind it.  So fifty names
that a token may end take no more than that, and the schema of one tool is read when its call is written.

Tested against the machines themselves (tests/test_waiting_arguments.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, TypeAlias

from constrained.machine import END, Dispatch, Edges, State, Text
from constrained.schema import EmbeddedSchema
from constrained.schema.machines.punctuation import Token, spelled
from constrained.schema.surfaces.tags import Tags

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
