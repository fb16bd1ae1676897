"""Exported grammars give the verdicts of the original in the engines they are for."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import pytest
from constrained.export.engines import export

import constrained as c
from benchmarks import exports

OBJECT = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "string", "maxLength": 3}},
    "required": ["a"],
}
GRAMMARS = {
    "a schema": (
        c.Grammar.from_json_schema(OBJECT, profile="practical"),
        ['{"a": 1}', '{"a": 1, "b": "é\\n"}', '{"a": 1, "b": "abcd"}', '{"a": 01}', '{"a": 1'],
    ),
    "both ends": (c.Grammar.from_lark('start: "a" start "b" |'), ["", "ab", "aabb", "aab", "b"]),
    "left recursion": (c.Grammar.from_lark('start: start "a" | "b"'), ["b", "baa", "a"]),
    "left recursion by way of another": (c.Grammar.from_lark('start: x "a" | "b"\nx: start'), ["b", "baa", "a"]),
    "no longest match": (c.Grammar.from_lark('start: A "a"\nA: /a*/'), ["a", "aaa", "", "b"]),
    "looking around": (
        c.Grammar.from_regex(r"(?i)é+|[^a-z]{2,3}(?!x)."),
        ["É", "éÉ", "..1", "ab", "...x", "....", "\U0001f600\n1"],
    ),
    "digits of any script": (c.Grammar.from_regex(r"\\d\\w"), ["1a", "٣é", "a1"]),
    "signs": (c.Grammar.choice(['"::=\\\\', "]-^", "\t\x01"]), ['"::=\\\\', "]-^", "\t\x01", "-"]),
    "sums": (
        c.Grammar.choice(["x"]) + c.Grammar.text(until="</t>").repeat(0, 2),
        ["x", "xab</t>", "xab</t></t>", "xab"],
    ),
}


def test_classes_of_characters_before_hexadecimal_digits():
    """XGrammar takes all hexadecimal digits behind a backslash and an x."""
    load = exports.xgrammar()
    if load is None:
        pytest.skip("the engine is not installed")
    verdicts = load(export(c.Grammar.from_regex("[_a-f!0-9]+"), "xgrammar"))
    assert [text for text in ("_", "a", "f", "!", "7", "g", "A", "`") if verdicts(text)] == ["_", "a", "f", "!", "7"]


TAGGED = {
    "tags": ('start: "<a>" /[xy]+/ "</a>" | "[T]" "b"?', ["[T]"]),
    "repeats": ('start: one+ "[END]"\none: "[T]" /[xy]{1,3}/ | "q"', ["[T]", "[END]"]),
    "recursion without tokens": ('start: "[T]" both\nboth: "a" both "b" |', ["[T]"]),
    "at either end": ('start: left right\nleft: left "[T]" /[xy]/ | "z"\nright: "[T]" right | "[T]" "z"', ["[T]"]),
    "nothing but a token": ('start: "[T]"', ["[T]"]),
    "an end that is optional": ('start: "a" "[T]" | "[T]"* "b"', ["[T]"]),
}


@pytest.mark.parametrize("name", TAGGED)
def test_structural_tags_of_rules(name):
    text, specials = TAGGED[name]
    said, wrong = exports.tags_agree(c.Grammar.from_lark(text, specials=specials), 30, random.Random(1))
    assert not wrong, said


@pytest.mark.parametrize("name", ["hermes", "llama-3.1", "mistral-v11", "openchatml", "pythonic"])
def test_structural_tags_of_formats(name):
    grammar = c.ChatFormat.load(name).grammar(exports.TOOLS)
    said, wrong = exports.tags_agree(grammar, 12, random.Random(1))
    assert not wrong, said
    tag = export(grammar, "xgrammar-tags")
    assert export(grammar, "xgrammar-tags") == tag, "whatever has been computed before"
    assert not grammar.stops & {made["token"] for made in _formats(json.loads(tag)) if made.get("type") == "token"}
    assert any("server, which has to stop at" in note for note in tag.notes)


def _formats(tag):
    if isinstance(tag, dict):
        yield tag
    for part in tag.values() if isinstance(tag, dict) else tag if isinstance(tag, list) else ():
        yield from _formats(part)


def test_the_form_of_a_structural_tag():
    grammar = c.Grammar.from_lark('start: ("<call>" %json {"type": "null"} "</call>")* "[END]"?', specials=["[END]"])
    tag = json.loads(export(grammar, "xgrammar-tags"))
    star, end = tag["format"]["elements"]
    assert tag["type"] == "structural_tag" and star["type"] == "star"
    assert (star["content"]["type"], star["content"]["begin"], star["content"]["end"]) == ("tag", "<call>", "</call>")
    assert end == {"type": "optional", "content": {"type": "token", "token": "[END]"}}


def test_recursion_around_tokens_is_no_structural_tag():
    with pytest.raises(c.GrammarError, match="repeats in the middle"):
        export(c.Grammar.from_lark('start: "a" start "[T]" |', specials=["[T]"]), "xgrammar-tags")
    twice = "\n".join(f'r{at}: "[T]" r{at + 1} "," r{at + 1}' for at in range(40))
    with pytest.raises(c.LimitExceeded):
        export(c.Grammar.from_lark(f'start: r0\n{twice}\nr40: "a"', specials=["[T]"]), "xgrammar-tags")


@pytest.mark.parametrize("target", exports.ENGINES)
@pytest.mark.parametrize("name", GRAMMARS)
def test_verdicts(name, target):
    grammar, texts = GRAMMARS[name]
    engine = exports.ENGINES[target]()
    if engine is None:
        pytest.skip("the engine is not installed")
    if (name, target) == ("left recursion by way of another", "gbnf"):
        with pytest.raises(c.GrammarError, match="begin with itself"):
            export(grammar, target)
        return
    verdicts = engine(export(grammar, target))
    assert [verdicts(text) for text in texts] == [exports.accepts(grammar, text) for text in texts]


def test_what_a_target_cannot_say():
    with pytest.raises(c.GrammarError, match="unknown target"):
        export(c.Grammar.from_regex("a"), "guidance")
    special = c.Grammar.from_lark('start: "a" "[EOS]"', specials=["[EOS]"])
    with pytest.raises(c.GrammarError, match="angle brackets"):
        export(special, "llguidance")
    assert export(special, "xgrammar").notes
    assert (
        "<|eom_id|>" in export(c.ChatFormat.load("llama3.1-json").grammar(tool_choice="required"), "llguidance").split()
    )


@pytest.mark.parametrize("given", [None, 5, "a", c.compile(c.Grammar.from_regex("a"), c.Vocabulary([b"a"]))])
def test_what_is_no_grammar(given):
    with pytest.raises(c.GrammarError, match="not a grammar"):
        export(given, "gbnf")


def test_the_command():
    shown = subprocess.run(
        [sys.executable, "-m", "constrained", "show", "--regex", "ab", "--to", "gbnf"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.startswith("root ::= start\n")
