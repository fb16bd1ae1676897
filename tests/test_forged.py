"""No forged calls: what a finished text spells is what was generated, whoever reads it; see benchmarks/forged.py for
the long run.
"""

from __future__ import annotations

import json
import os
import random

import pytest
from constrained.benchmarks import forged, readers

from constrained import ChatFormat, ConstrainedError, Grammar, GrammarError, Rejected, Vocabulary, compile
from constrained.formats import Message, ToolCall
from constrained.formats.binding.markers import marker_safe, marks
from constrained.grammar import Ref
from constrained.regex import matches

NAMES = ChatFormat.names()
SEED = os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(random.randrange(1 << 32))  # the same for all workers


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", NAMES)
def test_hungry_walks_forge_nothing(name):
    for package, names in (("llama_models", ("llama3.1", "pythonic")), ("mistral_common", ("mistral",))):
        if name.startswith(names):
            pytest.importorskip(package)
    outcome = forged.check_format(name, 5, seed=SEED)
    assert outcome.walks and not outcome.failures, f"seed {SEED}: {outcome.failures[0]}"


def generates(name, text, stop, **options):
    """Return whether a turn can be generated, its text as plain bytes; the stop token is one."""
    chat = ChatFormat.load(name)
    names = sorted(chat.tokens.values())
    vocabulary = Vocabulary(
        [bytes([byte]) for byte in range(256)], special={name: 256 + at for at, name in enumerate(names)}
    )
    tools = forged.TOOLS if chat.definition.payload is not None else None
    matcher = compile(chat.grammar(tools, **options), vocabulary).matcher()
    start = "<|python_tag|>"
    ids = [vocabulary.special[start]] if text.startswith(start) else []
    try:
        for token in (*ids, *text.removeprefix(start if ids else "").encode(), vocabulary.special[stop]):
            matcher.advance(token)
    except Rejected:
        return False
    return matcher.is_accepting()


LLAMA = ("llama3.1-function", "llama3.1-json", "llama3.1-builtin", "llama3.1-combined", "pythonic")
CALLS = (
    '{"name": "look_up", "parameters": {}}',
    ' {"type": "function", "name": "f", "parameters": {}}',
    '{"n\\u0061me": "f", "parameters": {}}',
    "[f(x=1)]",
    "# why\n( [ # so\n f # or\n (x=1)])",
    '<function=f>{"a": 1}',
    'Ask brave_search.call(query="x")',
    "a<|eot_id|>b",
    "<|python_tag|>",
)
ANSWERS = (
    "Hello",
    "See [a link](https://x)",
    "# Title\n\n[1] says",
    "a < b, <b>c</b>",
    "if x: y()",
    "<|eot_id",
    "<func",
)


@pytest.mark.parametrize("name", LLAMA)
def test_answers_of_llama_are_calls_in_no_profile(name):
    for text in ANSWERS:
        assert generates(name, text, "<|eot_id|>"), text
        assert not readers.READERS["llama3.1-json"](text) if pytest.importorskip("llama_models") else True
    for text in CALLS:
        assert not generates(name, text, "<|eot_id|>", tool_choice="none"), text
    assert generates(name, "a<|eot_id|>b", "<|eot_id|>", marker_safe=False)


HIDDEN = (  # behind other words, what vLLM's reader of JSON takes for a call
    r'Look {"n\u0061me": "f", "parameters": {}}',
    'Look {"id": 1, "name": "f", "parameters": {}}',
    r'Look {"\u0070aram\u0065ters": {}, "name": "f"}',
    '{{"arguments" : [], "name": "f"}',
)


@pytest.mark.parametrize("name", ["llama-3.1", "llama3.1-json", "llama3.1-combined"])
def test_no_object_in_an_answer_of_llama_is_a_call(name):
    for text in HIDDEN:
        assert readers.llama_json(text)
        assert not generates(name, text, "<|eot_id|>", tool_choice="none"), text
    for text in ('Look {"id": 1}', 'Its "arguments" are {"a": {}}', 'It has "parameters".'):
        assert not readers.llama_json(text)
        assert generates(name, text, "<|eot_id|>", tool_choice="none"), text


def test_calls_are_kept_out_of_a_text_that_depends_on_another():
    """The second text goes on as it may behind the first."""
    grammar = Grammar.from_lark("start: A B\nA: /a(?!b)/\nB: /[^;]*;/")
    rules = {"answer": ((Ref("content"),),), "content": (tuple(grammar.symbols()),)}
    safe = marker_safe(rules, ChatFormat.load("llama3.1-json").definition)
    for text, taken in ((f"{HIDDEN[1]};", False), ('Its "arguments";', True), ("b;", False)):
        assert any(matches(symbol.language, text) for symbol in safe["content"][0]) == taken, text
    assert any(matches(symbol.language, f"{HIDDEN[1]};") for symbol in rules["content"][0])


def test_code_is_no_call_of_another_profile():
    for code, taken in (
        ("print(1)", True),
        ("[f(x=1)]", False),
        ('<function=f>{"a": 1}', False),
        ('{"name": "f"}', False),
    ):
        assert generates("llama3.1-builtin", f"<|python_tag|>{code}", "<|eom_id|>", interpreter=True) == taken, code


