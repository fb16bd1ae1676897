"""The conformance laboratory: what readers depart in is found, shrunk and blamed on whoever is wrong."""

from __future__ import annotations

import json

import pytest
from constrained.cli import run
from constrained.conform import examine, laboratory, readers, report, verdicts

from constrained import ChatFormat
from constrained.formats import Message, ToolCall

OWN = """
import json, os, re, sys

def right(text):
    found = re.findall(r"<tool_call>\\n(.*?)\\n</tool_call>", text, re.DOTALL)
    return [(call["name"], call["arguments"]) for call in map(json.loads, found)]

def as_openai(text):
    calls = [{"function": {"name": name, "arguments": json.dumps(given)}} for name, given in right(text)]
    return {"tool_calls": calls, "content": text.partition("<tool_call>")[0].removesuffix("<|im_end|>")}

def strips(text):
    return [(name, {k: v.strip() if isinstance(v, str) else v for k, v in given.items()}) for name, given in right(text)]

def first(text):
    return right(text)[:1]

def fails(text):
    sys.exit("no reading")

def dies(text):
    os._exit(3)
"""


@pytest.fixture(autouse=True)
def _own(tmp_path, monkeypatch):
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)


FOUND = [  # a reader, the kinds of differences, the least text of the first
    ("right", [], ""), ("as_openai", [], ""),
    ("strips", ["a string is stripped"], 'f", "arguments": {"s": "'),
    ("first", ["a call is lost"], '{"name": "f", "arguments": {}}\n</tool_call>\n<tool_call>'),
]  # fmt: skip


@pytest.mark.parametrize(("reader", "kinds", "least"), FOUND)
def test_differences_are_found_and_shrunk(reader, kinds, least):
    outcome = examine("hermes", f"python:own:{reader}", examples=200)
    assert outcome.turns and outcome.calls and not outcome.unreadable
    assert [difference.kind for difference in outcome.differences] == kinds
    for difference in outcome.differences:
        assert least in difference.text
        assert len(difference.text) <= 200 and not difference.ours


def test_a_reader_that_raises_departs_and_one_that_dies_is_unreadable():
    kinds = [difference.kind for difference in examine("hermes", "python:own:fails", examples=30).differences]
    assert kinds == ["it raises SystemExit"]
    assert "the reader has stopped" in examine("hermes", "python:own:dies", examples=10).unreadable


def test_what_a_reader_cannot_do_is_said():
    for reader, said in (
        ("nobody", "no reader 'nobody'"),
        ("python:own:none", "cannot import"),
        ("mistral-common", "mistral-common"),
    ):
        assert said in examine("hermes", reader, examples=10).unreadable
    settings = readers.Settings("hermes", (), (), (), [])
    with pytest.raises(readers.Unreadable, match="pip install vllm"):
        readers.open_reader("vllm", settings)


def test_a_text_that_the_format_misreads_is_our_fault():
    chat, call = ChatFormat.load("hermes"), ToolCall("f", {"s": "a"})
    text = chat.write(Message("", [call]), laboratory.TOOLS)
    assert not verdicts.ours(chat, text, Message("", [call]), laboratory.TOOLS)
    other = Message("", [ToolCall("f", {"s": "b"})])
    assert "the strict reader: a string is another" in verdicts.ours(chat, text, other, laboratory.TOOLS)


STANDING = [  # a text, arguments that stand in it or do not
    ('{"a": 1.0, "b": "\\u0041"}', {"a": 1, "b": "A"}, True), ("[f(a=-1, b='(')]", {"a": -1, "b": "("}, True),
    ("<a>\nx y\n</a><b>0</b>", {"a": "x y", "b": 0}, True), ('{"a": true}', {"a": 1}, False), ("<a>12</a>", {"a": 1}, False),
    (r'<a>["\u003d<\/a>", {}]</a>', {"a": ["=</a>", {}]}, True),
]  # fmt: skip


@pytest.mark.parametrize(("text", "arguments", "stands"), STANDING)
def test_arguments_stand_in_a_text(text, arguments, stands):
    assert verdicts.stands_in(text, ToolCall("f", arguments)) is stands


def test_pieces_are_tokens_of_the_format():
    settings = readers.Settings("", ("<|end|>",), ("<tool>",), ("<|end|>",), [])
    assert [*readers.pieces_of("ab<tool>c<|end|>", (1, 2), settings)] == ["a", "b<tool>", "c", "<|end|>"]
    assert [*readers.pieces_of("ab", (), settings)] == ["ab"]


@pytest.mark.parametrize(("name", "opening"), [
    ("hermes", ""), ("qwen3", ""), ("qwen3-thinking-2507", "<think>\n"), ("deepseek-v3.1", "<think>"), ("deepseek-v3.2", "<think>"),
    ("gemma-4", ""),
])  # fmt: skip
def test_what_the_prompt_holds_of_a_turn_is_not_read(name, opening):
    """DeepSeek's callers say whether it thinks; Gemma and Qwen3 begin a thought themselves."""
    assert laboratory._opening(ChatFormat.load(name)) == opening
    settings = readers.Settings(name, (), (), ("<|end|>",), [], opening=opening)
    assert readers._generated(f"{opening}Hm</think>So<|end|>", settings) == "Hm</think>So"


def test_transformers_reads_texts_as_numbers_and_nothing():
    """Known: the template of its tests for Qwen3-Coder reads the word null, or digits, as other values."""
    pytest.importorskip("transformers.utils.chat_parsing")
    chat = ChatFormat.load("qwen3-coder")
    with laboratory.Host() as host:
        host.open("transformers", chat)
        for text, value in (("123", 123), ("null", None), (" a", "a")):
            turn = chat.write(Message("", [ToolCall("f", {"s": text})]), laboratory.TOOLS)
            assert host.read(turn, (), False).calls == [("f", {"s": value})]
            assert host.read(turn, (1, 7), False).calls == [("f", {"s": value})]


def test_llama_models_ends_objects_at_their_first_brace():
    pytest.importorskip("llama_models")
    outcome = examine("llama3.1-function", "llama-models", examples=60)
    assert any("{" in difference.says for difference in outcome.differences)


def test_the_command_prints_and_writes_what_it_finds(tmp_path, capsys):
    page = tmp_path / "page.md"
    asked = ["conform", "-f", "hermes", "-n", "150", "--markdown", str(page), "-r"]
    assert run([*asked, "python:own:right"]) == 0
    assert "0 differences" in page.read_text()
    assert run([*asked, "python:own:strips,python:own:right"]) == 1
    assert "a string is stripped" in capsys.readouterr().out
    written = page.read_text()
    assert "| `hermes` | 1 | agrees |" in written and "| `hermes` | a string is stripped | `<tool_call>⏎{" in written
    assert run([*asked, "nobody"]) == 2
    assert "no reader 'nobody'" in capsys.readouterr().err


def test_a_difference_of_the_format_is_said_to_be_ours():
    difference = laboratory.Difference("a string is lost", "```x", (2,), "1", "2", "the strict reader refuses it")
    outcome = laboratory.Outcome("hermes", "own", 1, 1, [difference])
    assert report.verdict(difference) == "constrained"
    written = report.markdown([outcome])
    assert "````\n```x\n````" in written and "The format is wrong" in written and "of 2 tokens" in written
    assert json.dumps(laboratory.TOOLS) in written
