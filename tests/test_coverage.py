"""Which alternatives a text needs, which branches an instance uses: counted by hand."""

from __future__ import annotations

import pytest
from constrained.default_model.questions import TOOLS
from constrained.research import coverage as module
from constrained.research.coverage import call_coverage, rule_coverage, schema_coverage

import constrained as c
from constrained.work import Budget, metered

LIST = c.Grammar.from_lark('start: "[" [item] "]"\nitem: start | "a" | "b"')


def used(coverage):
    return {(entry.where, entry.what): entry.used for entry in coverage.entries}


def test_a_text_counts_for_the_alternatives_that_it_needs():
    found = rule_coverage(LIST, ["[]", "[a]", "[[a]]", "[c]"])
    counts = used(found)
    assert (counts["rule item", "start"], counts["rule item", "'a'"], counts["rule item", "'b'"]) == (1, 2, 0)
    assert (found.texts, found.rejected) == (4, 1)
    assert [entry.what for entry in found.unused()] == ["'b'"]
    assert found.table().splitlines()[1].split() == ["0", "rule", "item:", "'b'"]


def test_what_can_be_derived_in_two_ways_is_needed_in_neither():
    counts = used(rule_coverage(c.Grammar.from_lark('start: one | two\none: "a" | "b"\ntwo: "a" | "c"'), ["a", "b"]))
    assert (counts["rule start", "one"], counts["rule start", "two"], counts["rule one", "'a'"]) == (1, 0, 0)


def test_a_corpus_of_turns_shows_which_tools_were_called():
    chat = c.ChatFormat.load("hermes")
    turns = [chat.write_call("get_weather", {"city": "Oslo", "unit": "celsius"}, TOOLS), "Hello.<|im_end|>"]
    found = rule_coverage(chat.grammar(TOOLS), turns)
    assert found.rejected == 0
    assert any("create_event" in entry.what for entry in found.unused())
    assert not any("get_weather" in entry.what for entry in found.unused())


