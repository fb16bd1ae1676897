"""`constrained convert`, `lint`, `compare`, `coverage` and `spec`, on files in an empty folder, as a new user has them."""

from __future__ import annotations

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
