"""A trace as HTML: a fragment for notebooks, and a page of its own.

Everything that comes from a model is escaped, in the markup and in the JSON that the page's script reads; the page
loads nothing and its policy forbids it to.  Without a script, in notebooks and readers, each token's tooltip says the
same.

Tests: tests/test_trace_page.py, with an HTML parser, and in headless Chromium where that is installed.
"""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .trace import Step, Trace

KINDS = (
    ("forced", "the grammar allows this token only"),
    ("nearly", "the mask removed more than half of the probability"),
    ("free", "the model chose"),
)
BLANKS = {"\n": "↵\n", "\t": "⇥", " ": "\u00b7"}
SHOWN = 12  # characters of a token in the chart's labels


def fragment(trace: Trace) -> str:
    """Return the text with its tokens coloured, and a line of figures."""
    style, said = _file("trace.css"), escape(figures(trace))
    body = f'{_legend()}{_text(trace)}<p class="figures">{said}</p>'
    return f'<div class="constrained-trace"><style>{style}</style>{body}</div>'


def page(trace: Trace) -> str:
    """Return a whole page: the text, a chart of every step, and a panel that says what could have come instead."""
    data = json.dumps([_data(step) for step in trace.steps], ensure_ascii=False).replace("<", "\\u003c")
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>A constrained generation</title><style>{_file("trace.css")}</style></head>
<body class="constrained-trace"><h1>A constrained generation</h1>
<pre class="prompt">{escape(trace.prompt)}</pre>{_legend()}{_text(trace)}<p class="figures">{escape(figures(trace))}</p>
{_chart(trace)}
<section id="panel" aria-live="polite"><p>Move over a token, or step through them with the arrow keys.</p></section>
<script type="application/json" id="steps">{data}</script><script>{_file("trace.js")}</script></body></html>
"""


def figures(trace: Trace) -> str:
    """Return what a generation comes to, in a line."""
    steps = trace.steps
    if not steps:
        return "no token"
    times = sorted(step.seconds for step in steps)
    return (
        f"{len(steps)} tokens, {sum(step.forced for step in steps)} forced; the mask removed "
        f"{sum(step.removed for step in steps) / len(steps):.1%} of the "
        f"probability on average; mask {times[len(times) // 2] * 1e6:.1f} µs in the median, {times[-1] * 1e6:.0f} µs "
        f"at most; "
        f"{'finished' if trace.finished else 'not finished'}"
    )


def _text(trace: Trace) -> str:
    tokens = "".join(
        f'<span class="token {step.kind}" tabindex="0" data-step="{at}" '
        f'title="{escape(_tooltip(step), quote=True)}">{escape(_visible(step.text))}</span>'
        for at, step in enumerate(trace.steps)
    )
    return f'<pre class="text">{tokens}</pre>'


def _legend() -> str:
    return (
        '<p class="legend">'
        + " ".join(f'<span class="token {kind}">{kind}</span> {escape(about)}' for kind, about in KINDS)
        + "</p>"
    )


def _tooltip(step: Step) -> str:
    likely = ", ".join(f"{text!r} {probability:.0%}" for text, probability in step.likely[:5])
    entropy = f"entropy {step.entropy_before:.2f} → {step.entropy_after:.2f} bits"
    return f"{step.allowed} allowed: {likely}\nremoved {step.removed:.1%}, {entropy}"


def _visible(text: str) -> str:
    return "".join(BLANKS.get(char, char if char.isprintable() else f"\\x{ord(char):02x}") for char in text)


def _data(step: Step) -> dict[str, object]:
    """Return what the panel shows of a step."""
    return {
        "text": step.text,
        "token": step.token,
        "kind": step.kind,
        "allowed": step.allowed,
        "removed": step.removed,
        "before": step.entropy_before,
        "after": step.entropy_after,
        "probability": step.probability,
        "us": step.seconds * 1e6,
        "likely": step.likely,
        "forbidden": [[each.text or str(each.token), each.probability, each.why] for each in step.forbidden],
    }


def _chart(trace: Trace) -> str:
    """Return bars of the probability that the mask removed, and lines of the entropy before and after, as SVG."""
    steps, high = trace.steps, 120
    if not steps:
        return ""
    wide = max(4, min(18, 1100 // len(steps)))
    most = max(1.0, *(step.entropy_before for step in steps))
    bars = "".join(
        f'<rect class="bar {step.kind}" data-step="{at}" x="{at * wide}" y="{high * (1 - step.removed):.1f}" '
        f'width="{wide - 1}" '
        f'height="{high * step.removed:.1f}"/>'
        for at, step in enumerate(steps)
    )
    lines = "".join(
        f'<polyline class="{name}" points="'
        + " ".join(f"{at * wide + wide / 2:.1f},{high * (1 - value / most):.1f}" for at, value in enumerate(values))
        + '"/>'
        for name, values in (
            ("before", [step.entropy_before for step in steps]),
            ("after", [step.entropy_after for step in steps]),
        )
    )
    return (
        f'<figure><svg viewBox="0 0 {wide * len(steps)} {high}" width="{wide * len(steps)}" height="{high}" '
        f'role="img" aria-label="removed probability and '
        f'entropy by step">{bars}{lines}</svg><figcaption>bars: probability that the mask removed, 0 to 1; lines: '
        f'entropy before (dashed) and after '
        f"the mask, 0 to {most:.1f} bits</figcaption></figure>"
    )


def _file(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
