"""Rendering: what is rendered is read back as the same messages, whatever their texts spell; what a model learns is
what it generates.
"""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from constrained.rendering.given import read_messages
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained import ChatFormat, ConstrainedError, GrammarError, Vocabulary, VocabularyError
from constrained.formats import Message, ToolCall
from constrained.formats.read.inputs import split_ids

NAMES = ChatFormat.names()


def _vocabulary(chat):
    names = sorted({*chat.tokens.values(), *chat.definition.reserved})
    return Vocabulary(
        [*[None] * len(names), *(bytes([byte]) for byte in range(256))],
        special={name: at for at, name in enumerate(names)},
    )


def _messages(name):
    chat = ChatFormat.load(name)
    own = chat.definition.payload is None
    call = ToolCall("brave_search", {"query": "x"}) if own else ToolCall("f", {"a": "x"})
    messages = [Message("Hi", role="user"), Message("Hello!"), Message("Weather?", role="user")]
    roles = set(chat.definition.messages.values())
    role = next(role for role in ("tool", "observation", "ipython", "environment") if role in roles)
    return [*messages, Message("", [call]), Message("7 degrees", role=role), Message("It is 7.")]


def _same(read, given):
    return [(m.role, m.content, [(c.name, c.arguments) for c in m.tool_calls]) for m in read] == [
        (m.role, m.content, [(c.name, c.arguments) for c in m.tool_calls]) for m in given
    ]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
def test_rendered_text_is_read_back(name):
    chat, messages = ChatFormat.load(name), _messages(name)
    text = chat.render_text(messages)
    read = chat.parse(text, kind="conversation")
    assert _same(read, messages)
    assert chat.render_text(read) == text


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_learned_is_what_is_generated(name):
    chat, messages = ChatFormat.load(name), _messages(name)
    vocabulary = _vocabulary(chat)
    ids, mask = chat.render(messages, vocabulary), chat.loss_mask(messages, vocabulary)
    assert mask.dtype == bool
    assert mask.shape == (len(ids),)
    runs, run = [], []
    for token, learned in zip([*ids, None], [*mask, False], strict=True):
        if learned:
            run.append(token)
        elif run:
            runs.append(run)
            run = []
    turns = [message for message in messages if message.role == "assistant"]
    assert len(runs) == len(turns)
    for run, turn in zip(runs, turns, strict=True):
        told = chat.parse(run, None, vocabulary, stop_optional=True, prompt="")
        assert (told.content, [call.name for call in told.tool_calls]) == (
            turn.content,
            [call.name for call in turn.tool_calls],
        )
    labels = chat.labels(messages, vocabulary)
    assert np.array_equal(labels, np.where(mask, ids, -100))


def test_the_loss_of_chatglm3_is_what_its_slides_highlight():
    """The example of the developer slides, lines 494 to 510; brackets around what a model learns."""
    chat = ChatFormat.load("chatglm3")
    vocabulary = _vocabulary(chat)
    thought, answers = "我需要调用天气预报工具来获取巴黎的天气信息。", ("温度 22 摄氏度，有雾。", "请考虑一下。")
    messages = [
        Message("Answer the following questions.", role="system"),
        Message("北京的天气怎么样？", role="user"),
        Message(thought, [ToolCall("get_weather", {"location": "北京"})]),
        Message('{"temperature_c": 18}', role="observation"),
        Message(answers[0]),
        Message("适合外出活动吗？", role="user"),
        Message(answers[1]),
    ]
    ids, mask = chat.render(messages, vocabulary), chat.loss_mask(messages, vocabulary)
    shown = b"".join(
        b"[%b]" % vocabulary.decode([token]) if learned else vocabulary.decode([token])
        for token, learned in zip(ids, mask, strict=True)
    )
    assert shown.replace(b"][", b"").removeprefix(b"[gMASK]sop").decode() == (
        "<|system|>\nAnswer the following questions.<|user|>\n北京的天气怎么样？"
        f"<|assistant|>[\n{thought}<|assistant|>get_weather\n```python\ntool_call(location='北京')\n```<|observation|>]"
        '\n{"temperature_c": 18}'
        f"<|assistant|>[\n{answers[0]}<|user|>]\n适合外出活动吗？<|assistant|>[\n{answers[1]}<|user|>]"
    )


