"""Chat formats: every row of corpus/formats through both engines, read back and written again; every call in every
format.
"""

from __future__ import annotations

import json
import pickle
import tomllib
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from constrained.rendering.turn import derive
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained import ChatFormat, ConstrainedError, LimitExceeded, Rejected, SchemaError, Vocabulary, compile
from constrained.formats import Message, ToolCall, pairs
from constrained.formats.binding.request import read_options
from constrained.formats.pairs import lowered
from constrained.formats.read.inputs import split_ids, split_text
from constrained.formats.read.reading import deviation
from constrained.grammar import Embedded, Literal, Pattern, Ref
from constrained.schema import embed
from constrained.schema.normal.quick import surely_compilable
from tests.definitions import DEFINITIONS

CORPUS = Path(__file__).with_name("corpus")
FOLDER = CORPUS / "formats"
CALLS = tomllib.loads((FOLDER / "calls.toml").read_text())
TOOLS = {tool["function"]["name"]: tool for tool in json.loads(CALLS["tools"])}
NAMES = ChatFormat.names()
WITH_TOOLS = [name for name in NAMES if DEFINITIONS[name].payload]
ROWS = {name: tomllib.loads((FOLDER / f"{name}.toml").read_text())["turn"] for name in NAMES}
VALID = [(name, row) for name, rows in ROWS.items() for row in rows if "refused" not in row]
OF_EACH_GRAMMAR = {DEFINITIONS[name].grammar: name for name in NAMES}.values()
ERRORS = tomllib.loads((CORPUS / "errors_formats.toml").read_text())["case"]
KERNELS = ("compiled", "plain")


def _id(value):
    return value["id"] if isinstance(value, dict) else None


def _tools(row):
    if "own_tools" in row:
        return row["own_tools"]
    return [TOOLS[name] for name in row["tools"]] if "tools" in row else None


def _options(chat, row):
    """Return the options of a row; a turn that is read may be the interpreter's."""
    return read_options(chat.definition, {"prompt": "", **row.get("options", {})})


def _calls(text):
    return [ToolCall(call["name"], call["arguments"], call.get("id")) for call in json.loads(text)]


def _vocabulary(chat):
    """Bytes and the format's tokens; ids of special tokens come first, to differ from those of `parse`."""
    names = sorted({*chat.tokens.values(), *chat.definition.reserved})
    tokens = [*[None] * len(names), *(bytes([byte]) for byte in range(256))]
    return Vocabulary(tokens, special={name: index for index, name in enumerate(names)})


def _accepts(constraint, vocabulary, chat, text):
    turn = split_text(text, chat.definition)
    matcher = constraint.matcher()
    at = 0
    try:
        for start, end, name in (*turn.marks, (len(text), len(text), None)):
            for byte in text[at:start].encode():
                matcher.advance(byte + len(vocabulary.special))
            if name is not None:
                matcher.advance(vocabulary.special[name])
            at = end
    except Rejected:
        return False
    return matcher.is_accepting()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", NAMES)
def test_turns_are_generated_or_refused(name, kernel):
    """Rows that ask for the same are matched by one constraint, as the requests of a server are."""
    chat, made, wrong = ChatFormat.load(name), {}, []
    vocabulary = _vocabulary(chat)
    for row in ROWS[name]:
        asked = repr((_tools(row), _options(chat, row)))
        if asked not in made:
            made[asked] = compile(chat.grammar(_tools(row), **_options(chat, row)), vocabulary, kernel=kernel)
        if _accepts(made[asked], vocabulary, chat, row["text"]) != ("refused" not in row):
            wrong.append(row["id"])
    assert not wrong


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
def test_turns_are_read_from_text_and_ids_and_written_again(name):
    chat = ChatFormat.load(name)
    for row in ROWS[name]:
        options, tools = {"prompt": "", **row.get("options", {})}, _tools(row)
        if "refused" in row:
            with pytest.raises(Rejected):
                pytest.fail(f"{row['id']}: {chat.parse(row['text'], tools, strict=True, **options)}")
            continue
        message = chat.parse(row["text"], tools, **options)
        assert message.content == row.get("content", ""), row["id"]
        assert message.thoughts == row.get("thoughts", {}), row["id"]
        assert message.tool_calls == _calls(row.get("calls", "[]")), row["id"]
        assert message.stop in chat.stop, row["id"]
        assert message.repairs == (), row["id"]
        ids, vocabulary = _ids(chat, row["text"])
        assert chat.parse(ids, tools, vocabulary, **options) == message, row["id"]
        if "one_way" not in row:
            assert chat.write(message, tools, **options) == row["text"], row["id"]


