"""Places in errors: a limit met somewhere below gets the JSON pointer of the subschema and keyword that asked for it.

Who spends work does not know for which subschema; who asks does, and catches what comes back.  A place that is already
a pointer stays: it is the inner one.
"""

from __future__ import annotations

from constrained.errors import LimitExceeded, UnsupportedSchema
from constrained.regex.liveness import MADE
from constrained.schema.reading.nodes import Node, ordered
from constrained.schema.values import Conj


def located(error: LimitExceeded, pointer: str) -> LimitExceeded:
    """Return the error with a place, unless it names one already: neither the whole nor an expression that was made on
    the way is one.
    """
    made = error.where is None or error.where == "#" or error.where.startswith(MADE)
    if not made and "#" in str(error.where):
        return error
    where = pointer if made else f"{pointer} {error.where}"
    return LimitExceeded(error.what, where=where, because=error.because, instead=error.instead)


def at_keyword(error: LimitExceeded | UnsupportedSchema, node: Node, keyword: str) -> LimitExceeded | UnsupportedSchema:
    """Return the error with the pointer of a keyword, unless it names another place than the schema."""
    if isinstance(error, LimitExceeded):
        return located(error, f"{node.pointer}/{keyword}")
    if error.where != node.pointer:
        return error
    return UnsupportedSchema(
        error.what, where=f"{node.pointer}/{keyword}", because=error.because, instead=error.instead
    )


def pointer_of(conj: Conj) -> str:
    """Return the pointer of the first subschema of a conjunction."""
    return ordered(conj)[0].node.pointer if conj else "#"


class At:
    """What is being looked at: a conjunction, see `work.spend`.  PERF: a `NamedTuple` takes twice as long to make."""

    __slots__ = ("conj",)

    def __init__(self, conj: Conj) -> None:
        self.conj = conj

    @property
    def place(self) -> str:
        return pointer_of(self.conj)


def keyword_of(node: Node, keyword: str) -> str:
    """Return the pointer of a keyword, or of the schema where it is another one's."""
    return f"{node.pointer}/{keyword}" if isinstance(node.schema, dict) and keyword in node.schema else node.pointer
