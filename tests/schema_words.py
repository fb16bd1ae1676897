"""Schemas as kernels, two readers as oracles of their words, and a small world of values to try."""

from __future__ import annotations

import ast
import itertools
import json
from typing import Any

from jsonschema import Draft202012Validator

from constrained.engine.compiled import kernel_class
from constrained.engine.plain import DEAD
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.schema import embed

VOCABULARY = Vocabulary([bytes([byte]) for byte in range(256)], special={"<end>": 256}, stop=[256], size=257)


def kernel(schema: Any, engine: str | None = None, **options: Any) -> Any:
    return kernel_of(embed(schema, **options), engine)


def kernel_of(machine: Any, engine: str | None = None) -> Any:
    return kernel_class(engine)(VOCABULARY, machine.state(), nullable=False, specials={})


def accepts(machine: Any, text: str) -> bool:
    state = machine.step_bytes(machine.start, text.encode("utf-8", "surrogatepass"))
    return state != DEAD and machine.is_final(state)


# -- oracles -----------------------------------------------------------------------------------------------------------


def read_json(text: str) -> Any:
    """Read strict JSON: no duplicate keys, no NaN, no lone surrogates, nothing around it."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("duplicate key")
        return found

    def refuse(name: str) -> Any:
        raise ValueError(name)

    if text != text.strip():
        raise ValueError("padded")
    value = json.loads(text, object_pairs_hook=unique, parse_constant=refuse)
    json.dumps(value, ensure_ascii=False).encode()
    return value


def read_python(text: str) -> Any:
    """Read a Python literal as the JSON value it stands for."""
    tree = ast.parse(text, mode="eval").body

    def convert(node: ast.AST) -> Any:
        if isinstance(node, ast.Dict):
            found = {ast.literal_eval(key): convert(value) for key, value in zip(node.keys, node.values, strict=True)}  # type: ignore[arg-type]
            if len(found) < len(node.keys) or not all(isinstance(key, str) for key in found):
                raise ValueError("keys")
            return found
        if isinstance(node, (ast.List, ast.Tuple)):
            return [convert(item) for item in node.elts]
        value = ast.literal_eval(node)
        if not (value is None or isinstance(value, (bool, int, float, str))):
            raise ValueError("no JSON value")
        if isinstance(value, str):
            value.encode()
        return value

    return convert(tree)


def valid(schema: Any, value: Any) -> bool:
    return Draft202012Validator(schema).is_valid(value)


# -- a small world -----------------------------------------------------------------------------------------------------

SCALARS = [None, True, False, 0, 1, 2, -1, 1.0, 1.5, "", "a", "b", "ab"]
SHORT = [None, True, 0, 1, 1.5, "a", "b"]


def _world() -> list[Any]:
    nested = [[], {}, [1], {"a": 1}, {"a": "a"}]
    arrays = [list(items) for size in range(4) for items in itertools.product([0, 1, "a"], repeat=size)]
    arrays += (
        [[item] for item in SCALARS + nested]
        + [[1, item] for item in SHORT + nested]
        + [[0, 1, "a", True], [1, 1, 1, 1], ["a", "b", "ab", ""]]
    )
    objects: list[Any] = [{}]
    for size in range(1, 4):
        for keys in itertools.permutations(("a", "b", "c"), size):
            values = [0, "a"] if size == 3 else [0, 1, "a", None]
            objects += [dict(zip(keys, chosen, strict=True)) for chosen in itertools.product(values, repeat=size)]
    objects += [{"a": item} for item in SHORT + nested] + [
        {"x": 1},
        {"x": 1, "y": "a"},
        {"a": 1, "xa": 2, "b": 0, "c": 1},
        {"": 0},
        {"a b": 1},
    ]
    return SCALARS + arrays + objects


WORLD = _world()
