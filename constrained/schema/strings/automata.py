"""The automata of the common formats, written down in automata.jsonl: read where `formats` would parse patterns, and
where their derivatives would be taken, which is what the first masks inside a date or an address of a process cost.

    {"format": "uuid", "start": 9, "nodes": ["2 48 57 65 70 97 102", "6 0 8 8", …], "edges": {"9": "48 57 12 65 …", …}}

A node is a kind of `regex.expr` with its arguments, nodes by their numbers; what is read are the very expressions that
the patterns of `formats` and their derivatives are.  Edges are low, high, target, low, …  A format is read when it is
first asked for, a state when somebody first gets there.  Written by `tools/format_automata.py`; the plain twin are the
patterns and `regex.derive`, compared in tests/test_string_formats.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any

from constrained.regex.derive import write_down
from constrained.regex.expr import CLASS, LAZY, LITERAL, REPEAT, UNION, Expr, RawEdges, interned
from constrained.work import thread

FILE = Path(__file__).with_name("automata.jsonl")
_serial = attrgetter("serial")


def written(name: str, lazy: Callable[[str], Expr]) -> Expr | None:
    """Return the texts of a format; None where it is not written down.  lazy: makes a state that says where it leads by
    what it has read.

    Costs no units of work, as no input decides how large a format is.
    """
    line = _lines().get(name)
    if line is None:
        return None
    budget = thread.budget
    try:
        thread.budget = None
        return _Automaton(json.loads(line), lazy).start
    finally:
        thread.budget = budget


@lru_cache(maxsize=1)
def _lines() -> dict[str, str]:
    """Return the lines of the file by the formats that they begin with."""
    return {line.split('"', 4)[3]: line for line in FILE.read_text(encoding="utf-8").splitlines()}


class _Automaton:
    """What a line says, and the expressions made of it by now."""

    def __init__(self, said: dict[str, Any], lazy: Callable[[str], Expr]) -> None:
        self._nodes, self._edges, self._lazy = said["nodes"], said["edges"], lazy
        self._made: list[Expr | None] = [None] * len(self._nodes)
        self._places: dict[Expr, str] = {}
        self.start = self._state(said["start"])

    def _state(self, at: int) -> Expr:
        """Return a node whose edges are written down, but for lazy ones."""
        expr = self._node(at)
        if expr not in self._places and str(at) in self._edges:
            self._places[expr] = str(at)
            write_down(expr, self._edges_of)
        return expr

    def _node(self, at: int) -> Expr:
        made = self._made[at]
        if made is None:
            word, _, said = self._nodes[at].partition(" ")
            kind = int(word)
            if kind == LITERAL:
                made = interned(LITERAL, said)
            elif kind == LAZY:
                made = self._lazy(said)
            else:
                made = interned(kind, *self._arguments(kind, [*map(int, said.split())]))
            self._made[at] = made
        return made

    def _arguments(self, kind: int, said: list[int]) -> Iterable[Any]:
        if kind == CLASS:
            return (tuple(zip(said[::2], said[1::2], strict=True)),)
        if kind == REPEAT:
            body, least, most = said
            return self._node(body), least, most
        return sorted(map(self._node, said), key=_serial) if kind == UNION else map(self._node, said)

    def _edges_of(self, expr: Expr) -> RawEdges:
        flat = iter([*map(int, self._edges[self._places[expr]].split())])
        return tuple([(low, high, self._state(at)) for low, high, at in zip(flat, flat, flat, strict=True)])
