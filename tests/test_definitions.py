"""Formats that users write: a typo is an error with file and key, never another language; a pair of files in any folder
is a format.
"""

from __future__ import annotations

import json
import re
import shutil

import pytest
from constrained.cli import run

from constrained import ChatFormat, GrammarError, Rejected, Vocabulary, compile
from constrained.formats import Message, ToolCall

FOLDER = ChatFormat.load("hermes").definition.grammar.parent

WRONG = [  # what is written into the file, what the message says
    ('[stops]\nanswr = ["<|im_end|>"]', "stops.answr"), ('[stops]\nanswer = ["<|end|>"]', "stops.answer"),
    ('specials = ["<|im_start|>"]', "'<|im_end|>' is not among its specials"), ('[calls]\nrepeat = "more_calls"\nnext = "nxt"', "calls.next"),
    ('[calls]\nrepeat = "more"\nnext = "next_call"', "calls.repeat"), ('[calls]\nnext = "next_call"', "the key 'repeat' is missing"),
    ('[thoughts]\nreason = "thougt"', "thoughts.reason"), ('[builtins]\nx = { rule = "nope", parameters = {} }', "builtins.x.rule"),
    ('[builtins]\nx = { rule = "content", arguments = { q = "query" } }', "builtins.x.arguments.q"),
    ('[payload]\nsurface = "xml"\nname = "json"', "at payload.surface\n  because: it is 'xml'"),
    ('[payload]\nsurface = "json"\nname = "plain"', "at payload.name\n  because: it is 'plain'"),
    ('[variant]\nreplace = { content = "nope" }', "variant.replace"), ('[variant]\ndrop = ["nope"]', "variant.drop"),
    ('[options.o]\nabout = ""\ndefault = true\ntrue = {}\nfalse.drop = ["nope"]', "options.o.false.drop"),
    ('[reasoning]\nrule = "r"\nblock = "b"\nprompt = ""', "reasoning.rule"), ('stop = ["x"]', "unknown key 'stop'"),
    ('extends = "hermess"', "at extends"), ("title = 7", "at title"), ('stops = "<|im_end|>"', "at stops"), ("[stops]\nanswer = 1", "at stops"),
    ('[payload]\nsurface = "quoted"\nname = "raw"', "at payload.quote"), ('[payload]\nsurface = "quoted"\nname = "raw"\nquote = "#"', "at payload.quote"),
    ('[payload]\nsurface = "json"\nname = "json"\ntag_safe = "yes"', "at payload.tag_safe"), ('[payload]\nsurfaces = "json"', "'payload.surfaces'"),
    ('[payload]\nsurface = "tagged"\nname = "raw"', "no rule 'member'"), ('[messages]\nuser_mesage = "user"', "messages.user_mesage"),
    ('[slots]\ntext = "content"', "slots.text"), ('[slots]\ntexts = "contents"', "slots.texts"), ('escaped = ["quary"]', "at escaped"),
    ('[calls]\nrepeat = "more_calls"\nnext = "next_call"\nids = "counted"', "at calls"), ('[calls]\nrepeat = "more_calls"\nnext = "next_call"\ndefault = "1"',
     "at calls.default"), ('[builtins]\nx = "content"', "at builtins"), ('[builtins.x]\nrule = "content"', "'arguments' or 'parameters'"),
    ('[thoughts]\nreason = "more_calls"', "is not one terminal"), ('tool_list = "last"', "at tool_list"), ('[options.o]\ndefault = true\ntrue = {}', "the key 'about'"),
    ('[options.o]\nabout = "x"\ntrue = {}', "the key 'default'"), ('[options.o]\nabout = "x"\ndefault = "a"\nb = {}', "options.o.default"),
    ('[options.o]\nabout = "x"\ndefault = "a"\na = 1', "options.o.a"), ('[options.o]\nabout = "x"\n[options.o.members.a]\npresent = {}', "options.o.members.a"),
    ('[payload]\nsurface = "json"\nname = "json"\n[payload.elements]\nopen = "("\nclose = "x"', "at payload.elements.open"),
    ('specials = ["<|im_strt|>", "<|im_end|>", "<|endoftext|>"]', "at specials\n  because: the grammar has '<|im_start|>'"),
    ('markers = ["<tol_call>"]', "the grammar has no text '<tol_call>'"),
    ('[tool_prompt.x]\nrole = "systm"\nplace = "own"\ntext = "{tools}"', "no message is by 'systm'"),
    ('[tool_prompt.x]\nrole = "system"\nplace = "own"\ntext = "{toos}"', "at tool_prompt.x.text\n  because: it has no slot 'toos'"),
    ('[tool_prompt.x]\nrole = "system"\nplace = "own"\ntext = "{tools}"\ntool = "{jon}"', "at tool_prompt.x.tool"),
    ('[variant]\ndrop = "content"', "at variant.drop"), ('[spellings]\n"<|x|>" = "y"', "at spellings"), ("specials = 1", "at specials"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "says"), WRONG, ids=lambda part: part[:24])
