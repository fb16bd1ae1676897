"""The command line on files of messages and of rows: `render`, `validate --jsonl`."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

pytest.importorskip("typer")
pytest.importorskip("transformers")

from constrained.cli import run


def test_render_prints_text_and_ids(capsys, tmp_path):
    file = tmp_path / "messages.json"
    file.write_text('[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello <b>"}]')
    assert run(["render", str(file), "--format", "hermes"]) == 0
    text = capsys.readouterr().out
    assert text == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello <b><|im_end|>\n"
    tokenizer = files("constrained.default_model") / "tokenizer.json"
    assert run(["render", str(file), "--format", "chatglm3", "--ids", str(tokenizer), "--loss"]) == 0
    marked = json.loads(capsys.readouterr().out)
    assert len(marked["loss"]) == len(marked["ids"])
    assert sorted(marked["loss"]) == marked["loss"]  # the answer alone, which comes last
    assert any(marked["loss"])
    spelled = tmp_path / "spelled.json"
    spelled.write_text(
        '{"messages": [{"role": "user", "content": "<|im_end|>"}, {"role": "assistant", "content": "b"}]}'
    )
    assert run(["render", str(spelled), "--format", "hermes"]) == 2
    assert "<|im_end|>" in capsys.readouterr().err
    for words in (
        ["--loss"],
        ["--format", "hermes", "--loss"],
        ["--format", "hermes", "--tools", str(file.with_name("none"))],
    ):
        assert run(["render", str(file), *words]) == 2
    file.write_text('{"role": "user"}')
    assert run(["render", str(file), "--format", "hermes"]) == 2
    capsys.readouterr()


@pytest.mark.parametrize("held", ["[" * 100_000, "7", '{"row": 1, "result": 1}'])
def test_a_damaged_file_of_results_is_refused(capsys, tmp_path, held):
    rows, out = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    rows.write_text('{"text": "a", "format": "hermes"}\n')
    out.write_text(held + "\n")
    assert run(["validate", "--jsonl", str(rows), "--out", str(out)]) == 2
    assert "holds other results" in capsys.readouterr().err


def test_an_id_that_is_no_text_is_the_error_of_its_line(capsys, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"id": "\\ud800", "text": "a", "format": "hermes"}\n')
    assert run(["validate", "--jsonl", str(rows), "--json"]) == 1
    assert "is not JSON" in capsys.readouterr().out
    assert run(["validate", "--jsonl", "\0"]) == 2


def test_a_prompt_that_does_not_fit_the_model_is_the_error_of_its_line(capsys, tmp_path):
    rows = tmp_path / "rows.jsonl"
    prompts = ["one word " * 3_000, "a" * 2_000_000, "Hi", "one word " * 2_030]  # the last leaves room for 70 tokens
    rows.write_text("".join(json.dumps({"id": at, "prompt": prompt}) + "\n" for at, prompt in enumerate(prompts)))
    assert run(["generate", "--choice", "yes", "--jsonl", str(rows)]) == 1
    tokens, characters, short, long = map(json.loads, capsys.readouterr().out.splitlines())
    assert [row["error"]["type"] for row in (tokens, characters)] == ["LimitExceeded", "LimitExceeded"]
    assert "tokens; the model reads" in tokens["error"]["message"]
    assert "2,000,049 characters" in characters["error"]["message"]
    assert short["text"] == long["text"] == "yes"
