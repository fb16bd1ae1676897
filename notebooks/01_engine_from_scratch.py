# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # 1. The engine from scratch
#
# A language model writes one token at a time. We want it to stay inside a language: nested lists of digits such as
# `[1,[2,3]]`, say. So before every token we tell it which tokens are allowed. This notebook builds that mask the obvious
# way, a faster way, and with the library, and compares them bit by bit.
#
# Open it as a notebook with `jupytext --to ipynb notebooks/01_engine_from_scratch.py`, or run it as a script.

# %%
import random
from time import perf_counter

import numpy as np

import constrained as c
from constrained.default_model import WIDTH, load_tokenizer

vocabulary = c.Vocabulary.from_tokenizer(load_tokenizer(), size=WIDTH)
texts = {token: text for token, text in enumerate(vocabulary.tokens) if text is not None}
print(f"{len(texts)} tokens are text, for instance", [texts[token] for token in (40, 300, 500, 900)])

# %% [markdown]
# ## A language, one byte at a time
#
# Tokens are byte strings and do not respect the language's own pieces: a token may be `]]` or `,[`. Bytes are the
# common ground. So a language is a *state* and a function that says what the state is after one byte, or `None` where
# no word goes on like this.
#
# Lists nest, so the state holds a depth. `place` is what may come next.


# %%
def step(state, byte):
    place, depth = state
    char = chr(byte)
    if place in ("first", "value"):  # an element may start here; "first": right after "[", so the list may also end
        if char == "[":
            return ("first", depth + 1)
        if char.isdecimal() and char.isascii() and depth:
            return ("after", depth)
    if place in ("first", "after") and char == "]" and depth:
        return ("after", depth - 1)
    if place == "after" and char == "," and depth:
        return ("value", depth)
    return None


START = ("value", 0)


def run(state, text):
    for byte in text:
        state = step(state, byte)
        if state is None:
            return None
    return state


def is_word(state):
    return state == ("after", 0)


for text in (b"[1,[2,3]]", b"[1,", b"[1,]", b"[]]"):
    state = run(START, text)
    print(text, "is a word" if state and is_word(state) else "can go on" if state else "is a dead end")

# %% [markdown]
# Every state here is *live*: from each one some word can still be finished. That matters. If a state could get stuck, a
# mask built from "did it survive?" would lead the model into a dead end.
#
# ## The mask, the obvious way
#
# The law: **a token is allowed exactly when some word starts with what was written plus the token's bytes.** All states
# are live, so this is: the bytes survive.


# %%
def obvious_mask(state):
    return {token for token, text in texts.items() if run(state, text) is not None}


state = run(START, b"[1,[2")
allowed = obvious_mask(state)
print(f"{len(allowed)} tokens after [1,[2 :", sorted({texts[token] for token in allowed}))

# %% [markdown]
# ## A faster way
#
# Most tokens die at their first byte, and tokens share beginnings. A *trie* of all tokens lets us reject a whole
# subtree at once. The library's trie lies in flat arrays in preorder: after a byte that is allowed comes the next node,
# after one that is not we jump to `end`.

# %%
trie = vocabulary.trie
depth, byte, end, first, ids = (array.tolist() for array in (trie.depth, trie.byte, trie.end, trie.first, trie.ids))


def trie_mask(state):
    allowed, path, at = set(), [state], 0
    while at < trie.nodes:
        del path[depth[at] :]
        after = step(path[-1], byte[at])
        if after is None:
            at = end[at]
            continue
        path.append(after)
        allowed.update(ids[first[at] : first[at + 1]])
        at += 1
    return allowed


for make in (obvious_mask, trie_mask):
    started = perf_counter()
    for _ in range(20):
        result = make(state)
    print(f"{make.__name__}: {(perf_counter() - started) / 20 * 1e6:,.0f} µs, {len(result)} tokens")
assert trie_mask(state) == obvious_mask(state)

# %% [markdown]
# ## With the library
#
# The same language as a grammar. The library's engine is this notebook's idea, and adds grammars instead of a
# hand-written `step`, *sets* of states where a text can be read in several ways, stacks that are shared, and masks
# that are kept.

# %%
grammar = c.Grammar.from_lark(
    r"""
    start: list
    list: "[" [element ("," element)*] "]"
    element: list | /[0-9]/
    """
)
constraint = c.compile(grammar, vocabulary)
kernel, _ = constraint.place()
print("what computes the masks:", type(kernel).__module__)


def library_mask(matcher):
    bitmask = np.zeros((1, vocabulary.words), np.int32)
    matcher.fill_mask(bitmask)
    return set(np.flatnonzero(np.unpackbits(bitmask.view(np.uint8), bitorder="little")).tolist())


# %% [markdown]
# Random walks through the language; at every position all masks must agree on every id. Stop tokens are the one
# difference: the library allows them where the text is a word.

# %%
chance, positions = random.Random(0), 0
stops = set(vocabulary.stop)
for _ in range(200):
    matcher, state = constraint.matcher(), START
    for _ in range(12):
        allowed = trie_mask(state)
        assert library_mask(matcher) - stops == allowed
        assert matcher.is_accepting() == is_word(state)
        positions += 1
        if not allowed:
            break
        token = chance.choice(sorted(allowed))
        matcher.advance(token)
        state = run(state, texts[token])
print(f"{positions} positions, {positions * vocabulary.size:,} ids, no difference")

# %% [markdown]
# ## How much faster?
#
# One long list, and at each step the time of the masks: by the functions above, by the library's compiled kernel,
# and by the same engine in plain Python (`kernel="plain"`, what runs where nothing could be compiled). The first time an
# engine gets to a state it has to make the mask, over a vocabulary that has not met the language yet; the second time
# it only copies it. The legend has the median and the highest of each line: the peaks are the states that are new.

# %%
import matplotlib.pyplot as plt

state, bitmask = START, np.zeros((1, vocabulary.words), np.int32)
ways = {
    "every token": lambda: obvious_mask(state),
    "every node of the trie that is reached": lambda: trie_mask(state),
}
matchers = {}
for kernel in ("plain", "compiled"):
    fresh = c.Vocabulary.from_tokenizer(load_tokenizer(), size=WIDTH)
    try:
        matchers[kernel] = c.compile(grammar, fresh, kernel=kernel).matcher()
    except c.ConstrainedError as error:  # no compiler where it was installed
        print(error)
        continue
    for visit in ("first visit", "again"):
        ways[f"library, {kernel}, {visit}"] = lambda kernel=kernel: matchers[kernel].fill_mask(bitmask)
times = {name: [] for name in ways}
for _ in range(120):
    for name, make in ways.items():
        tries = []
        for _ in range(1 if "first" in name else 5):  # the fastest: the machine does other things too
            started = perf_counter()
            make()
            tries.append((perf_counter() - started) * 1e6)
        times[name].append(min(tries))
    token = chance.choice([token for token in sorted(trie_mask(state)) if run(state, texts[token])[1]])  # never the end
    for matcher in matchers.values():
        matcher.advance(token)
    state = run(state, texts[token])
plt.figure(figsize=(9, 4.5))
for name, values in times.items():
    plt.semilogy(values, label=f"{name}: median {np.median(values):,.1f}, highest {max(values):,.1f} µs")
plt.xlabel("step")
plt.ylabel("µs for the mask")
plt.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncol=2, fontsize=8)
plt.tight_layout()
plt.show()
assert all(np.median(times["every token"]) > np.median(values) for name, values in times.items() if "again" in name)
