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
# # 2. Chat formats, and where their specifications contradict themselves
#
# A chat format is a language: how a model writes its answer, its thoughts and its tool calls. Each is published as
# prose with examples. Here each is a grammar, so a machine can ask what people who implement a format have to guess:
# **do the examples of a specification fit its own rules?**

# %%
from collections import Counter

import matplotlib.pyplot as plt

import constrained as c
from constrained.default_model.questions import TOOLS
from constrained.default_model import WIDTH, load_tokenizer
from constrained.formats.specifications import examples, found_of
from constrained.research.coverage import rule_coverage

call = {"city": "Oslo", "days": 3, "unit": "celsius"}
turns = {}
for name in c.ChatFormat.names():
    chat = c.ChatFormat.load(name)
    if chat.definition.payload is not None:  # else it takes no tools of ours
        turns[name] = chat.write_call("get_weather", call, TOOLS)
for name in ("hermes", "llama3.1-json", "chatglm3", "pythonic", "glm-4.6", "deepseek-v3.2", "gpt-oss"):
    print(f"{name:16}{turns[name]!r}")

# %% [markdown]
# The same call costs a model between 17 and 142 tokens. Characters of markup are not what counts; what a tokenizer
# knows as one token is.

# %%
tokenizer = load_tokenizer()
cost = {name: len(tokenizer(text, add_special_tokens=False)["input_ids"]) for name, text in turns.items()}
order = sorted(cost, key=cost.get)
figure, axis = plt.subplots(figsize=(8, 8))
axis.barh(order, [cost[name] for name in order], color="#45a868")
axis.set_xlabel("tokens of one call with three arguments, tokenizer of the embedded model")
axis.tick_params(axis="y", labelsize=7)
plt.tight_layout()
plt.show()
assert min(cost.values()) < 20 and max(cost.values()) > 100

# %% [markdown]
# ## What the specifications' own examples say
#
# Four specifications print whole examples. Each is read twice: by the *canonical* grammar, which is what a model may
# generate, and by the *accepted* one, what a reader should understand. An example that neither takes contradicts the
# rules of its own document; where a part of it is missing, a repaired copy is read as well.

# %%
found = [found_of(example) for example in examples()]
forms = Counter((each.example.format, each.form) for each in found if not each.example.repaired)
for (name, form), count in sorted(forms.items()):
    print(f"{name:20}{form:12}{count}")
names = sorted({name for name, _ in forms})
figure, axis = plt.subplots(figsize=(8, 3))
left = [0] * len(names)
for form, colour in (("canonical", "#45a868"), ("accepted", "#f2c14e"), ("refused", "#e8743b")):
    counts = [forms[name, form] for name in names]
    axis.barh(names, counts, left=left, color=colour, label=form)
    left = [sum(pair) for pair in zip(left, counts)]
axis.set_xlabel("examples printed in the specification")
axis.legend()
plt.tight_layout()
plt.show()

# %% [markdown]
# Every example that is not canonical has a reason, written down beside it and tested. These are the contradictions:

# %%
for each in found:
    if each.form == "refused":
        print(
            f"{each.example.document}, lines {each.example.lines}: {each.example.because}\n    "
            f"{str(each.error).splitlines()[0]}"
        )
assert all(each.example.because for each in found if each.form != "canonical")

# %% [markdown]
# ## Does a corpus of transcripts show the whole format?
#
# The reverse question, for those who validate a grammar against transcripts: which rules did the corpus use? A text
# *needs* an alternative of a rule if it is no word without it. Three turns, and what they do not show:

# %%
hermes = c.ChatFormat.load("hermes")
corpus = [turns["hermes"], "It is raining.<|im_end|>", "Let me look.\n" + turns["hermes"]]
coverage = rule_coverage(hermes.grammar(TOOLS), corpus)
print(coverage.table())
assert coverage.unused()
