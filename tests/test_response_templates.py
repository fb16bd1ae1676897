"""Formats as response templates, which transformers' own parser reads turns by, and response templates as formats."""

from __future__ import annotations

import json

import pytest
from constrained.conform import laboratory

import constrained as c
from constrained import ChatFormat, Grammar
from constrained.cli import run
from constrained.errors import UnsupportedExport
from constrained.formats import Message, ToolCall

REFUSED = {
    "chatglm3": "Python's calls", "pythonic": "Python's calls", "cohere-xml": "nested in tags", "minimax-m3": "nested in tags",
    **dict.fromkeys(("llama-3.1", "llama-3.2", "llama-3.3"), "nothing but its JSON"), "llama3.1-builtin": "no calls of tools",
    "functionary-3.2": "no token ends a text",
}  # fmt: skip


def exported(name):
    return ChatFormat.load(name).grammar().to_response_template()


def test_every_format_has_one_or_says_why_not():
    refused = {}
    for name in ChatFormat.names():
        try:
            template = exported(name)
        except UnsupportedExport as error:
            refused[name] = str(error)
        else:
            assert json.loads(json.dumps(template)) == template
            assert template["fields"].keys() >= {"tool_calls", "content"}
    assert refused.keys() >= REFUSED.keys()
    for name, because in REFUSED.items():
        assert because in refused[name]


READ = [  # a format of each kind of call: JSON in tags, a list, between tokens, tags, tags with types, bare keys, channels
    "hermes", "command-r7b", "deepseek-r1", "qwen3.5", "kimi-k3", "gemma-4", "gpt-oss", "mistral-v11", "deepseek-v4",
]  # fmt: skip
TURNS = [
    Message("", [ToolCall("f", {"s": '"123" }', "i": -1, "o": {"k": [None, True]}})]), Message("So <b>.\n"),
    Message("", [ToolCall("now", {})]), Message("", [ToolCall("f", {"s": "null"}), ToolCall("get_it", {"s": "\n x"})]),
]  # fmt: skip


@pytest.fixture(scope="module")
def host():
    pytest.importorskip("transformers.utils.chat_parsing")
    with laboratory.Host() as host:
        yield host


@pytest.mark.parametrize("name", READ)
def test_transformers_reads_turns_by_our_templates(name, host):
    chat = ChatFormat.load(name)
    host.open("transformers", chat, exported(name))
    read, writer = 0, laboratory.Writer(chat)
    for message in TURNS:
        text = writer.write(message)
        for cuts in ((), (1,), (5, 2)) if text is not None else ():
            found = host.read(text, cuts, False)
            assert found.calls == [(call.name, call.arguments) for call in message.tool_calls], (text, cuts)
            assert (found.content or "").strip() == message.content.strip()
            read += 1
    assert read >= 6


def test_only_grammars_of_formats_have_one():
    with pytest.raises(UnsupportedExport, match=r"ChatFormat\.grammar"):
        Grammar.from_regex("a").to_response_template()
    assert issubclass(UnsupportedExport, c.GrammarError)


def test_the_command_prints_it(capsys):
    assert run(["show", "--format", "hermes", "--to", "response_template"]) == 0
    assert json.loads(capsys.readouterr().out) == exported("hermes")
    assert run(["show", "--format", "pythonic", "--to", "response_template"]) == 2
    assert "Python's calls" in capsys.readouterr().err
