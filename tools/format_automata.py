"""Write constrained/schema/strings/automata.jsonl again: the automata of the formats that schemas name most, as they
are derived from the patterns of `schema.strings.formats`.

    python tools/format_automata.py

Formats of thousands of states (hostname) are left out, and rare ones.  Tested in tests/test_string_formats.py.
"""

from __future__ import annotations

import json
from functools import cache

from constrained.regex.derive import raw_edges, written_down
from constrained.regex.expr import CLASS, LAZY, UNION, Expr
from constrained.schema.strings.formats import FILE, SECONDS, built

FORMATS = ("date", "date-time", "email", "uri", "uri-reference", "ipv4", "ipv6", "uuid", "duration", SECONDS)


def line_of(name: str) -> str:
    """Return the line of a format."""
    numbers: dict[Expr, int] = {}
    nodes: list[str] = []
    start = built(name)
    assert start is not None
    states, at = [start], 0
    edges: dict[str, str] = {}
    while at < len(states):
        state, at = states[at], at + 1
        number = _number(state, numbers, nodes)
        if state.kind != LAZY:
            found = raw_edges(state)
            states += dict.fromkeys(target for _, _, target in found if target not in states)
            numbered = [(low, high, _number(target, numbers, nodes)) for low, high, target in found]
            edges[str(number)] = " ".join(str(end) for edge in numbered for end in edge)
    said = {"format": name, "start": numbers[start], "nodes": nodes, "edges": edges}
    return json.dumps(said, separators=(",", ":"))


@cache
def _name(expr: Expr) -> str:
    """Return a text of an expression that does not depend on the order in which expressions were made."""
    named = [_name(part) if isinstance(part, Expr) else repr(part) for part in expr.args]
    return f"{expr.kind}({' '.join(sorted(named) if expr.kind == UNION else named)})"


def _number(expr: Expr, numbers: dict[Expr, int], nodes: list[str]) -> int:
    """Return the number of a node, behind those of its parts."""
    if expr not in numbers:
        if expr.kind == CLASS:
            args = [end for ends in expr.args[0] for end in ends]
        else:
            parts = sorted(expr.args, key=_name) if expr.kind == UNION else expr.args
            args = [_number(part, numbers, nodes) if isinstance(part, Expr) else part for part in parts]
        nodes.append(" ".join(map(str, (expr.kind, *args))))
        numbers[expr] = len(nodes) - 1
    return numbers[expr]


if __name__ == "__main__":
    assert not written_down, "the automata are derived, not read"
    FILE.write_text("".join(f"{line_of(name)}\n" for name in FORMATS), encoding="utf-8")
