"""Operations on sketches of one type, arrays or objects, of which `normal.combine` makes unions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from constrained.schema.sketches import arrays, objects
from constrained.schema.sketches.constants import of_array, of_object

Sketch: TypeAlias = Any  # ArraySketch or ObjectSketch
Sketches: TypeAlias = tuple[Sketch, ...]


@dataclass(frozen=True, slots=True)
class Domain:
    """The operations on the sketches of one type."""

    full: Sketch
    disjoint: Callable[..., bool]
    merge: Callable[..., Sketch | None]
    deny: Callable[[Sketch], Sketches]
    as_clause: Callable[[Sketch], frozenset[Any] | None]
    of_clause: Callable[[frozenset[Any]], Sketch]
    constant: Callable[[Sketch], Any]  # the only value, None unless it is plain that there is only one


ARRAYS = Domain(
    arrays.FULL, arrays.disjoint, arrays.merge, arrays.deny, arrays.as_clause, arrays.of_clause, of_array)
OBJECTS = Domain(
    objects.FULL, objects.disjoint, objects.merge, objects.deny, objects.as_clause, objects.of_clause, of_object)
