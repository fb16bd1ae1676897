"""Operations on drafts of one type, arrays or objects, of which `normal.combine` makes unions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from constrained.schema.drafts import arrays, objects
from constrained.schema.drafts.constants import of_array, of_object

Draft: TypeAlias = Any  # ArrayDraft or ObjectDraft
Drafts: TypeAlias = tuple[Draft, ...]


@dataclass(frozen=True, slots=True)
class Domain:
    """The operations on the drafts of one type."""

    full: Draft
    disjoint: Callable[..., bool]
    merge: Callable[..., Draft | None]
    deny: Callable[[Draft], Drafts]
    as_clause: Callable[[Draft], frozenset[Any] | None]
    of_clause: Callable[[frozenset[Any]], Draft]
    constant: Callable[[Draft], Any]  # the only value, None unless it is plain that there is only one


ARRAYS = Domain(
    arrays.FULL, arrays.disjoint, arrays.merge, arrays.deny, arrays.as_clause, arrays.of_clause, of_array)
OBJECTS = Domain(
    objects.FULL, objects.disjoint, objects.merge, objects.deny, objects.as_clause, objects.of_clause, of_object)
