"""The format of a tokenizer: told by its chat template, its version or its tokens, or an error that says what is left.

Templates are formats of ours: of each, what holds the texts of its row and prints what the format renders.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from constrained import ChatFormat, ConstrainedError, GrammarError

ROWS = tomllib.loads((Path(__file__).parent.parent / "grammars" / "recognise.toml").read_text(encoding="utf-8"))


class Tokenizer:
    def __init__(self, chat_template, tokens=()):
        self.chat_template, self._tokens = chat_template, tokens

    def get_added_vocab(self):
        return {token: at for at, token in enumerate(self._tokens)}


class Printing(Tokenizer):
    """A tokenizer whose template prints what a format renders, with changes: text → another."""

    def __init__(self, name, changes=(), begun=""):
        super().__init__(" ".join(ROWS[name]["template"]))
        self._chat, self._changes, self._begun = ChatFormat.load(name), changes, begun

    def apply_chat_template(self, messages, tools=None, *, add_generation_prompt=False, tokenize=True):
        assert not tokenize
        told = {"add_generation_prompt": True, "prompt": ""} if add_generation_prompt else {}
        text = self._chat.render_text(messages, tools, tool_prompt=False, **told)
        for old, new in self._changes:
            text = text.replace(old, new)
        return text + self._begun * add_generation_prompt


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if "template" in row])
def test_a_template_tells_its_format(name):
    tokenizer = Printing(name)
    assert ChatFormat.for_tokenizer(tokenizer).name == name
    tokenizer.chat_template = [
        {"name": "default", "template": "{{ messages }}"}, {"name": "tool_use", "template": tokenizer.chat_template},
    ]
    assert ChatFormat.for_tokenizer(tokenizer).name == name


@pytest.mark.parametrize(("name", "changes", "begun", "told"), [
    ("qwen3.5", [("assistant\n", "assistant\n<think></think>")], "", "an answer differs at .*<think></think>Past the"),
    ("qwen3.5", [("</think>\n\n", "</think>\n")], "", "a thought differs at"),
    ("qwen3", [('"arguments"', '"parameters"')], "", "a call differs at .*parameters.*where the format has .*arguments"),
    ("qwen3", [], "<think>\n</think>", r"no turn of the format begins with '<think>\\n</think>'"),
    ("kimi-k2", [("assistant<|im_middle|>", "helper<|im_middle|>")], "", "an answer differs at .*helper"),
    ("granite-4.0", [("Which way is north?", "")], "", "its chat template prints no answer"),
])  # fmt: skip
def test_a_template_that_prints_something_else_is_no_format_of_ours(name, changes, begun, told):
    with pytest.raises(GrammarError, match=f"looks like that of '{name}', and {told}"):
        ChatFormat.for_tokenizer(Printing(name, changes, begun))


@pytest.mark.parametrize(("name", "begun"), [
    ("qwen3.5", "<think>\n"), ("qwen3.5", "<think>\n\n</think>\n\n"), ("glm-4.7", "</think>"), ("deepseek-v3.1", "</think>"),
    ("minimax-m2", "<think>\n"), ("kimi-k3", "<|open|>think<|sep|>"),
])  # fmt: skip
def test_a_template_may_begin_the_turn(name, begun):
    assert ChatFormat.for_tokenizer(Printing(name, begun=begun)).name == name


def test_rows_are_formats_with_their_own_tokens():
    for name, row in ROWS.items():
        chat = ChatFormat.load(name)
        assert chat.name == name
        assert row.keys() <= {"template", "absent", "tokens", "without", "versions"}
        assert set(row.get("tokens", ())) <= {
            *chat.tokens.values(),
            *chat.definition.markers,
            "<think>",
            "<tool_call>",
        }, name


@pytest.mark.parametrize(("tokens", "name"), [
    (["<|action_start|>", "<|plugin|>"], "internlm2"), (["<|im_start|>", "<tool_call>"], "qwen2.5"), (["<|turn>", "<|tool_call>"], "gemma-4"),
    (["<|begin_of_text|>", "<|im_start|>", "<tool_call>"], "hermes-3"), (["<|channel|>", "<|constrain|>"], "gpt-oss"),
])  # fmt: skip
def test_tokens_tell_a_format(tokens, name):
    assert ChatFormat.for_tokenizer(Tokenizer(None, tokens)).name == name


@pytest.mark.parametrize(("tokenizer", "told"), [
    (Tokenizer("{% for message in messages %}{% endfor %}"), "none of the known formats is told by its chat template"),
    (Tokenizer("{% for message in messages %}"), "chat template is no template"),
    (Tokenizer("<tool_call> <arg_key>"), "told by its chat template"),  # calls as GLM writes them, in turns of others
    (Tokenizer("[TOOL_CALLS][ARGS]"), "looks like that of 'mistral-v13', and its chat template prints no answer"),
    (Tokenizer(None, ["｜DSML｜"]), "could be those of deepseek-v3.2-jinja, deepseek-v4"), (Tokenizer(None), "no chat template and no special tokens"),
    (Tokenizer(None, ["<|im_start|>", "<tool_call>", "<think>"]), "could be those of qwen3, qwen3-coder, qwen3.5"), (5, "int is no tokenizer"),
    (Tokenizer(None, ["[TOOL_CALLS]"]), "could be those of mistral-v3-tekken, mistral-v3-spm"), ("no/such/folder", "shows no tokenizer"),
])  # fmt: skip
def test_what_cannot_be_told_says_so(tokenizer, told):
    with pytest.raises((GrammarError, ConstrainedError), match=told):
        ChatFormat.for_tokenizer(tokenizer)


# A template of ours: turns between tokens, a thought only where one is given, calls that it refuses.
CHATML = """{#- <tool_call> -#}{%- for message in messages -%}
{%- if message.tool_calls -%}{{- raise_exception("no calls: " + tools | tojson) -}}{%- endif -%}
{{- "<|im_start|>" + message.role + "\n" -}}
{% generation %}
{%- if message.reasoning_content is defined -%}{{- "<think>\n" + message.reasoning_content + "\n</think>\n\n" -}}{%- endif -%}
{{- message.content + eos_token -}}
{% endgeneration %}
{{- "\n" -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- "<|im_start|>assistant\n" -}}{%- endif -%}"""


def test_a_folder_tells_its_format(tmp_path):
    config = tmp_path / "tokenizer_config.json"
    config.write_text(json.dumps({"chat_template": CHATML, "eos_token": {"content": "<|im_end|>"}, "bos_token": None}))
    assert ChatFormat.for_tokenizer(tmp_path).name == "qwen3"
    (tmp_path / "chat_template.jinja").write_text(CHATML.replace("assistant", "model"))
    with pytest.raises(GrammarError, match=r"an answer differs at .*model"):
        ChatFormat.for_tokenizer(str(tmp_path))
    config.write_text("{")
    with pytest.raises(ConstrainedError, match="cannot read"):
        ChatFormat.for_tokenizer(tmp_path)


@pytest.mark.parametrize(("config", "told"), [
    ("[" * 100_000, "cannot read"), ("7", "shows no tokenizer"), ("[1]", "shows no tokenizer"),
    ('{"added_tokens": [7, {}, {"content": 7}], "added_tokens_decoder": {}}', "shows no tokenizer"),
    ('{"added_tokens_decoder": 7}', "shows no tokenizer"),
])  # fmt: skip
def test_a_damaged_folder_is_an_error_of_the_tree(tmp_path, config, told):
    (tmp_path / "tokenizer_config.json").write_text(config)
    with pytest.raises(ConstrainedError, match=told):
        ChatFormat.for_tokenizer(tmp_path)


def test_mistral_common_tells_its_version():
    mistral = pytest.importorskip("mistral_common.tokens.tokenizers.mistral").MistralTokenizer
    assert ChatFormat.for_tokenizer(mistral.v7()).name == "mistral-v7-spm"
    assert ChatFormat.for_tokenizer(mistral.v3(is_tekken=True)).name == "mistral-v3-tekken"
