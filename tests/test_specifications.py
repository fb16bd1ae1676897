"""The examples of the formats' specifications: the table of grammars/README.md is what the grammars say of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from constrained.cli import run
from constrained.research.specifications import ACCEPTED, CANONICAL, REFUSED, examples, found_of, table

from constrained import ChatFormat, ConstrainedError

README = Path(__file__).parent.parent / "grammars" / "README.md"


def test_the_table_is_what_is_found():
    text = README.read_text(encoding="utf-8")
    assert table() in text, "grammars/README.md: write constrained.research.specifications.table() there"


def test_each_deviation_has_its_reason():
    for example in examples():
        found = found_of(example)
        assert (found.form == CANONICAL) == (example.because is None), example
        assert (found.form == CANONICAL) == (found.error is None), example


def test_what_is_repaired_is_read():
    for example in examples():
        if example.repaired:
            assert found_of(example).form == ACCEPTED, example


@pytest.mark.parametrize(
    ("name", "form"), [("chatglm3", REFUSED), ("openchatml", CANONICAL), ("llama3.1-json", ACCEPTED)]
)
def test_spec_prints_examples(capsys, name, form):
    assert run(["spec", name, "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["format"] for row in rows} == {name}
    assert form in {row["form"] for row in rows}
    assert run(["spec", name]) == 0
    shown = capsys.readouterr().out
    assert rows[0]["document"] in shown
    assert f"lines {rows[0]['lines']}" in shown


def test_a_format_without_examples_is_told():
    with pytest.raises(ConstrainedError, match="prints examples"):
        examples("gemma-4")
    assert run(["spec", "no such format"]) == 2


GRAMMARS = [path for path in sorted(README.parent.glob("*.lark")) if path.with_suffix(".toml").exists()]


@pytest.mark.parametrize("path", GRAMMARS, ids=lambda path: path.stem)
def test_a_grammar_opens_with_its_source_and_a_sample_that_it_reads(path):
    """Samples are a transcript, a turn, or one turn a line; where "⏎" stands for line breaks, others are none."""
    head = re.match("(//.*\n)+?(?=//? --|[^/]|\n)", path.read_text("utf-8"))[0]
    lines = re.findall("(?m)^// (?:  )+ ?(?! )(.*)", head)
    assert "Source: " in head
    whole = "".join(lines).replace("⏎", "\n") if "⏎" in head else "\n".join(lines)
    chat = ChatFormat.load(path.stem)
    assert _is_read(chat, whole) or all(_is_read(chat, re.sub(r"\s{2,}v\d+$", "", line)) for line in lines), whole


def _is_read(chat, text):
    openings = ("", "<|im_start|>assistant\n", "<|start_header_id|>assistant<|end_header_id|>\n\n")
    for kind, opening in [("conversation", ""), *(("assistant_turn", opening) for opening in openings)]:
        try:
            chat.parse(text.removeprefix(opening), kind=kind, stop_optional=True)
        except ConstrainedError:
            continue
        return bool(text)
    return False
