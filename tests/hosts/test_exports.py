"""Exported grammars give the verdicts of the original in the engines they are for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import constrained as c
from benchmarks import exports
from constrained.integrations.exports import export

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


@pytest.mark.parametrize("target", exports.ENGINES)
@pytest.mark.parametrize("name", GRAMMARS)
def test_verdicts(name, target):
    grammar, texts = GRAMMARS[name]
    engine = exports.ENGINES[target]()
    if engine is None:
        pytest.skip("the engine is not installed")
    if (name, target) == ("left recursion", "gbnf"):
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


def test_the_command():
    shown = subprocess.run(
        [sys.executable, "-m", "constrained", "show", "--regex", "ab", "--to", "gbnf"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.startswith("root ::= start\n")
