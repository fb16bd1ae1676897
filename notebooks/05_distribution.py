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
# # 5. What a hard mask does to the distribution, and samplers that correct it
#
# A mask renormalises at every step. It does not know that behind an allowed token the model may hardly find a way out,
# so it takes beginnings too often that the model, given that it writes a word at all, would not have taken.
# Grammar-aligned decoding (ASAp: Park et al., NeurIPS 2024, arXiv:2405.21047) and adaptive weighted rejection sampling
# (AWRS: Lipkin et al., 2025, arXiv:2504.05410) correct that. How well, is measured here on a model small enough to
# enumerate: every word, with its exact probability.

# %%
import matplotlib.pyplot as plt
import numpy as np

import constrained as c
from constrained.benchmarks import vocabularies
from constrained.research import aligned, exact, rejection
from constrained.research.models import normalised

vocabulary = c.Vocabulary([b"0", b"1", b"00", b"01"], special={"<end>": 4}, stop=[4], size=8)
constraint = c.compile(c.Grammar.from_regex("0{1,3}|1[01]{2}1"), vocabulary)
MOST = 6  # tokens of a word


class Model:
    """A next-token distribution over some ids for every prefix, drawn once from a seed."""

    def __init__(self, seed, size=8, written=5):
        self.seed, self.known, self.calls, self.size, self.written = seed, {}, 0, size, written

    def __call__(self, ids):
        self.calls += 1
        key = tuple(ids)
        if key not in self.known:
            logits = np.random.default_rng([self.seed, *key]).normal(size=self.size) * 2
            self.known[key] = normalised(np.where(np.arange(self.size) < self.written, logits, -np.inf))
        return self.known[key]


model = Model(0)
both = exact.distributions(constraint, model, [], max_new_tokens=MOST)
print(f"{len(both.conditional)} words as tokens; the model writes one of them with probability {both.kept:.4f}")
words = sorted(both.conditional, key=both.conditional.get)
labels = ["|".join(vocabulary.decode([token]).decode() for token in word[:-1]) for word in words]
figure, axis = plt.subplots(figsize=(9, 4))
axis.barh(
    np.arange(len(words)) - 0.2,
    [both.conditional[word] for word in words],
    0.4,
    label="the model, given that it writes a word",
)
axis.barh(np.arange(len(words)) + 0.2, [both.masked[word] for word in words], 0.4, label="hard mask")
axis.set_yticks(range(len(words)), labels, fontsize=7)
axis.set_xlabel("probability")
axis.legend(loc="lower right")
plt.tight_layout()
plt.show()
print(f"KL(hard mask || exact) = {exact.divergence(both.conditional, both.masked):.3f} nats")

# %% [markdown]
# ## ASAp: every draw teaches the next
#
# Its distribution after n draws can be computed, not only sampled, so there is no estimation error: intervals are over
# models, each with seeds of its own (bootstrap of the mean).

# %%
DRAWS, MODELS, SURE = (0, 1, 2, 5, 10, 20, 50, 100, 200), 40, 95
masked, curves = [], []
for seed in range(MODELS):
    model = Model(seed)
    both = exact.distributions(constraint, model, [], max_new_tokens=MOST)
    masked.append(exact.divergence(both.conditional, both.masked))
    sampler, curve = aligned.Aligned(constraint, model, [], max_new_tokens=MOST, seed=seed), []
    for before, count in zip((0, *DRAWS), DRAWS):
        for _ in range(count - before):
            sampler.draw()
        curve.append(exact.divergence(both.conditional, {word: sampler.probability(word) for word in both.conditional}))
    curves.append(curve)
masked, curves = np.array(masked), np.array(curves)


def interval(values, seed=0):
    chance = np.random.default_rng(seed)
    means = [chance.choice(values, len(values)).mean() for _ in range(2000)]
    return values.mean(), *np.percentile(means, [(100 - SURE) / 2, (100 + SURE) / 2])


figure, axis = plt.subplots(figsize=(8, 4))
rows = np.array([interval(curves[:, at]) for at in range(len(DRAWS))])
axis.errorbar(
    np.arange(len(DRAWS)),
    rows[:, 0],
    [rows[:, 0] - rows[:, 1], rows[:, 2] - rows[:, 0]],
    marker="o",
    capsize=3,
    label="ASAp",
)
axis.axhline(masked.mean(), color="#e8743b", label="hard mask")
axis.axhline(masked.mean() / 5, color="#e8743b", linestyle=":", label="a fifth of it")
axis.set_xticks(range(len(DRAWS)), DRAWS)
axis.set_xlabel("draws before")
axis.set_ylabel("KL to the exact conditional, nats")
axis.legend()
plt.tight_layout()
plt.show()
print(f"{MODELS} models; intervals of {SURE} %")
for name, values in (("hard mask", masked), (f"ASAp, {DRAWS[-1]} draws", curves[:, -1])):
    print("{}: KL {:.4f} nats, {:.4f} to {:.4f}".format(name, *interval(values)))
ratios = interval(curves[:, -1] / masked.mean())
print("ASAp's is {:.3f} of the hard mask's, {:.3f} to {:.3f}".format(*ratios))
assert ratios[2] <= 1 / 5, "the upper end of the interval"

