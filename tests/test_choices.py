"""What a turn may hold follows the request: choices of tools in every interface's words, the interpreter, text before
calls.
"""

from __future__ import annotations

import numpy as np
import pytest

from constrained import ChatFormat, GrammarError, Rejected, SchemaError, Vocabulary, compile
from constrained.formats import Message
from constrained.formats.binding.request import ToolChoice, read_choice
from tests.definitions import DEFINITIONS

TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
    for name in ("add", "sub")
]

WORDS = [
    (None, ToolChoice("auto")), ("auto", ToolChoice("auto")), ("any", ToolChoice("required")), ("required", ToolChoice("required")), ("none", ToolChoice("none")),
    ("ANY", ToolChoice("required")), ("add", ToolChoice("required", ("add",), named=True)),
    ({"type": "function", "function": {"name": "add"}}, ToolChoice("required", ("add",), named=True)), ({"type": "function", "name": "add"}, ToolChoice("required", ("add",), named=True)),
    ({"type": "tool", "name": "add"}, ToolChoice("required", ("add",), named=True)), ({"type": "any"}, ToolChoice("required")), ({"type": "auto"}, ToolChoice("auto")),
    ({"type": "none"}, ToolChoice("none")), ({"type": "any", "disable_parallel_tool_use": True}, ToolChoice("required", None, True)),
    ({"type": "tool", "name": "add", "disable_parallel_tool_use": False}, ToolChoice("required", ("add",), named=True)), ({"type": "custom", "custom": {"name": "add"}}, ToolChoice("required", ("add",), named=True)),
    ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "add"}]}, ToolChoice("auto", ("add",))),
    ({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "sub"}}]}}, ToolChoice("required", ("sub",))),
    ({"function_calling_config": {"mode": "ANY", "allowed_function_names": ["add"]}}, ToolChoice("required", ("add",))),
    ({"functionCallingConfig": {"mode": "NONE"}}, ToolChoice("none")), ({"mode": "ANY", "allowed_function_names": ["sub"]}, ToolChoice("required", ("sub",))),
    ({"mode": "AUTO"}, ToolChoice("auto")), ({"tool": {"name": "add"}}, ToolChoice("required", ("add",), named=True)), ({"any": {}}, ToolChoice("required")),
]  # fmt: skip


@pytest.mark.parametrize(("choice", "meant"), WORDS, ids=lambda part: str(part)[:50])
def test_choices_of_every_interface(choice, meant):
    assert read_choice(choice, ["add", "sub"]) == meant
    ChatFormat.load("hermes").grammar(TOOLS, choice)


@pytest.mark.parametrize(
    "choice",
    [
        "sum",
        7,
        {},
        {"type": "tool"},
        {"type": "tool", "name": "sum"},
        {"type": "allowed_tools", "mode": "auto", "tools": []},
        {"type": "some"},
        {"name": 3},
        {"function_calling_config": {"mode": "ANY", "allowed_function_names": ["sum"]}},
        {"mode": "SOME"},
        {"type": "any", "disable_parallel_tool_use": "yes"},
        ["add"],
    ],
)
def test_other_choices_are_errors(choice):
    with pytest.raises(GrammarError, match="unknown tool_choice"):
        read_choice(choice, ["add", "sub"])


def test_a_choice_may_ask_for_one_call_at_most():
    chat = ChatFormat.load("hermes")
    call = chat.write_call("add", {}, TOOLS).removesuffix("<|im_end|>")
    for choice, both in (({"type": "any"}, True), ({"type": "any", "disable_parallel_tool_use": True}, False)):
        assert takes(chat, call, tool_choice=choice)
        assert takes(chat, f"{call}\n{call}", tool_choice=choice) == both
    for asked, both in (({}, False), ({"parallel_tool_calls": True}, True), ({"max_calls": 2}, True)):  # a tool that is named
        assert takes(chat, call, tool_choice="add", **asked)
        assert takes(chat, f"{call}\n{call}", tool_choice="add", **asked) == both