def test_a_typo_is_an_error_with_file_and_key(lines, says, tmp_path):
    for name in ("hermes.lark", "hermes.toml"):
        shutil.copy(FOLDER / name, tmp_path)
    (tmp_path / "mine.toml").write_text(f'extends = "hermes"\ntitle = "mine"\ngrammar = "hermes.lark"\n{lines}\n')
    if lines.startswith(("title", "extends")):
        (tmp_path / "mine.toml").write_text(
            'extends = "hermes"\ntitle = "mine"\n'.replace(f"{lines.split()[0]} = ", "# ") + f"{lines}\n"
        )
    with pytest.raises(GrammarError) as caught:
        ChatFormat.load(tmp_path / "mine.toml")
    assert says in str(caught.value)
    assert "mine.toml" in str(caught.value)


GRAMMARS = [  # what is replaced in hermes.lark, and what the message says
    ("content: TEXT", "content: TEXT TEXT", "the rule 'content' is not one terminal"),
    ("content: TEXT", 'content: TEXT | "a"', "is not one terminal"),
    ("name: JSON_NAME", "name: JSON_NAME JSON_NAME", "the rule 'name' is not one terminal"),
    ("answer: content", "anser: content", "hermes.lark"),
    ("%import .json", "%import .jsn", "jsn"),
    ("arguments: json_object", "arguments: jsn_object", "jsn_object"),
]


@pytest.mark.parametrize(("old", "new", "says"), GRAMMARS)
def test_a_wrong_grammar_is_an_error_with_its_file(old, new, says, tmp_path):
    text = (FOLDER / "hermes.lark").read_text()
    assert old in text
    (tmp_path / "hermes.lark").write_text(text.replace(old, new, 1))
    shutil.copy(FOLDER / "hermes.toml", tmp_path / "hermes.toml")
    with pytest.raises(GrammarError) as caught:
        ChatFormat.load(tmp_path / "hermes.toml")
    assert says in str(caught.value)
    assert "hermes" in str(caught.value)


MEMBER = 'member: "<parameter=" key ">\\n" value "\\n</parameter>\\n"'
TAGGED = [  # what is replaced in qwen3-coder.lark, and what the message says
    (MEMBER, 'member: "<parameter=" key value "</parameter>"', "key, text, value, text"),
    (MEMBER, 'member: "<parameter=" key ">" value', "key, text, value, text"),
    (MEMBER, 'member: "<parameter=" key ">" value "</parameter>" | "<p=" key ">" value "</p>"', "begin and end alike"),
    (MEMBER, 'member: "<parameter=" key ">" text_value "</parameter>"\ntext_value: VALUE', "write each type of value"),
    (MEMBER, 'member: "<parameter=" key ">" value "</parameter>" KEY', "besides its slots it has one spelling"),
    ("value: VALUE?", "value: VALUE VALUE", "the rule 'value' is one terminal"),
    ("arguments_close:", "arguments_clse:", "qwen3-coder.lark"),
]


@pytest.mark.parametrize(("old", "new", "says"), TAGGED, ids=[says for _, _, says in TAGGED])
def test_wrong_rules_of_tags_are_errors(old, new, says, tmp_path):
    text = (FOLDER / "qwen3-coder.lark").read_text()
    assert text.count(old) >= 1
    (tmp_path / "qwen3-coder.lark").write_text(text.replace(old, new, 1))
    (tmp_path / "mine.toml").write_text('extends = "qwen3-coder"\ntitle = "mine"\ngrammar = "qwen3-coder.lark"\n')
    with pytest.raises(GrammarError) as caught:
        ChatFormat.load(tmp_path / "mine.toml")
    assert says in str(caught.value)


def test_a_definition_anywhere_extends_one_of_the_package(tmp_path):
    (tmp_path / "hermes.toml").write_text(
        'extends = "hermes"\ntitle = "mine"\nspecials = ["<s>", "</s>"]\n[stops]\nanswer = ["</s>"]\ncalling = ["</s>"]\n'
    )
    (tmp_path / "hermes.lark").write_text(
        (FOLDER / "hermes.lark").read_text().replace("<|im_end|>", "</s>").replace("<|im_start|>", "<s>")
    )
    (tmp_path / "other.toml").write_text('extends = "hermes"\ntitle = "other"\n')  # of the one beside it
    (tmp_path / "third.toml").write_text('extends = "qwen3"\ntitle = "third"\n')
    turn = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    for name, stop in (
        ("hermes.toml", "</s>"),
        ("other.toml", "</s>"),
        ("third.toml", "<|im_end|>"),
        ("hermes.lark", "</s>"),
    ):
        chat = ChatFormat.load(tmp_path / name)
        assert (chat.stop[0], chat.parse(turn + stop, strict=True).tool_calls) == (stop, [ToolCall("f", {})])


