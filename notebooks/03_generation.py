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
# # 3. Generation, step by step
#
# The embedded model, trained on the formats, answers a question under the grammar of one. `constraint.trace` notes at
# every step what the mask took away.

# %%
import matplotlib.pyplot as plt
import torch

import constrained as c
from constrained.default_model import load_trained, prompt_of
from constrained.default_model.questions import PROMPT, TOOLS

torch.set_num_threads(1)
model, tokenizer = load_trained()
vocabulary = c.Vocabulary.from_tokenizer(tokenizer, size=model.config.vocab_size)


def constraint_of(name):
    return c.compile(c.ChatFormat.load(name).grammar(TOOLS, tool_choice="required"), vocabulary)


def traced(name, **options):
    prompt = prompt_of(tokenizer, PROMPT, TOOLS, name)
    return constraint_of(name).trace(model, prompt, tokenizer=tokenizer, **options)


trace = traced("hermes", temperature=0)
trace

# %% [markdown]
# In a notebook a trace shows itself: grey tokens were the only ones allowed, green ones the model chose, orange ones it
# took although the mask had removed most of what it wanted. A model that knows its format feels the mask at few steps.
# What it says is another matter: a mask keeps the form, and any unit of the schema is a valid one.

# %%
print(PROMPT)
print(trace.text)
(called,) = c.ChatFormat.load("hermes").parse(trace.text, tools=TOOLS).tool_calls
for name, value in called.arguments.items():
    print(f"{name}: {value!r} is valid, and {'what' if str(value) in PROMPT else 'not what'} the question says")
removed = [step.removed for step in trace.steps]
figure, axes = plt.subplots(3, 1, figsize=(9, 7), sharex=True)
axes[0].bar(
    range(len(removed)),
    removed,
    color=[{"forced": "#8b95a1", "nearly": "#e8743b", "free": "#45a868"}[step.kind] for step in trace.steps],
)
axes[0].set_ylabel("probability removed")
axes[1].plot([step.entropy_before for step in trace.steps], "--", label="before the mask")
axes[1].plot([step.entropy_after for step in trace.steps], label="after it")
axes[1].set_ylabel("entropy, bits")
axes[1].legend(loc="lower right", bbox_to_anchor=(1, 1), ncol=2, fontsize=8, frameon=False)
axes[2].semilogy([step.allowed for step in trace.steps], drawstyle="steps-mid")
axes[2].set_ylabel("tokens allowed")
axes[2].set_xlabel("step")
plt.tight_layout()
plt.show()
assert trace.finished and called.name == "get_weather"

# %% [markdown]
# ## Text that the grammar dictates
#
# What is dictated is *text*, not tokens: `forced_bytes` is the text that must come, and there are nearly always several
# tokens that begin it. `forced_tokens` spells it as the tokenizer would, but for a last token that might have been a
# longer one; assisted decoding proposes that as a draft. Here is all that is dictated in this call, and how many of its
# tokens were really the only ones allowed.

# %%
matcher, spelled, at = constraint_of("hermes").matcher(), [], 0
while at < len(trace.tokens):
    text, tokens = matcher.forced_bytes(), matcher.forced_tokens()
    if len(tokens) > 1:
        print(f"step {at:2}: {text.decode(errors='replace')!r} is dictated; its tokens: "
              + " ".join(repr(vocabulary.decode([token]).decode()) for token in tokens))
    same = tokens == list(trace.tokens[at : at + len(tokens)])
    spelled += tokens if same else []
    for token in trace.tokens[at : at + (len(tokens) if tokens and same else 1)]:
        matcher.advance(token)
        at += 1
print(f"{len(spelled)} of {len(trace.tokens)} tokens of this call spell dictated text; "
      f"{sum(step.forced for step in trace.steps)} were the only ones allowed")

# %% [markdown]
# ## A model that does not know the format
#
# The same question at a higher temperature. What the mask removes grows; the text stays a call.

# %%
hot = [traced("hermes", temperature=temperature, seed=1, max_new_tokens=120) for temperature in (0.5, 1.0, 2.0)]
figure, axis = plt.subplots(figsize=(9, 3))
for temperature, each in zip((0.5, 1.0, 2.0), hot):
    kept = -each.log_probability_kept
    axis.plot(
        [step.removed for step in each.steps],
        label=f"temperature {temperature}: unmasked sampling stays in with probability exp(-{kept:.1f})",
    )
axis.set_xlabel("step")
axis.set_ylabel("probability removed")
axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1), fontsize=8)
plt.tight_layout()
plt.show()
assert hot[0].log_probability_kept > hot[2].log_probability_kept

# %% [markdown]
# ## The budget's effect near the end
#
# With `budget=n` every word ends within n tokens, the stop token not counted. Far from the end the mask is the
# grammar's; near it the tokens vanish that would lead too far, until one way out is left. Here the same draws of a list
# of objects, for a prompt of which the model knows nothing and rambles in the first string: each budget lets it ramble
# as far as the rest of the object still fits behind it.

# %%
forecasts = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city", "days"],
    },
}
forecast = c.compile(c.Grammar.from_json_schema(forecasts, profile="practical"), vocabulary)
figure, axis = plt.subplots(figsize=(9, 3))
for budget in (60, 30, 16):
    short = forecast.trace(model, "The weather:", tokenizer=tokenizer, budget=budget, seed=0)
    axis.semilogy([step.allowed for step in short.steps], drawstyle="steps-mid", label=f"at most {budget} tokens")
    print(f"{budget:3}: {short.text!r}")
    assert short.finished and len(short.tokens) <= budget + 1
axis.set_xlabel("step")
axis.set_ylabel("tokens allowed")
axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncol=3, fontsize=8)
plt.tight_layout()
plt.show()

# %% [markdown]
# `trace.save("out.html")` writes the page that `constrained trace --html` does: everything above for one generation,
# with the rejected tokens and the reason for each under the pointer.
