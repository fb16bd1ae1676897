"""The format of a tokenizer: told by its chat template, its version or its tokens, or an error that says what is left.
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


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if "template" in row])
def test_a_template_tells_its_format(name):
    assert ChatFormat.for_tokenizer(Tokenizer(" ".join(ROWS[name]["template"]))).name == name
    listed = [
        {"name": "default", "template": "{{ messages }}"},
        {"name": "tool_use", "template": " ".join(ROWS[name]["template"])},
    ]
    assert ChatFormat.for_tokenizer(Tokenizer(listed)).name == name


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
    (Tokenizer("{% for message in messages %}"), "none of the known formats is told by its chat template"),
    (Tokenizer("<tool_call> <arg_key>"), "told by its chat template"),  # calls as GLM writes them, in turns of others
    (Tokenizer(None, ["｜DSML｜"]), "could be those of deepseek-v3.2-jinja, deepseek-v4"), (Tokenizer(None), "no chat template and no special tokens"),
    (Tokenizer(None, ["<|im_start|>", "<tool_call>", "<think>"]), "could be those of qwen3, qwen3-coder, qwen3.5"), (5, "int is no tokenizer"),
    (Tokenizer(None, ["[TOOL_CALLS]"]), "could be those of mistral-v3-tekken, mistral-v3-spm"), ("no/such/folder", "shows no tokenizer"),
])  # fmt: skip
def test_what_cannot_be_told_says_so(tokenizer, told):
    with pytest.raises((GrammarError, ConstrainedError), match=told):
        ChatFormat.for_tokenizer(tokenizer)


def test_a_folder_tells_its_format(tmp_path):
    config = tmp_path / "tokenizer_config.json"
    config.write_text(json.dumps({"chat_template": "<|im_start|><tool_call><think>"}))
    assert ChatFormat.for_tokenizer(tmp_path).name == "qwen3"
    (tmp_path / "chat_template.jinja").write_text("[TOOL_CALLS][ARGS]")
    assert ChatFormat.for_tokenizer(str(tmp_path)).name == "mistral-v13"
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
