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
from constrained.benchmarks import vocabularies
from constrained.default_model.questions import TOOLS
from constrained.research.specifications import examples, found_of
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
# What does the same call cost a model? Counted by real tokenizers where their packages are installed (`llama-models`,
# `mistral-common`), each with the special tokens of every format added, as the format's own model has them; else by the
# embedded one. Characters of markup are not what counts; what a tokenizer knows as one token is.

# %%
real = {"Llama 3": vocabularies.llama3(), "Mistral's tekken": vocabularies.tekken()}
counted = {name: found for name, found in real.items() if found} or {"the embedded model": vocabularies.embedded()}
cost = {
    tokenizer: {name: len(vocabularies.encode(vocabulary, text)) for name, text in turns.items()}
    for tokenizer, vocabulary in counted.items()
}
for tokenizer, of in cost.items():
    least, most = min(of, key=of.get), max(of, key=of.get)
    print(f"{tokenizer}: from {of[least]} tokens ({least}) to {of[most]} ({most})")
first, *others = cost
order = sorted(turns, key=cost[first].get)
figure, axis = plt.subplots(figsize=(8, 10))
axis.barh(order, [cost[first][name] for name in order], color="#45a868", label=first)
for tokenizer in others:
    axis.plot([cost[tokenizer][name] for name in order], order, "|", markersize=7, color="#1b1b1f", label=tokenizer)
axis.set_xlabel(f"tokens of one call with {len(call)} arguments")
axis.tick_params(axis="y", labelsize=7)
axis.margins(y=0.01)
axis.legend(loc="lower right")
plt.tight_layout()
plt.show()
assert all(3 * min(of.values()) < max(of.values()) for of in cost.values())

# %% [markdown]
# ## What the specifications' own examples say
#
# Some specifications print whole examples. Each is read by the *canonical* grammar, which is what a model may
# generate, and by the *accepted* one, what a reader should understand. What neither takes is either a fragment, a part
# of a message or a skeleton that the document prints to explain something, and contradicts nothing; or it contradicts
# the rules of its own document. Where only a part is missing, a repaired copy is read as well.

# %%
def form_of(each):
    is_part = each.form == "refused" and each.example.because.startswith(("a part", "a skeleton"))
    return "a fragment" if is_part else "refused" if each.form == "refused" else each.form


found = [found_of(example) for example in examples()]
forms = Counter((each.example.format, form_of(each)) for each in found if not each.example.repaired)
names = sorted({name for name, _ in forms})
documents = {each.example.document for each in found}
print(f"{sum(forms.values())} examples of {len(names)} formats, printed in {len(documents)} documents")
for (name, form), count in sorted(forms.items()):
    print(f"{name:20}{form:12}{count}")
figure, axis = plt.subplots(figsize=(8, 3))
left = [0] * len(names)
colours = {"canonical": "#45a868", "accepted": "#f2c14e", "refused": "#e8743b", "a fragment": "#c4c4cc"}
for form, colour in colours.items():
    counts = [forms[name, form] for name in names]
    axis.barh(names, counts, left=left, color=colour, label=form)
    left = [sum(pair) for pair in zip(left, counts)]
axis.set_xlabel("examples printed in the specification")
axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncol=4)
plt.tight_layout()
plt.show()

# %% [markdown]
# Every example that is not canonical has a reason, written down beside it and tested. These contradict their document;
# the last line of each says where a reader stops:

# %%
for each in found:
    if form_of(each) == "refused":
        print(
            f"{each.example.document}, lines {each.example.lines}: {each.example.because}\n    "
            f"{str(each.error).splitlines()[0]}"
        )
assert all(each.example.because for each in found if each.form != "canonical")

# %% [markdown]
# ## Does a corpus of transcripts show the whole format?
#
# The reverse question, for those who validate a grammar against transcripts: which rules did the corpus use? A text
# *needs* an alternative of a rule if it is no word without it. Some turns, and what they do not show:

# %%
hermes = c.ChatFormat.load("hermes")
corpus = [turns["hermes"], "It is raining.<|im_end|>", "Let me look.\n" + turns["hermes"]]
coverage = rule_coverage(hermes.grammar(TOOLS), corpus)
print(coverage.table())
assert coverage.unused()
