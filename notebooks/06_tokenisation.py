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
# # 6. Tokenisation: exact masks, bad pairs, and what healing would change
#
# Grammars speak bytes, models speak tokens. One text has many tokenisations; a tokenizer writes one of them, a mask
# that is exact allows all. This notebook measures how often that matters.

# %%
import random
from collections import Counter

import matplotlib.pyplot as plt
import numpy as np
import torch

import constrained as c
from constrained.default_model.questions import PROMPT, TOOLS
from constrained.default_model import load_trained, prompt_of
from constrained.default_model.evaluate import wilson

torch.set_num_threads(1)
model, tokenizer = load_trained()
vocabulary = c.Vocabulary.from_tokenizer(tokenizer, size=model.config.vocab_size)
texts = {token: text for token, text in enumerate(vocabulary.tokens) if text is not None}

# %% [markdown]
# ## A mask is exact
#
# *A token is allowed if and only if some word starts with what was written plus its bytes.* The check by brute force:
# advance byte by byte over a vocabulary of single bytes and compare, at random positions of random calls.

# %%
grammar = c.ChatFormat.load("hermes").grammar(TOOLS, tool_choice="required")
constraint = c.compile(grammar, vocabulary)
letters = c.Vocabulary(
    [bytes([byte]) for byte in range(256)],
    special={name: 256 + at for at, name in enumerate(sorted(grammar.specials))},
    stop=[],
    size=512,
)
slow = c.compile(grammar, letters)


def brute_force(prefix, token):
    matcher = slow.matcher()
    for byte in [*prefix, *texts[token]]:
        if not matcher.accepts(byte):
            return False
        matcher.advance(byte)
    return True


chance, checked = random.Random(0), 0
for _ in range(6):
    matcher = constraint.matcher()
    while not matcher.is_finished() and len(matcher.tokens) < 40:
        allowed = [token for token in texts if matcher.accepts(token)]
        if not allowed:
            break
        prefix = matcher.text()
        for token in chance.sample(sorted(texts), 12) + chance.sample(allowed, min(4, len(allowed))):
            assert brute_force(prefix, token) == matcher.accepts(token)
            checked += 1
        matcher.advance(chance.choice(allowed))
print(f"{checked:,} bits compared, none differs")

# %% [markdown]
# ## Bad pairs
#
# Masks that look at one token at a time, and grammars that are written in terminals of a lexer, get pairs wrong: a
# token that ends one terminal and begins the next, such as `"}` or `": "`. How many of the tokens allowed inside a
# string lead beyond its end?

# %%
matcher = constraint.matcher()
for token in tokenizer('<tool_call>\n{"name": "get_weather", "arguments": {"city": "Os', add_special_tokens=False)[
    "input_ids"
]:
    matcher.advance(token)
allowed = [token for token in texts if matcher.accepts(token)]
beyond = [texts[token] for token in allowed if b'"' in texts[token] and not texts[token].endswith(b'"')]
print(
    f"{len(allowed)} tokens allowed after {matcher.text()[-12:]!r}; {len(beyond)} of them lead beyond the end of the "
    f"string: {beyond[:8]}"
)
assert all(b'"' in text for text in beyond)

# %% [markdown]
# ## Tokenisations of the same text
#
# How many ways are there to write one call? A count over the text's positions. The tokenizer's own is one of them, so its
# share is one in so many:

# %%
def tokenisations(data):
    ways = [1] + [0] * len(data)
    longest = max(map(len, texts.values()))
    known = Counter(texts.values())
    for at in range(1, len(data) + 1):
        ways[at] = sum(ways[start] * known[data[start:at]] for start in range(max(0, at - longest), at))
    return ways[-1]


lengths, logs = [], []
for size in (4, 8, 16, 32, 64):
    data = (b'{"name": "get_weather", "arguments": {"city": "Oslo", "unit": "celsius"}}' * 2)[:size]
    lengths.append(size)
    logs.append(np.log10(float(tokenisations(data))))
plt.figure(figsize=(7, 3))
plt.plot(lengths, logs, marker="o")
plt.xlabel("bytes")
plt.ylabel("tokenisations, powers of ten")
plt.tight_layout()
plt.show()
print("the tokenizer's own share:", ", ".join(f"{size} bytes: 1e-{log:.1f}" for size, log in zip(lengths, logs)))

# %% [markdown]
# A mask allows all of them. Does the model take others than the tokenizer's? Its own draws, compared with how the tokenizer
# writes the same text, and Wilson's interval:

# %%
own, other, DRAWS = 0, Counter(), 40
for seed in range(DRAWS):
    trace = constraint.trace(
        model, prompt_of(tokenizer, PROMPT, TOOLS, "hermes"), tokenizer=tokenizer, seed=seed, max_new_tokens=80
    )
    again = tokenizer(trace.text, add_special_tokens=False)["input_ids"]
    own += again == trace.tokens
    other[len(trace.tokens) - len(again)] += 1
low, high = wilson(own, DRAWS)
print(f"{own} of {DRAWS} draws ({low:.0%} to {high:.0%}) are the tokenizer's own tokens")
print("longer than these, in tokens → draws:", dict(sorted(other.items())))

# %% [markdown]
# ## What healing would change
#
# A prompt that ends inside what would be one token forces the model into a rare tokenisation. *Healing* takes the last
# prompt token back and lets the model choose among the tokens that start with its bytes. In a chat format it changes
# nothing: the prompt ends with a special token. In free completion it does:

# %%
def next_tokens(prompt, prefix=b""):
    ids = tokenizer(prompt, return_tensors="pt", add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        shares = torch.softmax(model(ids).logits[0, -1, : len(texts)], -1).numpy()
    fitting = [token for token in texts if token < len(shares) and texts[token].startswith(prefix)]
    total = sum(shares[token] for token in fitting)
    return sorted(((shares[token] / total, texts[token]) for token in fitting), reverse=True)[:4]


system = prompt_of(tokenizer, PROMPT, TOOLS, "llama3.1-json")
begun, cut = '<|python_tag|>{"type": "function', '", "na'  # the model writes `name` as one token
own_tokens = tokenizer(begun + '", "name"', add_special_tokens=False)["input_ids"]
print("the tokenizer's own tokens:", [texts.get(token, tokenizer.decode([token])) for token in own_tokens])
assert vocabulary.tokens.index(b"name") in own_tokens
for name, prompt, prefix in (
    ("whole tokens", begun + '", "', b""), ("cut inside a token", begun + cut, b""), ("healed", begun + '", "', b"na"),
):
    print(f"{name:19}", [(text, round(float(share), 3)) for share, text in next_tokens(system + prompt, prefix)])
