"""Tags around values, as data, and the rule by which values are written as elements inside of elements.

    <city><name>Oslo</name><tags><item>a</item></tags></city>

Elements say less than JSON does: an element without elements may be an object, a list or no text.  So `nests` says
where a format that has elements writes them; everywhere else the object or list stands as JSON between its tags, which
the readers of such formats take as well.

Tested by tests/test_tagged.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from constrained.regex import NEVER
from constrained.schema.values import Conj, Value

KINDS = ("string", "number", "boolean", "null", "object", "array")
CONTAINERS = KINDS[4:]
NAME = r"""[^\s<>"'=/&,:{}\[\]|\\]+"""  # of a member or a bare key: what a tag of every format can hold
AGAIN = "\0"


class Slot(NamedTuple):
    """A place for a value: ``value[kind] TEXT end``, with one text in `value` for each of `KINDS`.

    `elements`: what stands before the elements of an object, and before those of an array, in place of `value`; none
    where such values are only written as JSON.  `end` may hold `AGAIN`, for the name of the member.
    """

    value: tuple[str, ...]
    end: str
    elements: tuple[str, ...] = ()


class Tags(NamedTuple):
    """What stands around the members of an object.

    A member is ``key NAME``, then `slot`; an item of an array that is written as elements is `item`.  `opening` and
    `closing` stand around all members, and `bare` in place of `closing` where there is none.  `text`: a Python regular
    expression of what raw text may be, which keeps out what ends a value for readers.
    `markers`: parts of the tags that some tokenizers have as tokens; `specials`: those that are tokens here.
    `avoid`: what raw text does not hold, as readers search for it, and `ends`: what it does not end with, as more of it
    may follow.

    Where the end of a member repeats its name, only members that the schema names can be written.

    Invariants: `slot.end`, `closing` and `bare` are not empty; the texts of a slot begin alike, and differ in no
    special token; `item` is there where its slot has `elements`, and is not empty before the value.
    """

    opening: str
    key: str
    slot: Slot
    closing: str
    bare: str
    text: str
    item: Slot | None = None
    markers: tuple[str, ...] = ()
    specials: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()


def kinds_of(value: Value) -> list[str]:
    """Return the types of the values of a set, of `KINDS`."""
    held = (value.strings is not NEVER, value.numbers, value.booleans, value.null, value.objects, value.arrays)
    return [kind for kind, there in zip(KINDS, held, strict=True) if there]


def why_no_tag(name: str) -> str | None:
    """Return why a name cannot stand in a tag, None where it can."""
    return (
        None
        if re.fullmatch(NAME, name)
        else "it holds whitespace, a quote, a bracket or another sign that tags are made of"
    )


def nests(kind: str, value: Value, slot: Slot, tags: Tags, never: Callable[[Conj], bool]) -> bool:
    """Return whether the objects (arrays) of a set of values are written as elements.

    Not where readers could take no elements for a text or for the other kind, where a name cannot be that of a tag, and
    not arrays whose items must differ, which are compared by their JSON.
    """
    if not slot.elements:
        return False
    beginnings = dict(zip(CONTAINERS, slot.elements, strict=True), string=slot.value[0])
    own = beginnings.pop(kind)
    if any(beginnings.get(other) == own for other in kinds_of(value)):
        return False
    if kind == "array":
        return all(shape.unique is None for shape in value.arrays)
    return all(
        not (shape.cells and AGAIN in tags.slot.end)
        and not any(why_no_tag(name) for name, part in shape.named if not never(part))
        for shape in value.objects
    )
