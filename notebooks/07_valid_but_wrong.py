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
# # 7. Valid but wrong: what constraints buy, and what they cost
#
# A grammar guarantees form, not sense. The embedded model is small enough to see both: it knows the formats, it often
# picks the right tool, and it often copies a value wrongly. Each question is answered without and with the grammar.

# %%
from collections import Counter
from math import comb

import matplotlib.pyplot as plt
import numpy as np

from constrained.default_model.evaluate import MEASURES, Exam, summed, wilson

FORMATS = ("hermes", "llama3.1-json", "glm-4.7", "deepseek-v3.1")
COUNT = 12

exam = Exam(COUNT, seed=3, temperature=0.0)
print(f"a model of {exam.model.num_parameters():,} weights, {COUNT} questions of each kind in {len(FORMATS)} formats")
results = {name: exam.sit(name) for name in FORMATS}
sums = {key: summed(one for found in results.values() for one in found[key]) for key in results[FORMATS[0]]}
for (held, constrained), tally in sorted(sums.items()):
    print(f"{'held-out' if held else 'known':9} tools, {'with' if constrained else 'without':7} grammar: "
          + ", ".join(f"{measure} {tally.shown(measure)}" for measure in MEASURES))

# %%
figure, axes = plt.subplots(1, 2, figsize=(10, 3.5), sharey=True)
for axis, held in zip(axes, (False, True)):
    for place, constrained in ((-0.2, False), (0.2, True)):
        tally = sums[held, constrained]
        shares = [getattr(tally, measure) / tally.turns for measure in MEASURES]
        bounds = np.array([wilson(getattr(tally, measure), tally.turns) for measure in MEASURES])
        errors = [np.maximum(0, np.array(shares) - bounds[:, 0]), np.maximum(0, bounds[:, 1] - shares)]
        axis.bar(
            np.arange(len(MEASURES)) + place,
            shares,
            0.38,
            yerr=errors,
            capsize=3,
            label="with the grammar" if constrained else "without",
        )
    names = ("read by a parser", "fits the schema", "the right call", "the result told")
    axis.set_xticks(range(len(MEASURES)), names, fontsize=8)
    axis.set_title("tools held out" if held else "known tools, new questions")
figure.legend(*axes[0].get_legend_handles_labels(), loc="upper center", ncol=2, fontsize=8)
plt.tight_layout(rect=(0, 0, 1, 0.94))
plt.show()
for held in (False, True):
    tally = sums[held, True]
    assert tally.valid == tally.finished, (
        "with the grammar every finished turn is a call of an offered tool that fits its schema"
    )

# %% [markdown]
# ## Where the gain comes from
#
# With the grammar, a turn that would have named a tool that does not exist names one that does, and an argument that
# would have been a word is a number. Some of these become right; the others were wrong before and are wrong now, but
# *valid*: nothing downstream fails, and nothing downstream notices.

# %%
held_invalid = sums[True, False].turns - sums[True, False].valid
gained = sums[True, True].right - sums[True, False].right
print(
    f"held-out tools: {held_invalid} of {sums[True, False].turns} turns were invalid without the grammar; {gained} "
    f"more are right with it"
)
wrong = sum(sums[held, True].valid - sums[held, True].right for held in (False, True))
print(f"valid but wrong with the grammar: {wrong} of {sum(sums[held, True].turns for held in (False, True))}")

# %% [markdown]
# ## The cost
#
# Does the mask ever turn a right call into a wrong one? It can: a hard mask moves probability to what is allowed *now*
# (notebook 5). For a model whose calls are right, masks remove next to nothing, and greedy decoding takes the same
# tokens:

# %%
pairs = Counter()
for found in results.values():
    for held in (False, True):
        for without, under in zip(found[held, False], found[held, True]):
            pairs[bool(without.right), bool(under.right)] += 1
gained, lost = pairs[False, True], pairs[True, False]
print(f"""{"":15}  right with   wrong with
right without    {pairs[True, True]:10}   {lost:10}
wrong without    {gained:10}   {pairs[False, False]:10}""")
# McNemar, exact: as many of the changed answers on one side, if both sides were equally likely
chance = min(1.0, 2 * sum(comb(gained + lost, k) for k in range(min(gained, lost) + 1)) / 2 ** (gained + lost))
print(f"{gained} wrong → right, {lost} right → wrong: p = {chance:.1g}, the same {sum(pairs.values())} questions twice")
assert gained > lost

# %% [markdown]
# The table over all formats: `python -m constrained.default_model.evaluate`. What it says is in the model's card.