TREE = {
    "$ref": "#/$defs/node",
    "$defs": {"node": {"type": "object", "required": ["v"], "properties": {
        "v": {"type": ["integer", "null"]}, "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}},
}  # fmt: skip


@pytest.mark.parametrize(("schema", "instances", "unused"), [
    (TOOLS[0]["function"]["parameters"], [{"city": "Oslo", "unit": "celsius"}],
     {("#/properties/days", "given"), ("#/properties/unit", "enum 1: 'fahrenheit'")}),
    (TREE, [{"v": 1, "kids": [{"v": None}]}], {("#/$defs/node/properties/kids/items", "empty")}),
    (TREE, [{"v": 1, "kids": []}], {("#/$defs/node/properties/kids", "left out"), ("#/$defs/node/properties/kids/items", "filled"), ("#/$defs/node/properties/v", "type null")}),
    ({"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 5}]}, ["a", 3], {("#/anyOf/1", "holds")}),
    ({"oneOf": [{"enum": [1, True]}, {"const": 2}]}, [True, 2], {("#/oneOf/0", "enum 0: 1")}),
    ({"if": {"type": "integer"}, "then": {"enum": [1, 2]}, "else": {"type": "string"}}, [1], {("#/else", "taken"), ("#/then", "enum 1: 2")}),
    ({"prefixItems": [{"enum": ["a", "b"]}], "items": {"enum": [0]}}, [["a"], ["b", 0]], set()),
    ({"properties": {"a/b~": {"enum": [1]}}}, [{}], {("#/properties/a~1b~0", "given"), ("#/properties/a~1b~0", "enum 0: 1")}),
])  # fmt: skip
def test_branches_that_no_instance_uses(schema, instances, unused):
    found = schema_coverage(schema, instances)
    assert {(entry.where, entry.what) for entry in found.unused()} == unused
    assert found.share == pytest.approx(1 - len(unused) / len(found.entries))


NEST = {"type": "integer"}
for _ in range(20):
    NEST = {"anyOf": [NEST, NEST]}


@pytest.mark.parametrize(("schema", "instances", "error", "told"), [
    ({"anyOf": [{"$ref": "#"}, {"type": "integer"}]}, [1], c.SchemaError, "cannot say what holds"),
    (NEST, [1], c.LimitExceeded, "too much work"),
    ({"enum": list(range(100_000))}, list(range(1_000)), c.LimitExceeded, "too much work"), ({}, 5, c.ConstrainedError, "no instances"),
    ({"allOf": [{"$ref": "#/a"}], "a": {"allOf": [{"$ref": "#/a"}, {"$ref": "#/a"}]}}, [1], c.SchemaError, "cannot say what holds"),
])  # fmt: skip
def test_schemas_that_cost_too_much_are_limits(schema, instances, error, told):
    with pytest.raises(error, match=told):
        schema_coverage(schema, instances)


@pytest.mark.parametrize("schema", [
    {"anyOf": 5}, {"required": 5, "properties": {"a": {}}}, {"properties": [1]}, {"enum": {"a": 1}}, {"prefixItems": 7},
])  # fmt: skip
def test_keywords_of_a_wrong_type_have_no_branches(schema):
    assert all(entry.where == "#/properties/a" for entry in schema_coverage(schema, []).entries)


def test_instances_that_are_not_valid_use_nothing():
    schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a", "b"]}
    found = schema_coverage(schema, [{"a": 1}, {"a": 2, "b": 0}])
    assert (found.texts, found.rejected) == (2, 1)
    assert {entry.what for entry in found.entries if entry.used} == {"given", "enum 1: 2"}


@pytest.mark.parametrize("name", ["hermes", "qwen3.5", "pythonic", "mistral-v11"])
def test_branches_of_tools_that_no_call_in_a_turn_uses(name):
    """In each spelling of calls: two calls of one tool, one turn that fits no schema, and a tool that nobody calls."""
    chat = c.ChatFormat.load(name)
    turns = [
        chat.write_call("get_weather", {"city": "Oslo", "unit": "celsius"}, TOOLS),
        chat.write_call("get_weather", {"city": "Rome", "unit": "celsius", "days": 2}, TOOLS),
    ]
    found = call_coverage(chat, [*turns, turns[0].replace("celsius", "kelvin")], TOOLS)
    assert (found.texts, found.rejected) == (3, 1)
    weather = {(entry.where, entry.what) for entry in found.unused() if "get_weather" in entry.where}
    assert weather == {("tool get_weather #/properties/unit", "enum 1: 'fahrenheit'")}
    assert used(found)["tool get_weather #/properties/days", "given"] == 1
    called = {entry.where.split()[1] for entry in found.entries if entry.used}
    assert called == {"get_weather"} < {entry.where.split()[1] for entry in found.entries}


def test_nothing_to_cover_is_no_share():
    assert schema_coverage({"type": "string"}, ["a"]).table() == "no alternatives, 1 texts, 0 rejected"


def test_helper_rules_are_shown_as_they_were_written():
    grammar = c.Grammar.from_lark('start: ("a" | "b" "c"?)* x?\nx: "x" [_start_x]\n_start_x: "y" | "z"')
    entries = rule_coverage(grammar, ["abcx"]).entries
    assert {entry.where for entry in entries} == {"rule start", "rule x", "rule _start_x"}
    assert {entry.what for entry in entries if entry.where == "rule start"} == {
        "(nothing)", "… 'a'", "… 'b' ('c')?", "'c'", "x",
    }  # fmt: skip


@pytest.mark.parametrize(("grammar", "texts", "vocabulary"), [
    (5, ["a"], None), (LIST, 5, None), (LIST, "a", None), (LIST, [None], None), (LIST, ["\ud800"], None), (LIST, ["a"], 5),
])  # fmt: skip
def test_wrong_arguments_are_errors_of_the_tree(grammar, texts, vocabulary):
    with pytest.raises(c.ConstrainedError):
        rule_coverage(grammar, texts, vocabulary)


def test_alternatives_are_left_out_by_halves(monkeypatch):
    made = []
    monkeypatch.setattr(module, "compile_grammar", lambda *given: made.append(given) or c.compile(*given))
    grammar = c.Grammar.from_lark("start: r+\nr: " + " | ".join(f'"a{at}x"' for at in range(200)))
    found = rule_coverage(grammar, ["a1x", "a2xa9x", "a9xa9x"])
    assert {entry.what: entry.used for entry in found.entries if entry.used and entry.where == "rule r"} == {
        "'a1x'": 1, "'a2x'": 1, "'a9x'": 2,
    }  # fmt: skip
    assert len(made) < 60


def test_alternatives_that_many_texts_need_are_a_limit():
    grammar = c.Grammar.from_lark("start: r+\nr: " + " | ".join(f'"a{at}x"' for at in range(400)))
    with pytest.raises(c.LimitExceeded, match="alternatives of a grammar"), metered(Budget(100_000)):
        rule_coverage(grammar, [f"a{at}x" for at in range(400)])
