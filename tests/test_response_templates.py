"""Formats as response templates, which transformers' own parser reads turns by, and response templates as formats."""

from __future__ import annotations

import json

import pytest
from constrained.cli import run
from constrained.conform import laboratory
from constrained.default_model import load
from constrained.deriving.derive import derive
from constrained.deriving.regions import from_regions

import constrained as c
from constrained import ChatFormat, Grammar
from constrained.errors import UnsupportedExport
from constrained.formats import Message, ToolCall

REFUSED = {
    "chatglm3": "Python's calls", "pythonic": "Python's calls", "cohere-xml": "nested in tags",
    "minimax-m3": "nested in tags",
    **dict.fromkeys(("llama-3.1", "llama-3.2", "llama-3.3"), "nothing but its JSON"),
    "llama3.1-builtin": "no calls of tools",
    "functionary-3.2": "no token ends a text", "hyperclovax": "an answer may hold '/think'",
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


# A format of each kind of call: JSON in tags, a list, between tokens, tags, tags with types, bare keys, channels, a name
# that stands twice.
READ = [
    "hermes", "command-r7b", "deepseek-r1", "qwen3.5", "kimi-k3", "gemma-4", "gpt-oss", "mistral-v11", "deepseek-v4",
    "muse-glimmer",
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


@pytest.mark.parametrize("reader", ["transformers", "vllm", "sglang"])
@pytest.mark.parametrize("name", READ)
def test_servers_read_turns_by_our_templates(name, reader, host):
    pytest.importorskip(reader, reason="see make hosts-vllm")
    chat = ChatFormat.load(name)
    host.open(reader, chat, exported(name))
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


def test_the_command_derives_a_format_of_one(tmp_path, capsys):
    (tmp_path / "tags.json").write_text(json.dumps(TAGS))
    assert run(["derive", str(tmp_path / "tags.json"), "-o", str(tmp_path)]) == 0
    path, doubts = capsys.readouterr().out.split("\n", 1)
    assert ChatFormat.load(path).stop == ("<|end|>", "<|stop|>") and "conversations: " in doubts


# -- response templates as formats -------------------------------------------------------------------------------------

TAGS = {
    "defaults": {"role": "assistant"}, "start_anchor": "<|a|>",
    "fields": {
        "thinking": {"open": "<think>", "close": "</think>"},
        "tool_calls": {
            "open_pattern": r"\s*<call name=\"(?P<name>[^\"]+)\">", "close_pattern": r"\s*</call>", "repeats": True,
            "content": "xml-inline",
            "content_args": {"tag_pattern": r"<arg (?P<key>\w+)>(?P<value>.*?)</arg>"},
            "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
        },
        "content": {"close_pattern": r"\s*(?:<\|end\|>|<\|stop\|>)"},
    },
}  # fmt: skip
OBJECTS = {
    "start_anchor": "<|a|>",
    "fields": {
        "tool_calls": {
            "open": "<|calls|>", "close": "<|/calls|>", "content": "json", "transform_each": True,
            "transform": {"function": {"name": "{tool}", "arguments": "{with}"}},
        },
        "content": {"open": "<|say|>", "close": ["<|/say|>", "<|end|>"]},
    },
}  # fmt: skip
BARE = {
    "start_anchor": "<|a|>",
    "fields": {
        "tool_calls": {
            "open_pattern": r"<\|call\|>(?P<name>\w+)", "close": "<|/call|>", "repeats": True, "content": "json",
            "content_args": {"unquoted_keys": True, "string_delims": [["<|q|>", "<|q|>"]]},
            "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
        },
        "content": {"close": "<|end|>"},
    },
}  # fmt: skip
LOOSE = {  # what patterns may match besides, and tokens with a bar at one end
    "start_anchor": "<|a|>",
    "fields": {
        "thinking": {"open_pattern": r"<think>|(?=</think>)", "close": "</think>"},
        "tool_calls": {
            "open_pattern": r"[^<]*(?:<call>\s*)+to=(?P<name>[^\s>]+)>?",
            "close_pattern": r"\n?</call>", "repeats": True, "content": "json",
            "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
        },
        "content": {"close": ["<end|>", "<|result>"]},
    },
}  # fmt: skip
CHANNELS = {
    "start_anchor": "<|a|>",
    "fields": {
        "tool_calls": {
            "open_pattern": r"<\|to\|>(?P<name>\w+).*?<\|message\|>", "close": "<|call|>", "repeats": True, "content": "json",
            "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
        },
        "content": {"open": "<|say|>", "close": ["<|said|>", "<|end|>"]},
    },
}  # fmt: skip
WRITTEN = [  # a response template, a message, its turn
    (TAGS, Message("", [ToolCall("f", {"s": "123", "i": 4})]),
    '<call name="f"><arg s>123</arg><arg i>4</arg></call><|end|>'),
    (TAGS, Message("So", [ToolCall("now", {})], thoughts={"reasoning": "Hm"}),
    '<think>Hm</think>So<call name="now"></call><|end|>'),
    (OBJECTS, Message("", [ToolCall("f", {"s": "a"}), ToolCall("now", {})]),
    '<|calls|>[{"tool": "f", "with": {"s": "a"}}, {"tool": "now", "with": {}}]<|/calls|><|end|>'),
    (OBJECTS, Message("So."), "<|say|>So.<|/say|><|end|>"),
    (BARE, Message("", [ToolCall("f", {"s": 'a"', "o": {"k": None}})]),
    '<|call|>f{s:<|q|>a"<|q|>,o:{k:null}}<|/call|><|end|>'),
    (LOOSE, Message("", [ToolCall("f", {"s": "1"}), ToolCall("now", {})]),
    '<call>to=f>{"s": "1"}</call><call>to=now>{}</call><end|>'),
    (CHANNELS, Message("", [ToolCall("f", {"s": "1"})]), '<|to|>f<|message|>{"s": "1"}<|call|><|end|>'),
]  # fmt: skip


@pytest.mark.parametrize(("template", "message", "turn"), WRITTEN)
def test_a_response_template_is_a_format_whose_turns_transformers_reads(template, message, turn, host):
    chat = ChatFormat.from_response_template(template)
    assert chat.write(message, laboratory.TOOLS) == turn
    read = chat.parse(turn, laboratory.TOOLS, strict=True)
    assert (read.content, read.tool_calls, read.thoughts) == (message.content, message.tool_calls, message.thoughts)
    host.open("transformers", chat, template)
    found = host.read(turn, (1,), bool(message.thoughts))
    assert found.calls == [(call.name, call.arguments) for call in message.tool_calls]
    assert (found.content or "") == message.content


def test_what_its_patterns_match_is_read():
    chat = ChatFormat.from_response_template(TAGS)
    loose = '<think>Hm</think>\n\nSo\n<call name="f">\n<arg s>1</arg>\n</call>\n<|stop|>'
    message = chat.parse(loose, laboratory.TOOLS)
    assert message.tool_calls == [ToolCall("f", {"s": "1"})] and message.stop == "<|stop|>" and message.repairs
    assert chat.stop == ("<|end|>", "<|stop|>") and dict(chat.doubts).keys() == {"conversations"}


@pytest.mark.parametrize(("template", "turn"), [
    (LOOSE, 'Hm</think>x <call>\n<call>to=f{"s": "1"}\n</call><|result>'),
    (LOOSE, '<call>to=f>{"s": "1"}</call><end|>'),
    (CHANNELS, '<|to|>f <|as|>json<|message|>{"s": "1"}<|call|><|end|>'),
])  # fmt: skip
def test_what_stands_any_number_of_times_is_read(template, turn):
    assert ChatFormat.from_response_template(template).parse(turn, laboratory.TOOLS).tool_calls == [ToolCall("f", {"s": "1"})]


def changed(**fields):
    return {**TAGS, "fields": {**TAGS["fields"], **{name: {**TAGS["fields"][name], **field} for name,
    field in fields.items()}}}


WRONG = [
    (changed(tool_calls={"open_pattern": "[ab]+(?P<name>b)"}), "stands in a pattern"),
    (changed(tool_calls={"content": "kv-lines"}), "kv-lines"), (changed(tool_calls={"open_pattern": "a.*?(?P<name>b)"}),
    r"\.\*\?"),
    (changed(content={"close_pattern": r"\s*$"}), "no token ends a turn"), ({}, "no fields"),
    (changed(tool_calls={"transform": "{content.x}"}), "its transform"),
    ({**TAGS, "fields": {**TAGS["fields"], "plan": {"open": "<plan>", "close": "</plan>"}}}, "thinking, plan"),
    (object(), "no response_template"),
    (changed(tool_calls={"content_args": {"tag_pattern": "(?P<value>a)(?P<key>b)"}}), "a key and a value"),
    (changed(tool_calls={"content_args": {"tag_pattern": r"(?P<key>\w+)=(?P<value>[^,)]*)"}}), "nothing ends a value"),
    (changed(thinking={"open": []}), "opens or closes a thought"),
    (changed(tool_calls={"open_pattern": "(?:a(?P<name>b)"}), "not closed|named group"),
]  # fmt: skip


@pytest.mark.parametrize(("template", "because"), WRONG)
def test_what_no_format_says_is_refused(template, because):
    with pytest.raises(c.GrammarError, match=because):
        ChatFormat.from_response_template(template)


class Tokenizer:
    """What is asked of a tokenizer of transformers."""

    name_or_path, eos_token, all_special_tokens, chat_template = "acme/model-1", "<|end|>", ["<|end|>", "<|a|>"], None

    def __init__(self, template):
        self.response_template = template


def test_a_tokenizer_names_the_format_and_its_tokens():
    chat = ChatFormat.from_response_template(Tokenizer(TAGS))
    assert (chat.name, chat.stop) == ("model-1", ("<|end|>",))


CHATML = """{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content or '' }}{% for call in m.tool_calls or [] %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


@pytest.mark.parametrize(("close", "doubted"), [("</tool_call>", False), ("</call>", True)])
def test_beside_a_chat_template_what_it_reads_otherwise_is_doubted(close, doubted):
    """The format is the chat template's; a response template for other turns is told of."""
    tokenizer = load()[1]
    tokenizer.chat_template = CHATML
    tokenizer.response_template = json.loads(json.dumps(exported("hermes")).replace("</tool_call>", close))
    chat = from_regions(tokenizer, ChatFormat.load, "<|im_end|>", lambda given, stop: derive(
        given, ChatFormat.load, stop=stop, conversations=10).format)
    assert chat.write_call("f", {"a": 1}) == '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call><|im_end|>'
    assert doubted is any("the response template" in what and "a call" in what for what, _ in chat.doubts)


def test_a_saved_format_reads_the_same(tmp_path):
    chat = ChatFormat.from_response_template(OBJECTS)
    again = ChatFormat.load(chat.save(tmp_path))
    turn = WRITTEN[2][2]
    assert again.parse(turn, laboratory.TOOLS).tool_calls == chat.parse(turn, laboratory.TOOLS).tool_calls
    with pytest.raises(UnsupportedExport, match="where a turn begins"):
        again.grammar().to_response_template()


def test_what_transformers_reads_otherwise_is_noted():
    notes = ChatFormat.from_response_template(BARE).grammar(laboratory.TOOLS).notes
    assert [note.word for note in notes] == ["transformers"]
    assert "a value of another type" in notes[0].because and "control characters" in notes[0].because
