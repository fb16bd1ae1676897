"""The questions of the normalisation, and how a step asks one.

A step is a generator: it yields requests and is sent their answers, so that schemas nested in place to any depth need
no recursion.
"""

from __future__ import annotations

from collections.abc import Generator
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

from constrained.schema.reading.nodes import NOTHING
from constrained.schema.sketches.arrays import denials
from constrained.schema.values import Conj, SignedNode


class Mode(IntEnum):
    """How much an alternative says about which subschemas hold; see `combine`."""

    PLAIN = 0  # nothing
    SOME = 1  # those that it counts as evaluating hold
    EXACT = 2  # those that it counts hold, and no others that would count
    NAMED = 3  # as SOME, of those that name keys
    ALONE = 4  # as NAMED, and nothing else says anything of the value: each member of a union has its own keys


class Query(NamedTuple):
    """What is asked: the values of one type that a signed subschema allows."""

    signed: SignedNode
    type: int  # SCALAR, ARRAY or OBJECT
    mode: Mode = Mode.PLAIN


Steps: TypeAlias = Generator[Query, Any, Any]


def ask(conj: Conj, type_: int, everything: Any, mode: Mode = Mode.PLAIN) -> Steps:
    """Ask for an operand, which has one signed node at most."""
    if not conj:
        return everything
    (signed,) = conj
    return (yield Query(signed, type_, mode))


def ask_not(conj: Conj, type_: int, everything: Any) -> Steps:
    """Ask for the complement of an operand."""
    (contrary,) = denials(conj) or (NOTHING,)
    return (yield from ask(contrary, type_, everything))