def takes(chat, text, tools=TOOLS, **options):
    """Return whether a text, without its stop token, begins a turn."""
    names = sorted({*chat.tokens.values()})
    vocabulary = Vocabulary(
        [bytes([byte]) for byte in range(256)], special={name: 256 + at for at, name in enumerate(names)}
    )
    matcher = compile(chat.grammar(tools, **options), vocabulary).matcher()
    tokens = [part for part in _split(text, names) if part]
    try:
        for part in tokens:
            for token in [vocabulary.special[part]] if part in names else part.encode():
                matcher.advance(token)
    except Rejected:
        return False
    return True


def _split(text, names):
    for name in names:
        text = text.replace(name, f"\0{name}\0")
    return text.split("\0")


@pytest.mark.parametrize("name", [name for name in DEFINITIONS if DEFINITIONS[name].payload])
def test_allowed_tools_and_required(name):
    chat = ChatFormat.load(name)
    for choice in ("required", "any", {"type": "tool", "name": "add"}):
        call = chat.write_call("add", {}, TOOLS)
        assert takes(
            chat,
            call[: call.index("add") + 3],
            tool_choice=choice,
            reasoning="none" if chat.definition.reasoning else None,
        )
    call = chat.write_call("sub", {}, TOOLS)
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"name": "add"}]}
    assert not takes(chat, call[: call.index("sub") + 3], tool_choice=allowed)
    assert takes(chat, call[: call.index("sub") + 3])


PREFACED = [
    ("hermes", "I will."),
    ("internlm2", "I will."),
    ("openchatml", "I will."),
    ("chatglm3", "\nI will."),
    ("mistral-v11", "I will."),
]


@pytest.mark.parametrize(("name", "text"), PREFACED)
def test_required_starts_the_call_at_once(name, text):
    chat = ChatFormat.load(name)
    assert not takes(chat, text, tool_choice="required")
    assert takes(chat, text, tool_choice="required", preface=True)
    assert takes(chat, text)


@pytest.mark.parametrize("name", ChatFormat.names())
def test_every_format_has_answers(name):
    chat = ChatFormat.load(name)
    assert chat.generic.rules["answer"].alternatives
    assert takes(chat, "", tools=None, tool_choice="none")


INTERPRETED = [
    ("internlm2", "<|action_start|><|interpreter|>", TOOLS, "interpreter"),
    ("chatglm3", "interpreter\n", TOOLS, "interpreter"),
    ("llama3.1-builtin", "<|python_tag|>print(1)", None, "code_interpreter"),
]


@pytest.mark.parametrize(("name", "text", "tools", "own"), INTERPRETED)
def test_the_interpreter_is_offered_first(name, text, tools, own):
    chat = ChatFormat.load(name)
    begins = text if name != "chatglm3" else text + "```python\nprint"
    listed = list(tools or ["brave_search"])
    for offer in (own, {"type": "code_interpreter"}):
        assert takes(chat, begins, [*listed, offer]), offer
    assert takes(chat, begins, tools, interpreter=True)
    assert takes(chat, begins, tools, tool_choice=own)
    assert not takes(chat, begins, tools)
    assert not takes(chat, begins, [*listed, own], interpreter=False)
    assert (
        chat.parse(
            chat.write(
                chat.parse(
                    {
                        "internlm2": "<|action_start|><|interpreter|>\n```python\n1\n```<|action_end|><|im_end|>",
                        "chatglm3": "interpreter\n```python\n1\n```<|observation|>",
                        "llama3.1-builtin": "<|python_tag|>1<|eom_id|>",
                    }[name]
                )
            ),
            strict=True,
        )
        .tool_calls[0]
        .name
        == own
    )


def test_what_no_answer_may_be_may_be_a_name():
    """Whole answers that readers take for calls are forbidden, and nothing else."""
    for name in ("[f()]", '{\\"name'):
        assert takes(ChatFormat.load("llama-3.1"), f'{{"name": "{name}", "parameters": {{}}}}', tools=None)


@pytest.mark.parametrize("offer", ["code_interpreter", {"type": "code_interpreter"}])
def test_a_tool_that_no_call_can_name_is_refused_beside_the_interpreter_too(offer):
    with pytest.raises(SchemaError, match="tool 'add' cannot be called"):
        ChatFormat.load("llama3.1-builtin").grammar([*TOOLS, offer])


