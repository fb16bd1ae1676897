"""Grammar → railroad diagrams: one SVG for each rule that a reader would look at.

The grammar's Lark text is read, which has nothing but texts, patterns, names and alternatives.  Rules that were made
for one place are drawn in that place; rules that spell out characters, one class after another, become a box.

Tested in tests/test_playground.py.
"""

from __future__ import annotations

import json
import re
from typing import Any, TypeAlias

import railroad

import constrained as c

Alternatives: TypeAlias = list[list[str]]  # of a rule: sequences of pieces
PIECE = re.compile(r'"(?:\\.|[^"\\])*"i?|/(?:\\.|[^/\\])+/[a-z]*|\w+|[|\[\]?]')
ONE_CHARACTER = re.compile(r"/(\[(\\.|[^\]\\])*\]|\\?.|\\x..|\\U?u?[0-9a-f]+)/")
MADE = re.compile(r"_\w+_\d+|\w+_\d+")  # names that printing gives to rules of its own
MOST = 30  # diagrams
WIDE = 36  # characters of a box


def diagrams(grammar: c.Grammar) -> list[dict[str, str]]:
    """Return {"name", "svg"} of the rules, from the start on; at most `MOST`.

    Raises: ConstrainedError: the grammar cannot be written in Lark.
    """
    rules = rules_of(grammar.to_lark())
    found: list[dict[str, str]] = []
    queue = [grammar.start if grammar.start in rules else next(iter(rules))]
    for name in queue:
        if len(found) == MOST:
            break
        drawing = _Drawing(rules, queue)
        svg: list[str] = []
        railroad.Diagram(drawing.rule(name), type="complex").writeSvg(svg.append)
        found.append({"name": name, "svg": "".join(svg)})
    return found


def rules_of(lark: str) -> dict[str, Alternatives]:
    """Return the rules and terminals of a Lark text that this package has printed.

    >>> rules_of('start: "a" start\\n    | B |\\nB: /b/')
    {'start': [['"a"', 'start'], ['B'], []], 'B': [['/b/']]}
    """
    rules: dict[str, Alternatives] = {}
    for definition in re.split(r"\n(?=\w+(?:\.\d+)?:)", "\n" + re.sub(r"(?m)^(?://|%).*\n?", "", lark)):
        name, colon, body = definition.strip().partition(":")
        if colon:
            rules[name.partition(".")[0]] = _alternatives(PIECE.findall(body))
    return rules


def _alternatives(pieces: list[str]) -> Alternatives:
    found: Alternatives = [[]]
    for piece in pieces:
        if piece == "|":
            found.append([])
        elif piece not in "[]?":
            found[-1].append(piece)
    return found if "[" not in pieces else [*found, []]


class _Drawing:
    """One diagram; names that it refers to are added to `queue`."""

    def __init__(self, rules: dict[str, Alternatives], queue: list[str]) -> None:
        self._rules, self._queue = rules, queue
        self._inside: list[str] = []  # rules that are being drawn in place

    def rule(self, name: str) -> Any:
        """Return the drawing of a rule's alternatives."""
        self._inside.append(name)
        ways = [self._sequence(way) for way in self._rules[name]]
        self._inside.pop()
        return ways[0] if len(ways) == 1 else railroad.Choice(0, *ways)

    def _sequence(self, pieces: list[str]) -> Any:
        return railroad.Sequence(*map(self._piece, pieces)) if pieces else railroad.Skip()

    def _piece(self, piece: str) -> Any:
        if piece.startswith('"'):
            return railroad.Terminal(_shortened(json.loads(piece.removesuffix("i")).replace("\n", "⏎")))
        if piece.startswith("/"):
            return railroad.Terminal(_shortened(piece), cls="pattern")
        ways = self._rules.get(piece)
        if ways is None:
            return railroad.Terminal(piece)
        if piece.isupper():
            return railroad.Terminal(_kind(ways[0][0]) if ways[0] else piece, cls="pattern", title=piece)
        if all(not way or ONE_CHARACTER.fullmatch(way[0]) for way in ways) and any(ways):
            what = "number" if "0" <= _first(ways) <= "9" else "characters"
            return railroad.Terminal(what, cls="pattern", title=piece)
        if MADE.fullmatch(piece) and piece not in self._inside and len(self._inside) < 6:
            return self.rule(piece)
        if piece not in self._queue:
            self._queue.append(piece)
        return railroad.NonTerminal(piece, href=f"#rule-{piece}")


def _first(ways: Alternatives) -> str:
    """Return a character that a rule of characters may begin with, a sign aside."""
    begins = [way[0].strip("/[]\\") for way in ways if way]
    return next((begin for begin in begins if begin != "-"), "-")[:1]


def _kind(pattern: str) -> str:
    """Return what stands in the box of a terminal: long patterns are named by what they are of."""
    inside = pattern.strip("/")
    return "string" if inside[:1] in ("'", '"') else pattern if len(pattern) <= WIDE else "text"


def _shortened(text: str) -> str:
    return text if len(text) <= WIDE else f"{text[: WIDE - 9]}…{text[-8:]}"