def _ids(chat, text):
    """Return the ids of a turn, and the vocabulary that they are of."""
    vocabulary, ids, at = _vocabulary(chat), [], 0
    for start, end, token in (*split_text(text, chat.definition).marks, (len(text), len(text), None)):
        ids += vocabulary.tokenize(text[at:start].encode()) if start > at else []
        ids += [vocabulary.special[token]] if token is not None else []
        at = end
    return ids, vocabulary


NUMBERS = (
    "1.5",
    "-0.0",
    "1e+16",
    "1e-05",
    "0.00001",
    "0.000012345678901234567890123",
    "1.2345678901234567890123e-05",
    "100000000000000000000.0",
    "1e+400",
    "12345678901234567890.5",
    "1.2345678901234567890123e+30",
    "12345678901234567.8901",
    "1.23456789012345678901e+16",
    "7e-20220211070320228245",
    "9" * 5_000,
)


@pytest.mark.parametrize("name", ["hermes", "chatglm3", "qwen3-coder", "gemma-4"])
def test_numbers_are_written_as_they_were_read(name):
    chat = ChatFormat.load(name)
    tools = [
        {
            "type": "function",
            "function": {
                "name": "f",
                "parameters": {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]},
            },
        }
    ]
    template = chat.write_call("f", {"n": 7}, tools)
    for number in NUMBERS:
        text = template.replace("7", number)
        if name == "chatglm3" and float(number) in (0, float("inf")) and "e" in number:
            continue  # Python has no such numbers
        assert chat.write(chat.parse(text, tools, strict=True), tools) == text


def test_nesting_is_written_however_deep():
    chat, value = ChatFormat.load("hermes"), []
    for _ in range(2_000):
        value = [value]
    text = chat.write_call("f", {"a": value})
    assert text.count("[") == 2_001
    assert chat.write(chat.parse(text)) == text
    value[0].append(value)
    with pytest.raises(ConstrainedError, match="holds itself"):
        chat.write_call("f", {"a": value})


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", WITH_TOOLS)
def test_calls_are_written_and_read(name):
    chat = ChatFormat.load(name)
    is_python, is_tagged = (chat.definition.payload.name == "python", chat.definition.payload.surface == "tagged")
    tools = [tool for tool in TOOLS.values() if not is_python or tool["function"]["name"].isidentifier()]
    for row in CALLS["call"]:
        if is_python and not row["name"].isidentifier():
            continue
        if is_tagged and row["id"] in ("wrong type", "number as text"):
            continue  # between tags a number and its digits are one text
        call = ToolCall(row["name"], json.loads(row["arguments"]))
        text = chat.write(Message("", [call]), tools)
        if "refused" in row:
            with pytest.raises(Rejected):
                pytest.fail(f"{row['id']}: {chat.parse(text, tools, strict=True)}")
        else:
            (read,) = chat.parse(text, tools).tool_calls
            assert (read.name, read.arguments) == (call.name, call.arguments), row["id"]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", sorted(set(OF_EACH_GRAMMAR) & set(WITH_TOOLS)))
def test_lark_reads_the_bound_grammar(name):
    lark = pytest.importorskip("lark")
    chat = ChatFormat.load(name)
    tools = [TOOLS["weather"], TOOLS["ping"]]
    parser = lark.Lark(chat.grammar(tools).to_lark(), parser="earley", lexer="dynamic_complete")
    text = chat.write_call("weather", {"city": "Oslo", "days": 3}, tools)
    parser.parse(text)
    with pytest.raises(lark.exceptions.LarkError):
        parser.parse(text.replace("3", "33"))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", WITH_TOOLS)
def test_a_frame_that_requests_share_is_that_of_each(name):
    shared = ChatFormat.load(name)
    several = ([TOOLS["weather"]], [TOOLS["ping"]], [TOOLS["weather"], TOOLS["ping"]], [])
    choices = ("auto", "required", "none", {"name": "ping"})
    asked = [(tools, {"tool_choice": choice}) for tools in several for choice in choices]
    asked += [(tools, sides) for tools in several[:3] for sides in ({"max_calls": 1}, {"marker_safe": False})]
    for tools, sides in asked:
        alone = replace(shared)  # keeps no frames of earlier requests
        assert _grammar_of(shared, tools, sides) == _grammar_of(alone, tools, sides), (tools, sides)
    made = shared._recent[1]
    assert len(made._made) < len(asked) / 2


