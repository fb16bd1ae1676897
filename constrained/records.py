"""Records: `dataclass`, `field`, `fields` and `replace` as the standard library has them, as far as the package needs.

The standard library compiles six functions for each class, one by one, and imports `inspect`: of the 120 ms that a
process waited for its first chat format, that was 55 (88 classes; ``python -X importtime``).  Here three are compiled,
each when it is called first; slots are set by their descriptors, so that frozen records are made in 0.6 of the time.
To `dataclasses` records are dataclasses: what it wants to know of them is made when it asks.

Left out: order, keyword-only fields, fields of the constructor alone.  Annotations are texts, as
``from __future__ import annotations`` makes them.
Tests: test_records.py, each kind beside the standard library's.
"""

from __future__ import annotations

from collections.abc import Callable
from reprlib import recursive_repr
from typing import Any, TypeVar, dataclass_transform

Made = TypeVar("Made")
MISSING: Any = object()
_DESCRIBED = ("__dataclass_fields__", "__dataclass_params__", "__signature__")


class Field(dict[str, Any]):
    """What a class says of a field: the arguments of `field`."""


def field(**given: Any) -> Any:
    """Return a field with a `default`, a `default_factory`, or that is left out of `init`, `repr` or `compare`."""
    return Field(given)


def fields(kind: Any) -> dict[str, Field]:
    """Return the fields of a record or its class by their names, none if it is no record."""
    return getattr(kind, "_fields_of_record", {})


def needed(kind: Any) -> tuple[str, ...]:
    """Return the fields of a record that its constructor must be told."""
    return tuple([name for name, part in fields(kind).items() if not {"default", "default_factory"} & part.keys()])


def replace(record: Made, /, **changes: Any) -> Made:
    """Return the record with other values for some fields."""
    for name in record.__match_args__:  # type: ignore[attr-defined]
        if name not in changes:
            changes[name] = getattr(record, name)
    return type(record)(**changes)


@dataclass_transform(field_specifiers=(field,))
def dataclass(
    *, frozen: bool = False, slots: bool = False, eq: bool = True, repr: bool = True, unsafe_hash: bool = False,
    weakref_slot: bool = False,
) -> Callable[[type[Made]], type[Made]]:  # fmt: skip
    """Return what makes a class a record; the options are those of the standard library's `dataclass`."""

    def made(kind: Any) -> Any:
        own, parts = dict(vars(kind)), dict(fields(kind))
        for name in [name for name, hint in own.get("__annotations__", {}).items() if not hint.startswith("ClassVar")]:
            stated = own.pop(name, MISSING)
            if isinstance(stated, Field) and not slots:
                setattr(kind, name, stated["default"]) if "default" in stated else delattr(kind, name)
            stated = {} if stated is MISSING else stated if isinstance(stated, Field) else {"default": stated}
            parts[name] = Field(stated)
        if slots:
            new = [name for name in parts if not hasattr(getattr(kind.__base__, name, None), "__set__")]
            members = {name: value for name, value in own.items() if name not in ("__dict__", "__weakref__")}
            members["__slots__"] = (*new, "__weakref__") if weakref_slot else tuple(new)
            kind = type(kind)(kind.__name__, kind.__bases__, members | {"__qualname__": kind.__qualname__})
        if own.get("__hash__") is None and "__eq__" in own:
            own.pop("__hash__", None)  # which Python puts beside an `__eq__`
        added: dict[str, Any] = {"__init__": _compiled_at_first(kind, "__init__", _constructor)}
        if repr:
            added["__repr__"] = _repr
        if eq:
            added |= {"__eq__": _compiled_at_first(kind, "__eq__", _equality), "__hash__": None}
        if unsafe_hash or (eq and frozen):
            added["__hash__"] = _compiled_at_first(kind, "__hash__", _hash)
        if frozen:
            added |= {"__setattr__": _refuse, "__delattr__": _refuse}
        if frozen and slots:
            added |= {"__getstate__": _state, "__setstate__": _restore}
        options: dict[str, Any] = {"frozen": frozen, "eq": eq, "repr": repr, "unsafe_hash": unsafe_hash}
        added |= {name: _Description(name, options) for name in _DESCRIBED} | {"__replace__": replace}
        kind._fields_of_record = parts
        added["__match_args__"] = tuple(_those(kind, "init"))
        for name in added.keys() - own.keys():
            setattr(kind, name, added[name])
        return kind

    return made


def _compiled_at_first(kind: Any, name: str, text_of: Callable[[Any, dict[str, Any]], str]) -> Any:
    """Return a method that is compiled when it is called first, and then is the class's own."""

    def first(self: Any, *given: Any, **named: Any) -> Any:
        known: dict[str, Any] = {"_missing": MISSING, "_set": object.__setattr__}
        exec(text_of(kind, known), known)
        known[name].__qualname__ = f"{kind.__qualname__}.{name}"
        setattr(kind, name, known[name])
        return known[name](self, *given, **named)

    return first


def _those(kind: Any, option: str) -> list[str]:
    """Return the fields that are part of the constructor, the printed form, or comparisons."""
    return [name for name, part in fields(kind).items() if part.get(option, True)]


def _constructor(kind: Any, known: dict[str, Any]) -> str:
    taken, lines, told = ["self"], [], _those(kind, "init")
    for name, part in fields(kind).items():
        value = name if name in told else f"_{name}_value"
        known[f"_{name}_value"] = part.get("default", MISSING)  # `MISSING` where it is made
        if "default_factory" in part:
            known[f"_{name}_made"] = part["default_factory"]
            value = f"_{name}_made() if {value} is _missing else {value}"
        if name in told:
            taken.append(name if name in needed(kind) else f"{name}=_{name}_value")
        slot = known[f"_{name}_set"] = getattr(getattr(kind, name, None), "__set__", None)
        given = f"_set(self, {name!r}, {value})" if slot is None else f"_{name}_set(self, {value})"
        lines.append(given if kind.__setattr__ is _refuse else f"self.{name} = {value}")
    lines += ["self.__post_init__()"] if hasattr(kind, "__post_init__") else ["pass"]
    return f"def __init__({', '.join(taken)}):\n " + "\n ".join(lines)


def _compared(kind: Any, whose: str) -> str:
    return "(" + "".join(f"{whose}.{name}, " for name in _those(kind, "compare")) + ")"


def _equality(kind: Any, known: dict[str, Any]) -> str:
    same = f"{_compared(kind, 'self')} == {_compared(kind, 'other')}"
    return f"def __eq__(self, other):\n return {same} if other.__class__ is self.__class__ else NotImplemented"


def _hash(kind: Any, known: dict[str, Any]) -> str:
    return f"def __hash__(self):\n return hash({_compared(kind, 'self')})"


@recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join([f"{name}={getattr(self, name)!r}" for name in _those(self, "repr")])
    return f"{type(self).__qualname__}({shown})"


def _refuse(self: Any, name: str, value: object = None) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot change the field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for name, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, name, value)


class _Description:
    """What `dataclasses` keeps in a class: made when it is asked for."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self.name, self.options = name, options

    def __get__(self, record: object, kind: Any) -> Any:
        import dataclasses
        import inspect

        hints = kind.__annotations__
        parts = [(name, hints.get(name, "Any"), dataclasses.field(**part)) for name, part in fields(kind).items()]
        twin: Any = dataclasses.make_dataclass(kind.__name__, parts, **self.options)
        twin.__signature__ = inspect.signature(twin)
        for name in _DESCRIBED:
            setattr(kind, name, getattr(twin, name))
        return getattr(twin, self.name)
