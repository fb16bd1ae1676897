"""Regular expressions: two syntaxes in, one algebra of lazily derived automata out.

    pattern ── python_syntax | ecma_syntax ──► look (assertions) ──► algebra (nodes) ──► derive (edges) ──► engine
"""

from .algebra import char_class, complement, concat, intersect, literal, literals, matches, optional, repeat, union
from .derive import example, is_empty, is_finite
from .ecma_syntax import parse_ecma
from .expr import ANY, ANY_TEXT, EPSILON, NEVER, Expr
from .python_syntax import parse_python

__all__ = [
    "ANY", "ANY_TEXT", "EPSILON", "NEVER", "Expr", "char_class", "complement", "concat", "example", "intersect", "is_empty", "is_finite",
    "literal", "literals", "matches", "optional", "parse_ecma", "parse_python", "repeat", "union",
]
