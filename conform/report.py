"""Outcomes of the laboratory → tables and Markdown, of one reader for an issue or of many for a page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import date

from .laboratory import TOOLS, Difference, Outcome


def verdict(difference: Difference) -> str:
    """Return who is wrong."""
    return "constrained" if difference.ours else "the reader"


def cell(outcome: Outcome) -> str:
    """Return an outcome in a few words."""
    if outcome.unreadable:
        return "not read: " + " ".join(outcome.unreadable.split())
    return f"{len(outcome.differences)} differences in {outcome.turns:,} turns, {outcome.calls:,} calls"


def rows(outcome: Outcome) -> Iterable[Sequence[str]]:
    """Yield a row of cells for each difference: kind, turn, what it says, what is found, who is wrong."""
    for difference in outcome.differences:
        yield difference.kind, _came(difference), difference.says, difference.found, verdict(difference)


def _came(difference: Difference) -> str:
    pieces = f" in pieces of {', '.join(map(str, difference.cuts))} tokens" if difference.cuts else ""
    return json.dumps(difference.text, ensure_ascii=False) + pieces


def markdown(outcomes: Sequence[Outcome]) -> str:
    """Return a page: a table of readers and formats where there are several, then each difference with its turn."""
    lines = []
    if len(outcomes) > 1:
        named = list(dict.fromkeys(outcome.reader for outcome in outcomes))
        lines += ["| format | " + " | ".join(named) + " |", "|" + " --- |" * (len(named) + 1)]
        for name in dict.fromkeys(outcome.format for outcome in outcomes):
            found = {outcome.reader: outcome for outcome in outcomes if outcome.format == name}
            lines.append(f"| `{name}` | " + " | ".join(_number(found.get(reader)) for reader in named) + " |")
        lines.append("")
    for outcome in outcomes:
        if outcome.differences or len(outcomes) == 1:
            lines += [
                f"### {outcome.reader}, `{outcome.format}`",
                "",
                f"{date.today()}: {cell(outcome)}.",
                "",
                *_details(outcome),
            ]
    return "\n".join(lines)


def _number(outcome: Outcome | None) -> str:
    return "" if outcome is None else "not read" if outcome.unreadable else str(len(outcome.differences) or "agrees")


def _details(outcome: Outcome) -> list[str]:
    lines: list[str] = []
    for difference in outcome.differences:
        fence = "`" * max(3, *(len(run) + 1 for run in _runs(difference.text)))
        lines += [f"**{difference.kind}**{_behind(difference)}", "", fence, difference.text, fence, ""]
        lines += [f"It says `{_one(difference.says)}`; found: `{_one(difference.found)}`.", ""]
        lines += [f"The format is wrong, not the reader: {_one(difference.ours)}.", ""] if difference.ours else []
    return lines


def _behind(difference: Difference) -> str:
    return f" of {', '.join(map(str, difference.cuts))} tokens" if difference.cuts else ""


def _runs(text: str) -> list[str]:
    return ["", *("`" * count for count in range(1, 9) if "`" * count in text)]


def _one(text: str) -> str:
    return " ".join(text.split()).replace("`", "'")


def tools() -> str:
    """Return the tools that are called, as one line of JSON."""
    return json.dumps(TOOLS, ensure_ascii=False)
