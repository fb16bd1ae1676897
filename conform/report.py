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
    return json.dumps(difference.text, ensure_ascii=False) + _pieces(difference)


def _pieces(difference: Difference) -> str:
    return f" in pieces of {', '.join(map(str, difference.cuts))} tokens" if difference.cuts else ""


def markdown(outcomes: Sequence[Outcome]) -> str:
    """Return what was found: of one reader and format in full, for an issue; of several as tables, for a page."""
    if len(outcomes) == 1:
        (one,) = outcomes
        return "\n".join([f"### {one.reader}, `{one.format}`", "", f"{date.today()}: {cell(one)}.", "", *_details(one)])
    named = list(dict.fromkeys(outcome.reader for outcome in outcomes))
    lines = [
        f"Found on {date.today()}:",
        "",
        "| format | " + " | ".join(named) + " |",
        "|" + " --- |" * (len(named) + 1),
    ]
    for name in dict.fromkeys(outcome.format for outcome in outcomes):
        found = {outcome.reader: outcome for outcome in outcomes if outcome.format == name}
        lines.append(f"| `{name}` | " + " | ".join(_number(found.get(reader)) for reader in named) + " |")
    for reader in named:
        of_reader = [outcome for outcome in outcomes if outcome.reader == reader and outcome.differences]
        turns, calls = (sum(getattr(o, key) for o in outcomes if o.reader == reader) for key in ("turns", "calls"))
        lines += ["", f"## {reader}", "", f"{turns:,} turns, {calls:,} calls."]
        if of_reader:
            lines += ["", "| format | what | turn | says | found |", "| --- | --- | --- | --- | --- |"]
            lines += [_row(outcome, difference) for outcome in of_reader for difference in outcome.differences]
    return "\n".join([*lines, ""])


def _row(outcome: Outcome, difference: Difference) -> str:
    wrong = " (the format is wrong)" if difference.ours else ""
    cells = (_span(difference.text) + _pieces(difference), _span(difference.says), _span(difference.found[:120]))
    return " | ".join([f"| `{outcome.format}`", difference.kind.removesuffix(", in pieces") + wrong, *cells]) + " |"


def _span(text: str) -> str:
    """Return a text as code in a cell, its line breaks as signs."""
    shown = text.replace("\n", "⏎").replace("|", "\\|").encode("utf-8", "backslashreplace").decode()
    shown = "".join(sign if sign.isprintable() else f"\\x{ord(sign):02x}" for sign in shown)
    tick = "``" if "`" in shown else "`"
    return f"{tick} {shown} {tick}" if tick == "``" or shown != shown.strip() else f"`{shown}`"


def _number(outcome: Outcome | None) -> str:
    return "" if outcome is None else "not read" if outcome.unreadable else str(len(outcome.differences) or "agrees")


def _details(outcome: Outcome) -> list[str]:
    lines: list[str] = []
    if outcome.differences:
        lines += [f"Tools: `{json.dumps(TOOLS, ensure_ascii=False)}`", ""]
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
