"""`constrained convert`, `lint`, `compare`, `coverage` and `spec`, on files in an empty folder, as a new user has them."""

from __future__ import annotations

import json
import random
from functools import cache
from itertools import product

import pytest

pytest.importorskip("typer")

from constrained.cli import run
from constrained.research.lint import CHECKS, lint
from constrained.research.places import Source

import constrained as c
from constrained.grammar import Grammar
from constrained.grammar.lark import shipped_folder

LIST = 'root ::= "[" (item ("," item)*)? "]"\nitem ::= [0-9]{1,3} | "x"\n'
JSON = r"""
root   ::= ws value ws
value  ::= ws (object | array | string | number) ws
object ::= "{" ws (string ws ":" ws value ws ("," ws string ws ":" ws value ws)*)? "}"
array  ::= "[" ws (value ws ("," ws value ws)*)? "]"
string ::= "\"" ([^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}))* "\""
number ::= "-"? ([0-9] | [1-9] [0-9]+) ("." [0-9]+)? ([eE] [-+]? [0-9]+)?
ws ::= [ \t\n\r]*
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_convert(folder, capsys):
    (folder / "list.gbnf").write_text(LIST)
    assert run(["convert", "list.gbnf"]) == 0
    assert capsys.readouterr().out == (
        'start: root\nroot: "[" (item ("," item)*)? "]"\nitem: /[0-9]/~1..3\n  | "x"\n'
    )
    assert run(["convert", "list.gbnf", "--to", "llguidance", "-o", "list.txt"]) == 0
    assert run(["convert", "list.txt"]) == 2
    assert "in which notation is list.txt?" in capsys.readouterr().err
    assert run(["convert", "list.txt", "--from", "llguidance", "-o", "list.lark"]) == 0
    Grammar.from_lark_file("list.lark")
    assert run(["convert", "list.lark", "--to", "gbnf"]) == 0
    assert Grammar.from_gbnf(capsys.readouterr().out).nullable is False
    (folder / "wrong.abnf").write_text("r = 2DIGIT\n  / lettre\n")
    assert run(["convert", "wrong.abnf"]) == 2
    assert "at wrong.abnf line 2 column 5" in capsys.readouterr().err
    (folder / "blanks.txt").write_text('start: "a" "b"\n%ignore " "')
    assert run(["convert", "blanks.txt", "--from", "llguidance"]) == 0
    assert "note: wider at %ignore" in capsys.readouterr().err


SPECIFICATION = """grammar = "when.abnf"
document = "protocol.md"
valid = ["when"]
invalid = ["when wrong"]
each_line = true

[[example]]
text = "2024-12"
reading = { year = ["2024"], the-month = ["12"] }

