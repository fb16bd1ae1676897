"""What a rendered conversation tells of tools: the words of the specification or template, once, and special tokens
only in them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from constrained.benchmarks import told
from constrained.export.declarations import QUOTE, declaration

from constrained import ChatFormat, ConstrainedError, Vocabulary
from constrained.formats import Message
from constrained.formats.definition import read_definition
from constrained.grammar.lark import shipped_folder

HERE = Path(__file__).parent
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
PARAMETERS = '{"type": "object", "properties": {"city": {"type": "string"}}}'
SIGNED = (
    '{"type": "function", "function": {"name": "weather", "description": "weather(city: str) - Weather of a city\n\n'
    '    Args:\n        city(str): ", "parameters": ' + PARAMETERS + "}\n"
)
ENVELOPE = '{"type": "function", "function": ' + WEATHER + "}"
OWN = [  # format, its own tools among those that are offered, a call of one, what the conversation says
    ("internlm2", ["interpreter"], ("interpreter", {"code": "1"}), "<|im_start|>system name=<|interpreter|>\n你现在可以使用一个支持 Python 代码执行的 Jupyter"),
    ("internlm2-legacy", [{"type": "code_interpreter"}], ("interpreter", {"code": "1"}), "system name=[UNUSED_TOKEN_142]\nYou now have access to a Jupyter notebook"),
    ("chatglm3", ["code_interpreter"], ("interpreter", {"code": "1"}), "<|system|>\nBe brief.\n你是一位智能AI助手，你叫ChatGLM，你连接着一台电脑，但请注意不能联网。"),
    ("llama3.1-combined", [{"type": "code_interpreter"}], ("code_interpreter", {"code": "1"}), "Environment: ipython\n\nBe brief."),
    ("llama3.1-combined", ["wolfram_alpha", "interpreter"], ("wolfram_alpha", {"query": "1"}), "Environment: ipython\nTools: wolfram_alpha\n\nBe brief."),
    ("llama3.1-builtin", ["interpreter"], ("code_interpreter", {"code": "1"}), "Environment: ipython\nBe brief."),
    ("llama3.1-builtin", [{"type": "brave_search"}, "code_interpreter"], ("brave_search", {"query": "1"}), "Environment: ipython\nTools: brave_search\nBe brief."),
    ("gpt-oss", ["python"], ("python", {"code": "1"}), "Reasoning: medium\n\n# Tools\n\n## python\n\nUse this tool to execute Python code"),
    ("gpt-oss", ["browser"], ("browser.search", {"query": "1"}), "## browser\n\n// Tool for browsing.\n"),
    ("gpt-oss", [{"type": "browser.find"}], ("browser.find", {"pattern": "1"}), "namespace browser {\n\n// Finds exact matches of `pattern` in the current page"),
]  # fmt: skip


@pytest.mark.parametrize("with_others", [True, False])
@pytest.mark.parametrize(("name", "own", "call", "told"), OWN)
def test_tools_of_the_format_itself_stand_in_every_list_of_tools(name, own, call, told, with_others):
    chat = ChatFormat.load(name)
    tools = [*own, *(TOOLS if with_others and chat.definition.payload is not None else [])]
    turn = chat.write_call(*call, tools)
    chat.validate(turn, "assistant_turn", tools)
    stream = chat.stream_parser(tools)
    stream.feed(turn)
    assert stream.close() == chat.parse(turn, tools) == chat.parse(turn, tools, strict=True)
    text = chat.render_text([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}], tools)
    assert told in text and ("weather" in text) == (len(tools) > len(own))


def test_gpt_oss_is_told_of_its_tools_as_openai_harmony_tells_it():
    """By openai-harmony 0.0.8: `with_browser_tool`, `with_python_tool`, instructions and a function."""
    talk = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    text = ChatFormat.load("gpt-oss").render_text(talk, ["python", TOOLS[0], "browser"])
    assert text == (HERE / "corpus" / "harmony_tools.txt").read_text(encoding="utf-8")


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
    ("deepseek-r1", "<｜begin▁of▁sentence｜>You can call any of the following function tools to satisfy the user's requests: "
                    '[\n  {\n    "name": "weather",'),
    ("deepseek-v3.1", "Be brief.\n\n## Tools\nYou have access to the following tools:\n\n### weather\nDescription: Weather of a city\n\n"
                      f"Parameters: {PARAMETERS}\n\n### ping\n"),
    ("llama-3.1", "Environment: ipython\nCutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\nBe brief.<|eot_id|><|start_header_id|>user"
                  "<|end_header_id|>\n\nGiven the following functions, please respond with a JSON for a function call with its proper arguments that "
                  "best answers the given prompt.\n\n"),
    ("command-r7b", f'```json\n[\n    {{"name": "weather", "description": "Weather of a city", "parameters": {PARAMETERS}, "responses": null}},\n    {{"name": '),
    ("cohere2moe", "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|><|START_TEXT|>Be brief.<|END_TEXT|><|END_OF_TURN_TOKEN|>"),
    ("kimi-k3", '# Tools\nHere are the available tools, described in JSONSchema.\n\n```json\n[{"function":{"description":"Weather of a city","name":"weather",'
                '"parameters":{"properties":{"city":{"type":"string"}},"type":"object"}},"type":"function"},'),
    ("minimax-m3", "]~b]developer\nBe brief.\n\n# Tools\nYou may call one or more tools to assist with the user query.\n"),
    ("functionary-3.1", f"Use the function 'weather' to 'Weather of a city'\n{WEATHER}\n\nUse the function 'ping' to ''\n"),
    ("functionary-3.2", "functions {\n\n// Weather of a city\ntype weather = (_: {\ncity?: string,\n}) => any;\n\n// \ntype ping = () => any;\n\n} // namespace"),
    ("gpt-oss", "developer<|message|># Instructions\n\nBe brief.\n\n# Tools\n\n## functions\n\nnamespace functions {\n\n// Weather of a city\ntype weather = "
                "(_: {\ncity?: string,\n}) => any;\n\ntype ping = () => any;\n\n} // namespace functions<|end|>"),
    ("seed-oss", '<seed:bos>system\nBe brief.\n\nFunction:\ndef weather(city: str):\n    """\n    Weather of a city\n\n    Args:\n    - city (str) [选填]: \n\n    """'),
    ("hermes", "available tools: <tools> " + SIGNED), ("hermes-3", "available tools: <tools> " + SIGNED),
    ("qwen3-coder", "system\nBe brief.\n\n# Tools\n\nYou have access to the following tools:\n\n<tools>\n<function>\n<name>weather</name>\n"),
    ("gemma-4", 'Be brief.<|tool>declaration:weather{description:<|"|>Weather of a city<|"|>,parameters:{properties:{city:{type:<|"|>STRING<|"|>}},'
                'type:<|"|>OBJECT<|"|>}}<tool|><|tool>declaration:ping{'),
    ("pythonic", "You SHOULD NOT include any other text in the response.\n\nHere is a list of functions in JSON format that you can invoke.\n\n"
                 f"[\n{INDENTED}"),
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


# Declarations that the vendors' templates and renderers print.
FORECAST = {
    "name": "forecast",
    "description": "Get the weather forecast for a city.",
    "parameters": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "City name"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            "days": {"type": "integer", "minimum": 1, "maximum": 14},
            "filters": {
                "type": "object",
                "properties": {
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "lang": {"type": ["string", "null"]},
                },
            },
        },
        "required": ["city"],
        "additionalProperties": False,
    },
}
ONE_OF = [
    {"type": "string", "default": "default_string_in_oneof"},
    {"type": "number", "description": "numbers can happen too"},
]
KITCHENSINK = {
    "name": "kitchensink",
    "description": "A function with various complex schemas.",
    "parameters": {
        "description": "params object",
        "type": "object",
        "properties": {
            "string": {"type": "string", "title": "STRING", "description": "A string", "examples": ["hello", "world"]},
            "string_nullable": {
                "type": "string",
                "nullable": True,
                "description": "A nullable string",
                "default": "the default",
            },
            "string_enum": {"type": "string", "enum": ["a", "b", "c"], "default": "a"},
            "oneof_string_or_number": {"oneOf": ONE_OF, "default": 20, "description": "a oneof"},
        },
    },
}
LISTS = {
    "name": "book",
    "description": "Book",
    "parameters": {
        "type": "object",
        "properties": {
            "people": {"type": "array", "items": {"type": "object", "properties": {"age": {"type": "integer"}}}},
            "matrix": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
            "day": {"type": "string", "format": "date", "default": "today", "examples": ["2024-05-01"]},
            "sizes": {"type": "array", "items": {"enum": ["S", "M"], "type": "string"}},
            "mix": {"oneOf": [{"type": "integer"}, {"type": "string"}]},
        },
        "required": ["people"],
    },
}
DECLARED = [
    ("typescript", KITCHENSINK, '''// A function with various complex schemas.
type kitchensink = (_: // params object
{
// STRING
//
// A string
// Examples:
// - "hello"
// - "world"
string?: string,
// A nullable string
string_nullable?: string | null, // default: "the default"
string_enum?: "a" | "b" | "c", // default: a
// a oneof
// default: 20
oneof_string_or_number?:
 | string // default: "default_string_in_oneof"
 | number // numbers can happen too
,
}) => any;'''),
    ("typescript with bounds", FORECAST, '''// Get the weather forecast for a city.
type forecast = (_: {
// City name.
city: string,
unit?: "celsius" | "fahrenheit",
// Maximum=14 Minimum=1
days?: number,
filters?: {
    tags?: string[],
    lang?: string | null,
},
}) => any;'''),
    ("typescript with bounds", LISTS, '''// Book
type book = (_: {
people: {
    age?: number,
}[],
matrix?: number[][],
// Default="today". Format=date
// Example day:
// 2024-05-01
day?: string,
sizes?: ("S" | "M")[],
mix?: number | string,
}) => any;'''),
    ("python", FORECAST, '''def forecast(city: str,unit: str,days: int,filters: Any):
    """
    Get the weather forecast for a city.

    Args:
    - city (str) [必填]: City name
    - unit (str) [选填]:\u0020
    - days (int) [选填]:\u0020
    - filters (Any) [选填]:\u0020

    """'''),
    ("signature", LISTS, "book(people: list[dict], matrix: list[list[float]], day: str, sizes: list[str], mix: Any) - Book\n\n    Args:\n"
                         "        people(list[dict]):         matrix(list[list[float]]):         day(str):         sizes(list[str]):         mix(Any): "),
    ("xml", FORECAST, '''<function>
<name>forecast</name>
<description>Get the weather forecast for a city.</description>
<parameters>
<parameter>
<name>city</name>
<type>string</type>
<description>City name</description>
</parameter>
<parameter>
<name>unit</name>
<type>string</type>
<enum>["celsius", "fahrenheit"]</enum>
</parameter>
<parameter>
<name>days</name>
<type>integer</type>
<minimum>1</minimum>
<maximum>14</maximum>
</parameter>
<parameter>
<name>filters</name>
<type>object</type>
<properties>{"tags": {"type": "array", "items": {"type": "string"}}, "lang": {"type": ["string", "null"]}}</properties>
</parameter>
<required>["city"]</required>
<additionalProperties>False</additionalProperties>
</parameters>
</function>'''),
    ("quoted", FORECAST, 'declaration:forecast{description:"Get the weather forecast for a city.",parameters:{properties:{city:{description:"City name",type:"STRING"},'
                         'days:{type:"INTEGER"},filters:{properties:{lang:{type:"[\'STRING\', \'NULL\']"},tags:{items:{type:"STRING"},type:"ARRAY"}},type:"OBJECT"},'
                         'unit:{enum:["celsius","fahrenheit"],type:"STRING"}},required:["city"],type:"OBJECT"}}'),
]  # fmt: skip


@pytest.mark.parametrize(("language", "function", "declared"), DECLARED, ids=[f"{one}-{two['name']}" for one, two, _ in DECLARED])
def test_declarations_are_those_of_the_vendors(language, function, declared):
    assert declaration(language, function).replace(QUOTE, '"') == declared


def test_every_format_has_words_for_tools():
    folder = shipped_folder()
    read = {name: read_definition(folder / f"{name}.toml", folder) for name in ChatFormat.names()}
    assert all(one.tool_list is not None or one.tool_prompt or not one.payload for one in read.values())


def test_tools_are_never_left_out_silently():
    shipped = ChatFormat.load("cohere-xml")
    chat = ChatFormat("wordless", replace(shipped.definition, tool_prompt=()), shipped.generic)
    with pytest.raises(ConstrainedError, match=r"no message of the system's names 'weather'[\s\S]*tool_prompt=False"):
        chat.render_text([*_messages(chat, "A brief weathering."), Message("weather, city, ping", role="user")], TOOLS)
    with pytest.raises(ConstrainedError, match="names 'city' of 'weather', so the model"):
        chat.render_text(_messages(chat, "Mind the weather and ping."), TOOLS)
    listed = [Message("You have weather(city) and ping.", role="system"), *_messages(chat, "")]
    assert chat.render_text(listed, TOOLS) == chat.render_text(listed)
    assert chat.render_text(_messages(chat), TOOLS, tool_prompt=False) == chat.render_text(_messages(chat))
    assert "weather" in ChatFormat.load("qwen3").render_text(_messages(chat), {"tools": [*TOOLS[1:], TOOLS[0]["function"]]})


def test_the_system_speaks_as_the_role_that_tells_unless_it_is_the_formats_own():
    chat = ChatFormat.load("gpt-oss")
    own = "You are ChatGPT.\n\n# Valid channels: analysis, commentary, final."
    rendered = chat.render_text([Message(own, role="system"), Message("Be brief.", role="developer"), *_messages(chat, "")], TOOLS)
    assert rendered.startswith(
        f"<|start|>system<|message|>{own}\nCalls to these tools must go to the commentary channel: 'functions'.<|end|>"
        "<|start|>developer<|message|># Instructions\n\nBe brief.\n\n# Tools"
    )


def test_what_of_a_template_comes_from_messages_and_tools():
    asked = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}]
    text = ChatFormat.load("qwen2.5").render_text(asked, TOOLS)
    rows = {
        "as given": (asked, text),
        "the template's own words": (asked, text.replace("Alibaba Cloud", "somebody")),
        r"differs at '|>\n<|im_start|>assistant\nHello' ', you!<|im_end|>\n'": (asked, text.replace("Hello!", "Hello, you!")),
    }
    for expected, (messages, printed) in rows.items():
        found = told.outcome({"format": "qwen2.5", "text": printed, "messages": messages, "tools": TOOLS})
        assert found == expected


@pytest.mark.parametrize("name", ["llama3.1-json", "llama3.1-combined"])
def test_an_environment_is_told_of_where_there_is_one(name):
    """And the call ends as the conversation tells, which a strict reader holds it to."""
    chat = ChatFormat.load(name)
    call = [{"role": "user", "content": "Hi"}, {"role": "assistant", "tool_calls": [{"name": "ping", "arguments": {}}]}]
    ping = [{"name": "ping", "parameters": {"type": "object", "properties": {}}}]
    for options in ({}, {"environment": False}) if "environment" in chat.definition.options else ({},):
        text = chat.render_text(call, ping, **options)
        assert ("Environment: ipython" in text, "<|eom_id|>" in text) == (not options, not options)
        chat.validate(text, tools=ping, strict=True)
