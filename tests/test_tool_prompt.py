"""What a rendered conversation tells of tools: the words of the specification or template, once, and special tokens
only in them.
"""

from __future__ import annotations

import pytest

from constrained import ChatFormat, ConstrainedError, Vocabulary
from constrained.formats import Message

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Weather of a city",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    },
    {"name": "ping", "parameters": {"type": "object", "properties": {}}},
]
WEATHER = '{"name": "weather", "description": "Weather of a city", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}'
INDENTED = '    {\n        "name": "weather",\n        "description": "Weather of a city",'
ENVELOPE = '{"type": "function", "function": ' + WEATHER + "}"
TOLD = [
    ("internlm2", f"<s><|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>system name=<|plugin|>\n[\n{INDENTED}"),
    ("internlm2-legacy", "Be brief.[UNUSED_TOKEN_145]\n[UNUSED_TOKEN_146]system name=[UNUSED_TOKEN_141]\n["),
    ("chatglm3", f"<|system|>\nBe brief.\n[\n{INDENTED}"),
    ("openchatml", 'system\nBe brief.\n<|function_list|>\n{\n  "type": "function",\n  "function": {\n    "name": "weather",'),
    ("llama3.1-json", "Environment: ipython\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nAnswer the user's question by making use of"),
    ("llama3.1-function", f"Use the function 'weather' to 'Weather of a city':\n{WEATHER}\n\nUse the function 'ping' to '':\n"),
    ("llama3.1-builtin", "Environment: ipython\nTools: brave_search, wolfram_alpha\nBe brief.<|eot_id|>"),
    ("qwen3", f"system\nBe brief.\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function signatures within "
              f"<tools></tools> XML tags:\n<tools>\n{ENVELOPE}\n"),
    ("phi-4-mini", f"<|system|>Be brief.<|tool|>{WEATHER}<|/tool|><|tool|>"),
    ("mistral-v13", f"[AVAILABLE_TOOLS][{ENVELOPE}, "),
    ("qwen2.5", f"system\nBe brief.\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function signatures "
                f"within <tools></tools> XML tags:\n<tools>\n{ENVELOPE}\n"),
    ("qwen3.5", f"system\n# Tools\n\nYou have access to the following functions:\n\n<tools>\n{ENVELOPE}\n"),
    ("granite-4.0", f"Be brief.\n\nYou are a helpful assistant with access to the following tools. You may call one or more tools to assist with the user query.\n\n"
                    f"You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n{ENVELOPE}\n"),
    ("exaone-4.0", f"JSON format within <tool> and </tool> tags:\n<tool>{ENVELOPE}</tool>\n<tool>"),
    ("minimax-m2", f"Here are the tools available in JSONSchema format:\n\n<tools>\n<tool>{WEATHER}</tool>\n<tool>"),
    ("glm-4.6", f"[gMASK]<sop><|system|>\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function signatures "
                f"within <tools></tools> XML tags:\n<tools>\n{ENVELOPE}\n"),
    ("glm-4.7", "<arg_value>{arg-value-2}</arg_value>...</tool_call><|system|>Be brief.<|user|>"),
    ("deepseek-v3.2", "<｜begin▁of▁sentence｜>Be brief.\n\n## Tools\nYou have access to a set of tools you can use"),
    ("deepseek-v3.2-jinja", f"Here are the functions available in JSONSchema format:\n<functions>\n{WEATHER}\n"),
    ("deepseek-v4", f"### Available Tool Schemas\n\n{WEATHER}\n"),
]  # fmt: skip


def _tools(chat):
    return TOOLS if chat.definition.payload is not None else ["brave_search", "wolfram_alpha"]


def _messages(chat, text="Be brief."):
    system = [Message(text, role="system")] if text else []
    return [*system, Message("Hi", role="user"), Message("Hello!")]


@pytest.mark.parametrize(("name", "told"), TOLD, ids=[name for name, _ in TOLD])
def test_tools_are_told_of_once(name, told):
    chat = ChatFormat.load(name)
    for text in ("Be brief.", ""):
        rendered = chat.render_text(_messages(chat, text), _tools(chat))
        assert told in rendered or not text
        read = chat.parse(rendered, kind="conversation")
        assert chat.render_text(read, _tools(chat)) == rendered
    assert "weather" not in chat.render_text(_messages(chat), _tools(chat), tool_prompt=False)


def test_only_words_of_the_format_are_tokens():
    chat = ChatFormat.load("openchatml")
    names = sorted(chat.tokens.values())
    vocabulary = Vocabulary(
        [*[None] * len(names), *(bytes([byte]) for byte in range(256))],
        special={name: at for at, name in enumerate(names)},
    )
    list_token = vocabulary.special["<|function_list|>"]
    tools = [
        {"name": "f", "description": "not the <|function_list|>", "parameters": {"type": "object", "properties": {}}}
    ]
    ids = chat.render(_messages(chat, "A <|function_list|>."), vocabulary, tools)
    assert ids.count(list_token) == 2
    assert not chat.loss_mask(_messages(chat), vocabulary, tools)[: ids.index(list_token)].any()
    with pytest.raises(ConstrainedError, match="function_list"):
        chat.render_text(_messages(chat), tools)


def test_chatglm3_says_the_fixed_prompt_where_nobody_says_another():
    text = ChatFormat.load("chatglm3").render_text(_messages(None, ""), TOOLS)
    assert (
        "<|system|>\nAnswer the following questions as best as you can. You have access to the following tools:\n[\n    {"
        in text
    )


def test_tool_prompt_is_true_or_false():
    with pytest.raises(ConstrainedError, match="tool_prompt is 5"):
        ChatFormat.load("hermes").render_text(_messages(None), TOOLS, tool_prompt=5)
