# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 4. Speed and coverage beside the peers
#
# Plots from the benchmark records in `benchmarks/record`: every run measures this engine, llguidance and XGrammar in
# one process, on the same inputs, with the Llama 3 vocabulary. Only records of a clean checkout count, whose commit says
# what was measured. `constrained bench` makes a new record; nothing here is measured again.

# %%
import json
import textwrap
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import constrained

records = Path(constrained.__file__).parents[1] / "benchmarks" / "record"


def newest(kind):
    """Return the lines of the newest record of a kind that a clean tree made."""
    found = ([json.loads(line) for line in path.read_text().splitlines()] for path in records.glob(f"{kind}-*.jsonl"))
    return max((lines for lines in found if "dirty" not in lines[0]["commit"]), key=lambda lines: lines[0]["date"])


head, *rows = newest("speed")
print({name: head[name] for name in ("date", "machine", "vocabulary", "engines", "commit")})
engines = list(head["engines"])
colours = dict(zip(engines, ("#45a868", "#4a78b5", "#e8743b")))
by = {(row["case"], row["engine"]): row for row in rows}
cases = sorted({case for case, _ in by})
shared = [case for case in cases if all("error" not in by.get((case, engine), {"error": ""}) for engine in engines)]
print(len(cases), "cases,", len(shared), "that all three engines compile")

# %% [markdown]
# ## Coverage first
#
# Speed on what an engine refuses means nothing. Besides refusals to compile there are formats that the benchmark has no
# form of for a peer: those say nothing about it, and are left out of all that follows.

# %%
for engine in engines:
    errors = {case: by.get((case, engine), {"error": "not run"}).get("error") for case in cases}
    absent = {case.split(",")[0] for case, error in errors.items() if error == "cannot be expressed"}
    refused = [case for case, error in errors.items() if error and error != "cannot be expressed"]
    print(f"{engine:12} refuses {', '.join(refused) or 'nothing'}; has no form of {len(absent)} formats")
    print(textwrap.indent(textwrap.fill(", ".join(sorted(absent)), 110), "    "))

# %% [markdown]
# ## A mask
#
# *cold*: the tools have been seen before, masks are computed on the first visit of a state in a fresh matcher.
# *unseen*: nothing of the grammar has been seen. *warm*: known masks. Microseconds, all cases that every engine compiles;
# the line is the median.

# %%
figures = ("cold mask avg", "unseen mask avg", "warm mask p50", "compile")
figure, axes = plt.subplots(1, len(figures), figsize=(12, 4), sharey=True)
for axis, name in zip(axes, figures):
    for place, engine in enumerate(engines):
        values = [by[case, engine][name] for case in shared]
        axis.scatter(place + np.linspace(-0.2, 0.2, len(values)), values, s=10, color=colours[engine])
        axis.hlines(np.median(values), place - 0.3, place + 0.3, color=colours[engine])
    axis.set_yscale("log")
    axis.set_title(name, fontsize=10)
    axis.set_xticks(range(len(engines)), engines, fontsize=7)
axes[0].set_ylabel("µs")
plt.tight_layout()
plt.show()

# %% [markdown]
# As ratios to the better peer, the geometric mean over the shared cases:

# %%
for name in (*figures, "cold request", "unseen request", "warm advance p50"):
    ratios = [
        by[case, "constrained"][name] / min(by[case, engine][name] for engine in engines if engine != "constrained")
        for case in shared
    ]
    print(f"{name:20} x {np.exp(np.mean(np.log(ratios))):.2f}   (from {min(ratios):.2f} to {max(ratios):.2f})")

# %% [markdown]
# The line to look at is *unseen mask avg*: a lazy engine pays at the first visit for what XGrammar prepares while it
# compiles. The whole request, compile included, is what a caller waits for.
#
# ## Tails, on schemas that people wrote
#
# The newest run of `constrained bench --schemas`: schemas of a public collection that are all new, and nothing is kept
# between them. How long does a caller wait for the test of one token: the first time at a place of a text, and later?
# From the median to the slowest of all.

# %%
about, *found = newest("collection")
print(f"{about['date'][:10]}, commit {about['commit']}, {about['schemas']} schemas, {found[0]['common']} of them compiled by all")
print("wrong verdicts:", {row["engine"]: row["wrong"] for row in found})
quantiles = ("p50", "p90", "p99", "p99.9", "max")
figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
for axis, name in zip(axes, ("first test", "later tests")):
    for row, colour in zip(found, ("#45a868", "#4a78b5", "#e8743b", "#8b95a1")):
        values = [row[f"{name} {at}"] for at in quantiles]
        axis.semilogy(quantiles, values, marker="o", color=colour, label=row["engine"])
    axis.set_title(name)
axes[0].set_ylabel("µs")
figure.legend(*axes[0].get_legend_handles_labels(), loc="upper center", ncol=4, fontsize=8)
plt.tight_layout(rect=(0, 0, 1, 0.93))
plt.show()
tails = {row["engine"]: row["first test max"] / row["first test p50"] for row in found}
for engine in sorted(tails, key=tails.get):
    print(f"{engine:12} first test: the slowest takes {tails[engine]:8,.0f} times the median")

# %% [markdown]
# Work ahead pays in the tail, see who comes first there. The README has what each of them spends on compiling.
#
# ## No cliffs
#
# Large bounds should cost nothing. Each family grows one number; the worst of its known masks, as a ratio to those of
# the smallest:

# %%
about, *grown = newest("cliffs")
print(f"{about['date'][:10]}, commit {about['commit']}, load {about['load']}")
families = {}
for row in grown:
    if row.get("ratios"):
        families.setdefault(row["family"], []).append((row["size"], row["ratios"]["warm p50"]))
largest = {family: max(points)[0] for family, points in families.items()}
names = [f"{family}, up to {format(size, ',' if size < 1e6 else '.0e')}" for family, size in largest.items()]
figure, axis = plt.subplots(figsize=(9, 4))
axis.barh(names, [max(ratio for _, ratio in points) for points in families.values()], color="#45a868")
axis.axvline(3, color="grey", linestyle=":", label="the bound that the benchmark holds to")
axis.set_xlabel("known mask, slowest of the family, ratio to its smallest case")
axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1), fontsize=8)
plt.tight_layout()
plt.show()
assert shared and families
