"""The types that a schema allows at a place inside a value, by the normal form, so references and combinations count.

Texts between tags mean what the types at their place say, and objects and arrays are nested where these say so.  A
schema that cannot be compiled, and a place that it does not speak of, allow anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from constrained.errors import ConstrainedError
from constrained.regex import matches
from constrained.schema.by_content import Recent, content
from constrained.schema.normal.normalise import normalise
from constrained.schema.reading.check import load
from constrained.schema.reading.document import NOTHING
from constrained.schema.surfaces.tags import KINDS, kinds_of
from constrained.schema.values import ALWAYS, Conj, Value
from constrained.work import spend

_EVERY = frozenset(KINDS)


class Allowed:
    """The values that may stand at a place; several sets of them, where several shapes of what is around it do."""

    __slots__ = ("__weakref__", "_items", "_members", "conjs", "kinds", "values")

    def __init__(self, conjs: Iterable[Conj]) -> None:
        self.conjs = tuple(dict.fromkeys(conjs))
        self.values: tuple[Value, ...] = tuple([normalise(conj) for conj in self.conjs])
        self.kinds = frozenset([kind for value in self.values for kind in kinds_of(value)]) or _EVERY
        self._members: dict[str, Allowed] = {}
        self._items: dict[int, Allowed] = {}

    def member(self, key: str) -> Allowed:
        """Return what the value of a key may be."""
        if key not in self._members:
            self._members[key] = Allowed(self._found(key)) if self.values else self
        return self._members[key]

    def item(self, index: int) -> Allowed:
        """Return what an item may be."""
        shapes = [shape for value in self.values for shape in value.arrays]
        at = min(index, max((len(shape.prefix) for shape in shapes), default=0))
        if at not in self._items:
            self._items[at] = (
                Allowed(shape.prefix[at] if at < len(shape.prefix) else shape.rest for shape in shapes)
                if shapes
                else ANYTHING
            )
        return self._items[at]

    def _found(self, key: str) -> Iterable[Conj]:
        for value in self.values:
            for shape in value.objects:
                named = dict(shape.named)
                if key in named:
                    yield named[key]
                else:
                    yield from (conj for language, conj in shape.cells if matches(language, key))


    def keys(self) -> tuple[str, ...]:
        """Return the keys that an object may have by name."""
        shapes = [shape for value in self.values for shape in value.objects]
        return tuple(dict.fromkeys(key for shape in shapes for key, conj in shape.named if conj != NOTHING))

    def unnamed(self, value: Any) -> tuple[Allowed, list[str | int]] | None:
        """Return what a value inside of another may be whose key nobody names, and the way to it."""
        parts: Iterable[tuple[Any, Any]] = ()
        if isinstance(value, dict) and any(found.objects for found in self.values):
            for key in value:
                if all(conj == NOTHING for conj in self._found(key)):
                    return self, [key]
            parts = value.items()
        elif isinstance(value, list):
            parts = enumerate(value)
        for step, part in parts:
            spend()
            found = (self.member if isinstance(value, dict) else self.item)(step).unnamed(part)
            if found is not None:
                return found[0], [step, *found[1]]
        return None


ANYTHING = Allowed([ALWAYS])
_recent: Recent[Allowed] = Recent(most=256, most_bytes=1 << 20)


def allowed_by(schema: Any, *, closed: bool = False) -> Allowed:
    """Return what a schema allows; closed: as in `schema.embed`."""
    return _recent.found(content(schema, closed), lambda: _read(schema, closed))


def _read(schema: Any, closed: bool) -> Allowed:
    try:
        return Allowed([load(schema, closed=closed)])
    except ConstrainedError:  # what cannot be compiled may be anything
        return ANYTHING
