"""The command line: results on standard output, messages on standard error, exit codes 0, 1 and 2."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

pytest.importorskip("typer")
pytest.importorskip("transformers")

from constrained.cli import run

import constrained
from constrained import ChatFormat, __version__

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "maxLength": 8}, "unit": {"enum": ["celsius", "fahrenheit"]}},
                "required": ["city"],
            },
        },
    }
]
SCHEMA = {"type": "array", "items": {"enum": ["a", "bc"]}, "minItems": 1, "maxItems": 2}


@pytest.fixture
def tools(tmp_path):
    return _written(tmp_path / "tools.json", json.dumps(TOOLS))


@pytest.fixture
def schema(tmp_path):
    return _written(tmp_path / "schema.json", json.dumps(SCHEMA))


def _written(path, text):
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_vocabulary_writes_a_file_that_other_commands_read(capsys, tmp_path, schema):
    out = str(tmp_path / "v")
    assert run(["vocabulary", out]) == 0
    assert "size 1664" in capsys.readouterr().out
    assert run(["mask", "--schema", schema, "--prefix", "[", "--json"]) == 0
    expected = capsys.readouterr().out
    assert run(["mask", "--schema", schema, "--prefix", "[", "--json", "--tokenizer", out]) == 0
    assert capsys.readouterr().out == expected
    assert run(["vocabulary", str(tmp_path / "none" / "v")]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_a_page_that_cannot_be_written_is_refused_before_any_work(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("constrained.cli.generate.read_model", None)
    for path in (tmp_path / "none" / "a.html", tmp_path):
        assert run(["trace", "--html", str(path)]) == 2
        assert "cannot write" in capsys.readouterr().err
        assert run(["conform", "-f", "hermes", "-r", "nobody", "--markdown", str(path)]) == 2
        assert "cannot write" in capsys.readouterr().err


def test_version(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.strip() == __version__


def test_formats_lists_all(capsys, monkeypatch):
    """Without reading their grammars, which takes seconds."""
    monkeypatch.setattr(constrained.Grammar, "from_lark_file", None)
    assert run(["formats", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == list(ChatFormat.names())
    assert all(
        row["specification"].startswith("https://") and row["stop"] and set(row["stop"]) <= set(row["tokens"])
        for row in rows
    )


def test_formats_into_a_pipe_are_lines(capsys, monkeypatch):
    """Whatever columns the text is cut into, brackets stay."""
    assert run(["formats"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[0] for line in lines] == list(ChatFormat.names())
    assert any("[UNUSED_TOKEN_145]" in line for line in lines)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert run(["formats"]) == 0
    assert "│" in (told := capsys.readouterr().out)
    assert "[UNUSED_TOKEN_145]" in told


def test_nothing_is_generated_before_the_arguments_are_checked(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("constrained.cli.generate.run_model", None)
    assert run(["demo", "--format", "hermes", "--format", "none"]) == 2
    monkeypatch.setattr("constrained.cli.generate.run_trace", None)
    assert run(["trace", "--html", str(tmp_path / "none" / "page.html")]) == 2
    assert "page.html" in capsys.readouterr().err


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", ChatFormat.names())
def test_show_prints_a_lark_file(capsys, tools, name):
    """That lark reads the files of formats with tools is tested in test_formats.py."""
    chat = ChatFormat.load(name)
    own_tools_only = chat.definition.payload is None
    assert run(["show", "--format", name, *([] if own_tools_only else ["--tools", tools])]) == 0
    printed = capsys.readouterr().out
    assert printed.strip() == chat.grammar(None if own_tools_only else TOOLS).to_lark().strip()
    if own_tools_only:
        lark = pytest.importorskip("lark")
        lark.Lark(printed, parser="earley", lexer="dynamic_complete")


def test_show_says_what_a_schema_enforces(capsys, schema):
    assert run(["show", "--schema", schema]) == 0
    assert capsys.readouterr().out.splitlines() == ["#:", "  array of 1 to 2 items", "    items: string /a|bc/"]


def test_show_says_what_is_not_enforced(capsys, tmp_path):
    schema = _written(
        tmp_path / "wide.json", json.dumps({"type": "array", "maxItems": 5, "not": {"uniqueItems": True}})
    )
    assert run(["show", "--schema", schema]) == 2
    assert capsys.readouterr().err.startswith("cannot compile the complement of uniqueItems at #/not/uniqueItems")
    assert run(["show", "--schema", schema, "--unsupported", "widen"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "#:", "  array of 0 to 5 items", "    items: any value", "not enforced, to be checked after generation:", "  #/not",
        "    because: two equal items can be any two",
    ]  # fmt: skip


def test_show_writes_a_schema_as_lark(capsys, schema):
    lark = pytest.importorskip("lark")
    assert run(["show", "--schema", schema, "--to", "lark"]) == 0
    assert lark.Lark(capsys.readouterr().out, parser="earley", lexer="dynamic_complete").parse('["bc", "a"]')


def test_mask_says_what_may_come_next(capsys, schema):
    assert run(["mask", "--schema", schema, "--prefix", '["a"', "--json", "--limit", "9"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert not report["complete"]
    assert report["allowed"] == len(report["tokens"]) <= 9
    assert {"','", "']'"} <= {row["text"] for row in report["tokens"]}


def test_mask_reads_special_tokens_in_the_prefix(capsys, tools):
    assert run(["mask", "--format", "llama3.1-json", "--tools", tools, "--prefix", "<|python_tag|>", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["forced"].startswith(
        '{"type": "function", "name": "get_weather", "parameters": {'
    )


def test_mask_explains_a_refusal(capsys, schema):
    assert run(["mask", "--schema", schema, "--prefix", "[", "--why", "x"]) == 0
    assert "'x'" in capsys.readouterr().out


def test_mask_rejects_a_prefix_outside_the_language(capsys, schema):
    assert run(["mask", "--schema", schema, "--prefix", "[x"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    assert err.strip()


TURN = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call><|im_end|>'


def test_validate_says_whether_a_text_is_one(capsys, tmp_path, tools):
    right, wrong = (
        _written(tmp_path / "right.txt", TURN),
        _written(tmp_path / "wrong.txt", TURN.replace("city", "town")),
    )
    assert run(["validate", right, "--format", "hermes", "--kind", "assistant_turn", "--tools", tools]) == 0
    assert capsys.readouterr().out == "valid\n"
    assert run(["validate", wrong, "--format", "hermes", "--kind", "assistant_turn", "--tools", tools]) == 1
    assert capsys.readouterr().err.startswith("turn rejected at line 2 column 38 (byte 49), call 1")
    assert run(["validate", wrong, "--format", "hermes", "--kind", "assistant_turn", "--tools", tools, "--json"]) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["layer"], error["line"], error["call"]) == ("schema", 2, 1)


def test_validate_says_what_else_a_text_is(capsys, tmp_path, tools):
    turn = _written(tmp_path / "turn.txt", TURN + "\n")
    assert run(["validate", turn, "--format", "hermes", "--tools", tools]) == 1
    assert capsys.readouterr().err.endswith(
        "it is valid with --kind assistant_turn, without the line break at its end\n"
    )
    assert run(["parse", turn, "--format", "hermes", "--tools", tools]) == 1
    assert capsys.readouterr().err.endswith("it is valid without the line break at its end\n")


def test_validate_lists_all_that_is_wrong(capsys, tmp_path, tools):
    turn = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n" + TURN + "\n"
    path = _written(tmp_path / "wrong.txt", turn.replace("city", "town") + turn + turn.replace('"Oslo"', "7"))
    command = ["validate", path, "--format", "hermes", "--tools", tools]
    assert run(command) == run([*command, "--all"]) == 1
    shown = capsys.readouterr().err
    assert [shown.count(f"message {number}, call 1") for number in (2, 4, 6)] == [2, 0, 1]
    assert run([*command, "--all", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert [(error["message_number"], error["pointer"]) for error in (said["error"], *said["others"])] == [
        (2, ""),
        (6, "/city"),
    ]


def test_validate_reads_a_file_of_texts(capsys, tmp_path):
    rows = [
        {"id": "a", "format": "hermes", "kind": "assistant_turn", "text": TURN, "tools": TOOLS},
        {"format": "hermes", "kind": "assistant_turn", "text": TURN[:20]}, {"format": "no such format", "text": ""},
        {"id": "d", "format": "qwen3", "kind": "assistant_turn", "text": "I see.</think>Yes.<|im_end|>", "gen_prompt": "<think>"},
    ]  # fmt: skip
    path = _written(tmp_path / "rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert run(["validate", "--jsonl", path, "--json"]) == 1
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["id"], row["valid"]) for row in said] == [("a", True), ("2", False), ("3", None), ("d", True)]
    assert said[0]["calls"] == [{"name": "get_weather", "arguments": {"city": "Oslo"}}]
    assert run(["validate", "--jsonl", path]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "2 of 4 texts are valid"


BROKEN = [b"{", b"[]", b'{"format": "hermes"}', b'{"text": "a"}', b'{"prompt": 3}', b'"\xff"', b"[" * 100_000]


def test_a_broken_line_is_the_error_of_its_row(capsys, tmp_path):
    """The others are done, in order; a further run goes on from what was written."""
    path = tmp_path / "rows.jsonl"
    rows = [
        {"format": "hermes", "kind": "assistant_turn", "text": TURN, "prompt": "Yes?", "seed": seed} for seed in range(8)
    ]
    lines = [line for row, broken in zip(rows, [*BROKEN, b""], strict=True) for line in (json.dumps(row).encode(), broken)]
    path.write_bytes(b"\n".join(lines))
    for command in (["validate", "--json"], ["generate", "--choice", "yes"]):
        out = tmp_path / command[0]
        for _ in range(2):
            assert run([*command, "--jsonl", str(path), "--out", str(out)]) == 1
            said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
            assert len(said) == 15
            for number, row in enumerate(said, 1):
                if number % 2:
                    assert row.get("valid") or row["text"] == "yes"
                else:
                    assert row["line"] == number and f"at line {number}" in row["error"]["message"]
            kept = out.read_bytes()
            out.write_bytes(kept[: len(kept) // 2])  # as a run that was broken off
        assert len(out.read_bytes()) == len(kept) // 2


def test_what_is_wrong_with_a_row_is_told_with_its_id(capsys, tmp_path):
    path = _written(tmp_path / "rows.jsonl", json.dumps({"prompt": "a", "id": "x", "seed": 10**30}))
    assert run(["generate", "--choice", "yes", "--jsonl", path]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["id"] == "x" and said["error"]["message"]


def test_parse_prints_messages(capsys, tmp_path):
    turn = _written(tmp_path / "turn.txt", TURN)
    assert run(["parse", turn, "--format", "hermes"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said == {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"name": "get_weather", "arguments": {"city": "Oslo"}}],
        "stop": "<|im_end|>",
    }
    cut = _written(tmp_path / "cut.txt", TURN[:50])
    assert run(["parse", cut, "--format", "hermes", "--partial"]) == 0
    assert json.loads(capsys.readouterr().out)["tool_calls"] == [{"name": "get_weather", "arguments": {}}]
    talk = _written(tmp_path / "talk.txt", "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    assert run(["parse", talk, "--format", "hermes", "--kind", "conversation", "--option", "open_ended=true"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"role": "user", "content": "Hi", "tool_calls": []}]


@pytest.mark.parametrize("words", [["--format", "hermes", "no such file"], ["README.md"], ["--format", "hermes", "--option", "x", "README.md"],
                                   ["--format", "hermes", "--option", "kind=1", "README.md"]])  # fmt: skip
def test_parse_refuses_wrong_use(capsys, words):
    assert run(["parse", *words]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_generate_fits_the_schema(capsys, schema):
    jsonschema = pytest.importorskip("jsonschema")
    assert run(["generate", "--schema", schema, "--n", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    for line in lines:
        jsonschema.validate(json.loads(line), SCHEMA)


LANGUAGES = {
    "a pattern": (["--regex", "[ab]{{3}}"], lambda text: re.fullmatch("[ab]{3}", text)),
    "texts": (["--choice", "yes", "--choice", "no"], lambda text: text in ("yes", "no")),
    "a Lark file": (["--lark", "{lark}"], lambda text: text in ("<1>", "<2>")),
    "a schema in its order": (
        ["--schema", "{ordered}", "--whitespace", "compact", "--property-order", "schema"],
        lambda text: list(json.loads(text).items()) == [("b", 1), ("a", 2)] and " " not in text),
}


@pytest.mark.parametrize(("options", "is_word"), LANGUAGES.values(), ids=LANGUAGES)
def test_generate_keeps_to_any_language(capsys, tmp_path, options, is_word):
    paths = {
        "lark": _written(tmp_path / "g.lark", 'start: "<" ("1"|"2") ">"'),
        "ordered": _written(tmp_path / "s.json", json.dumps(
            {"properties": {"b": {"const": 1}, "a": {"const": 2}}, "required": ["a", "b"], "additionalProperties": False, "type": "object"})),
    }  # fmt: skip
    assert run(["generate", *(option.format(**paths) for option in options)]) == 0
    assert is_word(capsys.readouterr().out.strip())


def test_schemas_and_tools_may_stand_in_the_argument(capsys):
    assert run(["generate", "--schema", json.dumps(SCHEMA)]) == 0
    assert json.loads(capsys.readouterr().out)[0] in ("a", "bc")
    bare = json.dumps([TOOLS[0]["function"]])  # no chat template reads this shape
    assert run(["generate", "--format", "hermes", "--tools", bare, "--prompt", "?", "--tool-choice", "required"]) == 0
    assert "get_weather" in capsys.readouterr().out
    assert run(["generate", "--schema", "{"]) == 2
    assert "the argument is not JSON at line 1 column 2" in capsys.readouterr().err


def test_warnings_are_lines_of_their_own():
    command = [sys.executable, "-m", "constrained", "show", "--schema", '{"type": "string", "minlength": 3}']
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == "warning: 'minlength' at #/minlength is no keyword; 'minLength' is one\n"


def test_prompts_may_hold_any_line_separator(capsys, tmp_path):
    prompts = _written(tmp_path / "prompts.jsonl", '{"prompt": "a\u2028b"}\n\n{"prompt": "c"}\n')
    assert run(["generate", "--choice", "yes", "--jsonl", prompts, "--json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_mask_rejects_a_prefix_in_json_too(capsys, schema):
    assert run(["mask", "--schema", schema, "--prefix", "[x", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]


def test_results_are_utf8_in_any_locale_and_a_pipe_may_close():
    command = [sys.executable, "-m", "constrained", "show", "--choice", "Zürich"]
    said = subprocess.run(
        command, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}, check=True
    )
    assert "Zürich" in said.stdout.decode()
    shell = f"{sys.executable} -m constrained formats --json | head -c 1; exit ${{PIPESTATUS[0]}}"
    said = subprocess.run(["bash", "-c", shell], capture_output=True, check=True)
    assert (said.stdout, said.stderr) == (b"[", b"")


@pytest.mark.parametrize("words", [["show", "--regex", "a"], ["mask", "--regex", "a", "--json"]])
def test_a_pipe_that_is_closed_at_once_is_fine(words):
    reader, writer = os.pipe()
    os.close(reader)
    said = subprocess.run([sys.executable, "-m", "constrained", *words], stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (said.returncode, said.stderr) == (0, b"")


@pytest.mark.parametrize("words", [["--choice", "é日"], ["--regex", "é日"]])
def test_arguments_are_utf8_in_any_locale(words):
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    said = subprocess.run([sys.executable, "-m", "constrained", "mask", *words, "--prefix", "é", "--json"],
                          capture_output=True, env={**os.environ, **locale}, check=True)
    assert json.loads(said.stdout)["forced"] == "日"


@pytest.mark.parametrize("command", [["generate", "--choice", "yes"], ["validate", "--json"]])
def test_only_results_go_to_standard_output(capsys, tmp_path, monkeypatch, command):
    """Ray tells there of actors that died."""
    def chatty(rows, *_, **__):
        print("(raylet) a worker died")
        return ({"valid": True} for _ in rows)

    monkeypatch.setattr(sys.modules[f"constrained.cli.{'generate' if 'generate' in command else 'transcripts'}"], "results", chatty)
    rows = _written(tmp_path / "rows.jsonl", '{"prompt": "a", "text": "a", "format": "hermes"}')
    assert run([*command, "--jsonl", rows]) == 0
    out, err = capsys.readouterr()
    assert [json.loads(line)["valid"] for line in out.splitlines()] == [True]
    assert "raylet" in err


def test_what_is_not_enforced_is_warned_of():
    said = subprocess.run(
        [sys.executable, "-m", "constrained", "mask", "--json", "--unsupported", "widen", "--schema", '{"pattern": "(a)\\\\1"}'],
        capture_output=True, text=True, check=True,
    )
    assert said.stderr.startswith("warning: #/pattern is not enforced: ")


def test_generate_reports_calls(capsys, tools):
    assert (
        run(
            [
                "generate",
                "--format",
                "llama3.1-function",
                "--tools",
                tools,
                "--tool-choice",
                "required",
                "--prompt",
                "Oslo?",
                "--json",
            ]
        )
        == 0
    )
    row = json.loads(capsys.readouterr().out)
    assert [call["name"] for call in row["calls"]] == ["get_weather"]


def test_demo_shows_formats_with_and_without_their_grammar(capsys):
    names = ["hermes", "pythonic", "glm-4.6"]
    assert run(["demo", "--json", *(word for name in names for word in ("--format", name))]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == names
    assert all(row["calls"] for row in rows)


WRONG = {
    "no language": (["show"], "which language?"),
    "two languages": (["show", "--format", "hermes", "--schema", "x.json"], "which language?"),
    "values of a format": (["show", "--format", "hermes", "--to", "values"], "--to values without --schema"),
    "results of no file": (["generate", "--regex", "a", "--out", "x.jsonl"], "--out without --jsonl"),
    "actors of no file": (["validate", "x.txt", "--ray", "2"], "--ray without --jsonl"),
    "a part of no file": (["bench", "--count", "3"], "--count without --schemas"),
    "tools of a schema": (["show", "--schema", "{schema}", "--tools", "{tools}"], "--tools without --format"),
    "unknown format": (["show", "--format", "nope"], "unknown format 'nope'"),
    "missing file": (["show", "--format", "hermes", "--tools", "missing.json"], "cannot read missing.json"),
    "not JSON": (["show", "--format", "hermes", "--tools", "{broken}"], "is not JSON at line 1 column 3"),
    "JSON nested too deeply": (["show", "--schema", "{nested}"], "nested.json is not JSON"),
    "JSON with too long a number": (["mask", "--schema", "{digits}"], "digits.json is not JSON"),
    "a path that no file has": (["show", "--schema", "\0"], "cannot read"),
    "an option nested too deeply": (["parse", "{broken}", "--format", "hermes", "-o", "a=" + "[" * 100_000], "--option a cannot be read"),
    "an id of too many digits": (["mask", "--regex", "a", "--why", "9" * 5_000], "is not one token"),
    "a tokenizer with too long a name": (["mask", "--regex", "a", "--tokenizer", "9" * 5_000], "cannot load"),
    "no tools": (["show", "--format", "hermes", "--tools", "{number}"], "holds no tools"),
    "unknown tool": (["show", "--format", "hermes", "--tools", "{tools}", "--tool-choice", "nope"], "nope"),
    "unknown tokenizer": (["mask", "--schema", "{schema}", "--tokenizer", "./missing"], "cannot load './missing'"),
    "not one token": (["mask", "--schema", "{schema}", "--why", "one two three"], "is not one token"),
    "a Lark text in place of a file": (["show", "--lark", "start: \"a\" | \"b\""], "--lark takes a file"),
    "too few tokens": (["generate", "--regex", "[ab]{50}", "--max-tokens", "3"], "a budget of 3 tokens is too small"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_use_is_a_message_and_exit_code_2(capsys, tmp_path, tools, schema, case):
    paths = {
        "{tools}": tools, "{schema}": schema,
        "{broken}": _written(tmp_path / "broken.json", "[ oops"), "{number}": _written(tmp_path / "number.json", "7"),
        "{nested}": _written(tmp_path / "nested.json", "[" * 100_000 + "]" * 100_000),
        "{digits}": _written(tmp_path / "digits.json", '{"maximum": ' + "9" * 5_000 + "}"),
    }
    arguments, message = WRONG[case]
    assert run([paths.get(argument, argument) for argument in arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err.splitlines()[0]
    assert "Traceback" not in err


def test_an_unknown_option_is_exit_code_2(capsys):
    assert run(["show", "--nonsense"]) == 2
    assert "nonsense" in capsys.readouterr().err


def test_without_the_extra_the_command_says_what_to_install():
    code = "import sys; sys.modules['typer'] = None; from constrained.cli import run; sys.exit(run(['formats']))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr.splitlines() == [
        "cannot start the command line", "  because: typer is not installed", "  instead: pip install 'constrained-generation[cli]'",
    ]  # fmt: skip
