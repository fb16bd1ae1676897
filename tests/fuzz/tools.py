"""Random lists of tools for random formats: each has a grammar whose first mask allows something, or is explained.

    python -m tests.fuzz.tools --inputs 10000 --seed 1

Half of the lists are right in all their wrappings (functions, bare objects, ``parameters`` or ``input_schema``); half
have a piece taken out, put in twice, or replaced by what belongs nowhere.  An exception is one of the tree, worded in
at most 2 KB.

Left out: callables as tools, and what the calls look like, which the tables of formats say.
"""

from __future__ import annotations

import argparse
import copy
import random
import sys
from collections import Counter
from typing import Any

import numpy as np

from constrained import ChatFormat, ConstrainedError, Vocabulary, compile
from constrained.errors import LimitExceeded
from constrained.work import Budget, metered

UNITS = 300_000  # of work for one list
BYTES = Vocabulary([bytes([byte]) for byte in range(256)], special={"<end>": 256}, stop=[256], size=257)
SCHEMAS: tuple[Any, ...] = (
    {"type": "string"},
    {"type": "integer", "minimum": 0},
    {"enum": ["a", 1, None]},
    {"const": {"a": [1]}},
    {"type": ["string", "null"]},
    True,
    {},
    {"type": "array", "items": {"type": "number"}, "maxItems": 2},
    {"type": "object", "additionalProperties": {"type": "boolean"}},
    {"anyOf": [{"type": "string", "pattern": "^a+$"}, {"type": "null"}]},
    {"$ref": "#/$defs/x"},
    {"type": "string", "format": "date"},
)
NAMES = ("f", "get_weather", "a.b", "a-b", "é", "f f", "print", "x" * 64, "</tool_call>", '"', "<|python_tag|>", "1")
JUNK: tuple[Any, ...] = (
    None,
    0,
    -1,
    1e400,
    "",
    "x",
    [],
    {},
    [[]],
    {"type": 1},
    {"type": "object", "properties": []},
    "\ud800",
    "\0",
    b"x",
    {1: 2},
    {"a": {"b": {"c": {}}}},
    {"required": "a"},
    {"properties": {"a": 1}},
    True,
    ("a",),
    {"oneOf": 1},
    {"$ref": 5},
    {"$ref": "#"},
    10**400,
    object(),
)
OPTIONS: tuple[dict[str, Any], ...] = (
    {}, {}, {}, {"tool_choice": "required"}, {"tool_choice": "none"}, {"tool_choice": {"type": "function", "function": {"name": "f"}}}, {"closed": False},
    {"parallel_tool_calls": False}, {"max_calls": 2}, {"max_calls": -1}, {"property_order": "any"}, {"tool_choice": 3}, {"whitespace": "x"},
)  # fmt: skip


class Lists:
    """Random lists of tools; the same seed, the same lists."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def parameters(self) -> dict[str, Any]:
        names = self.random.sample(("a", "b", "city", "if", "a b", "é", "</a>", ""), self.random.randint(0, 4))
        found: dict[str, Any] = {
            "type": "object",
            "properties": {name: copy.deepcopy(self.random.choice(SCHEMAS)) for name in names},
        }
        if names and self.random.random() < 0.7:
            found["required"] = self.random.sample(names, self.random.randint(0, len(names)))
        if self.random.random() < 0.5:
            found["$defs"] = {"x": {"type": "integer"}}
        if self.random.random() < 0.3:
            found["additionalProperties"] = False
        words = list(found)
        self.random.shuffle(words)
        return {word: found[word] for word in words}

    def tool(self) -> Any:
        key = self.random.choice(("parameters", "parameters", "input_schema", "inputSchema", "arguments"))
        tool = {"name": self.random.choice(NAMES), "description": "what it does", key: self.parameters()}
        return {"type": "function", "function": tool} if self.random.random() < 0.5 else tool

    def tools(self) -> Any:
        found: Any = [self.tool() for _ in range(self.random.choice((0, 1, 1, 2, 3)))]
        for _ in range(self.random.choice((0, 0, 1, 2))):
            found = self.damaged(found)
        return found

    def damaged(self, value: Any) -> Any:
        """Return a copy with one part removed, doubled or replaced."""
        if not isinstance(value, (dict, list)) or not value or self.random.random() < 0.15:
            return self.random.choice(JUNK)
        found = copy.copy(value)
        if isinstance(found, list):
            at = self.random.randrange(len(found))
            found[at : at + 1] = self.random.choice(([], [found[at]] * 2, [self.damaged(found[at])]))
            return found
        key = self.random.choice(list(found))
        if self.random.random() < 0.25:
            del found[key]
        else:
            found[key] = self.damaged(found[key])
        return found


def check(format_name: str, tools: Any, options: dict[str, Any]) -> str:
    """Return the class of outcome: "works", "limit" or "wrong".

    Raises: AssertionError: a law is broken.  Any exception outside the tree passes through.
    """
    try:
        with metered(Budget(UNITS)):
            grammar = ChatFormat.load(format_name).grammar(tools, **options)
        matcher = compile(grammar, BYTES, spell_missing=True, max_work=UNITS).matcher()
        bitmask = np.zeros((1, BYTES.words), np.int32)
        matcher.fill_mask(bitmask)
        assert bitmask.any(), "a first mask that allows nothing"
    except ConstrainedError as error:
        assert len(str(error).encode("utf-8", "backslashreplace")) <= 2048, f"a message of {len(str(error))} characters"
        return "limit" if isinstance(error, LimitExceeded) else "wrong"
    return "works"


def run(count: int, seed: int) -> Counter[str]:
    """Check `count` lists and return how often each outcome came."""
    lists, outcomes, names = Lists(seed), Counter[str](), ChatFormat.names()
    for number in range(count):
        name, options, tools = lists.random.choice(names), lists.random.choice(OPTIONS), lists.tools()
        try:
            outcomes[check(name, tools, options)] += 1
        except Exception:
            print(f"seed {seed}, list {number}: {name} {options!r} {tools!r}", file=sys.stderr)
            raise
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=10_000, help="lists")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(dict(sorted(run(options.inputs, options.seed).items())))


if __name__ == "__main__":
    main()
