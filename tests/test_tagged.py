"""Arguments that are no JSON: raw text between tags, and bare keys with strings between tokens."""

from __future__ import annotations

import json
import re

import pytest
from constrained.rendering.arguments import write_quoted
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained import ChatFormat, ConstrainedError, Rejected, SchemaError, Vocabulary, compile
from constrained.errors import UnsupportedSchema
from constrained.formats.definition import Elements
from constrained.formats.payload.judge import ANYTHING
from constrained.formats.payload.quoted import read_quoted
from constrained.formats.payload.tagged import arguments_of, json_of, read_elements
from constrained.formats.payload.value_reader import Fault
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
    text = "".join(piece for piece, _ in write_quoted(value, QUOTE, sorts=True))
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
    if name != "minimax-m3" or "l" not in arguments:  # of which elements cannot say that "7" is a string
        chat.validate(text, "assistant_turn", TOOLS, strict=True)


@pytest.mark.parametrize(("name", "text"), [
    ("glm-4.7", "a</arg_value>b"), ("qwen3-coder", "a</parameter>b"), ("qwen3-coder", "<parameter=a>"), ("minimax-m2", "<parameter name='a'>"), ("glm-4.6", "<arg_key>"), ("deepseek-v3.2", "a</｜DSML｜parameter>b"), ("gemma-4", f"a{QUOTE}b"),
])  # fmt: skip
def test_a_string_never_holds_what_ends_it(name, text):
    with pytest.raises(ConstrainedError, match="cannot write"):
        ChatFormat.load(name).write_call("f", {"s": text}, TOOLS)


ANY_TOOLS = [{"name": "f", "parameters": {"properties": {"any": {}, "text": {"type": "string"}, "either": {"type": ["string", "integer"]}}}}]
READ_BACK = [  # parameter, value, whether raw text says which with the tools, and without
    ("any", '"hi"', True, True), ("any", "x", True, True), ("any", 7, True, True), ("any", {"a": "<b>"}, True, True), ("any", "", True, True),
    ("any", "7", False, False), ("any", " -1.5e3\n", False, False), ("any", "true", False, False), ("any", "None", False, False),
    ("any", '{"a": 1}', False, False), ("any", "[]", False, False), ("either", "7", False, False), ("either", "x", True, True),
    ("either", '"7"', True, True), ("either", "true", True, False), ("text", "7", True, False), ("text", '"7"', True, True),
    ("text", 7, False, True), ("text", None, False, True), ("text", ["a"], False, True),
]  # fmt: skip


@pytest.mark.parametrize("name", TAGGED)
def test_what_is_written_is_read_or_refused(name):
    """Raw text between tags is a value by its schema alone, but where the tag says what it is."""
    chat, tagged = ChatFormat.load(name), name.startswith(("deepseek", "kimi", "cohere", "gemma"))
    for key, value, with_tools, without in READ_BACK:
        for tools, told in ((ANY_TOOLS, with_tools), (None, without)):
            if not (told or tagged):
                with pytest.raises(ConstrainedError, match=r"is read as an? .* schema"):
                    chat.write_call("f", {key: value}, tools)
            elif told or key != "text":  # else the arguments do not fit
                assert chat.parse(chat.write_call("f", {key: value}, tools), tools).tool_calls[0].arguments == {key: value}


def test_a_value_of_another_type_is_told_by_the_schema():
    chat = ChatFormat.load("glm-4.7")
    with pytest.raises(Rejected, match=r'"x" is not of type .number.') as told:
        chat.parse("<tool_call>f<arg_key>n</arg_key><arg_value>x</arg_value></tool_call><|observation|>", TOOLS)
    assert (told.value.layer, told.value.pointer) == ("schema", "/n")


@pytest.mark.parametrize(("text", "at", "because", "expected", "pointer"), [
    ("Paris", 0, "'P' begins no JSON value", "one JSON value", ""), ("", 0, "it breaks off", "one JSON value", ""),
    ('{"a": [1,', 9, "it breaks off", "a value", "/a/1"), ("[1", 2, "it breaks off", "a number", "/0"), ('"a', 2, "it breaks off", "a character or '\"'", ""),
    ("1, 2", 0, "it is not one JSON value", "one JSON value", ""), ("1]", 0, "it is not one JSON value", "one JSON value", ""),
    ("1 2", 2, "'2' cannot stand here", "one JSON value", ""), ('{"a": 1,}', 8, "'}' cannot stand here", "a key in double quotes", ""),
])  # fmt: skip
def test_what_is_wrong_with_a_json_value(text, at, because, expected, pointer):
    with pytest.raises(Fault) as told:
        json_of(text)
    assert (told.value.at, told.value.because, told.value.expected, told.value.pointer) == (at, because, expected, pointer)


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
def test_nested_values_are_elements(name, write, arguments):
    chat, body = ChatFormat.load(name), "".join(write(value, key) for key, value in arguments.items())
    turn = _nested_turn(name, body)
    assert chat.parse(turn, NESTED).tool_calls[0].arguments == arguments
    for at in range(0, len(turn), 7):
        chat.parse(turn[:at], NESTED, partial=True)
    assert chat.write_call("f", arguments, NESTED) == turn
    assert chat.parse(turn, NESTED, strict=True).tool_calls[0].arguments == arguments