# %% [markdown]
# ## AWRS: no mask at all
#
# Draw from the model until the grammar accepts; weigh the text by an estimate of what was accepted; resample. With one
# particle it is the hard mask's distribution; with more it comes closer to the exact one, without ever computing a
# mask. Its distribution is estimated from weighted particles of many runs, so a small KL remains from counting.

# %%
RUNS, FEWER, COUNTS = 20, MODELS // 2, (1, 8, 64)
table = {count: [] for count in COUNTS}
checked = []
for seed in range(FEWER):
    model = Model(seed)
    both = exact.distributions(constraint, model, [], max_new_tokens=MOST)
    for count in COUNTS:
        shares = dict.fromkeys(both.conditional, 0.0)
        runs = RUNS * COUNTS[-1] // count // 4
        for run in range(runs):
            drawn = rejection.particles(constraint, model, [], max_new_tokens=MOST, count=count, seed=1000 * seed + run)
            checked += [particle.checked / max(1, len(particle.tokens)) for particle in drawn]
            for particle, share in zip(drawn, rejection.shares(drawn)):
                shares[tuple(particle.tokens)] += share / runs
        table[count].append(exact.divergence(both.conditional, shares))
base = masked[:FEWER].mean()
print(f"{FEWER} models; intervals of {SURE} %")
for count, values in table.items():
    mean, low, high = interval(np.array(values))
    print(
        f"AWRS, {count:3} particles: KL {mean:.4f} nats, {low:.4f} to {high:.4f}, {mean / base:.2f} of the hard "
        f"mask's"
    )
print(f"{np.mean(checked):.1f} tokens checked at a step, of {vocabulary.size}")
assert interval(np.array(table[COUNTS[-1]]))[2] <= base / 5

# %% [markdown]
# ## A hard regime, and what it costs
#
# Above the model writes words of its own accord. Now the vocabulary is of real size (Llama 3's, where its package is
# installed), the model knows nothing of the language, and so a mask removes nearly everything at every step. The cost
# is the model's calls: a hard mask needs one for each token of each draw, ASAp one for each prefix that nobody has met.
# AWRS is left out, as it draws from the model until a token is accepted.

# %%
large = vocabularies.llama3() or vocabularies.embedded()
hard = c.compile(c.Grammar.from_regex("yes|no|maybe"), large)
bitmask = np.zeros((1, large.words), np.int32)
hard.matcher().fill_mask(bitmask)
begins = np.unpackbits(bitmask.view(np.uint8), bitorder="little")[: large.size].astype(bool)
kept, tries, masked, calls, curves = [], [], [], [], []
for seed in range(8):
    model = Model(seed, large.size, large.size)
    tries.append(1 / np.exp(model([])[begins]).sum())
    both = exact.distributions(hard, model, [], max_new_tokens=MOST)
    kept.append(both.kept)
    masked.append(exact.divergence(both.conditional, both.masked))
    sampler, spent, curve = aligned.Aligned(hard, model, [], max_new_tokens=MOST, seed=seed), 0, []
    costs = []
    for before, count in zip((0, *DRAWS), DRAWS):
        model.calls = 0
        for _ in range(count - before):
            sampler.draw()
        spent += model.calls
        costs.append(spent)
        curve.append(exact.divergence(both.conditional, {word: sampler.probability(word) for word in both.conditional}))
    calls.append(costs)
    curves.append(curve)
masked, calls, curves = np.array(masked), np.array(calls), np.array(curves)
print(f"{large.size:,} ids; the models write a word with probability {min(kept):.1e} to {max(kept):.1e}")
print(f"{min(tries):,.0f} to {max(tries):,.0f} tokens drawn until one may begin a word")
figure, axis = plt.subplots(figsize=(8, 4))
for at, curve in zip(calls, curves):
    axis.plot(at, curve, color="#4a78b5", alpha=0.3)
axis.plot(calls.mean(0), curves.mean(0), marker="o", color="#4a78b5", label="ASAp, mean of the models; thin: each")
axis.axhline(masked.mean(), color="#e8743b", label="hard mask, whatever it costs")
axis.set_yscale("symlog", linthresh=0.1)
axis.set_ylim(bottom=0)
axis.set_xlabel("calls of the model in all draws so far")
axis.set_ylabel("KL to the exact conditional, nats")
axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncol=2, fontsize=8)
plt.tight_layout()
plt.show()
print("hard mask: KL {:.2f} nats, {:.2f} to {:.2f}".format(*interval(masked)))
for at in (1, 5, len(DRAWS) - 1):
    told = DRAWS[at], calls[:, at].mean(), *interval(curves[:, at])
    print("ASAp, {} draws and {:.0f} calls: KL {:.2f} nats, {:.2f} to {:.2f}".format(*told))
assert curves[:, -1].mean() < masked.mean()

# %% [markdown]
# Both are decoding methods of transformers,
# `model.generate(**inputs, do_sample=True, custom_generate=asap(constraint))`, in `constrained.research.samplers`. ASAp
# needs draws and remembers them, AWRS needs particles and remembers nothing. For greedy decoding there is nothing to
# correct.
