"""Arguments that are no JSON: raw text between tags, and bare keys with strings between tokens."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained import ChatFormat, ConstrainedError, Rejected, SchemaError
from constrained.errors import UnsupportedSchema
from constrained.formats.payload import Fault
from constrained.formats.payload.quoted import read_quoted, sorted_members, write_quoted
from constrained.formats.payload.raw import arguments_of
from constrained.schema import embed

QUOTE = '<|"|>'
TAGGED = [
    "qwen3-coder",
    "qwen3.5",
    "mimo",
    "seed-oss",
    "glm-4.6",
    "glm-4.7",
    "minimax-m2",
    "minimax-m3",
    "deepseek-v3.2",
    "deepseek-v4.1",
    "kimi-k3",
    "cohere-xml",
    "gemma-4",
]
TOOLS = [
    {
        "name": "f",
        "parameters": {
            "type": "object",
            "properties": {
                "s": {"type": "string"},
                "n": {"type": "number"},
                "b": {"type": "boolean"},
                "l": {"type": "array", "items": {"type": ["string", "number"]}},
                "o": {"type": "object", "additionalProperties": {"type": "string"}},
                "u": {"type": ["string", "null"]},
            },
            "additionalProperties": False,
        },
    }
]

_KEYS = st.text("abcxyzÄ雨_", min_size=1, max_size=4)
_TEXTS = st.text(st.sampled_from('ab"\\{}[],:<|\n 雨🌧7'), max_size=8).filter(lambda text: QUOTE not in text)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-999, 999) | st.floats(-1e6, 1e6, allow_nan=False) | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3), max_leaves=6)


@settings(deadline=None, max_examples=80)
@given(st.dictionaries(_KEYS, _VALUES, max_size=4))
def test_what_is_written_is_read(value):
    text = "".join(piece for piece, _ in write_quoted(sorted_members(value), QUOTE))
    assert read_quoted(text, QUOTE) == value
    for cut in range(len(text)):
        known = read_quoted(text[:cut], QUOTE, partial=True)
        assert known is None or known.keys() <= value.keys()


@pytest.mark.parametrize(("text", "because"), [
    ("{a:1,a:2}", "appears twice"), ("{a:x}", "is no value"), ("{a:1", "no object"), ("{a:1}}", "no object"), ("", "no object"), ("{a:01}", "is no value"),
])  # fmt: skip
def test_what_is_no_object_is_a_fault(text, because):
    with pytest.raises(Fault, match=because):
        read_quoted(text, QUOTE)


@pytest.mark.parametrize(("schema", "error"), [
    ({"enum": [f"a{QUOTE}"]}, SchemaError), ({"properties": {"a b": {}}}, SchemaError), ({"items": {"properties": {"{": {}}}}, SchemaError),
    ({"type": "array", "uniqueItems": True}, UnsupportedSchema),
])  # fmt: skip
def test_what_cannot_be_quoted_is_refused(schema, error):
    with pytest.raises(error):
        embed(schema, surface="quoted", quote=QUOTE)


def test_unique_items_can_be_widened():
    machine = embed({"type": "array", "uniqueItems": True}, surface="quoted", quote=QUOTE, unsupported="widen")
    assert [entry.keyword for entry in machine.widened] == ["uniqueItems"]


@pytest.mark.parametrize("name", TAGGED)
@pytest.mark.parametrize("arguments", [
    {}, {"s": ""}, {"s": " padded "}, {"s": "007"}, {"s": "true"}, {"s": 'a "b"\n{c} <d> & \\'}, {"n": -2.5, "b": True}, {"l": ["7", 7, "a b"]},
    {"o": {"k": "v"}}, {"u": None}, {"u": "text"}, {"s": "\nline\n"},
])  # fmt: skip
def test_values_keep_their_types(name, arguments):
    chat = ChatFormat.load(name)
    text = chat.write_call("f", arguments, TOOLS)
    assert chat.parse(text, TOOLS).tool_calls[0].arguments == arguments
    if name != "minimax-m3" or "\n" not in json.dumps(arguments):
        chat.validate(text, "assistant_turn", TOOLS, strict=True)


@pytest.mark.parametrize(("name", "text"), [
    ("glm-4.7", "a</arg_value>b"), ("qwen3-coder", "a</parameter>b"), ("deepseek-v3.2", "a</｜DSML｜parameter>b"), ("gemma-4", f"a{QUOTE}b"),
])  # fmt: skip
def test_a_string_never_holds_what_ends_it(name, text):
    with pytest.raises(ConstrainedError, match="cannot write"):
        ChatFormat.load(name).write_call("f", {"s": text}, TOOLS)


def test_a_value_of_another_type_is_told_by_the_schema():
    chat = ChatFormat.load("glm-4.7")
    with pytest.raises(Rejected, match=r'"x" is not of type .number.') as told:
        chat.parse("<tool_call>f<arg_key>n</arg_key><arg_value>x</arg_value></tool_call><|observation|>", TOOLS)
    assert (told.value.layer, told.value.pointer) == ("schema", "/n")


def test_a_tag_says_which_kinds_of_values_it_holds():
    chat = ChatFormat.load("deepseek-v3.2")
    text = chat.write_call("f", {"u": None}, TOOLS)
    assert ('string="false"' in text) and (text.count("null") == 1)
    chat.validate(text, "assistant_turn", TOOLS, strict=True)
    with pytest.raises(Rejected):
        chat.validate(text.replace("null", '"x"'), "assistant_turn", TOOLS, strict=True)


def test_a_union_prefers_the_other_type():
    assert arguments_of([("u", "value", "null", 0)], TOOLS[0]["parameters"]) == {"u": None}
    assert arguments_of([("u", "value", "nullx", 0)], TOOLS[0]["parameters"]) == {"u": "nullx"}


MARK = "]<]minimax[>["
NESTED = [
    {
        "name": "f",
        "parameters": {
            "type": "object",
            "$defs": {"x": {"type": "object", "properties": {"b": {"type": "boolean"}}}},
            "properties": {
                "o": {
                    "type": "object",
                    "properties": {
                        "a": {"type": "string"},
                        "n": {"type": "integer"},
                        "l": {"type": "array", "items": {"type": "string"}},
                    },
                },
                "l": {"type": "array", "items": {"$ref": "#/$defs/x"}},
            },
        },
    }
]


def _elements(value, name):
    """Return a value as MiniMax's template nests it."""
    inner = value if isinstance(value, str) else str(value).lower()
    if isinstance(value, (dict, list)):
        inner = "".join(
            _elements(part, key)
            for key, part in (value.items() if isinstance(value, dict) else (("item", part) for part in value))
        )
    return f"{MARK}<{name}>{inner}{MARK}</{name}>"