@pytest.mark.parametrize("name", ChatFormat.names())
def test_answers_fit_a_response_schema_beside_tools(name):
    chat, schema = (
        ChatFormat.load(name),
        {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False},
    )
    tools = TOOLS if chat.definition.payload else None
    options = {"reasoning": "none"} if chat.definition.reasoning else {}
    answer = chat.write(Message("ANSWER"), tools, **options)
    before = answer[: answer.index("ANSWER")]
    fitting = before + '{"n": 1}' + answer[answer.index("ANSWER") + 6 :]
    assert takes(chat, fitting, tools, response_schema=schema, **options)
    assert chat.parse(fitting, tools, strict=True, response_schema=schema, **options).content == '{"n": 1}'
    assert not takes(chat, before + "no", tools, response_schema=schema, **options)
    assert not takes(chat, before + '{"m', tools, response_schema=schema, **options)
    if tools:
        call = chat.write_call("add", {}, tools, **options)
        assert takes(chat, call, tools, response_schema=schema, tool_choice="required", **options)
        assert takes(chat, call, tools, response_schema=schema, **options)


NAMED = {"type": "object", "properties": {"name": {"type": "string"}, "parameters": {}}, "required": ["name"]}
RESPONSES = [  # formats, a schema, what fits it and is generated, what readers would take for a call
    ("llama-3.1 llama3.1-json llama3.1-function pythonic", NAMED, '{"name": "f"}', '{"name": "f", "parameters": {}}'),
    ("llama-3.1 llama3.1-combined", {"type": "object"}, '{"x": 1, "arguments": 2}', '{"arguments": 2}'),
    ("llama-3.1 llama3.1-json", {"items": NAMED}, '[{"name": "f"}]', '[{"name": "f", "parameters": {}}]'),
    ("llama-3.1", {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/a", "definitions": {"a": NAMED}}, '{"name": "f"}', '{"name": "f", "parameters": {}}'),
    ("llama-3.1", {"properties": {"b": {"$ref": "#"}}}, '{"b": {"arguments": 2}}', '{"arguments": 2}'),
    ("llama-3.1 llama3.1-json", True, '{"type": "f"}', '{"type": "function"}'), ("pythonic", True, "[1]", "[]"),
]  # fmt: skip


@pytest.mark.parametrize(("names", "schema", "answer", "call"), RESPONSES)
def test_no_response_is_a_call_to_any_reader(names, schema, answer, call):
    options = {"response_schema": schema, "tool_choice": "none"}
    for chat in map(ChatFormat.load, names.split()):
        assert takes(chat, f"{answer}<|eot_id|>", **options), chat.name
        assert chat.parse(f"{answer}<|eot_id|>", strict=True, **options).content == answer
        assert not takes(chat, f"{call}<|eot_id|>", **options), chat.name
        assert takes(chat, f"{call}<|eot_id|>", **options, marker_safe=False), chat.name


DEEP: list = []
for _ in range(100_000):
    DEEP = [DEEP]
WRONG = [
    ({"preface": "yes"}, "preface is 'yes'"), ({"marker_safe": None}, "marker_safe is None"), ({"calls_before": -1}, "calls_before is -1"),
    ({"calls_before": True}, "calls_before is True"), ({"prompt": 7}, "the prompt is 7"), ({"max_calls": True}, "max_calls is True"),
    ({"reasoning": "required"}, "has no thoughts"), ({"reasoning": "prefilled"}, "has no thoughts"), ({"reasoning": 1}, "unknown reasoning 1"),
    *(({name: DEEP}, f"{name}'? (is )?a list") for name in ("preface", "marker_safe", "max_calls", "reasoning", "whitespace", "closed", "open_ended")),
    ({"prompt": 10**5000}, "the prompt is an int of 16610 bits"), ({"max_calls": 10**5000}, "max_calls is an int of 16610 bits"),
    ({"parallel_tool_calls": "no"}, "parallel_tool_calls is 'no'"), ({"property_order": np.arange(3)}, "unknown property_order array"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "says"), WRONG, ids=[says for _, says in WRONG])
def test_wrong_arguments_are_named(options, says):
    with pytest.raises((GrammarError, SchemaError), match=says):
        ChatFormat.load("hermes").grammar(TOOLS, **options)


def test_what_is_wrong_with_a_response_schema_is_said_with_its_place():
    with pytest.raises(SchemaError, match="malformed keyword 'allOf' at #/allOf"):
        ChatFormat.load("llama-3.1").grammar(None, response_schema={"allOf": 1})


def test_a_response_may_be_a_type():
    chat = ChatFormat.load("hermes")
    for text, taken in (("[1, 2]<|im_end|>", True), ("[x", False)):
        assert takes(chat, text, response_schema=list[int]) == taken


def test_a_dummy_prefix_stands_before_answers_and_thoughts():
    chat = ChatFormat.load("chatglm3")
    for text in ("\n Hello", "\n I will.<|assistant|> add\n ```python\ntool_call()"):
        assert takes(chat, text, dummy_prefix=True)
    assert not takes(chat, " add\n", dummy_prefix=False)


@pytest.mark.parametrize("name", [name for name in DEFINITIONS if DEFINITIONS[name].generates_thoughts])
def test_thoughts_are_asked_for_and_read_apart(name):
    chat = ChatFormat.load(name)
    block, (kind, *_) = chat.definition.reasoning, reversed(chat.definition.thoughts)
    quoted = [text for text in chat.definition.call_markers if text not in chat.tokens.values() and "think" not in text]
    thought = f"Shall I {' '.join(quoted)} call?"
    thinking, plain = (
        chat.write(Message("ANSWER", thoughts={kind: thought}), TOOLS, prompt=""),
        chat.write(Message("ANSWER"), TOOLS, reasoning="none", prompt=""),
    )
    assert (block.prompt in thinking, thought in thinking) == (True, True)
    for reasoning, takes_thought, takes_none in (
        (None, True, True),
        ("optional", True, True),
        ("none", False, True),
        ("required", True, False),
    ):
        assert takes(chat, thinking, reasoning=reasoning, prompt="") == takes_thought, reasoning
        assert takes(chat, plain, reasoning=reasoning, prompt="") == takes_none or reasoning is None or reasoning == "optional", (
            reasoning
        )
    prompt, rest = block.prompt, thinking[thinking.index(block.prompt) + len(block.prompt) :]
    assert takes(chat, rest, reasoning="prefilled")
    assert takes(chat, rest, prompt=prompt)
    for message in (chat.parse(thinking, TOOLS), chat.parse(rest, TOOLS, prompt=prompt)):
        assert (message.content, message.thoughts, message.tool_calls) == ("ANSWER", {kind: thought}, [])


def test_flags_and_reasoning_of_openchatml():
    chat = ChatFormat.load("openchatml")
    reflect, reason = (f"<|start_{kind}|>a<|end_{kind}|>\n" for kind in ("reflect", "reason"))
    allowed = {  # options: of no thought, a reflection, a reason, both, both the other way round
        (): (1, 1, 1, 1, 0), ("required",): (0, 1, 1, 1, 0), ("none",): (1, 0, 0, 0, 0), ("optional", "reason"): (0, 0, 1, 0, 0),
        ("required", "reflect", "reason"): (0, 0, 0, 1, 0), ("required", "reflect"): (0, 1, 0, 0, 0), ("none", None): (1, 0, 0, 0, 0),
    }  # fmt: skip
    for options, verdicts in allowed.items():
        given = {"reasoning": options[0]} if options else {}
        given |= {"flags": [flag for flag in options[1:] if flag]} if options[1:] else {}
        turns = [text + "x\n<|im_end|>" for text in ("", reflect, reason, reflect + reason, reason + reflect)]
        assert tuple(takes(chat, turn, **given) for turn in turns) == verdicts, options
    for options in ({"reasoning": "none", "flags": ["reason"]}, {"reasoning": "required", "flags": []}):
        with pytest.raises(GrammarError, match="no turn fits reasoning"):
            chat.grammar(TOOLS, **options)
