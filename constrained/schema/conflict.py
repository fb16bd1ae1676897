"""Why a schema allows no value: the keywords that contradict each other, found by leaving out what can be left out.

A keyword is to blame if the schema has values without it.  Everything else is deleted, whole subtrees first, until each of the keywords
that are left is needed for the contradiction (a minimal unsatisfiable core; there may be others).  This costs one normalisation per
keyword tried and happens only on the way to an error.

Source: deletion-based core extraction, folklore; Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from constrained.errors import ConstrainedError, SchemaError
from constrained.schema.dialects import DRAFT_4_RULES, DRAFT_7_RULES, DRAFT_2019_RULES, DRAFT_2020_RULES, Holds
from constrained.schema.resources import Where, pointer, private_copy

_MOST_TRIALS = 400
_RULES = {**DRAFT_4_RULES, **DRAFT_7_RULES, **DRAFT_2019_RULES, **DRAFT_2020_RULES, "items": DRAFT_7_RULES["items"]}


def contradiction(schema: object, is_never: Callable[[object], bool]) -> SchemaError:
    """Return the error that names the keywords because of which a schema allows no value; `is_never` tells this of a schema.

    >>> from constrained.schema import documents, normalise
    >>> schema = {"type": "string", "title": "t", "anyOf": [{"minimum": 1, "type": "integer"}, {"const": None}]}
    >>> print(contradiction(schema, lambda schema: normalise.is_never(documents.load(schema))))
    schema allows no value at #
      because: these contradict each other: #/type, #/anyOf/0/type, #/anyOf/1/const
      instead: drop or change one of them
    """
    blamed = list(dict.fromkeys(_blamed(schema, is_never)))
    if not blamed:
        return SchemaError("schema allows no value", where="#", because="it is false")
    shown = ", ".join(blamed[:12]) + (f" and {len(blamed) - 12} more" if len(blamed) > 12 else "")
    return SchemaError(
        "schema allows no value", where="#", instead="drop or change one of them" if len(blamed) > 1 else "drop or change it",
        because=f"these contradict each other: {shown}" if len(blamed) > 1 else f"{shown} is never satisfied",
    )


def _blamed(schema: object, is_never: Callable[[object], bool]) -> Iterator[str]:
    """Yield pointers to the keywords, names and list members that are left."""
    work = private_copy(schema, "#")
    if not isinstance(work, dict):
        return
    trials = 0
    todo: list[tuple[Any, Any, Where, bool]] = [(work, key, ("#", key), True) for key in reversed(work)]
    while todo:
        holder, key, where, is_keyword = todo.pop()
        if key not in holder if isinstance(holder, dict) else False:
            continue
        if trials < _MOST_TRIALS and _is_needless(work, holder, key, is_never):
            trials += 1
            continue
        trials += 1
        inner = list(_entries(holder[key], key if is_keyword else "", where, is_keyword))
        if inner:
            todo.extend(reversed(inner))
        else:
            yield pointer(where)


def _is_needless(work: object, holder: Any, key: Any, is_never: Callable[[object], bool]) -> bool:
    """Leave out one entry, for good if the schema still allows nothing."""
    entries = list(holder.items()) if isinstance(holder, dict) else list(holder)
    if isinstance(holder, dict):
        del holder[key]
    else:
        holder[key] = True
    try:
        if is_never(work):
            return True
    except ConstrainedError:
        pass
    if isinstance(holder, dict):
        holder.clear()
        holder.update(entries)
    else:
        holder[:] = entries
    return False


def _entries(value: Any, keyword: str, where: Where, is_keyword: bool) -> Iterator[tuple[Any, Any, Where, bool]]:
    """Yield the parts of a keyword's value, or of a subschema, that can be left out."""
    if not is_keyword:
        if isinstance(value, dict):
            yield from ((value, key, (where, key), True) for key in value)
        return
    rule = _RULES.get(keyword)
    if rule is None or not rule.holds:
        return
    if isinstance(value, list):
        yield from ((value, index, (where, index), False) for index in range(len(value)))
    elif isinstance(value, dict):
        is_map = rule.holds in (Holds.MAP, Holds.SCHEMA_OR_STRINGS_MAP)
        yield from ((value, key, (where, key), not is_map) for key in value)