def _values(value, name=None):
    """Return a value as Cohere's tags nest it."""
    kind = {dict: "dict", list: "list", str: "raw"}.get(type(value), "json")
    inner = value if isinstance(value, str) else str(value).lower()
    if isinstance(value, (dict, list)):
        inner = "".join(
            _values(part, key)
            for key, part in (value.items() if isinstance(value, dict) else ((None, part) for part in value))
        )
    named = "" if name is None else f' name="{name}"'
    return f'<cofl:value{named} type="{kind}">{inner}</cofl:value>'


def _nested_turn(name, body):
    if name == "minimax-m3":
        return f'{MARK}<tool_call>\n{MARK}<invoke name="f">{body}{MARK}</invoke>\n{MARK}</tool_call>[e~['
    return f'<cofl:tool_calls><cofl:tool_call id="0" name="f">{body}</cofl:tool_call></cofl:tool_calls><|END_OF_TURN_TOKEN|>'


@pytest.mark.parametrize(("name", "write"), [("minimax-m3", _elements), ("cohere-xml", _values)])
@pytest.mark.parametrize(
    "arguments",
    [
        {"o": {"a": "007", "n": 7, "l": ["x", "12"]}, "l": [{"b": True}, {"b": False}]},
        {"o": {"a": "<b> & \n"}},
        {"l": []},
        {"o": {}},
        {"l": [{}]},
        {"o": {"l": []}},
        {"o": {"a": ""}},
    ],
)
def test_nested_elements_are_read_by_the_schema(name, write, arguments):
    chat, body = ChatFormat.load(name), "".join(write(value, key) for key, value in arguments.items())
    turn = _nested_turn(name, body)
    assert chat.parse(turn, NESTED).tool_calls[0].arguments == arguments
    for at in range(0, len(turn), 7):
        chat.parse(turn[:at], NESTED, partial=True)
    with pytest.raises(Rejected):
        chat.parse(turn, NESTED, strict=True)  # read, not generated


@pytest.mark.parametrize(
    ("name", "body", "layer", "says"),
    [
        ("minimax-m3", f"{MARK}<o>{MARK}<a>1{MARK}</b>{MARK}</o>", "syntax", "'a' is closed by 'b'"),
        ("minimax-m3", _elements({"n": "x"}, "o"), "schema", "arguments /o/n"),
        ("minimax-m3", f"{MARK}<o>{MARK}<a>1{MARK}</a>{MARK}<a>2{MARK}</a>{MARK}</o>", "syntax", "each another"),
        (
            "cohere-xml",
            '<cofl:value name="o" type="dict"><cofl:value name="n" type="json">x</cofl:value></cofl:value>',
            "syntax",
            "begins no JSON value",
        ),
        (
            "cohere-xml",
            '<cofl:value name="o" type="dict"><cofl:value type="json">1</cofl:value></cofl:value>',
            "syntax",
            "elements have names",
        ),
    ],
)
def test_wrong_elements_are_rejected(name, body, layer, says):
    with pytest.raises(Rejected, match=says) as told:
        ChatFormat.load(name).parse(_nested_turn(name, body), NESTED)
    assert told.value.layer == layer