def _grammar_of(chat, tools, sides):
    """Return all that a grammar of a format says, of embedded machines their names only; or why it has none."""
    try:
        grammar = chat.grammar(tools, **sides)
    except ConstrainedError as error:
        return str(error)
    symbols = {Embedded: lambda symbol: symbol.name, Pattern: lambda symbol: symbol.source}
    return [
        (name, [[symbols.get(type(symbol), repr)(symbol) for symbol in sequence] for sequence in rule.alternatives])
        for name, rule in grammar.rules.items()
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_turn_stops_with_the_tokens_that_the_definition_names(name):
    chat = ChatFormat.load(name)
    endings = tuple(chat.tokens[stop] for stops in chat.definition.stops.values() for stop in stops)
    assert all(row["text"].endswith(endings) for row in ROWS[name] if "refused" not in row)


@pytest.mark.parametrize("name", NAMES)
def test_text_never_spells_a_special_token(name):
    chat = ChatFormat.load(name)
    vocabulary = _vocabulary(chat)
    turn = split_ids(vocabulary.tokenize(b"a" + chat.stop[0].encode()), vocabulary, chat.definition)
    assert turn.marks == ()
    assert deviation(turn, chat.grammar([] if chat.definition.payload else None), chat.definition) is not None


def test_a_schema_is_compiled_when_its_tool_is_called():
    chat = ChatFormat.load("hermes")
    tools = [
        {"name": f"tool_{n}", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}
        for n in range(500)
    ]
    grammar = chat.grammar(tools, tool_choice="required")
    constraint, text = compile(grammar, _vocabulary(chat)), chat.write_call("tool_7", {"a": "x"}, tools)
    assert _accepts(constraint, _vocabulary(chat), chat, text)
    machines = {symbol.name: symbol.machine for symbol in grammar.symbols() if isinstance(symbol, Embedded)}
    assert [name for name, machine in machines.items() if machine._made is not None] == ["tool_7"]


_LEAVES = st.sampled_from([
    {}, {"type": "string"}, {"type": "string", "minLength": 2, "maxLength": 2}, {"type": "integer", "minimum": 3, "maximum": 3}, {"type": "number"},
    {"type": ["null", "boolean"]}, {"enum": ["a", "b"]}, {"type": "string", "enum": ["", "a"]}, {"type": "object"}, {"type": "array", "maxItems": 0},
    {"type": "number", "minimum": 4, "maximum": 3}, {"type": "integer", "enum": ["a"]}, {"type": "string", "pattern": "^a"}, {"enum": []},
])  # fmt: skip
_SCHEMAS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda items: {"type": "array", "items": items, "minItems": 1}, inner),
        st.builds(
            lambda named, required: {
                "type": "object",
                "properties": named,
                "required": sorted(required & {*named, "c"}),
            },
            st.dictionaries(st.sampled_from("abc"), inner),
            st.sets(st.sampled_from("abc")),
        ),
    ),
    max_leaves=6,
)


@given(_SCHEMAS, st.booleans())
def test_plain_schemas_compile(schema, closed):
    if surely_compilable(schema):
        embed(schema, closed=closed)


@pytest.mark.parametrize("properties", [5, True, ["a"], "a"])
def test_malformed_properties_are_said_wherever_they_stand(properties):
    tool = {"name": "f", "parameters": {"type": "object", "required": ["a"], "properties": properties}}
    with pytest.raises(SchemaError, match="properties"):
        ChatFormat.load("hermes").grammar([tool])


def test_some_schemas_are_plain():
    assert all(surely_compilable(tool["function"]["parameters"]) for tool in TOOLS.values())


_PIECES = st.sampled_from(
    [
        "<tool_call>",
        "</function>",
        "<|im_end|>",
        "<|eot_id|>",
        "<|python_tag|>",
        "\n```",
        '"',
        "\\",
        "{",
        "}",
        "(",
        "'",
        "\n",
        "a",
        "é",
        "🌧",
    ]
)


@settings(deadline=None)  # each example may be the first to load its format
@given(st.sampled_from(VALID), st.data())
def test_a_damaged_turn_is_read_or_rejected(pair, data):
    name, row = pair
    chat, text = ChatFormat.load(name), row["text"]
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        text = text[:start] + data.draw(_PIECES) + text[start + data.draw(st.integers(0, 3)) :]
    options = row.get("options", {})
    try:
        message = chat.parse(text, _tools(row), **options)
        chat.parse(text, _tools(row), strict=True, **options)  # readers take more than is ever written
    except Rejected as error:
        assert 0 <= error.position <= len(text.encode())
    else:
        assert chat.parse(chat.write(message, _tools(row), **options), _tools(row), **options) == message


def test_left_recursion_reaches_a_bound(monkeypatch):
    monkeypatch.setattr("constrained.rendering.turn.MAX_STEPS", 1000)
    rules = {"a": ((Ref("a"), Literal("x")), (Literal("x"),))}
    with pytest.raises(LimitExceeded, match="left-recursive"):
        derive(rules, "a", 0, lambda symbol, place: None if isinstance(symbol, Ref) else [], lambda place: False)


