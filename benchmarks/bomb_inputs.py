"""The bomb table: small inputs that cost much, or that are nothing like what they should be, as rows of data.

A row is a line of JSON in ``tests/corpus/bombs/*.jsonl``; each file is written by whoever knows its subject:

    id        its name, "subject/what"
    kind      what the input is: schema, pattern (of Python), lark, tools, format (what `ChatFormat.load` is given),
              text (a turn to parse), stream (one that comes in pieces), messages (to render, as text and as ids)
    input     literally, or built: see `build`
    options   further arguments of the constructor; "format" and "tools" (of what a format reads and writes), "size"
              (characters of a stream's pieces), "then": "to_lark" (printed as well)
    outcome   works, limit, unsupported, schema-error, grammar-error, vocabulary-error, nothing-allowed, rejected or
              error (none of these)
    why       why a limit is right where one might ask for more; absent: plain
    late      why the error comes in generation, not before it; absent: it may not
    where     what the error's place contains; absent: it has none, or there is no error
    work      units of work spent when the row was last recorded (`bombs --update`); a figure to read, not a law

`build` knows these forms, marked by a key that starts with "!", because a bomb of 10,000 lines is no data that people
can read.  In what is repeated, "{i}" is the number of the copy from 0, "{j}" from 1, "{c}" a letter; a text that is
nothing but "{i}" becomes the number itself:

    {"!list": 3, "of": X}                            a list of three
    {"!object": 3, "key": "k{i}", "value": X}        an object of three keys
    {"!text": "a{i}", "times": 3}                    "a0a1a2"; with "join": "|" between them
    {"!nest": 3, "around": X, "core": Y}             X, with "{inner}" in it replaced by the same again, and Y innermost
    {"!power": [10, 400]}                            a whole number
    {"!join": [X, Y]}                                texts, lists or objects put together
    {"!python": "nan"}                               what JSON cannot write, see `ODD`
"""

from __future__ import annotations

import datetime
import json
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "corpus" / "bombs"


@dataclass(frozen=True, slots=True)
class Bomb:
    """A row of the table; `file` and `line` say where it stands."""

    id: str
    kind: str
    input: Any
    outcome: str
    where: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    work: int | None = None
    late: str | None = None
    why: str | None = None
    file: str = ""


def read(folder: Path = FOLDER, only: str = "") -> Iterator[Bomb]:
    """Yield the rows whose id contains `only`, file by file."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line) if line.strip() else {"id": ""}
            if row["id"] and only in row["id"]:
                yield Bomb(**row, file=path.name)


def write(bombs: list[Bomb], folder: Path = FOLDER) -> None:
    """Write all rows of the files that these rows come from, which must be complete."""
    for name in sorted({bomb.file for bomb in bombs}):
        rows = [json.dumps(_as_row(bomb), ensure_ascii=True) for bomb in bombs if bomb.file == name]
        (folder / name).write_text("\n".join(rows) + "\n", encoding="utf-8")


def _as_row(bomb: Bomb) -> dict[str, Any]:
    names = ("id", "kind", "input", "options", "outcome", "where", "work", "late", "why")
    row = {name: getattr(bomb, name) for name in names}
    return {name: value for name, value in row.items() if name == "input" or value not in (None, {})}


def _circular() -> Any:
    holder: dict[str, Any] = {"type": "object", "properties": {}}
    holder["properties"]["self"] = holder
    return holder


def _circular_value() -> Any:
    values: list[Any] = [1]
    values.append(values)
    return {"enum": [values]}


class _Odd(dict):  # type: ignore[type-arg]
    """A subclass of dict that lies about what it holds."""

    def items(self) -> Any:
        raise RuntimeError("items of an odd dictionary")


ODD: dict[str, Any] = {
    "nan": float("nan"),
    "infinity": float("inf"),
    "decimal nan": Decimal("NaN"),
    "decimal infinity": Decimal("Infinity"),
    "decimal": Decimal("0.1"),
    "bytes": b"abc",
    "set": {1, 2},
    "tuple": ("a", "b"),
    "object": object(),
    "class": int,
    "function": len,
    "date": datetime.date(2024, 1, 1),
    "complex": 1j,
    "ordered": OrderedDict(type="integer"),
    "key 1": {1: {}},
    "key none": {None: {}},
    "key bytes": {b"a": {}},
    "circular": _circular(),
    "circular value": _circular_value(),
    "none": None,
    "surrogate": "\ud800",
    "odd": _Odd(type="integer"),
    "generator": (i for i in range(3)),
    "nul": "\0",
    "path": Path("."),
    "tiny": 5e-324,
    "huge": 1.7976931348623157e308,
}


def build(part: Any) -> Any:
    """Return the value that an input describes, see the head of the module.

    >>> build({"!text": "a{i}", "times": 3, "join": "|"})
    'a0|a1|a2'
    """
    if isinstance(part, list):
        return [build(entry) for entry in part]
    if isinstance(part, _Built):
        return part.value
    if not isinstance(part, dict):
        return part
    if "!list" in part:
        return [build(_copy(part["of"], index)) for index in range(part["!list"])]
    if "!object" in part:
        return {
            build(_copy(part["key"], index)): build(_copy(part["value"], index)) for index in range(part["!object"])
        }
    if "!text" in part:
        return part.get("join", "").join(str(build(_copy(part["!text"], index))) for index in range(part["times"]))
    if "!nest" in part:
        return _nested(part)
    if "!power" in part:
        return part["!power"][0] ** part["!power"][1]
    if "!join" in part:
        return _joined([build(entry) for entry in part["!join"]])
    if "!python" in part:
        return ODD[part["!python"]]
    return {key: build(value) for key, value in part.items()}


def _nested(part: dict[str, Any]) -> Any:
    """Texts and values alike; no recursion, as 100,000 levels are what a bomb has."""
    inner, levels = build(part["core"]), part["!nest"]
    if isinstance(part["around"], str):
        before, _, after = part["around"].partition("{inner}")
        return before * levels + str(inner) + after * levels
    for index in range(levels - 1, -1, -1):
        inner = build(_around(_copy(part["around"], index), inner))
    return inner


@dataclass(frozen=True, slots=True)
class _Built:
    """Keeps what is already built from being built again."""

    value: Any


def _around(part: Any, inner: Any) -> Any:
    if part == "{inner}":
        return _Built(inner)
    if isinstance(part, list):
        return [_around(entry, inner) for entry in part]
    if isinstance(part, dict):
        return {key: _around(value, inner) for key, value in part.items()}
    return part


def _joined(parts: list[Any]) -> Any:
    if isinstance(parts[0], dict):
        return {key: value for part in parts for key, value in part.items()}
    if isinstance(parts[0], list):
        return [entry for part in parts for entry in part]
    return "".join(map(str, parts))


def _copy(part: Any, index: int) -> Any:
    """Return the part with the number of the copy filled in; built forms inside keep their own placeholders for the
    outer copy first.
    """
    if isinstance(part, str):
        if part == "{i}":
            return index
        if part == "{j}":
            return index + 1
        return part.replace("{i}", str(index)).replace("{j}", str(index + 1)).replace("{c}", chr(97 + index % 26))
    if isinstance(part, list):
        return [_copy(entry, index) for entry in part]
    if isinstance(part, dict):
        return {_copy(key, index) if isinstance(key, str) else key: _copy(value, index) for key, value in part.items()}
    return part
