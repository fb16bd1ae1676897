"""Rules across the messages of a conversation, which a definition asks for by name: each in a format that has it, and in
one of a user's, which is a file with a few lines.
"""

from __future__ import annotations

import json

import pytest

from constrained import ChatFormat, GrammarError, Rejected

TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}} for name in "fg"]


def _talk(*turns):
    """Messages of a short form: text by the user, calls as (id, name), results as {id: text}."""
    found = [{"role": "user", "content": "Go."}]
    for turn in turns:
        if isinstance(turn, dict):
            found += [{"role": "tool", "tool_call_id": key, "content": text} for key, text in turn.items()]
        elif isinstance(turn, str):
            found.append({"role": "assistant", "content": turn})
        else:
            calls = [{"id": key, "type": "function", "function": {"name": name, "arguments": "{}"}} for key, name in turn]
            found.append({"role": "assistant", "content": None, "tool_calls": calls})
    return found


BOTH = _talk([("a", "f"), ("b", "g")], {"a": "one", "b": "two"}, "Done.")
STRICT = [  # format, what is changed in the text of BOTH, what a strict reader says, at which text it points
    ("openchatml", ('{"name": "f", "content": "one"}', '{"name": "g", "content": "one"}'), "'g' comes before the result of 'f'", 'g", "content": "one"'),
    ("openchatml", ('{"name": "g", "content": "two"}', '{"name": "h", "content": "two"}'), "'h' answers no call that waits", 'h", "content"'),
    ("openchatml", ('"name": "g"}\n<|im_end|>', '"name": "h"}\n<|im_end|>'), "no message lists the tool 'h'", 'h"}'),
    ("mistral-v11", ("[TOOL_RESULTS]call00001", "[TOOL_RESULTS]call00000"), "'call00000' answers no call that waits", "call00000[TOOL_CONTENT]two"),
    ("mistral-v11", ("[TOOL_RESULTS]call00001[TOOL_CONTENT]two[/TOOL_RESULTS]", ""), "1 call before it have no result", "Done."),
    ("command-r7b", ('"tool_call_id": "1",\n        "results"', '"tool_call_id": "7",\n        "results"'), "'7' answers no call that waits", '7",\n'),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "says", "at"), STRICT)
def test_a_strict_reader_keeps_the_rules_that_the_definition_names(name, change, says, at):
    chat = ChatFormat.load(name)
    text = chat.render_text(BOTH, TOOLS)
    chat.validate(text, strict=True)
    assert change[0] in text
    wrong = text.replace(*change)
    with pytest.raises(Rejected) as caught:
        chat.validate(wrong, strict=True)
    assert says in str(caught.value)
    assert wrong.encode()[caught.value.position :].decode().startswith(at)


def test_ids_differ_for_every_reader():
    chat = ChatFormat.load("mistral-v11")
    text = chat.write(chat.parse(chat.render_text(BOTH, TOOLS), kind="conversation")[2])
    with pytest.raises(Rejected, match="two calls have the id 'call00000'"):
        chat.parse(text.replace("call00001", "call00000"))


def test_tools_are_those_that_messages_list():
    for name in ("openchatml", "internlm2", "chatglm3", "llama3.1-json"):
        chat = ChatFormat.load(name)
        text = chat.render_text(_talk([("a", "f")], {"a": "1"}, "Done."), TOOLS)
        chat.validate(text, strict=True)
        listed = text.replace('"name": "f"', '"name": "other"', 1)
        with pytest.raises(Rejected, match="no message lists the tool 'f'") as caught:
            chat.validate(listed, strict=True)
        assert caught.value.layer == "tool"
        chat.validate(listed)


TOLD = [  # format, what tells, a conversation that is valid only where it is told
    ("openchatml", "<|reason|>", "[BOS]<|im_start|>system\n{}\n<|im_end|>\n<|im_start|>user\nHi\n<|im_end|>\n<|im_start|>assistant\n<|start_reason|>x<|end_reason|>\nHo\n<|im_end|>[EOS]"),
    ("internlm2", "<|im_start|>system name=<|interpreter|>\nRun it.<|im_end|>\n", "{}<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<|action_start|><|interpreter|>\n```python\n1\n```<|action_end|><|im_end|>\n<|im_start|>environment name=<|interpreter|>\n1<|im_end|>"),
    ("llama3.1-json", "Environment: ipython", '<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n{}<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n<|python_tag|>{{"type": "function", "name": "f", "parameters": {{}}}}<|eom_id|>'),
    ("llama3.1-builtin", "wolfram_alpha", '<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nEnvironment: ipython\nTools: brave_search, {}<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n<|python_tag|>wolfram_alpha.call(query="1")<|eom_id|>'),
]  # fmt: skip