def test_lowered_grammars_are_there():
    """Of each format; what they say is compared below, of one format for each text."""
    assert all(lowered(definition) is not None for definition in _definitions())


def _definitions(names=NAMES):
    folder = pairs.shipped_folder()
    return [pairs.read_definition(folder / f"{name}.toml", folder) for name in names]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("definition", _definitions(OF_EACH_GRAMMAR), ids=lambda definition: definition.grammar.stem)
def test_lowered_grammars_are_what_the_texts_say(definition):
    """Else: python tools/lowered_grammars.py."""
    kept, read = lowered(definition), pairs.grammar_of_text(definition, definition.grammar.name)
    assert kept is not None
    assert (list(kept.rules), kept.recipe, kept.fingerprint) == (list(read.rules), read.recipe, read.fingerprint)
    for one, other in zip(kept.symbols(), read.symbols(), strict=True):
        # \w and \d are what the Python has that wrote the file
        assert one == other or _same_language(one.language, other.language) or unicodedata.unidata_version != "14.0.0"


def _same_language(one, other):
    """Unions and complements note their parts in no order: walked through together, state by state."""
    seen, todo = set(), [(one, other)]
    for pair in todo:
        first, second = (list(state.edges()) for state in pair)
        if pair[0].accepts != pair[1].accepts:
            return False
        begins = {low for low, _, _ in first + second} | {high + 1 for _, high, _ in first + second}
        for char in begins:
            to = tuple(next((to for low, high, to in side if low <= char <= high), None) for side in (first, second))
            if (to[0] is None) != (to[1] is None):
                return False
            if to[0] != to[1] and to not in seen:
                seen.add(to)
                todo.append(to)
    return True


def test_where_a_text_was_changed_the_text_counts(tmp_path):
    for path in pairs.shipped_folder().iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    shipped = next(definition for definition in _definitions() if definition.grammar.stem == "hermes")
    edited = replace(shipped, grammar=tmp_path / shipped.grammar.name)
    assert lowered(edited) is not None
    (tmp_path / "json.lark").write_text((tmp_path / "json.lark").read_text("utf-8") + "\n", "utf-8")
    for definition in (shipped, edited):  # of one folder at a time is noted what it holds
        assert (lowered(definition) is None) == (definition is edited)


def test_a_format_may_lie_anywhere(tmp_path):
    source = Path(ChatFormat.load("hermes").definition.grammar).parent
    for name in ("hermes.lark", "hermes.toml", "json.lark"):
        (tmp_path / name).write_text((source / name).read_text())
    for path in (tmp_path / "hermes.toml", str(tmp_path / "hermes.lark")):
        assert ChatFormat.load(path).parse("Hello.<|im_end|>").content == "Hello."


def test_a_format_that_was_used_can_be_sent():
    chat = ChatFormat.load("openchatml").respell({"[EOS]": "</s>"})
    chat.parse("Hello.<|im_end|>")
    twin = pickle.loads(pickle.dumps(chat))
    assert twin.stop == chat.stop and twin.parse("Hello.<|im_end|>") == chat.parse("Hello.<|im_end|>")


def test_respelled_tokens():
    chat = ChatFormat.load("openchatml").respell({"[EOS]": "</s>"})
    assert chat.parse("Hello.\n<|im_end|></s>").stop == "<|im_end|>"
    assert "[EOS]" not in chat.grammar().specials


@pytest.mark.parametrize("row", ERRORS, ids=_id)
def test_error(row, tmp_path):
    for name, text in row.get("files", {}).items():
        (tmp_path / name).write_text(text)
    with pytest.raises(ConstrainedError) as caught:
        eval(
            row["call"],
            {
                "F": ChatFormat.load,
                "Message": Message,
                "ToolCall": ToolCall,
                "Vocabulary": Vocabulary,
                "folder": tmp_path,
            },
        )
    assert str(caught.value).replace(str(tmp_path), "FOLDER") == row["message"].strip("\n")


def test_a_turn_ends_with_the_stop_token_of_its_format(tiny_vocabulary):
    """…and not once more with the tokenizer's: `<|im_end|><|eot_id|>`."""
    for name in ("hermes", "gpt-oss", "chatglm3"):
        chat = ChatFormat.load(name)
        constraint = compile(chat.grammar(tool_choice="required"), tiny_vocabulary)
        matcher = constraint.matcher()
        for token in matcher.shortest_completion():
            assert not matcher.is_finished()
            matcher.advance(token)
        assert matcher.is_finished() and matcher.is_accepting(), name
        assert tiny_vocabulary.names[matcher.tokens[-1]] in chat.stop
        assert set(tiny_vocabulary.stop) < set(constraint.stop) and matcher.tokens[-1] in constraint.stop
        matcher.rollback(1)
        assert matcher.is_accepting() and not matcher.is_finished()