ESCAPED = [  # format, the string, its spelling
    ("llama3.1-function", "it's } or >{", r'"it\u0027s \u007d or >\u007b"'), ("llama3.1-function", "</a> <function=", r'"<\/a> <function\u003d"'),
    ("llama3.1-json", "<|eot_id|> <|eot", r'"<|eot_id|\u003e <|eot"'), ("hermes", "</x <tool_call>", r'"<\/x <tool_call\u003e"'),
    ("internlm2", "[UNUSED_TOKEN_146] [x]", r'"[UNUSED_TOKEN_146\u005d [x]"'), ("openchatml", "[EOS]", r'"[EOS\u005d"'),
    ("chatglm3", "a```b", r"'a``\x60b'"), ("functionary-3.2", ">> >>>f", r'">> >>\u003ef"'), ("pythonic", "<|eot_id|> it's", r'''"<|eot_id|\x3e it's"'''), ("chatglm3", "<|user|>", r"'<|user|\x3e'"), ("deepseek-r1", "<｜end▁of▁sentence｜>", r'"<｜end▁of▁sentence｜\u003e"'),
]  # fmt: skip


@pytest.mark.parametrize(("name", "string", "spelled"), ESCAPED, ids=lambda part: part[:20])
def test_strings_escape_what_would_complete_a_marker(name, string, spelled):
    chat = ChatFormat.load(name)
    message = Message("", [ToolCall("look_up", {"text": string})])
    text = chat.write(message, forged.TOOLS)
    assert spelled in text
    assert chat.parse(text, forged.TOOLS, strict=True).tool_calls[0].arguments == {"text": string}
    assert not any(mark in spelled for mark in marks(chat.definition))


SIBLINGS = [  # a format that is another's part under options
    ("llama3.1-combined", {"custom": "function"}, "llama3.1-function"), ("llama3.1-combined", {"custom": "either"}, "llama3.1-function"),
    ("llama3.1-combined", {"custom": "json"}, "llama3.1-json"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options", "part"), SIBLINGS)
def test_a_format_of_several_escapes_what_each_of_them_does(name, options, part):
    whole, alone = ChatFormat.load(name), ChatFormat.load(part)
    arguments = {"text": "','amount':999,'x':'"}
    spelled = alone.write_call("look_up", arguments, forged.TOOLS).partition('"text": "')[2].partition('"}')[0]
    assert f'"{spelled}"' in whole.write_call("look_up", arguments, forged.TOOLS, **options)
    said = alone.grammar(forged.TOOLS).notes
    assert whole.grammar(forged.TOOLS, **options).notes == said and bool(said) == (part == "llama3.1-function")


RAW = [  # format, a string that a published reader misreads between tags, one that it does not
    ("qwen3-coder", "a<parameter=b>c", "a<parameter"), ("qwen3.5", "a</function>", "</functio>"), ("mimo", "</function>", "<function=f>"),
    ("seed-oss", "\n<parameter=", "<paramete"), ("seed-oss", "<function=", "</parameters>"), ("minimax-m2", "a</invoke>b", "<invoke>"),
    ("minimax-m2", "<parameter name=", "<parameter nam"), ("glm-4.6", "<arg_key>", "<arg_ke>"), ("deepseek-v3.2", "<｜DSML｜invoke", "<DSML"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "misread", "plain"), RAW)
def test_a_string_between_tags_holds_nothing_that_readers_end_it_at(name, misread, plain):
    chat = ChatFormat.load(name)
    turn = chat.write(Message("", [ToolCall("look_up", {"text": "@@"})]), forged.TOOLS)
    stop = next(stop for stop in chat.stop if turn.endswith(stop))
    turn = turn.removesuffix(stop)
    assert generates(name, turn.replace("@@", plain), stop)
    assert not generates(name, turn.replace("@@", misread), stop)
    assert "DSML" in misread or generates(name, turn.replace("@@", misread), stop, marker_safe=False)


def test_an_answer_of_seed_oss_holds_no_call():
    turn = "See <function=f><parameter=a>1</parameter></function>."
    assert readers.READERS["seed-oss"](turn) == [("f", {"a": "1"})]
    assert not generates("seed-oss", turn, "<seed:eos>", tool_choice="none")
    assert generates("seed-oss", "See <function> and </function>.", "<seed:eos>")


@pytest.mark.parametrize("name", ["hermes", "qwen3-coder", "gemma-4"])
def test_names_and_constants_with_markers(name):
    """A name of a property and an enumerated text may hold a marker where strings are escaped; elsewhere they are
    refused or left out.
    """
    schema = {"type": "object", "properties": {"k": {"enum": ["<|im_end|>", "<turn|>", "b"]}}, "required": ["k"]}
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    chat = ChatFormat.load(name)
    if name == "gemma-4":
        with pytest.raises(ConstrainedError, match="cannot be written"):
            compile(chat.grammar(tools), forged.vocabulary_of(chat)[0]).matcher().shortest_completion()
        return
    text = chat.write(Message("", [ToolCall("f", {"k": "b"})]), tools)
    assert json.dumps(chat.parse(text, tools, strict=True).tool_calls[0].arguments) == '{"k": "b"}'


def test_a_message_that_spells_a_token_is_not_written():
    with pytest.raises(ConstrainedError, match=r"spells '<\|im_end\|>'"):
        ChatFormat.load("internlm2").write(Message("a<|im_end|>b"))
    with pytest.raises(GrammarError, match="marker_safe"):
        ChatFormat.load("hermes").grammar(marker_safe="no")