_TREE = {"type": "object", "properties": {"n": {"$ref": "#/properties/a"}, "v": {"type": "integer"}}, "required": ["v"]}
_ITEM = {"type": "object", "properties": {"item": {"type": "integer"}}}
_TEXTS_ONLY = {"type": "array", "items": {"type": "string"}}
# A schema of `a`, a value, and whether it stands as elements (E) or JSON (J) in minimax-m3 and in cohere-xml.
WAYS = [
    (_TREE, {"n": {"n": {"v": 1}, "v": 2}, "v": 3}, "EE"),
    ({}, [1, "x", {"k": "v"}], "JE"), ({}, {"k": {"j": [1]}}, "JE"), ({}, [], "JE"), ({}, {}, "JE"),
    ({"type": "array"}, [1, "x", {"k": "v"}, [], [[2]]], "EE"), ({"type": "array"}, [], "EE"),
    ({"type": "object"}, {"k": "v", "l": [1]}, "JE"), ({"type": "object"}, {}, "JE"),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, {"k": 1, "l": 2}, "JE"),
    (_ITEM, {"item": 1}, "EE"), (_ITEM, {}, "EE"),
    ({"anyOf": [_ITEM, _TEXTS_ONLY]}, {"item": 1}, "JE"), ({"anyOf": [_ITEM, _TEXTS_ONLY]}, ["x"], "JE"),
    ({**_ITEM, "type": ["object", "null"]}, {}, "EE"),
    ({**_TEXTS_ONLY, "type": ["array", "string"]}, ["b"], "JE"), ({**_TEXTS_ONLY, "type": ["array", "number"]}, [], "EE"),
    ({**_TEXTS_ONLY, "uniqueItems": True}, ["b", "c"], "JJ"), ({**_TEXTS_ONLY, "contains": {"const": "x"}}, ["y", "x"], "EE"),
    ({"type": "object", "properties": {"b c": {"type": "string"}, "d": _TEXTS_ONLY}}, {"b c": "x", "d": ["y"]}, "JJ"),
    ({"type": "array", "items": {"enum": [MARK]}, "minItems": 1}, [MARK], "JE"),
    ({"type": "array", "items": {"enum": ["</cofl:value>"]}, "minItems": 1}, ["</cofl:value>"], "EJ"),
    ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": _ITEM}, ["7", 7, {"item": 7}], "EE"),
    ({"properties": {"b": {"type": "string"}, "c": {"type": "string"}}, "type": "object", "anyOf": [{"required": ["b"]}, {"required": ["c"]}]},
     {"b": "", "c": "1"}, "EE"),
    ({"type": "array", "items": {"enum": [{"x": number} for number in range(9)]}}, [{"x": 1}, {"x": 8}], "EE"),
    ({"type": "array", "items": {"type": "array", "items": {"type": "boolean"}, "minItems": 1}}, [[True], [False]], "EE"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "column"), [("minimax-m3", 0), ("cohere-xml", 1)])
@pytest.mark.parametrize(("schema", "value", "ways"), WAYS)
def test_what_elements_cannot_say_is_json(name, column, schema, value, ways):
    chat = ChatFormat.load(name)
    tools = [{"name": "f", "parameters": {"type": "object", "properties": {"a": schema}}}]
    turn = chat.write_call("f", {"a": value}, tools)
    assert chat.parse(turn, tools).tool_calls[0].arguments == {"a": value}
    chat.validate(turn, "assistant_turn", tools, strict=True)
    written = json.dumps(value, ensure_ascii=False).replace("</", "<\\/").replace(MARK, MARK[:-1] + "\\u005b")
    assert ways[column] == ("J" if f">{written}" in turn else "E")


@pytest.mark.parametrize("name", ["minimax-m3", "cohere-xml"])
@pytest.mark.parametrize(("schema", "losses"), [
    ({"type": "array", "items": {"type": ["string", "number"]}}, {"minimax-m3": ["#/properties/a/items"]}),
    ({"type": "object", "additionalProperties": {"type": "string"}}, {"cohere-xml": ["#/properties/a"]}),
    ({"type": "object", "properties": {"b": {"type": "string"}}}, {}), ({"type": "array", "items": {"type": "array", "items": {"type": "null"}}}, {}),
])  # fmt: skip
def test_what_elements_leave_out_is_listed(name, schema, losses):
    tools = [{"name": "f", "parameters": {"type": "object", "properties": {"a": schema}}}]
    assert [entry.pointer for entry in ChatFormat.load(name).grammar(tools).narrowed] == losses.get(name, [])


