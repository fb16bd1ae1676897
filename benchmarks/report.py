"""The table of a speed run: our figures, and ratios to the better peer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import geometric_mean
from typing import Any

from rich.console import Console
from rich.table import Column, Table

OURS = "constrained"
# figure → (heading, target of the ratio)
FIGURES = {
    "cold start": ("compile + first", None),
    "cold request": ("whole request", None),
    "cold mask avg": ("cold avg", 0.6),
    "cold mask p99": ("cold p99", 0.5),
    "warm mask p50": ("warm p50", 0.5),
    "warm mask p99": ("warm p99", 0.5),
    "warm mask p99.9": ("p99.9", None),
    "warm mask max": ("max", None),
    "warm advance avg": ("advance", 1.0),
}
UNSEEN = {
    "unseen start": ("compile + first", None),
    "unseen request": ("whole request", None),
    "unseen mask avg": ("avg", None),
    "unseen mask p50": ("p50", None),
    "unseen mask p99": ("p99", None),
    "unseen mask max": ("max", None),
}
AHEAD = {"unseen": "unseen", "warmed": "after warm(0.05)", "loaded": "after load", "warm": "known"}
Row = Mapping[str, Any]


def print_report(meta: Mapping[str, Any], rows: Sequence[Row], bases: Mapping[str, str]) -> None:
    """Print the tables; `bases` maps a bounded case to the same case without its bound."""
    console = Console(width=None if Console().is_terminal else 150, markup=False, highlight=False, emoji=False)
    engines = ", ".join(f"{name} {version}" for name, version in meta["engines"].items())
    console.print(f"{engines}\n{meta['vocabulary']}; {meta['machine']}; load {meta['load']}; {meta['date']}\n")
    by_case = _by_case(rows)
    console.print(_ratios(by_case, FIGURES, "µs, and × the better peer at that figure (less is faster)"))
    console.print(_ratios(by_case, UNSEEN, "a schema that nobody has compiled before"))
    console.print(_starts(by_case))
    console.print(_ahead(by_case))
    console.print(_cliffs(by_case, bases))


def _by_case(rows: Sequence[Row]) -> dict[str, dict[str, Row]]:
    cases: dict[str, dict[str, Row]] = {}
    for row in rows:
        cases.setdefault(row["case"], {})[row["engine"]] = row
    return cases


def best_peer(engines: Mapping[str, Row], figure: str) -> float | None:
    """Return the smaller figure of the peers that took the case."""
    return min((row[figure] for name, row in engines.items() if name != OURS and figure in row), default=None)


def _ratios(
    by_case: Mapping[str, Mapping[str, Row]], figures: Mapping[str, tuple[str, float | None]], title: str
) -> Table:
    table = Table(Column("case", no_wrap=True), *(heading for heading, _ in figures.values()), title=title)
    ratios: dict[str, list[float]] = {figure: [] for figure in figures}
    for case, engines in by_case.items():
        ours, cells = engines[OURS], []
        for figure in figures:
            peer = best_peer(engines, figure)
            if figure in ours and peer:
                ratios[figure].append(ours[figure] / peer)
            cells.append(_cell(ours.get(figure), peer))
        table.add_row(case, *cells)
    table.add_section()
    for name, combine in (("geometric mean", geometric_mean), ("worst", max)):
        table.add_row(name, *(f"×{combine(values):.2f}" if values else "-" for values in ratios.values()))
    if any(target for _, target in figures.values()):
        table.add_row(
            "target of the mean", *("-" if target is None else f"×{target}" for _, target in figures.values())
        )
    return table


def _starts(by_case: Mapping[str, Mapping[str, Row]]) -> Table:
    peers = sorted({name for engines in by_case.values() for name in engines} - {OURS})
    table = Table("case", OURS, *peers, title="compile + first mask of an unseen schema, ms")
    for case, engines in by_case.items():
        table.add_row(
            case,
            *(
                f"{engines[name]['unseen start'] / 1e3:.2f}" if "unseen start" in engines.get(name, {}) else "-"
                for name in (OURS, *peers)
            ),
        )
    return table


def _ahead(by_case: Mapping[str, Mapping[str, Row]]) -> Table:
    """What work ahead of time leaves: our slowest mask of each case in four ways, and what loading costs."""
    table = Table("case", *AHEAD.values(), "compile", "load", title="our slowest mask, µs, and what leads to it")
    for case, engines in by_case.items():
        ours = engines[OURS]
        figures = [*(f"{kind} mask max" for kind in AHEAD), "compile", "load"]
        table.add_row(case, *(_cell(ours.get(figure), None) for figure in figures))
    return table


def _cliffs(by_case: Mapping[str, Mapping[str, Row]], bases: Mapping[str, str]) -> Table:
    table = Table(
        "bounded case",
        "next to",
        "compile + first",
        "unseen avg",
        "warm p50",
        title="what a bound costs, × the same without it",
    )
    for case, base in bases.items():
        bounded, free = by_case[case][OURS], by_case[base][OURS]
        figures = ("unseen start", "unseen mask avg", "warm mask p50")
        table.add_row(
            case,
            base,
            *(
                f"×{bounded[figure] / free[figure]:.2f}" if figure in bounded and figure in free else "-"
                for figure in figures
            ),
        )
    return table


def _cell(ours: float | None, peer: float | None) -> str:
    if ours is None:
        return "-"
    return f"{ours:,.2f}" + (f"  ×{ours / peer:.2f}" if peer else "")
