"""`constrained convert`, `lint`, `compare`, `coverage` and `spec`, on files in an empty folder, as a new user has them."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("typer")

from constrained.cli import run
from constrained.grammar import Grammar

LIST = 'root ::= "[" (item ("," item)*)? "]"\nitem ::= [0-9]{1,3} | "x"\n'


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
