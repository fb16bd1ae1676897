"""What a Lark text can reach: no file, no token that was not given; a file: its own folder and those named."""

from __future__ import annotations

import sys

import pytest
from oracles import Acceptor

from constrained.errors import ConstrainedError, GrammarError, LimitExceeded
from constrained.grammar import Grammar
from constrained.grammar.lark import shipped_folder


@pytest.fixture
def folders(tmp_path):
    for name in ("own/below", "other"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "own/below/part.lark").write_text('x: "below"\n')
    (tmp_path / "own/part.lark").write_text('x: "own"\n')
    (tmp_path / "other/far.lark").write_text('x: "far"\n')
    (tmp_path / "own/link.lark").symlink_to(tmp_path / "other/far.lark")
    return tmp_path


def _reads(folders, imported: str, **options: object) -> str | None:
    main = folders / "own/main.lark"
    main.write_text(f"start: x\n%import {imported}.x\n")
    grammar = Grammar.from_lark_file(main, **options)
    return next(word for word in ("own", "below", "far") if Acceptor(grammar.start_state()).accepts(word))


def test_a_file_imports_from_its_own_folder_and_from_those_named(folders):
    assert _reads(folders, ".part") == "own"
    assert _reads(folders, "part") == "own"
    assert _reads(folders, ".below.part") == "below"
    assert _reads(folders, "far", import_paths=[folders / "other"]) == "far"
    assert _reads(folders, ".link", import_paths=[str(folders / "other")]) == "far"


@pytest.mark.parametrize("imported", ["far", ".far", ".link", "..other.far", ".none"])
def test_other_files_are_not_read(folders, imported):
    with pytest.raises(GrammarError, match=r"cannot (import|read)"):
        _reads(folders, imported)


@pytest.mark.parametrize("imported", [".part", "part", ".below.part", "os", ".test_lark_sources"])
def test_a_text_opens_no_file(folders, monkeypatch, imported):
    """Neither in the working directory nor beside the program, where the library would look."""
    monkeypatch.chdir(folders / "own")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(folders / "own/main.py"), raising=False)
    with pytest.raises(
        GrammarError, match=r"cannot import '\w+' at line 2 column \d+\n  because: a text opens no files"
    ):
        Grammar.from_lark(f"start: x\n%import {imported}.x")


@pytest.mark.parametrize("text", ["part.lark", "below/part.lark", "/etc/passwd", "./part.lark"])
def test_a_path_is_no_text(folders, monkeypatch, text):
    monkeypatch.chdir(folders / "own")
    with pytest.raises(GrammarError, match="from_lark_file" if text.endswith(".lark") else "cannot read"):
        Grammar.from_lark(text)
    with pytest.raises(GrammarError, match="from_lark_file"):
        Grammar.from_lark(folders / "own/part.lark")


def test_the_library_is_part_of_the_program():
    for name in ("common.INT", "unicode.WS_INLINE", "python.DEC_NUMBER"):
        assert Grammar.from_lark(f"start: {name.split('.')[1]}\n%import {name}").rules


def test_a_literal_is_a_token_only_if_it_was_given():
    assert Grammar.from_lark('start: "<end>"').specials == frozenset()
    assert Grammar.from_lark('start: "<end>"', specials=["<end>", "<stop>"]).specials == {"<end>"}


def test_files_that_import_each_other_end(folders):
    (folders / "own/a.lark").write_text('%import .b.y\nx: "a" y?\n')
    (folders / "own/b.lark").write_text('%import .a.x\ny: "b" x?\n')
    with pytest.raises((LimitExceeded, GrammarError)):
        _reads(folders, ".a")


@pytest.mark.parametrize(
    "wrong", [{"specials": "abc"}, {"specials": 3}, {"specials": [3]}, {"specials": [""]}, {"declare": {"A": 1}}]
)
def test_wrong_gifts(wrong):
    with pytest.raises(GrammarError):
        Grammar.from_lark('start: "a"', **wrong)


@pytest.mark.parametrize("path", ["\0", "", 3, None, b"x", "/", "x" * 5000])
def test_wrong_paths(path):
    with pytest.raises(ConstrainedError) as caught:
        Grammar.from_lark_file(path)
    assert len(str(caught.value).encode()) < 2048


def test_a_file_may_import_what_comes_with_the_package_and_begins_with_its_first_rule(tmp_path):
    path = tmp_path / "mine.lark"
    path.write_text('call: NAME " " json_object\nNAME: /[a-z]+/\n%import json.json_object\n%import .code.SPACE_OR_LINE\n')
    grammar = Grammar.from_lark_file(path)
    assert grammar.start == "call"
    assert "json_object" in grammar.rules
    hermes = Grammar.from_lark_file(shipped_folder() / "hermes.lark", specials=["<|im_end|>"])
    assert (hermes.start, hermes.specials) == ("assistant_turn", {"<|im_end|>"})
    with pytest.raises(GrammarError, match="opens no files"):
        Grammar.from_lark("%import json.json_object\nstart: json_object")
