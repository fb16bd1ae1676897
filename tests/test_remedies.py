"""What errors say to do instead: it is done, for each golden message; and names in remedies are names that there are.

A remedy that begins with "expected:" says what a text may go on with, which other tests hold to.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import pkgutil
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from constrained.cli import run

import constrained as c
from constrained.formats.message import Message, ToolCall
from constrained.regex import parse_ecma

CORPUS = Path(__file__).with_name("corpus")
REMEDIES = {row["instead"]: row for row in tomllib.loads((CORPUS / "remedies.toml").read_text("utf-8"))["remedy"]}
BYTES = c.Vocabulary([bytes([byte]) for byte in range(256)], special={"<end>": 256}, stop=[256])
PACKAGE = Path(c.__file__).parent
NAMES = {
    "c": c, "np": np, "V": BYTES, "Vocabulary": c.Vocabulary, "Grammar": c.Grammar, "F": c.ChatFormat.load,
    "L": c.Grammar.from_lark, "R": c.Grammar.from_regex, "S": c.Grammar.from_json_schema, "E": parse_ecma, "run": run,
    "Message": Message, "ToolCall": ToolCall, "matcher": c.compile(c.Grammar.from_regex("a*"), BYTES).matcher,
    "HERMES": next(folder / "grammars" / "hermes.toml" for folder in (PACKAGE, PACKAGE.parent)
                   if (folder / "grammars").is_dir()),
    "BPE": b'{"model": {"type": "BPE", "vocab": {"a": 0}}, "decoder": {"type": "ByteLevel"}}',
}  # fmt: skip


def _said():
    """Yield the remedies of all golden messages."""
    for path in sorted(CORPUS.glob("errors_*.toml")):
        for row in tomllib.loads(path.read_text("utf-8"))["case"]:
            found = re.search(r"^  instead: (.*)", row["message"], re.MULTILINE | re.DOTALL)
            if found and not found[1].startswith("expected:"):
                yield found[1].rstrip("\n ")


def test_each_golden_message_has_a_remedy_that_is_tried_or_a_reason():
    assert set(_said()) == set(REMEDIES)
    assert all(("do" in row) != ("why" in row) for row in REMEDIES.values())


@pytest.mark.parametrize("row", [row for row in REMEDIES.values() if "do" in row], ids=lambda row: row["instead"][:50])
def test_what_a_message_says_can_be_done(row, tmp_path):
    def file(name, data):
        (tmp_path / name).write_bytes(data)
        return tmp_path / name

    exec(row["do"], {**NAMES, "file": file})


# -- all remedies of the source ----------------------------------------------------------------------------------------

# of Python, of transformers, of patterns, of the command line, and an option of formats
OTHERS = {"Event", "Random", "loads", "token_bytes", "ceil", "do_sample", "Script", "NAME", "tool_prompt", "add_generation_prompt", "from_pretrained"}


def _written():
    """Yield the texts of which remedies in the source consist, each with the file."""
    for path in sorted([*PACKAGE.rglob("*.py"), *(PACKAGE.parent / "research").glob("*.py")]):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            named = isinstance(node, ast.keyword) and node.arg == "instead"
            if named or isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).lower().endswith("instead"):
                parts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
                yield from ((path.relative_to(PACKAGE.parent), part) for part in parts if isinstance(part, str))


def _public():
    """Yield what callers may call."""
    modules = [c, *map(importlib.import_module, ("constrained.work", "constrained.formats.message"))]
    for name in ("integrations", "research"):
        for found in pkgutil.walk_packages(importlib.import_module(f"constrained.{name}").__path__, f"constrained.{name}."):
            with contextlib.suppress(ImportError):  # the host is not installed
                modules.append(importlib.import_module(found.name))
    for entry in (getattr(module, name) for module in modules for name in dir(module) if not name.startswith("_")):
        yield entry
        if inspect.isclass(entry):
            yield from (value for name, value in inspect.getmembers(entry) if not name.startswith("_"))


def test_names_in_remedies_are_names_that_there_are():
    calls, arguments = set(OTHERS), set(OTHERS)
    for entry in filter(callable, _public()):
        calls.add(getattr(entry, "__name__", ""))
        with contextlib.suppress(TypeError, ValueError):
            arguments |= set(inspect.signature(entry).parameters)
    unknown = [
        (str(path), text)
        for path, text in _written()
        if not calls.issuperset(re.findall(r"(\w+)\(", text))
        or not arguments.issuperset(re.findall(r"(?<![-\w\"])(\w+)=(?=\S)", text))
    ]
    assert unknown == []
