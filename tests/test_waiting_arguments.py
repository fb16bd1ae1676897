"""Arguments that wait for their first sign, and calls that wait for their number: masks are those of machines made at
once.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from definitions import DEFINITIONS
from laws import assert_mask_is_accepts, unpacked

import constrained as c
from constrained.formats.binding import calls
from constrained.formats.binding.calls import Beginning, Parts, UnreadObject, signs_of
from constrained.grammar import Embedded, Grammar, Literal, Pattern, Ref, Rule
from constrained.machine import Bytes, LiteralSet, MarkerSafe, Quoting, Text
from constrained.regex import matches, parse_python
from constrained.schema import EmbeddedSchema, embed

KERNELS = ["plain", "compiled"]
TEXT, FEW, MANY = {"type": "string"}, {"enum": ["a"]}, {"type": "array", "items": {"type": "integer"}}
PARAMETERS = {
    "none": {"type": "object", "properties": {}},
    "optional": {"type": "object", "properties": {"s": TEXT, "n": {"type": "integer"}}},
    "required": {"type": "object", "properties": {"s": TEXT, "l": MANY}, "required": ["s"]},
    "listed": {"type": "object", "properties": {"s": FEW}},
    "listed and others": {"type": "object", "properties": {"s": FEW, "b": {"type": "boolean"}}},
    "what GLM cannot write": {"type": "object", "properties": {"s": {"enum": ["[gMASK]"]}}},
    "what DeepSeek cannot write": {"type": "object", "properties": {"s": {"enum": ["｜DSML｜"]}}},
    "open": {"type": "object"},
    "two kinds": {"type": "object", "properties": {"s": {"type": ["string", "null"]}}},
    "nested": {"type": "object", "properties": {"o": {"type": "object", "properties": {"n": {"type": "integer"}}}}},
    "two objects": {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": TEXT}},
    "a pattern": {"type": "object", "properties": {"s": {"type": "string", "pattern": "^a+$"}}, "minProperties": 1},
    "no type": {"properties": {"s": TEXT}},
}
FORMATS = [name for name in DEFINITIONS if DEFINITIONS[name].payload]


def _vocabulary(chat, *, special):
    names = sorted({*chat.tokens.values()})
    texts = [bytes([byte]) for byte in range(256)]
    texts += [b"<p", b"</", b"<arg", b'{"', b"{}", b'("', b"()", b"})", b'": ', b"_1", b"_12", b"_2(", b'_1"', b"12", b"23"]
    if not special:
        return c.Vocabulary(texts, special={"<eos>": len(texts)})
    return c.Vocabulary(texts, special={name: len(texts) + at for at, name in enumerate(names)})


def _masks(grammar, vocabulary, seed, steps=60, kernel=None):
    """Return the masks of a random way through a grammar; rare first bytes are as likely as others."""
    matcher, picks, found = c.compile(grammar, vocabulary, kernel=kernel).matcher(), random.Random(seed), []
    row = np.zeros((1, vocabulary.words), np.int32)
    for _ in range(steps):
        matcher.fill_mask(row)
        found.append(row.tobytes())
        allowed = [int(token) for token in np.flatnonzero(unpacked(row, vocabulary.size))]
        firsts = sorted({(vocabulary.tokens[token] or b"special")[:1] for token in allowed})
        if not firsts:
            break
        first = picks.choice(firsts)
        matcher.advance(picks.choice([t for t in allowed if (vocabulary.tokens[t] or b"special")[:1] == first]))
        if matcher.is_finished():
            break
    return found


@pytest.mark.sampled(5)
@pytest.mark.parametrize("special", [True, False], ids=["tokens", "texts"])
@pytest.mark.parametrize("name", FORMATS)
def test_masks_are_those_of_machines_made_at_once(name, special, monkeypatch):
    chat = c.ChatFormat.load(name)
    options = {"tool_choice": "required", **({"reasoning": "none"} if chat.definition.reasoning else {})}
    for seed, parameters in enumerate(PARAMETERS.values()):
        tools = [{"name": f"tool_{at}", "parameters": parameters} for at in (1, 12, 2, 23)]
        found = []
        for signs in (signs_of, lambda *_, **__: ()):
            monkeypatch.setattr(calls, "signs_of", signs)
            vocabulary = _vocabulary(chat, special=special)
            try:
                found.append(_masks(chat.grammar(tools, **options), vocabulary, seed))
            except c.ConstrainedError as error:
                found.append(str(error))
        assert found[0] == found[1], parameters


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", FORMATS)
def test_nearly_all_arguments_wait(name, monkeypatch):
    chat, asked = c.ChatFormat.load(name), []

    def noted(*given, **named):
        asked.append(signs_of(*given, **named))
        return asked[-1]

    monkeypatch.setattr(calls, "signs_of", noted)
    options = {"tool_choice": "required", **({"reasoning": "none"} if chat.definition.reasoning else {})}
    tools = [{"name": "f", "parameters": PARAMETERS["required"]}]
    _masks(chat.grammar(tools, **options), _vocabulary(chat, special=True), 0, steps=200)
    assert asked == [] or all(asked), "no machine of such a tool is made before its first sign"


def test_waiting_arguments_are_not_made(monkeypatch):
    monkeypatch.setattr(calls, "embed", lambda *_, **__: pytest.fail("the schema was read"))
    made = calls.Arguments(PARAMETERS["optional"], {"surface": "json", "closed": True})
    state = made.state()
    assert isinstance(state, Beginning)
    assert [low for low, _, _ in state.expand().ranges] == [ord("{")]


def test_arguments_that_were_read_wait_again_where_tags_are_tokens(monkeypatch):
    """As when a file is loaded, whose fingerprint takes the schemas of all tools."""
    grammar = c.ChatFormat.load("glm-4.7").grammar([{"name": "f", "parameters": PARAMETERS["required"]}])
    (machine,) = (symbol.machine for symbol in grammar.symbols() if isinstance(symbol, Embedded))
    assert machine.fingerprint
    monkeypatch.setattr(calls, "embed", lambda *_, **__: pytest.fail("the schema was read"))
    monkeypatch.setattr(EmbeddedSchema, "with_specials", lambda *_: pytest.fail("the schema was read again"))
    marked = machine.with_specials(machine.markers)
    assert marked is not machine and isinstance(marked.state(), Beginning)


WRITTEN = {"surface": "json", "spelling": "canonical", "whitespace": "flexible", "closed": True, "avoid": ()}
KEYS = [
    {"properties": {}},
    {"properties": {"b": TEXT, "a": FEW, "ab": MANY}, "required": ["ab", "b"]},
    {"properties": {"b": TEXT, "a": {"type": "object", "properties": {"c": TEXT}}}, "additionalProperties": False},
    {"properties": {f"k{at * 37 % 71}": {"description": f"{at}", **TEXT} for at in range(70)}, "required": ["k5", "k5"]},
    {"properties": {"a": TEXT, "é</tool_call>": TEXT}},
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("schema", KEYS, ids=range(len(KEYS)))
@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("changed", [{}, {"whitespace": "compact"}, {"spelling": "any"}, {"avoid": ("</tool_call>", "\n")}])
def test_keys_in_sight_are_those_of_the_machine(schema, order, changed):
    options = {**WRITTEN, "property_order": order, **changed}
    whole = calls.Arguments({"type": "object", **schema}, options)
    early = calls.Arguments({"type": "object", **schema}, options, early=Parts(options))
    assert isinstance(whole.state(), Beginning), "the name comes first: one schema is read, not many"
    unread, (_, _, read) = early.state().then, whole.machine.state().expand().ranges[0]
    seen, machine = unread.object_table, read.object_table
    if machine is None:  # a key is a marker, and written around it
        assert seen is None
        return
    for field in set(seen._fields) - {"value"}:
        assert getattr(seen, field) == getattr(machine, field), field
    vocabulary = c.Vocabulary([bytes([byte]) for byte in range(256)], special={"<eos>": 256})
    texts = []
    for which in range(len(seen.names)):
        texts = [_masks(_grammar_of(table.value(which)), vocabulary, 7) for table in (seen, machine)]
        assert texts[0] == texts[1]
    for state in (unread, read):  # as a kernel of Python reads them, which asks for no table
        texts.append(_masks(_grammar_of(state), vocabulary, 8, kernel="plain"))
    assert texts[-1] == texts[-2]


@pytest.mark.parametrize("keys", [(0, 1, 3), (1, 4), (4,)])
def test_markers_are_looked_for_in_the_keys_of_all_objects(keys):
    options = {**WRITTEN, "property_order": "any", "avoid": ("</tool_call>",)}
    schemas = [{"type": "object", **KEYS[at]} for at in keys]
    alone = [UnreadObject(None, schema, Parts(options)).object_table for schema in schemas]
    parts = Parts(options)
    together = [UnreadObject(None, schema, parts) for schema in schemas]
    UnreadObject.see(together)
    for made, table in zip(together, alone, strict=True):
        assert (made.object_table and made.object_table._replace(value=None)) == (table and table._replace(value=None))
    assert isinstance(parts.quoting(["</tool_call>"]), MarkerSafe) is (4 in keys), "each looks again where there are some"


NAMED = [
    TEXT, {**TEXT, "description": "x"}, {"description": "x", **TEXT}, {"type": ["string"]}, {"type": ["string", "null"]}, FEW,
    {"enum": ["a", "b"]}, {"enum": ["ab"]}, {"enum": []}, MANY, {"items": {"type": "integer"}, "type": "array"},
    {"type": "array", "items": {"type": "integer", "description": "x"}}, {"items": {"type": "integer"}}, {},
    {"minLength": 1}, {"minLength": True}, {"minLength": 1.0}, {"minLength": "1"}, {"minLength": 1 << 70}, {"minimum": 1},
    {"type": "integer", "minimum": 0}, {"minimum": 0, "type": "integer"}, {"properties": {"a": TEXT}}, {"properties": {}},
    {"properties": {"a": {**TEXT, "title": "x"}}}, {"enum": ["a", 1]}, {"enum": {"a": "b"}}, {"enum": ["b", "a"]},
    {"additionalProperties": False}, {"x": None}, {1: "x"}, {"items": {"items": {"items": {"items": TEXT}}}}, [TEXT], True,
]  # fmt: skip


def _grammar_of(state):
    """Return the grammar of what a machine state reads."""

    class Held:
        widened = ()

        def state(self):
            return state

    return Grammar({"start": Rule("start", ((Embedded("value", Held()),),))})


def test_parts_alike_are_read_once(monkeypatch):
    parts, read = Parts({**WRITTEN, "property_order": "schema"}), []
    monkeypatch.setattr(calls, "embed", lambda schema, **options: read.append(schema) or embed(schema, **options))
    alike = [TEXT, {**TEXT, "description": "a city"}, {"title": "Town", **TEXT}]
    assert len({id(parts.state(schema)) for schema in alike}) == len(read) == 1
    others = [MANY, {**TEXT, "minLength": 1}, {"type": "integer"}, {"enum": ["a"]}, {"enum": ["b"]}, {"type": ["string", "null"]}]
    for schema in others:
        embedded = embed(schema, **WRITTEN, property_order="schema")  # held, and so found again by content
        assert parts.state(schema) == embedded.state() != parts.state(TEXT)
    assert len(read) == 1 + len(others)


def test_open_objects_have_keys_that_are_not_in_sight():
    options = {**WRITTEN, "property_order": "schema", "closed": False}
    for schema, unread in ((KEYS[1], False), (KEYS[2], True), ({}, False)):
        state = calls.Arguments({"type": "object", **schema}, options, early=Parts(options)).state()
        assert isinstance(state, Bytes) is unread and isinstance(state, Beginning) is not unread


@pytest.mark.parametrize(
    ("name", "text"),
    [("glm-4.7", "[gMASK]"), ("deepseek-v3.2", "｜DSML｜"), ("minimax-m2", "a]~b]"), ("qwen3-coder", "<|im_end|>")],
)
def test_what_a_format_cannot_write_is_said_when_a_tool_is_bound(name, text):
    chat = c.ChatFormat.load(name)
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"s": {"enum": [text]}}, "required": ["s"]}}
    with pytest.raises(c.SchemaError, match=r"^arguments cannot be written between tags at tool 'f' #\n"):
        chat.grammar([tool])
    tool["parameters"]["properties"]["s"]["enum"].append("a word")
    assert chat.grammar([tool])


# -- numbers of calls --------------------------------------------------------------------------------------------------

NAMES = ("f", "g")


class EachNumber(calls.Numbered):
    """The slow twin: one state for each number."""

    records = False
    numbers = tuple(sorted(str(number) for number in range(1000)))

    def after(self, label):
        return self.at._next._replace(number=int(self.numbers[label]))


def _calls(ids="counted", between=", "):
    call = (Literal("#"), Ref("call_id"), Literal(":"), Ref("name"), Ref("arguments"))
    machine = embed({"type": "object", "maxProperties": 0}, whitespace="compact")
    pieces = (Literal(between),) if between else ()
    shape = Pattern("[0-9]+", parse_python("[0-9]+"))
    return calls.Calls(call, pieces, NAMES, (machine, machine), ids, shape, None, 3, frozenset())


def _number_masks(kernel, between, seed):
    texts = [bytes([byte]) for byte in range(256)]
    texts += [b"12", b"123", b"99", b"999", b"1:f{}, #2", b"1:f{}, #3", b"9:g{}, #10", b":f{}#2", b"8:g{}#9", b"7:f{}#9"]
    texts += [b"5:f{}, #6:g{}, #7", b"5:f{}, #6:g{}, #8", b"999:f{}, #1000", b"9:f{}, #1000:"]
    vocabulary = c.Vocabulary(texts, special={"<eos>": len(texts)}, stop=[len(texts)])
    grammar = Grammar({"start": Rule("start", ((Embedded("calls", _calls(between=between)),),))})
    matcher = c.compile(grammar, vocabulary, kernel=kernel).matcher()
    picks, found = random.Random(seed), []
    while not matcher.is_finished():
        allowed = assert_mask_is_accepts(matcher)
        found.append(allowed)
        long = [token for token in allowed if token >= 256]
        matcher.advance(picks.choice(long if long and picks.random() < 0.5 else allowed))
    return found


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("between", [", ", ""])
def test_numbers_count_up(kernel, between, monkeypatch):
    for seed in range(25):
        found = _number_masks(kernel, between, seed)
        with monkeypatch.context() as patched:
            patched.setattr(calls, "Numbered", EachNumber)
            patched.setattr(calls, "_FIRST_NUMBER", Text(Quoting.RAW, LiteralSet(EachNumber.numbers)))
            assert found == _number_masks(kernel, between, seed)


def test_a_number_that_is_not_known_may_be_any():
    """What is read behind a number, its text aside, is all that is read behind any number."""
    first = _calls().state()._replace(part=1)
    behind = calls.Numbered(first).after_text(None)
    assert behind.number == calls.UNKNOWN
    ended = behind._replace(part=len(first.calls.call)).expand()
    assert ended.ranges[0][2].then.number == calls.UNKNOWN, "the next call's"
    ((text, numbered),) = behind._replace(part=1).expand().calls
    assert matches(text.language, "1000") and numbered.at.number == calls.UNKNOWN


def test_least_between_ids():
    assert _calls().least_between_ids == len("#:, ")
    marked = calls.Calls(
        (*_calls().call, Literal("<end>")), (), NAMES, _calls().machines, "counted", _calls().shape, None, None,
        frozenset({"<end>"}),
    )  # fmt: skip
    assert marked.least_between_ids is None, "a token that is one special token reads no ids"