@pytest.mark.parametrize(("name", "sign", "text"), TOLD)
def test_what_a_conversation_tells_of_its_options_holds_for_its_turns(name, sign, text):
    chat = ChatFormat.load(name)
    chat.validate(text.format(sign), strict=True)
    with pytest.raises(Rejected):
        chat.validate(text.format("Be brief." if "\n" not in sign else ""), strict=True)
    chat.validate(text.format("Be brief." if "\n" not in sign else ""))


MINE = """
extends = "hermes"
title = "Mine"
grammar = "mine.lark"
results = ["helper"]

[messages]
system_message = "system"
user_message = "user"
tool_message = "helper"
assistant_message = "assistant"

[slots]
texts = "content"
who = "speaker"

[constraints]
{}
"""
CALL = '<tool_call>\n{{"name": "{}", "arguments": {{}}}}\n</tool_call>'
OWN = [  # constraint, calls of the turn, speakers of the results behind it, whether an answer follows, what is said of that
    ('results_answer_calls = "always"', "f", ["f"], True, None),
    ('results_answer_calls = "always"', "f", ["f", "f"], True, "'f' answers no call"),
    ('results_answer_calls = "always"', "fg", ["g", "f"], True, None),
    ('results_answer_calls = "strict"', "f", ["g"], True, None),
    ('results_in_order = "always"', "fg", ["g", "f"], True, "'g' comes before the result of 'f'"),
    ('calls_are_answered = "always"', "fg", ["g"], True, "1 call before it"),
    ('calls_are_answered = "always"', "fg", [], False, None),
    ('tools_are_listed = "always"', "h", ["h"], True, "no message lists the tool 'h'"),
    ('tools_are_listed = "always"', "f", ["f"], True, None),
]


@pytest.fixture
def mine(tmp_path):
    def load(constraints):
        text = (ChatFormat.load("hermes").definition.grammar).read_text()
        text = text.replace('tool_message: IM_START "tool\\n"', 'tool_message: IM_START "tool " who "\\n"')
        (tmp_path / "mine.lark").write_text(text.replace("texts: ANYTHING", 'texts: ANYTHING\nwho: WHO\nWHO: /[a-z]+/'))
        prompt = '[tool_prompt.list]\nrole = "system"\nplace = "first"\ntext = "Tools:\\n{tools}"'
        (tmp_path / "mine.toml").write_text(MINE.format(constraints) + prompt)
        return ChatFormat.load(tmp_path / "mine.toml")

    return load


@pytest.mark.parametrize(("constraint", "calls", "results", "answered", "says"), OWN)
def test_a_format_of_a_users_has_them_by_name(mine, constraint, calls, results, answered, says):
    chat = mine(constraint)
    system = f"<|im_start|>system\nTools:\n{json.dumps([tool['function'] for tool in TOOLS])}<|im_end|>\n"
    turn = f"<|im_start|>assistant\n{chr(10).join(CALL.format(name) for name in calls)}<|im_end|>\n"
    rest = "".join(f"<|im_start|>tool {who}\n1<|im_end|>\n" for who in results)
    text = f"{system}<|im_start|>user\nGo.<|im_end|>\n{turn}{rest}" + answered * "<|im_start|>assistant\nDone.<|im_end|>"
    if says is None:
        chat.validate(text)
    else:
        with pytest.raises(Rejected, match=says):
            chat.validate(text)


def test_results_of_a_users_format_are_those_of_its_own_role(mine):
    chat = mine("")
    text = chat.render_text(_talk([("a", "f"), ("b", "g")], {"b": "2", "a": "1"}, "Done."), TOOLS)
    read = chat.parse(text, kind="conversation")
    assert [(message.name, message.content) for message in read if message.role == "helper"] == [("f", "1"), ("g", "2")]


@pytest.mark.parametrize(
    ("lines", "says"),
    [('results_answer = "always"', "unknown key 'constraints.results_answer'"), ('tools_are_listed = "yes"', "one of: always, strict")],
)
def test_a_rule_that_nobody_knows_is_an_error(mine, lines, says):
    with pytest.raises(GrammarError, match=says):
        mine(lines)