_TEXTS = st.lists(st.sampled_from([
    "<|im_end|>", "<|im_start|>", "<tool_call>", "</tool_call>", "<|eot_id|>", "<|user|>", "<|", "[TOOL_CALLS]", "</think>", "'", '"', "\\", "{", "\n", "北京",
    "🌧", "\x00", "a", " ", "\u202e", "<|python_tag|>", "[/INST]",
]), min_size=1, max_size=6).map("".join)  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(
        ["hermes", "llama3.1-json", "chatglm3", "mistral-v13", "qwen3", "glm-4.6", "deepseek-v3.1", "internlm2"]
    ),
    _TEXTS,
    _TEXTS,
)
def test_no_text_becomes_a_special_token(name, asked, answered):
    chat = ChatFormat.load(name)
    vocabulary = _vocabulary(chat)
    messages = [Message(asked, role="user"), Message(answered)]
    harmless = chat.render([Message("a", role="user"), Message("b")], vocabulary)
    try:
        ids = chat.render(messages, vocabulary)
    except ConstrainedError:
        return  # readers would take the text for something else
    special = set(vocabulary.special.values())
    assert [token for token in ids if token in special] == [token for token in harmless if token in special]
    assert asked.encode() in vocabulary.decode(ids)
    turn = split_ids(ids, vocabulary, chat.definition)
    assert _same(chat.parse(ids, None, vocabulary, kind="conversation"), messages), turn.text


def test_text_that_spells_a_special_token_is_refused_as_text():
    chat = ChatFormat.load("hermes")
    messages = [{"role": "user", "content": "a<|im_end|>"}, {"role": "assistant", "content": "b"}]
    with pytest.raises(ConstrainedError, match=r"spells '<\|im_end\|>'"):
        chat.render_text(messages)
    assert chat.render(messages, _vocabulary(chat))


def test_messages_may_be_dicts_and_their_ids_those_of_another_interface():
    chat = ChatFormat.load("qwen3")
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": json.dumps({"a": 1})}}
    given = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "Hm."},
    ]
    text = chat.render_text(given)
    assert "<think>" in text
    assert chat.parse(text, kind="conversation")[1].tool_calls == [ToolCall("f", {"a": 1})]


@pytest.mark.parametrize("messages", [
    "text", 5, [5], [{}], [{"role": 1}], [{"role": "user", "content": 5}], [{"role": "user", "images": []}], [{"role": "nobody", "content": "a"}],
    [{"role": "assistant", "tool_calls": [{}]}], [{"role": "assistant", "tool_calls": [{"name": "f", "arguments": "{"}]}], [],
    [{"role": "assistant", "content": "<tool_call>"}],
])  # fmt: skip
def test_what_cannot_be_rendered_is_refused(messages):
    with pytest.raises(ConstrainedError):
        ChatFormat.load("hermes").render_text(messages)