def test_a_text_that_may_stand_at_two_places_is_written_once(tmp_path):
    (tmp_path / "mine.toml").write_text('extends = "hermes"\ntitle = "mine"\ngrammar = "mine.lark"\n')
    (tmp_path / "mine.lark").write_text(
        (FOLDER / "hermes.lark").read_text()
        .replace("more_calls IM_END", r'more_calls ("\n" content)? IM_END')
        .replace("SPACE_OR_LINE? IM_END", "(SPACE_OR_LINE content)? SPACE_OR_LINE? IM_END")
    )
    chat, call = ChatFormat.load(tmp_path / "mine.toml"), ToolCall("f", {})
    text = chat.render_text([Message("Hi", role="user"), Message("Wait.", [call], stop="<|im_end|>")])
    assert text.count("Wait.") == 1
    assert chat.parse(text, kind="conversation")[-1] == Message("Wait.", [call], stop="<|im_end|>")


def test_the_four_steps_of_the_readme_make_a_format(tmp_path, capsys, monkeypatch):
    section = (FOLDER / "README.md").read_text().partition("## Add a format in four steps")[2]
    blocks = {
        kind: re.sub("(?m)^   ", "", text)
        for kind, text in re.findall(r"```(json|lark|toml)\n(.*?)```", section, re.DOTALL)
    }
    monkeypatch.chdir(tmp_path)
    for kind, file in (("json", "turns.jsonl"), ("lark", "acme.lark"), ("toml", "acme.toml")):
        (tmp_path / file).write_text(blocks[kind])
    run(["validate", "--jsonl", "turns.jsonl", "--json"])
    results = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert [result["valid"] for result in results] == [True, True, False]
    assert results[1]["calls"][0]["arguments"] == {"city": "Oslo"}
    assert (results[2]["error"]["layer"], results[2]["error"]["pointer"]) == ("schema", "/city")
    run(["show", "--format", "acme.toml"])
    assert "start: answer | calling" in capsys.readouterr().out
    rows = [json.loads(line) for line in blocks["json"].splitlines() if line]
    chat, turn, tools = ChatFormat.load("acme.toml"), rows[1]["text"], rows[1]["tools"]
    assert chat.parse(turn, tools, strict=True) == Message(
        "I look.", [ToolCall("weather", {"city": "Oslo"})], "<|done|>"
    )
    assert chat.write(chat.parse(turn, tools), tools) == turn
    vocabulary = Vocabulary([*(bytes([byte]) for byte in range(256)), None], special={"<|done|>": 256})
    matcher = compile(chat.grammar(tools, "required"), vocabulary).matcher()
    assert matcher.forced_bytes() == b'@weather {"city": "'
    with pytest.raises(Rejected):
        chat.parse("@wether {}<|done|>", tools)


def test_a_grammar_with_calls_needs_a_payload(tmp_path):
    shutil.copy(FOLDER / "hermes.lark", tmp_path)
    text = (FOLDER / "hermes.toml").read_text()
    payload = text[text.index("[payload]") : text.index("[calls]")]
    (tmp_path / "hermes.toml").write_text(text.replace(payload, ""))
    with pytest.raises(GrammarError, match="at payload"):
        ChatFormat.load(tmp_path / "hermes.toml")


def test_a_variant_replaces_a_rule_and_the_copies_that_look_ahead_makes(tmp_path):
    assert "any_before_1" in ChatFormat.load("qwen3.5").generic.rules
    lines = 'extends = "qwen3.5"\ngrammar = "qwen3-coder.lark"\ntitle = "mine"\nvariant.replace = { any_before = "any_before_of_mimo" }\n'
    for name in ("qwen3-coder.lark", "qwen3.5.toml"):
        shutil.copy(FOLDER / name, tmp_path)
    (tmp_path / "mine.toml").write_text(lines)
    turn = "I look.\n\n<tool_call>\n<function=f>\n</function>\n</tool_call><|im_end|>"
    assert ChatFormat.load("qwen3.5").parse(turn).content == "I look."
    assert ChatFormat.load(tmp_path / "mine.toml").parse(turn).content == "I look.\n\n"
    lines = lines.partition("variant")[0] + '[options.loose]\nabout = "x"\ndefault = false\nfalse = {}\n'
    (tmp_path / "mine.toml").write_text(lines + 'true = { replace = { any_before = "any_before_of_mimo" } }\n')
    with pytest.raises(GrammarError, match=r"options\.loose\.true\.replace.*\n.*'any_before' has copies"):
        ChatFormat.load(tmp_path / "mine.toml")
