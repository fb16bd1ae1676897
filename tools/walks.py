"""The five walks of data through the package, as docs/architecture.md draws them: which functions, in which order.

    python tools/walks.py [WALK]      every walk with its number of functions; of one, each of them where it is called

A function counts once however often it is called, and only as written in Python: the compiled units are one step.
Each walk is warm, with other data than those before it: what is read once per process is left out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch

import constrained as c

PACKAGE = str(Path(c.__file__).parent) + "/"
INSIDE = {"<listcomp>", "<genexpr>", "<lambda>", "<dictcomp>", "<setcomp>", "<module>"}


def walked(step: Callable[[], Any]) -> tuple[Any, list[tuple[int, str, str]]]:
    """Return what a step returns, and its functions as they are first called: (depth, module, name)."""
    seen: dict[tuple[str, str], int] = {}
    depth = 0

    def look(frame: FrameType, event: str, argument: object) -> None:
        nonlocal depth
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE) or code.co_name in INSIDE:
            return
        if event == "call":
            seen.setdefault((code.co_filename[len(PACKAGE) : -3], code.co_qualname), depth)
            depth += 1
        elif event == "return":
            depth -= 1

    sys.setprofile(look)
    try:
        found = step()
    finally:
        sys.setprofile(None)
    return found, [(at, module, name) for (module, name), at in seen.items()]


def tool(name: str, key: str) -> dict[str, Any]:
    """Return a tool of two arguments."""
    properties = {key: {"type": "string"}, "days": {"type": "integer"}}
    return {"name": name, "parameters": {"type": "object", "properties": properties, "required": [key]}}


def walks() -> dict[str, list[tuple[int, str, str]]]:
    """Return the functions of each walk."""
    found = {}
    vocabulary = c.Vocabulary([bytes([byte]) for byte in range(256)], special={"<end>": 256}, stop=[256])
    chat, reader = c.ChatFormat.load("llama3.1-function"), c.ChatFormat.load("qwen3")
    chat.grammar([tool("get_weather", "city")])
    _, found["tools -> grammar"] = walked(lambda: chat.grammar([tool("get_time", "zone")]))
    schema = {"type": "object", "properties": {"name": {"type": "string"}, "size": {"type": "number", "minimum": 0}}}
    c.Grammar.from_json_schema({"type": "array", "items": {"type": "integer"}})
    grammar, found["schema -> machine"] = walked(lambda: c.Grammar.from_json_schema({**schema, "required": ["name"]}))
    call = '{"name": "get_weather", "arguments": {"city": "%s"}}'
    turn = f"<think>\nhm\n</think>\n\n<tool_call>\n{call}\n</tool_call><|im_end|>"
    for city in ("Oslo", "Bern"):  # what comes twice is kept
        reader.parse(turn % city, [tool("get_weather", "city")])
    _, found["text -> message"] = walked(lambda: reader.parse(turn % "Lima", [tool("get_weather", "city")]))
    constraint = c.compile(grammar, vocabulary)
    matcher = constraint.matcher()
    mask = np.zeros((1, vocabulary.size // 32 + 1), np.int32)
    matcher.fill_mask(mask)
    _, found["token -> advance"] = walked(lambda: matcher.advance(ord("{")))
    _, found["mask -> bitmask"] = walked(lambda: matcher.fill_mask(mask))
    processor = constraint.logits_processor()
    processor(torch.zeros((1, 3), dtype=torch.long), torch.zeros((1, vocabulary.size)))
    ids = torch.tensor([[0, 0, 0, ord("{")]])
    _, found["mask -> logits"] = walked(lambda: processor(ids, torch.zeros((1, vocabulary.size))))
    return found


def main() -> None:
    """Print the walks, or one of them function by function."""
    wanted = " ".join(sys.argv[1:])
    for name, functions in walks().items():
        modules = {module for _, module, _ in functions}
        print(f"{name}: {len(functions)} functions in {len(modules)} modules")
        if wanted and wanted in name:
            for depth, module, function in functions:
                print(f"{'  ' * depth}  {module}: {function}")


if __name__ == "__main__":
    main()
