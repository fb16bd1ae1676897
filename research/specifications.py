"""The examples of the formats' specifications, and what the grammars say of each.

``grammars/specifications.jsonl`` has one example a line: its format, document and lines, the kind of text, where it
needs them tools and options, and for those that the canonical grammar does not take, why.  An example whose document
lacks a part of it stands there a second time, repaired.  Here each is read, tolerantly and strictly.

Tested by tests/test_specifications.py: the table in grammars/README.md is what is found, and each deviation has its
reason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from constrained.errors import ConstrainedError, Rejected, shown
from constrained.formats.load import ChatFormat
from constrained.grammar.lark import shipped_folder

CANONICAL, ACCEPTED, REFUSED = "canonical", "accepted", "refused"  # forms: which grammar takes an example


@dataclass(frozen=True, slots=True)
class Example:
    """An example of a specification: where it stands, what it is, and why it is not canonical, where that is so."""

    format: str
    document: str
    lines: str
    kind: str
    text: str
    tools: Any
    options: Mapping[str, Any]
    repaired: bool
    because: str | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the grammars say of an example: the form, and where a reader, or a writer, stops; None where it is
    canonical.
    """

    example: Example
    form: str
    error: str | None


def examples(name: str | None = None) -> list[Example]:
    """Return the examples, of all formats or of one, in the order of their documents.

    Raises: GrammarError: there is no such format.  ConstrainedError: it has no specification with examples.
    """
    wanted = None if name is None else ChatFormat.load(name).name
    text = (shipped_folder() / "specifications.jsonl").read_text(encoding="utf-8")
    found = [_example(json.loads(line)) for line in text.splitlines()]
    if wanted is not None and all(example.format != wanted for example in found):
        listed = ", ".join(dict.fromkeys(example.format for example in found))
        raise ConstrainedError(f"no specification of {shown(wanted)} prints examples", instead=f"one of: {listed}")
    return [example for example in found if wanted in (None, example.format)]


def _example(row: Mapping[str, Any]) -> Example:
    return Example(
        row["format"],
        row["document"],
        row["lines"],
        row["kind"],
        row["text"],
        row.get("tools"),
        row.get("options", {}),
        row.get("repaired", False),
        row.get("because"),
    )


def found_of(example: Example) -> Verdict:
    """Return what the grammars of a format say of an example of its specification."""
    chat = ChatFormat.load(example.format)
    error = None
    for form, strict in ((CANONICAL, True), (ACCEPTED, False)):
        try:
            chat.parse(example.text, example.tools, kind=example.kind, strict=strict, **example.options)
        except Rejected as rejected:
            error = str(rejected)
        else:
            return Verdict(example, form, error)
    return Verdict(example, REFUSED, error)


def table() -> str:
    """Return a table of all examples, in Markdown; one row each."""
    rows = ["| format | document | lines | kind | form | why not canonical |", "| --- | --- | --- | --- | --- | --- |"]
    for found in map(found_of, examples()):
        example = found.example
        lines = example.lines + (" (repaired)" if example.repaired else "")
        kind = example.kind.replace("_", " ")
        rows.append(
            f"| `{example.format}` | {example.document} | {lines} | {kind} | {found.form} | {example.because or ''} |"
        )
    return "\n".join(rows)
