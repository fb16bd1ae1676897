"""Definitions of formats with a typo: an error with file and key, never another language."""

from __future__ import annotations

import shutil

import pytest

from constrained import ChatFormat, GrammarError

FOLDER = ChatFormat.load("hermes").definition.grammar.parent

WRONG = [  # what is written into the file, what the message says
    ('[stops]\nanswr = ["<|im_end|>"]', "stops.answr"), ('[stops]\nanswer = ["<|end|>"]', "stops.answer"),
    ('specials = ["<|im_start|>"]', "'<|im_end|>' is not among its specials"), ('[calls]\nrepeat = "more_calls"\nnext = "nxt"', "calls.next"),
    ('[calls]\nrepeat = "more"\nnext = "next_call"', "calls.repeat"), ('[calls]\nnext = "next_call"', "the key 'repeat' is missing"),
    ('[thoughts]\nreason = "thougt"', "thoughts.reason"), ('[builtins]\nx = { rule = "nope", arguments = {} }', "builtins.x.rule"),
    ('[builtins]\nx = { rule = "content", arguments = { q = "query" } }', "builtins.x.arguments.q"),
    ('[payload]\nsurface = "xml"\nname = "json"', "payload.surface is 'xml'"), ('[payload]\nsurface = "json"\nname = "plain"', "payload.name is 'plain'"),
    ('[variant]\nreplace = { content = "nope" }', "variant.replace"), ('[variant]\ndrop = ["nope"]', "variant.drop"),
    ('[options.o]\nabout = ""\ndefault = true\ntrue = {}\nfalse.drop = ["nope"]', "options.o.false.drop"),
    ('[reasoning]\nrule = "r"\nblock = "b"\nprompt = ""', "reasoning.rule"), ('stop = ["x"]', "unknown key 'stop'"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "says"), WRONG, ids=lambda part: part[:24])
def test_a_typo_is_an_error_with_file_and_key(lines, says, tmp_path):
    for name in ("hermes.lark", "hermes.toml"):
        shutil.copy(FOLDER / name, tmp_path)
    (tmp_path / "mine.toml").write_text(f'extends = "hermes"\ntitle = "mine"\ngrammar = "hermes.lark"\n{lines}\n')
    with pytest.raises(GrammarError) as caught:
        ChatFormat.load(tmp_path / "mine.toml")
    assert says in str(caught.value)
    assert "mine.toml" in str(caught.value)
