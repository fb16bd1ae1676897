"""Records beside the standard library's dataclasses: what one does, the other does."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import pprint
from itertools import product
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from constrained import records

OPTIONS = [
    {"frozen": frozen, "slots": slots, "eq": eq, "repr": shown, **({"unsafe_hash": True} if hashed else {})}
    for frozen, slots, eq, shown, hashed in product((True, False), repeat=5)
]


def classes(of: Any, options: dict[str, bool]) -> SimpleNamespace:
    """Return classes of each shape, made by one of the two modules."""
    dataclass, field = of.dataclass, of.field

    @dataclass(**options)
    class Empty:
        """A record without fields."""

    @dataclass(**options)
    class Several:
        """A record."""

        kind: ClassVar[str] = "several"
        a: int
        b: str = "x"
        c: list[int] = field(default_factory=list)
        d: int = field(default=3, repr=False, compare=False)
        e: int = field(default=7, init=False)

        def __post_init__(self) -> None:
            if self.a < 0:
                raise ValueError("negative")

    @dataclass(**options)
    class Own:
        """A record that says itself how it is shown and compared."""

        a: int

        def __eq__(self, other: object) -> bool:
            return True

        def __repr__(self) -> str:
            return "own"

    return SimpleNamespace(empty=Empty, several=Several, own=Own)


def outcome(call: Any) -> object:
    """Return what a call returns as text, or the error that it raises."""
    try:
        return repr(call()).replace("classes.<locals>.", "")
    except Exception as error:
        return type(error), str(error) if not isinstance(error, dataclasses.FrozenInstanceError) else ""


def told(of: Any, options: dict[str, bool]) -> list[object]:
    """Return what can be found out about the records of a module."""
    made = classes(of, options)
    one, other = made.several(1), made.several(1, d=4)

    def changed() -> Any:
        mine = made.several(1)
        mine.a = 5
        return mine.a

    def deleted() -> Any:
        mine = made.several(1)
        del mine.a
        return hasattr(mine, "a")

    asked = [
        lambda: one if options["repr"] else None, lambda: made.empty() if options["repr"] else None, lambda: made.own(1),
        lambda: one == other, lambda: one == made.several(2), lambda: one != 1, lambda: made.empty() == made.empty(), lambda: made.own(1) == 3,
        lambda: made.several(), lambda: made.several(1, 2, 3, 4, 5), lambda: made.several(1, f=2), lambda: made.several(-1), lambda: made.several(1).c is one.c,
        changed, deleted, lambda: hasattr(one, "__dict__"), lambda: options["frozen"] or setattr(made.several(1), "new", 1),
        lambda: (hash(made.empty()) == hash(made.empty()), made.empty.__hash__ is None), lambda: (made.own.__hash__ is None, made.several.__hash__ is None),
        lambda: hash(dataclasses.replace(one, c=())) == hash(made.several(1, c=())) if options["eq"] else None,
        lambda: of.replace(one, a=2).a, lambda: not hasattr(copy, "replace") or copy.replace(one, a=2).a == 2, lambda: type(outcome(lambda: of.replace(one, e=2))), lambda: dataclasses.replace(one, b="y").b,
        lambda: of.replace(one, a=-2), lambda: [getattr(part, 'name', part) for part in of.fields(one)], lambda: dataclasses.asdict(one), lambda: dataclasses.astuple(one),
        lambda: dataclasses.is_dataclass(one), lambda: [(part.name, part.type, part.init) for part in dataclasses.fields(made.several)],
        lambda: str(inspect.signature(made.several)).replace("<factory>", ""), lambda: made.several.__match_args__, lambda: made.several.kind,
        lambda: getattr(made.several, "b", None) == "x", lambda: hasattr(made.several, "c"), lambda: pprint.pformat(one) if options["repr"] else None,
        lambda: (copy.copy(one).c is one.c, copy.deepcopy(other).d), lambda: made.several.__doc__, lambda: made.several.__qualname__,
    ]  # fmt: skip
    return [outcome(call) for call in asked]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(name for name, on in options.items() if on))
def test_records_do_what_dataclasses_do(options):
    assert told(records, options) == told(dataclasses, options)


def test_records_travel():
    from constrained.formats.message import Message, ToolCall

    message = Message("a", [ToolCall("f", {"x": 1})])
    assert pickle.loads(pickle.dumps(message)) == message