def test_nested_values_are_written_and_read_at_any_depth():
    tools = [{"name": "f", "parameters": {"type": "object", "properties": {"a": _TREE}}}]
    value = {"v": 0}
    for depth in range(1_500):
        value = {"n": value, "v": depth}
    for name in ("minimax-m3", "cohere-xml", "gemma-4", "hermes", "chatglm3"):
        chat = ChatFormat.load(name)
        found = chat.parse(chat.write_call("f", {"a": value}, tools)).tool_calls[0].arguments["a"]
        for depth in reversed(range(1_500)):
            assert found["v"] == depth
            found = found["n"]


@pytest.mark.parametrize("tags", [["a", "b"], ["a"]])
def test_tags_of_many_shapes_stand_between_tokens(tags):
    shapes = [{"properties": {"kind": {"enum": [f"{tag}{at}" for tag in tags]}, "v": {"const": at}}, "required": ["kind", "v"],
               "type": "object"} for at in range(9)]  # fmt: skip
    chat, tools = ChatFormat.load("gemma-4"), [{"name": "f", "parameters": {"type": "object", "properties": {"o": {"oneOf": shapes}}}}]
    special = {token: 256 + at for at, token in enumerate(sorted({*chat.tokens.values()}))}
    vocabulary = Vocabulary([bytes([byte]) for byte in range(256)], special=special, stop=[special["<turn|>"]])
    matcher = compile(chat.grammar(tools, tool_choice="required"), vocabulary).matcher()
    for piece in re.split("(<.*?>)", chat.write_call("f", {"o": {"kind": "a7", "v": 7}}, tools)):
        for token in [special[piece]] if piece in special else piece.encode():
            matcher.advance(token)


@pytest.mark.parametrize("name", TAGGED)
def test_what_holds_itself_is_not_written(name):
    held: list[object] = []
    held.append(held)
    with pytest.raises(ConstrainedError, match="are not JSON"):
        ChatFormat.load(name).write_call("f", {"l": held}, NESTED)


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


_INNER = {
    "type": "object",
    "properties": {
        "x": {"type": "number"},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 3}},
        "q": {"type": "object", "properties": {"k": {"enum": ["a", "b"]}}, "required": ["k"]},
    },
}  # fmt: skip


def _shape_of(value):
    """A schema of values of the same shape that asks for nothing else."""
    if isinstance(value, dict):
        return {"type": "object", "properties": {key: _shape_of(member) for key, member in value.items()}}
    if isinstance(value, list):
        return {"type": "array", "items": _shape_of(value[0])}
    return {"type": "string" if isinstance(value, str) else "number"}


@pytest.mark.parametrize("name", ["cohere-xml", "minimax-m3"])
@pytest.mark.parametrize(("value", "pointer", "found"), [
    ({"x": "seven"}, "/p/x", "seven"),
    ({"tags": ["abc", "abcd"]}, "/p/tags/1", "abcd"),
    ({"q": {"k": "c"}}, "/p/q/k", "c"),
    ({"x": 1, "q": {"k": "a", "w": 1}}, "/p/q/w", "w"),
    ({"zzz": 1}, "/p/zzz", "zzz"),
])  # fmt: skip
def test_a_misfit_inside_of_elements_has_its_own_place(name, value, pointer, found):
    chat = ChatFormat.load(name)
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"p": _INNER}}}
    text = chat.write_call("f", {"p": value}, [{**tool, "parameters": _shape_of({"p": value})}])
    with pytest.raises(Rejected) as error:
        chat.parse(text, [tool])
    assert error.value.pointer == pointer
    assert text[error.value.position :].startswith(found)
    assert text[error.value.position - 1] in '>"<'


@pytest.mark.parametrize(("text", "at", "pointer"), [
    ("<a><b>1</b><b>2</b></a>", 3, "/a"), ("<a><b>1</c></a>", 7, "/a/b"), ("<a><b>1", 7, "/a/b"),
])  # fmt: skip
def test_a_fault_inside_of_elements_has_its_pointer(text, at, pointer):
    with pytest.raises(Fault) as fault:
        read_elements(text, Elements("<(?P<name>[a-z]+)>", "</(?P<name>[a-z]+)>"), None, ANYTHING)
    assert (fault.value.at, fault.value.pointer) == (at, pointer)


@pytest.mark.parametrize("name", ["cohere-xml", "glm-4.7", "minimax-m3"])
def test_tools_wait_where_tags_are_tokens(name):
    """Parts of the tags become special tokens: no schema is compiled for that, and then the same as of one compiled."""
    tools = [{"name": name, "parameters": {"type": "object", "properties": {"s": {"type": "string"}}}} for name in "ab"]
    for symbol in ChatFormat.load(name).grammar(tools, tool_choice="required").symbols():
        machine = getattr(symbol, "machine", None)
        for arguments in getattr(machine, "machines", [machine] if machine is not None else []):
            marked = arguments.with_specials(arguments.markers)
            assert marked is not arguments and marked.weight == arguments.weight == 0
            assert marked.machine == arguments.machine.with_specials(arguments.markers)