[[example]]
text = \'\'\'
2024/12\'\'\'
valid = false
"""
OUTCOMES = [  # of the examples above: where the text stands or is refused, what is found, whether that is said
    ("when.toml line 7", "valid, and read as it says", True),
    ("when.toml line 13 column 5", "refused", True),
    ("protocol.md line 4", "valid", True),
    ("protocol.md line 5 column 8", "refused", False),
    ("protocol.md line 9 column 1", "refused", True),
]


def test_examples_of_ones_own(folder, capsys):
    (folder / "when.abnf").write_text('when = year "-" the-month\nyear = 4DIGIT\nthe-month = 2DIGIT\n')
    (folder / "protocol.md").write_text("# When\n\n```when\n2024-12\n2024-123\n```\n\n~~~when wrong\nx\n~~~\n")
    (folder / "when.toml").write_text(SPECIFICATION)
    assert run(["spec", "when.toml", "--json"]) == 1
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["place"], row["found"], row["holds"]) for row in rows] == OUTCOMES
    assert run(["spec", "when.toml"]) == 1
    shown = capsys.readouterr().out
    assert "stops at protocol.md line 5 column 8: no word goes on with '3'" in shown
    assert shown.splitlines()[-1] == "5 examples, 1 of them not as they say"


@pytest.mark.parametrize(("change", "said"), [
    (("each_line", "each_lines"), "unknown key 'each_lines' at when.toml"),
    (("valid = false", "valid = 0"), "valid is 0 at when.toml line 11"),
    (("valid = false", "strict = true"), "strict is said of chat formats at when.toml line 11"),
    (('["when"]', '["then"]'), "protocol.md has no code block 'then'"),
    (('grammar = "when.abnf"', ""), "of which grammar?"),
    (("the-month", "a-month"), "no rule 'a_month'"),
])  # fmt: skip
def test_a_file_of_examples_with_a_mistake(folder, capsys, change, said):
    (folder / "when.abnf").write_text('when = year "-" the-month\nyear = 4DIGIT\nthe-month = 2DIGIT\n')
    (folder / "protocol.md").write_text("```when\n2024-12\n```\n~~~when wrong\nx\n~~~\n")
    (folder / "when.toml").write_text(SPECIFICATION.replace(*change))
    assert run(["spec", "when.toml"]) == 2
    assert said in capsys.readouterr().err


def test_examples_of_a_format(folder, capsys):
    (folder / "turns.toml").write_text(
        'format = "hermes"\n[[example]]\ntext = "Hi<|im_end|>"\nstrict = true\nreading = { content = "Hi" }\n'
        '[[example]]\ntext = "Hi"\nstrict = false\n[[example]]\ntext = "Hi<|im_end|>"\nstrict = false\n'
    )
    assert run(["spec", "turns.toml"]) == 1
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[:3]] == ["ok", "ok", "WRONG"]


def test_rows_that_say_that_they_are_wrong(folder, capsys):
    row = {"format": "hermes", "kind": "assistant_turn", "text": "Hi<|im_end|>"}
    rows = [row, {**row, "text": "<|im_end|><|im_end|>", "valid": False}]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run(["validate", "--jsonl", "rows.jsonl"]) == 0
    assert capsys.readouterr().out == "1 of 2 texts are valid, 2 are as they say\n"
    (folder / "rows.jsonl").write_text(json.dumps({**row, "valid": False}))
    assert run(["validate", "--jsonl", "rows.jsonl"]) == 1
    assert "said not to be" in capsys.readouterr().out


# a grammar with one of each fault: check, line and column, a part of what is said
FAULTY = """start: a | b+ c? (d e?)*   // | a comment
a: "x" | "y" | "x"
b: WORD | "abc"
c: ("p"?)*
d: "q" "q" | "qq"
e: "r" e2
e2: /s/
lonely: "z" WORD
WORD: /[a-c]+/
UNUSED: "u"
SPACE: " "
%ignore SPACE
"""
FAULTS = [
    ("unreachable", "line 8 column 1", "rule 'lonely' is not reached from start"),
    ("unused", "line 10 column 1", "terminal UNUSED is never used"),
    ("shadowed", "line 2 column 16", "'a' has this alternative twice: \"x\""),
    ("shadowed", "line 3 column 11", "an alternative of 'b' adds nothing to the others, for instance 'abc'"),
    ("shadowed", "line 5 column 14", "for instance 'qq'"),
    ("loop", "line 4 column 1", "'c' may go round without reading anything"),
    ("ambiguous", "line 1 column 1", "'start' derives 'abc' in two ways"),
    ("ambiguous", "line 5 column 1", "'d' derives 'qq' in two ways"),
]


def test_lint(folder, capsys):
    (folder / "faulty.lark").write_text(FAULTY)
    assert run(["lint", "faulty.lark", "--json"]) == 1
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["check"], row["place"]) for row in rows] == [(check, f"faulty.lark {at}") for check, at, _ in FAULTS]
    assert [part for (_, _, part), row in zip(FAULTS, rows, strict=True) if part not in row["what"]] == []
    assert run(["lint", "faulty.lark", "--check", "loop"]) == 1
    assert capsys.readouterr().out.startswith("faulty.lark line 4 column 1: 'c' may go round")
    assert run(["lint", "faulty.lark", "--check", "loops"]) == 2
    capsys.readouterr()
    (folder / "list.gbnf").write_text(LIST + "more ::= item\n  | item\n")
    assert run(["lint", "list.gbnf"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "list.gbnf line 3 column 1: rule 'more' is not reached from root (unreachable)",
        "list.gbnf line 4 column 5: 'more' has this alternative twice: item (shadowed)",
    ]


def test_what_a_tokenizer_cannot_spell(folder):
    (folder / "signs.lark").write_text('start: "ab" | "é" x "<end>" "<none>"\nx: /[é]+|[ß]/ | /[aé]/\n')
    source = Source.of_file("signs.lark", specials=["<end>", "<none>"])
    letters = c.Vocabulary([b"a", b"ab", None], special={"<end>": 2}, stop=[], size=3)
    found = [finding.what for finding in lint(source, letters, ["unspellable"]).findings]
    said = ["the text 'é'", "the special token '<none>'", "the pattern /[é]+|[ß]/"]
    assert found == [f"{what} has no tokens in this tokenizer" for what in said]


@pytest.mark.parametrize(("name", "known"), [
    ("hermes", []), ("llama3.1-json", []), ("mistral-v11", []),
    ("chatglm3", ["shadowed"]),  # a text that begins with a space has a spelling of its own, which the other covers
])  # fmt: skip
def test_shipped_grammars_have_no_findings(name, known):
    assert [finding.check for finding in lint(Source.of_format(name), checks=CHECKS[:4]).findings] == known


@pytest.mark.parametrize("part", ["json", "code", "python", "llama"])
def test_shipped_parts_have_no_findings(part, capsys):
    assert run(["lint", str(shipped_folder() / f"{part}.lark")]) == 0
    assert "--start RULE: a whole" in capsys.readouterr().err


@pytest.mark.parametrize(("rules", "ambiguous"), [
    ('start: "a" start "b" |', None), ('start: start start | "a"', "aaa"), ('start: x y\nx: "a"?\ny: "a"?', "a"),
    ('start: x "c"\nx: "ab" | "a" "b"', "ab"), ('start: ("a" | "b")*', None), ('start: "a"~2..9', None),
    ('start: /a+/ /b*/', None), ('start: /a+/+', "aa"), ('start: x x\nx: "if" x | "if" x "else" x | "a"', "ififaelsea"),
])  # fmt: skip
def test_ambiguity_has_a_witness_that_is_derived_twice(folder, rules, ambiguous):
    (folder / "rules.lark").write_text(rules)
    found = lint(Source.of_file("rules.lark"), checks=["ambiguous"]).findings
    assert [finding.what.split("derives ")[1] for finding in found] == ([f"{ambiguous!r} in two ways"] if ambiguous else [])


def test_compare(folder, capsys):
    (folder / "when.abnf").write_text('when = 4DIGIT "-" 2DIGIT ["T" 2DIGIT]\n')
    (folder / "when.gbnf").write_text('root ::= d{4,5} "-" d d ("T" d d)?\nd ::= [0-9]\n')
    assert run(["compare", "when.abnf", "when.gbnf"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "only when.abnf takes '0000-00t00'", "only when.gbnf takes '00000-00'", "not equal"
    ]  # fmt: skip
    (folder / "one.lark").write_text('start: "[" start* "]"')
    (folder / "two.lark").write_text('start: "[" x "]"\nx: | x start')
    assert run(["compare", "one.lark", "two.lark"]) == 0
    assert capsys.readouterr().out == "equal\n"
    (folder / "two.lark").write_text('start: "[" start* "]" | "[[[["')
    assert run(["compare", "one.lark", "two.lark", "--up-to", "3"]) == 0
    assert capsys.readouterr().out == "equal, as far as texts of 3 bytes\n"
    assert run(["compare", "one.lark", "two.lark", "--json"]) == 1
    assert [row["text"] for row in json.loads(capsys.readouterr().out)["differences"]] == [None, "[[[["]


def test_coverage(folder, capsys):
    (folder / "list.gbnf").write_text(LIST)
    (folder / "texts.txt").write_text("[1]\n[]\n[x\n")
    assert run(["coverage", "list.gbnf", "texts.txt", "--lines", "--html", "page.html"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "58% of 12 alternatives, 3 texts, 1 rejected"
    assert lines[1] == "     0  rule root: … ',' item  (list.gbnf line 1 column 1)"
    assert "     0  rule item: 'x'  (list.gbnf line 2 column 23)" in lines
    assert "<td>list.gbnf line 2 column 23" in (folder / "page.html").read_text()
    rows = [{"text": "[1,x]"}, {"text": "[11]"}, {"text": "no", "valid": False}, {"text": "[]"}, {"text": "[111]"}]
    (folder / "more.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run(["coverage", "list.gbnf", "more.jsonl"]) == 0
    capsys.readouterr()
    (folder / "wrong.jsonl").write_text('{"text": "[1]"}\n{"text": 5}\n')
    assert run(["coverage", "list.gbnf", "wrong.jsonl"]) == 2
    assert capsys.readouterr().err.splitlines()[:2] == ["wrong.jsonl holds no text at line 2", '  instead: {"text": "…"}']
    (folder / "schema.json").write_text('{"properties": {\n  "unit": {"enum": ["C",\n "F"]}}}')
    (folder / "values.jsonl").write_text('{"unit": "C"}\n{}\n')
    assert run(["coverage", "schema.json", "values.jsonl"]) == 1
    assert "0  #/properties/unit: enum 1: 'F'  (schema.json line 2)" in capsys.readouterr().out
    assert run(["lint", "schema.json"]) == 2
    capsys.readouterr()
    assert run(["coverage", "hermes", "texts.txt", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["entries"][0]["place"].endswith("hermes.lark line 13 column 17")
    unit = {"type": "object", "properties": {"unit": {"enum": ["C", "F"]}}, "required": ["unit"]}
    (folder / "tools.json").write_text(json.dumps([{"name": "warm", "parameters": unit}]))
    call = '<tool_call>\n{"name": "warm", "arguments": {"unit": "C"}}\n</tool_call><|im_end|>'
    (folder / "calls.jsonl").write_text(json.dumps({"text": call}))
    assert run(["coverage", "hermes", "calls.jsonl", "--tools", "tools.json"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "     0  tool warm #/properties/unit: enum 1: 'F'" in lines
    assert "     1  tool warm #/properties/unit: enum 0: 'C'" in lines


def test_ambiguity_is_what_counting_derivations_finds(folder):
    """Rules that begin with a letter or use later ones only, so that derivations can be counted by going through a text."""
    picks = random.Random(7)
    names = ["start", "x", "y"]
    for _ in range(60):
        rules = {name: [[picks.choice(["a", "b", *names[at + 1 :]]), *(picks.choice(["a", "b", *names]) for _ in range(picks.randrange(3)))]
                        for _ in range(picks.randint(1, 3))] for at, name in enumerate(names)}  # fmt: skip
        rules = {name: [parts for at, parts in enumerate(found) if parts not in found[:at]] for name, found in rules.items()}
        shown = {name: " | ".join(" ".join(f'"{part}"' if part in "ab" else part for part in parts) for parts in found) for name, found in rules.items()}
        (folder / "rules.lark").write_text("".join(f"{name}: {found}\n" for name, found in shown.items()))

        def ways(parts, text, rules=rules):
            if not parts:
                return text == ""
            if parts[0] in "ab":
                return ways(parts[1:], text[1:]) if text[:1] == parts[0] else 0
            splits = range(1, len(text) - len(parts) + 2)
            return sum(ways(parts[1:], text[cut:]) * count for cut in splits if (count := rule_ways(parts[0], text[:cut])))

        @cache
        def rule_ways(name, text, rules=rules):
            return sum(ways(parts, text) for parts in rules[name])

        try:
            found = lint(Source.of_file("rules.lark"), checks=["ambiguous"])
        except c.GrammarError:  # no rule ends
            continue
        told = {finding.what.split("'")[1]: finding.what.split("'")[3] for finding in found.findings}
        assert all(rule_ways(name, text) > 1 for name, text in told.items()), (shown, told)
        words = ["".join(word) for size in range(1, 5) for word in product("ab", repeat=size)]
        twice = [(name, word) for name in rules for word in words if rule_ways(name, word) > 1]
        assert bool(told) >= bool(twice), (shown, twice[:3])


def test_what_the_work_does_not_reach_is_drawn(folder, capsys):
    (folder / "json.gbnf").write_text(JSON)
    (folder / "other.gbnf").write_text(JSON.replace("number)", 'number | "not a JSON value at all")'))
    assert run(["compare", "json.gbnf", "other.gbnf"]) == 1
    first, last = capsys.readouterr().out.splitlines()
    assert last == "not equal"
    assert first == "only other.gbnf takes 'not a JSON value at all', which may not be the shortest"


def test_a_difference_inside_recursive_grammars_is_found(folder, capsys):
    (folder / "json.gbnf").write_text(JSON)
    (folder / "other.gbnf").write_text(JSON.replace("[-+]?", "[-]?"))
    assert run(["compare", "json.gbnf", "other.gbnf"]) == 1
    assert capsys.readouterr().out.splitlines()[0] == "only json.gbnf takes '0E+0'"
