"""Regular expressions: two syntaxes in, one algebra of lazily derived automata out.

    pattern ── python | ecma ──► assertions ──► algebra (expressions)
    expressions ── derive, liveness ──► edges ──► engine

`expr` holds them, `charset` is its characters, `saturate` makes the keys of masks, `show` prints.
"""

from constrained.regex.algebra import (
    char_class,
    complement,
    concat,
    intersect,
    literal,
    literals,
    optional,
    repeat,
    union,
)
from constrained.regex.derive import raw_edges
from constrained.regex.ecma import parse_ecma
from constrained.regex.expr import ANY, ANY_TEXT, EPSILON, NEVER, RULES, Expr, matches
from constrained.regex.facts import may_use, universal_over
from constrained.regex.liveness import example, is_empty, is_finite, live_edges, public_edges
from constrained.regex.markers import Markers, markers_of, without
from constrained.regex.python import parse_python
from constrained.regex.saturate import saturated
from constrained.regex.show import pattern_text, short_text

RULES.update(
    {
        "raw edges": raw_edges,
        "live edges": live_edges,
        "edges": public_edges,
        "saturated": saturated,
        "universal_over": universal_over,
        "text": pattern_text,
        "short text": short_text,
    }
)

__all__ = [
    "ANY",
    "ANY_TEXT",
    "EPSILON",
    "NEVER",
    "Expr",
    "Markers",
    "char_class",
    "complement",
    "concat",
    "example",
    "intersect",
    "is_empty",
    "is_finite",
    "literal",
    "literals",
    "markers_of",
    "matches",
    "may_use",
    "optional",
    "parse_ecma",
    "parse_python",
    "repeat",
    "union",
    "without",
]