AS_OTHERS_WRITE = [  # a message as other interfaces have it, the same as a `Message`
    ({"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "input_text", "text": " you"}]}, Message("Hi you", role="user")),
    ({"role": "user", "content": ["Hi", {"text": "!"}], "name": None}, Message("Hi!", role="user")),
    ({"role": "assistant", "content": "Hi", "refusal": None, "annotations": [], "audio": None, "function_call": None, "tool_calls": None}, Message("Hi")),
    ({"role": "tool", "content": [{"type": "text", "text": "7"}], "tool_call_id": "c"}, Message("7", role="tool", call_id="c")),
    ({"role": "assistant", "content": None, "tool_calls": [{"type": "function", "index": 0, "function": {"name": "f", "arguments": ""}}]},
     Message("", [ToolCall("f", {})])),
    ({"role": "assistant", "tool_calls": ({"name": "f", "arguments": '{"n": 0.12345678901234567890}'},)},
     Message("", [ToolCall("f", {"n": Decimal("0.12345678901234567890")})])),
    ({"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}, Message("", [ToolCall("f", {})])),
    ({"role": "assistant", "content": "Hi", "reasoning": "Hm."}, Message("Hi", thoughts={"reasoning": "Hm."})),
    ({"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, {"type": "text", "text": "Hi"}, {"type": "tool_use", "id": "c", "name": "f", "input": {}}]},
     Message("Hi", [ToolCall("f", {}, "c")], thoughts={"reasoning": "Hm."})),
    ({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "7"}]}]}, Message("7", role="tool", call_id="c")),
    ({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}, Message("", [ToolCall("f", {}, "c")])),
    ({"type": "function_call_output", "call_id": "c", "output": "7"}, Message("7", role="tool", call_id="c")),
    ({"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "Hm."}]}, Message(thoughts={"reasoning": "Hm."})),
    ({"type": "message", "id": "m", "status": "completed", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}, Message("Hi")),
    ({"role": "user", "content": "\ufeffa\0b\r\n\u2028\u200d"}, Message("\ufeffa\0b\r\n\u2028\u200d", role="user")),
]  # fmt: skip


@pytest.mark.parametrize(("given", "same"), AS_OTHERS_WRITE)
def test_messages_may_be_as_other_interfaces_have_them(given, same):
    assert read_messages([given]) == [same]


def test_items_of_one_turn_are_one_message():
    items = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        *({"type": "function_call", "call_id": name, "name": name, "arguments": "{}"} for name in "fg"),
        {"type": "function_call_output", "call_id": "f", "output": "7"},
        {"type": "reasoning", "summary": []},
        {"type": "message", "role": "assistant", "content": "Seven."},
    ]
    calls = [ToolCall(name, {}, name) for name in "fg"]
    turn = Message("I look.", calls, thoughts={"reasoning": "Hm."})
    assert read_messages(items) == [turn, Message("7", role="tool", call_id="f"), Message("Seven.")]


def _called(name, **arguments):
    return {"id": f"call_{name}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


OPENAI = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Weather in 北京?"}]},
    {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": [_called("f", a="é"), _called("g")]},
    {"role": "tool", "tool_call_id": "call_g", "content": "of g"},
    {"role": "tool", "tool_call_id": "call_f", "content": "of f"},
    {"role": "assistant", "content": "Seven."},
    {"role": "user", "content": "Thanks."},
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ChatFormat.names())
def test_a_conversation_of_another_interface_is_rendered_in_every_format(name):
    chat = ChatFormat.load(name)
    if chat.definition.payload is None:  # it calls tools of its own only
        return
    text, begun = chat.render_text(OPENAI), chat.render_text(OPENAI, add_generation_prompt=True, prompt="")
    assert chat.render_text([OPENAI[1], {**OPENAI[2], "content": "I look."}, *OPENAI[3:6]])  # text beside calls
    read = chat.parse(text, kind="conversation")
    assert [(call.name, call.arguments) for said in read for call in said.tool_calls] == [("f", {"a": "é"}), ("g", {})]
    assert text.index("of f") < text.index("of g") or any(said.call_id for said in read)
    assert [said.content for said in read if said.role == "user"][-1].endswith("Thanks.")
    assert "Thanks." in begun and chat.render_text([*OPENAI, Message("Bye.")]).startswith(begun)
    ids = chat.call_ids(OPENAI)
    written = [call.id for said in read for call in said.tool_calls]
    assert [ids[name] for name in written if name is not None] in ([], ["call_f", "call_g"])
    if "open_ended" in chat.definition.options:
        assert begun == chat.render_text(OPENAI, open_ended=True)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
def test_a_prompt_may_begin_a_thought_or_leave_it_out(name):
    """What is rendered is what a turn that `grammar` generates and `parse` reads goes on from."""
    chat, asked = ChatFormat.load(name), [{"role": "user", "content": "Hi"}]
    plain, reasoning = chat.render_text(asked, add_generation_prompt=True, prompt=""), chat.definition.reasoning
    for thinking in (True, False):
        if reasoning is None or not chat.definition.generates_thoughts or reasoning.closed is None and not thinking:
            with pytest.raises(ConstrainedError, match=f"thinking is {thinking}"):
                chat.render_text(asked, add_generation_prompt=True, thinking=thinking)
            continue
        begun = chat.generation_prompt(thinking)
        assert chat.render_text(asked, add_generation_prompt=True, thinking=thinking) == plain + begun
        assert chat.grammar(prompt=begun).stops
        for message in (Message("Hi!"), Message("Hi!", thoughts={next(iter(chat.definition.thoughts)): "Greet."})):
            if message.thoughts and not thinking:
                continue
            turn = chat.write(message)
            if turn.startswith(begun):
                assert chat.parse(turn.removeprefix(begun), prompt=begun).content == "Hi!"
    with pytest.raises(ConstrainedError, match="without an answer to begin"):
        ChatFormat.load("qwen3").render_text(asked, thinking=True)


@pytest.mark.parametrize("name", ["hermes", "chatglm3", "qwen3"])
def test_turns_without_weight_are_not_learned(name):
    chat = ChatFormat.load(name)
    vocabulary = _vocabulary(chat)
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]
    whole = chat.loss_mask([*said, *said], vocabulary)
    for key, none in (("weight", 0), ("loss", False)):
        mask = chat.loss_mask([said[0], {**said[1], key: none}, *said], vocabulary)
        assert 0 < mask.sum() < whole.sum() and not (mask & ~whole).any() and mask.argmax() > whole.argmax()


def test_a_message_goes_to_another_interface_and_back():
    message = Message("Hi", [ToolCall("f", {"a": "é"}, "c")], None, {"reasoning": "Hm."})
    assert message.to_openai() == {
        "role": "assistant", "content": "Hi", "reasoning_content": "Hm.",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": "é"}'}}],
    }  # fmt: skip
    others = [Message("7", role="tool", name="f", call_id="c"), Message("a", thoughts={"reflect": "b"}), Message()]
    for one in (message, *others):
        assert read_messages([one.to_openai()]) == [one]


def test_a_special_token_that_is_missing_is_named():
    with pytest.raises(VocabularyError, match="im_start"):
        ChatFormat.load("hermes").render(
            [Message("a", role="user")], Vocabulary([bytes([byte]) for byte in range(256)])
        )


@pytest.mark.parametrize("version", ["v3-spm", "v7-spm", "v3-tekken"])
def test_ids_are_those_of_mistral_common(version):
    mistral = pytest.importorskip("mistral_common.tokens.tokenizers.mistral").MistralTokenizer
    from mistral_common.protocol.instruct import messages as said
    from mistral_common.protocol.instruct import tool_calls as tools
    from mistral_common.protocol.instruct.request import ChatCompletionRequest

    tokenizer = mistral.v7() if version == "v7-spm" else mistral.v3(is_tekken=version == "v3-tekken")
    chat, vocabulary = ChatFormat.for_tokenizer(tokenizer), Vocabulary.from_tokenizer(tokenizer)
    assert chat.name == f"mistral-{version}"
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    calls = [
        tools.ToolCall(
            id=f"abcdefgh{at}", function=tools.FunctionCall(name="weather", arguments=json.dumps({"city": city}))
        )
        for at, city in enumerate(["Oslo", "北京"])
    ]
    request = ChatCompletionRequest(
        tools=[tools.Tool(function=tools.Function(name="weather", description="d", parameters=schema))],
        messages=[
            said.UserMessage(content="Weather in Oslo & Xi'an?"), said.AssistantMessage(content=None, tool_calls=calls),
            said.ToolMessage(content="7", tool_call_id="abcdefgh0", name="weather"), said.ToolMessage(content="8 °C", tool_call_id="abcdefgh1", name="weather"),
            said.AssistantMessage(content="7 and 8."), said.UserMessage(content="Thanks"),
        ])  # fmt: skip
    encoded = tokenizer.encode_chat_completion(request).tokens
    read = chat.parse(encoded, None, vocabulary, kind="conversation")
    assert [(message.role, message.content) for message in read if message.role not in ("tools", "system")] == [
        ("user", "Weather in Oslo & Xi'an?"),
        ("assistant", ""),
        ("tool", "7"),
        ("tool", "8 °C"),
        ("assistant", "7 and 8."),
        ("user", "Thanks"),
    ]
    assert [(call.arguments["city"], call.id) for call in read[1].tool_calls] == [
        ("Oslo", "abcdefgh0"),
        ("北京", "abcdefgh1"),
    ]
    assert chat.render(read, vocabulary) == encoded


def test_a_result_has_an_id_only_where_the_format_writes_one():
    chat = ChatFormat.load("openchatml")
    text = ('<|im_start|>assistant\n<|function_call|>\n{"arguments": {}, "name": "ping"}\n<|im_end|>\n'
            '<|im_start|>tool\n<|function_output|>\n{"name": "ping", "content": 1}\n<|im_end|>')
    result = chat.parse(text, kind="conversation")[-1]
    assert (result.name, result.content, result.call_id) == ("ping", "1", None)


@pytest.mark.parametrize(
    ("name", "token"),
    [
        ("deepseek-r1", "<｜tool▁calls▁begin｜>"),
        ("command-r7b", "<|START_THINKING|>"),
        ("gemma-4", "<|think|>"),
        ("phi-4-mini", "<|tool|>"),
    ],
)
def test_tokens_that_a_system_message_quotes_stay_tokens(name, token):
    chat = ChatFormat.load(name)
    vocabulary = _vocabulary(chat)
    plain = [Message("Use X now.", role="system"), Message("Hi", role="user"), Message("Hello")]
    text = chat.render_text(plain).replace("X", token)
    read = chat.parse(text, kind="conversation")
    assert read[0].content == f"Use {token} now."
    assert chat.render_text(read) == text
    ids = chat.render(read, vocabulary)
    assert ids.count(vocabulary.special[token]) == text.count(token)
    assert chat.render(chat.parse(ids, None, vocabulary, kind="conversation"), vocabulary) == ids
    with pytest.raises(ConstrainedError, match="spells"):  # the same text, by somebody else
        chat.render_text([Message(f"Use {token} now.", role="user"), Message("Hello")])


def test_a_preamble_is_written_before_its_call():
    chat = ChatFormat.load("gpt-oss")
    message = Message("I will look.", [ToolCall("f", {"a": 1})], thoughts={"reasoning": "Hm."})
    text = chat.write(message)
    assert "<|channel|>commentary<|message|>I will look.<|end|>" in text
    read = chat.parse(text)
    assert (read.content, read.thoughts, read.tool_calls) == (message.content, message.thoughts, message.tool_calls)


@pytest.mark.parametrize(
    "name", ["qwen3", "glm-4.7", "mistral-v11", "deepseek-v3.2", "minimax-m2", "hermes", "phi-4-mini", "cohere-xml"]
)
@pytest.mark.parametrize("text", [" ", "\n", "a\n", " a ", "\n\n", "a\n\n\n"])
def test_blanks_beside_a_call_are_kept(name, text):
    chat = ChatFormat.load(name)
    written = chat.write(Message(text, [ToolCall("f", {})]))
    read = chat.parse(written)
    assert (read.content, [call.name for call in read.tool_calls]) == (text, ["f"])
    assert chat.write(read) == written


@pytest.mark.parametrize(("name", "text"), [
    # the template writes an empty thought where there is none in the last message alone
    ("qwen3", "<|im_start|>user\n2?<|im_end|>\n<|im_start|>assistant\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n"
     "</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\n2\n</tool_response><|im_end|>\n"
     "<|im_start|>assistant\n<think>\n\n</think>\n\n2.<|im_end|>\n"),
    # it tells of tools in a system message of its own
    ("hermes-3", "<|begin_of_text|><|im_start|>system\nTools: none<|im_end|>\n<|im_start|>system\nBe brief.<|im_end|>\n"
     "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHi<|im_end|>\n"),
    # an empty thought is there
    ("kimi-k3", '<|open|>message role="assistant"<|sep|><|open|>think<|sep|><|close|>think<|sep|><|open|>response<|sep|>Hi'
     "<|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>"),
    # what calls last waits for its result
    ("gemma-4", "<bos><|turn>model\nI look.<|tool_call>call:f{a:1}<tool_call|><|tool_response>"),
    ("gemma-4", "<bos><|turn>model\n<|tool_call>call:f{a:1}<tool_call|><|tool_response>response:f{value:<|\"|>ok<|\"|>}<tool_response|>"
     "<|tool_call>call:g{}<tool_call|><|tool_response>"),
])
def test_what_chat_templates_write_is_rendered_again(name, text):
    chat = ChatFormat.load(name)
    read = chat.parse(text, kind="conversation")
    assert chat.render_text(read) == text
    assert chat.render_text([replace(message, stop=None) for message in read]) == text


F = {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}


@pytest.mark.parametrize(("name", "text"), [
    ("llama3.1-json", '{"a": 1}'), ("llama-3.1", '{"name": "f"}'), ("llama3.1-combined", "{}"), ("pythonic", "[1, 2]"),
])  # fmt: skip
def test_answers_that_are_json_are_written_where_a_response_schema_would_generate_them(name, text):
    chat, messages = ChatFormat.load(name), [Message("Hi", role="user"), Message(text)]
    read = chat.parse(chat.write(messages[1], [F]), [F])
    assert (read.content, read.tool_calls) == (text, [])
    assert _same(chat.parse(chat.render_text(messages), kind="conversation"), messages)


@pytest.mark.parametrize("text", ['{"name": "f", "parameters": {}}', '{"a":1}', '{"a": 1} x', '[{"name": "f", "parameters": 1}]'])
def test_answers_that_begin_as_calls_may_are_written_in_no_other_spelling(text):
    with pytest.raises(ConstrainedError, match="begins as a call may, and is not JSON"):
        ChatFormat.load("llama3.1-json").write(Message(text), [F])


@pytest.mark.parametrize(("name", "construct", "messages", "text", "turn", "learned"), [
    ("openchatml", "fim", [("prefix", "a = "), ("assistant", "1"), ("suffix", "\nb")], "<|fim_prefix|>a = <|fim_middle|>1<|fim_suffix|>\nb",
     "1<|fim_suffix|>", "1<|fim_suffix|>"),
    ("openchatml", "fim", [("prefix", ""), ("assistant", ""), ("suffix", "b")], "<|fim_prefix|><|fim_middle|><|fim_suffix|>b", "b[EOS]", "<|fim_suffix|>"),
    ("openchatml", "multifile", [("file", "a\nb"), ("file", "c")], "a\nb\n<|file_separator|>\nc", "c\n<|file_separator|>", ""),
    *((f"llama3.1-{one}", "completion", [("user", "The sky is")], "<|begin_of_text|>The sky is", " blue.<|end_of_text|>", "")
      for one in ("json", "function", "builtin", "combined")),
    ("llama3.1-json", "completion", [("assistant", "The sky.")], "<|begin_of_text|>The sky.<|end_of_text|>", "x<|end_of_text|>", "The sky.<|end_of_text|>"),
])  # fmt: skip
def test_what_is_no_chat_is_rendered_read_generated_and_learned(
    name, construct, messages, text, turn, learned, tiny_tokenizer
):
    chat, vocabulary = ChatFormat.load(name), Vocabulary.from_tokenizer(tiny_tokenizer)
    said = [{"role": role, "content": content} for role, content in messages]
    assert chat.render_text(said, construct=construct) == text
    for strict in (False, True):
        read = chat.parse(text, kind="conversation", construct=construct, strict=strict)
        assert [(message.role, message.content) for message in read] == messages
    ids, mask = chat.render(said, vocabulary, construct=construct), chat.loss_mask(said, vocabulary, construct=construct)
    assert vocabulary.decode([token for token, mine in zip(ids, mask, strict=True) if mine]).decode() == learned
    message = chat.parse(turn, construct=construct, strict=True)
    assert turn.startswith(message.content) and turn.endswith(message.stop)
    assert chat.write(message, construct=construct) == turn
    assert message.stop in chat.grammar(construct=construct).stops and message.stop not in {*chat.stop} - {"[EOS]"}
    stream = chat.stream_parser(construct=construct)
    for piece in turn:
        stream.feed(piece)
    assert stream.close() == message
    with pytest.raises(GrammarError, match="no turn fits"):
        chat.grammar(construct=construct, tool_choice="required")


@pytest.mark.parametrize("name", ["glm-4.6", "glm-4.7"])
@pytest.mark.parametrize(("turn", "stop"), [
    ({"content": "Yes."}, "<|user|>"), ({"content": "Yes.", "stop": "<|endoftext|>"}, "<|endoftext|>"),
    ({"tool_calls": [{"name": "ping", "arguments": {}}]}, "<|observation|>"),
])  # fmt: skip
def test_the_stop_of_the_last_turn_is_learned_where_it_is_asked_for(name, turn, stop, tiny_tokenizer):
    """Templates print none, so that a model would learn it of all turns but the last."""
    chat, vocabulary = ChatFormat.load(name), Vocabulary.from_tokenizer(tiny_tokenizer)
    talk = [{"role": "user", "content": "Is it?"}, {"role": "assistant", **turn}]
    ids, mask = (do(talk, vocabulary, last_stop=True) for do in (chat.render, chat.loss_mask))
    assert (ids[-1], mask[-1]) == (vocabulary.special[stop], True)
    text = chat.render_text(talk, last_stop=True)
    chat.validate(text, strict=True, last_stop=True)
    assert chat.parse(text, kind="conversation", last_stop=True)[-1].stop == stop
    assert "stop" in turn or text == chat.render_text(talk) + stop


@pytest.mark.parametrize("name", ["deepseek-v3", "deepseek-r1"])
def test_deepseek_is_rendered_as_the_vendor_does(name):
    """Nothing ends what a user says or a tool answers; behind results the turn goes on."""
    calls = [{"id": f"call_{at}", "name": "f", "arguments": {"a": at}} for at in (1, 2)]
    talk = [
        {"role": "system", "content": "S"}, {"role": "user", "content": "U"}, {"role": "assistant", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "call_1", "content": "R1"}, {"role": "tool", "tool_call_id": "call_2", "content": "R2"},
    ]  # fmt: skip
    call = '<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{"a": N}\n```<｜tool▁call▁end｜>'
    text = (
        "<｜begin▁of▁sentence｜>S<｜User｜>U<｜Assistant｜><｜tool▁calls▁begin｜>"
        + call.replace("N", "1") + "\n" + call.replace("N", "2") + "<｜tool▁calls▁end｜><｜end▁of▁sentence｜>"
        "<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>R1<｜tool▁output▁end｜>\n<｜tool▁output▁begin｜>R2<｜tool▁output▁end｜><｜tool▁outputs▁end｜>"
    )  # fmt: skip
    chat = ChatFormat.load(name)
    assert chat.render_text(talk, add_generation_prompt=True, prompt="") == text
    assert chat.render_text([*talk, {"role": "assistant", "content": "A"}]) == text + "A<｜end▁of▁sentence｜>"
    chat.validate(text.replace("U<", "U<｜end▁of▁sentence｜><", 1))  # as llama.cpp has it
