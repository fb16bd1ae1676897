"""Streams: the events of every turn of the formats' tables, cut anywhere, add up to what `parse` returns for the whole.
"""

from __future__ import annotations

import json
import random
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from constrained.benchmarks.streams import bound, delay, faults, said, total, turns

from constrained import ChatFormat, Rejected, Vocabulary, VocabularyError, compile
from constrained.formats.message import Message, ToolCall
from constrained.formats.read.inputs import split_text
from constrained.formats.read.simulation import Trail, agreed, marks_of
from constrained.formats.streaming import ArgumentDelta, CallFinished, CallStarted, TextDelta, ThoughtDelta

FOLDER = Path(__file__).with_name("corpus") / "formats"
CALLS = tomllib.loads((FOLDER / "calls.toml").read_text())
TOOLS = {tool["function"]["name"]: tool for tool in json.loads(CALLS["tools"])}
TURNS = [
    (name, row) for name in ChatFormat.names() for row in tomllib.loads((FOLDER / f"{name}.toml").read_text())["turn"]
]
VALID = [pair for pair in TURNS if "refused" not in pair[1]]


def _id(value):
    return value["id"] if isinstance(value, dict) else None


def _asked(name, row):
    tools = (
        row["own_tools"] if "own_tools" in row else [TOOLS[tool] for tool in row["tools"]] if "tools" in row else None
    )
    options = {
        key: value
        for key, value in {"prompt": "", **row.get("options", {})}.items()
        if key not in ("whitespace", "property_order", "calls_before")
    }
    return ChatFormat.load(name), tools, options


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "row"), VALID, ids=_id)
def test_events_add_up(name, row):
    chat, tools, options = _asked(name, row)
    whole = said(chat.parse(row["text"], tools, **options))
    text = row["text"]
    data = text.encode()
    for pieces in (
        [text],
        list(text),
        [data[at : at + 1] for at in range(len(data))],
        [text[at : at + 7] for at in range(0, len(text), 7)],
    ):
        stream = chat.stream_parser(tools, **options)
        events = [event for piece in pieces for event in stream.feed(piece)]
        assert total([*events, *stream.end()]) == whole
        assert said(stream.close()) == whole


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", ChatFormat.names())
def test_a_turn_cut_in_two_at_every_place(name):
    row = max((row for format, row in VALID if format == name), key=lambda row: len(row["text"][:300]))
    chat, tools, options = _asked(name, row)
    whole = said(chat.parse(row["text"], tools, **options))
    for at in range(0, len(row["text"]) + 1, 3):
        stream = chat.stream_parser(tools, **options)
        events = stream.feed(row["text"][:at]) + stream.feed(row["text"][at:])
        assert total(events + stream.end()) == whole


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ChatFormat.names())
def test_ids_are_told_as_text_is(name):
    row = next(row for format, row in VALID if format == name)
    chat, tools, options = _asked(name, row)
    names = sorted({*chat.tokens.values(), *chat.definition.reserved})
    vocabulary = Vocabulary(
        [*[None] * len(names), *(bytes([byte]) for byte in range(256))],
        special={name: at for at, name in enumerate(names)},
    )
    ids = []
    for piece, is_token in split_text(row["text"], chat.definition).pieces():
        ids += [vocabulary.special[piece]] if is_token else vocabulary.tokenize(piece.encode())
    stream = chat.stream_parser(tools, vocabulary, **options)
    events = [event for token in ids for event in stream.feed([token])]
    assert total(events + stream.end()) == said(chat.parse(row["text"], tools, **options)) == said(stream.close())


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ChatFormat.names())
def test_events_are_close_behind_the_text_that_they_tell_of(name):
    chat = ChatFormat.load(name)
    assert {what: delay(chat, turn, long) <= bound(chat) for what, turn, long in turns(chat, 120)} == {
        what: True for what, _, _ in turns(chat, 120)
    }


def test_text_behind_a_thought_is_told_at_once():
    stream = ChatFormat.load("openchatml").stream_parser()
    stream.feed("<|start_reason|>Rain.<|end_reason|>\n")
    assert stream.feed("It rains") == [TextDelta("It rains")]


def test_what_is_certain_is_told_at_once():
    stream = ChatFormat.load("hermes").stream_parser()
    assert stream.feed("It <") == [TextDelta("It")]
    assert stream.feed("b> is") == [TextDelta(" <b> is")]
    assert stream.feed('\n<tool_call>\n{"name": "f') == []
    assert stream.feed('", "arguments": {"a": "x\\u00') == [CallStarted(0, "f"), ArgumentDelta(0, '{"a": "x\\u00')]
    assert stream.so_far().tool_calls[0].arguments == {"a": "x"}
    assert stream.feed('e9"}') == [ArgumentDelta(0, 'e9"}')]
    (finished,) = stream.feed("}\n</tool_call>")
    assert finished == CallFinished(0, stream.so_far().tool_calls[0])
    assert finished.value.arguments == {"a": "xé"}


def test_members_between_tags_are_told_by_name():
    stream = ChatFormat.load("glm-4.6").stream_parser()
    turn = "\n<tool_call>f\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n</tool_call><|observation|>"
    events = [event for char in turn for event in stream.feed(char)]
    assert "".join(event.text for event in events if isinstance(event, ArgumentDelta) and event.key == "city") == "Oslo"


@pytest.mark.parametrize(("pieces", "layer"), [
    (["Hello.", "</tool_call>"], "structure"), (['<tool_call>\n{"name": "weather", "arguments": {]', "}"], "syntax"),
    (['<tool_call>\n{"name": "nobody", "arguments": {}}\n</tool_call>'], "tool"),
    (['<tool_call>\n{"name": "weather", "arguments": {"city": 1}}\n</tool_call>'], "schema"),
    ([b"Hello.", b"\xff"], None), ([b"Hello. \xe9", "end"], None),
])  # fmt: skip
def test_a_wrong_turn_is_rejected_where_it_is_wrong(pieces, layer):
    stream = ChatFormat.load("hermes").stream_parser([TOOLS["weather"]])
    with pytest.raises(Rejected) as caught:
        for piece in pieces:
            if piece == "end":
                stream.end()
            else:
                stream.feed(piece)
    assert caught.value.layer == layer


def test_a_turn_whose_stop_was_stripped_is_whole():
    stream = ChatFormat.load("hermes").stream_parser()
    assert stream.feed("Hello. ") + stream.end() == [TextDelta("Hello."), TextDelta(" ")]
    assert stream.close() == Message("Hello. ")
    with pytest.raises(Rejected, match="ends too early"):
        ChatFormat.load("hermes").parse("Hello.<|eot_id|>")
    called = ChatFormat.load("internlm2").parse('<|action_start|><|plugin|>\n{"name": "f", "parameters": {}}<|action_end|>')
    assert called.tool_calls == [ToolCall("f", {})]
    asking = ChatFormat.load("hermes").stream_parser(stop_optional=False)
    assert asking.feed("Hello.") == [TextDelta("Hello.")]
    with pytest.raises(Rejected, match="ends too early"):
        asking.close()


def test_ids_need_a_vocabulary():
    with pytest.raises(VocabularyError):
        ChatFormat.load("hermes").stream_parser().feed([1])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ChatFormat.names())
def test_the_beginning_of_a_turn_is_read_as_far_as_it_goes(name):
    for row in [row for format, row in VALID if format == name][:4]:
        chat, tools, options = _asked(name, row)
        whole = chat.parse(row["text"], tools, **options)
        for at in range(0, len(row["text"]), 4):
            part = chat.parse(row["text"][:at], tools, partial=True, **options)
            assert whole.content.startswith(part.content)
            assert [call.name for call in whole.tool_calls][: len(part.tool_calls)] == [
                call.name or whole.tool_calls[at].name for at, call in enumerate(part.tool_calls)
            ]


def test_the_beginning_of_a_call_alone_is_not_judged_yet():
    tools = [{"name": "f", "parameters": {"type": "object", "required": ["a", "b"]}}]
    text = '{"type": "function", "name": "f", "parameters": {"a": 1, '
    call = ChatFormat.load("llama3.1-json").parse(text, tools, kind="tool_call", partial=True)
    assert call == ToolCall("f", {"a": 1})


CONVERSATION = '<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<tool_call>\n{"name": "p\\u0069ng", "arguments": {"a": [1]}}\n</tool_call><|im_end|>\n'
QUERY = '<|python_tag|>brave_search.call(query="a \\"b\\" \\x41")<|eom_id|>'


@pytest.mark.parametrize(("name", "kind", "text"), [
    ("hermes", "conversation", CONVERSATION), ("hermes", "tool_call", '{"name": "p\\u0069ng", "arguments": {"a": "\\ud83c\\udf27"}}'),
    ("llama3.1-builtin", "assistant_turn", QUERY), ("gpt-oss", "assistant_turn", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>é<|return|>"),
])  # fmt: skip
def test_cuts_change_nothing(name, kind, text):
    assert list(faults({"format": name, "kind": kind, "text": text}, 1)) == []


def test_what_readings_agree_on_is_the_beginning_that_they_share():
    """The slow twin goes back mark by mark, from the deepest."""
    picks = random.Random(1)
    for _ in range(300):
        trails = [None]
        for _ in range(picks.randint(1, 60)):
            parent = picks.choice(trails[-4:])
            place = picks.randint(0, 2) + (parent.place if parent else 0)
            trails.append(Trail(parent, (True, "r"), place))
        asked = picks.choices(trails[-9:], k=picks.randint(1, 5))
        heads, end = {*asked}, 200
        while len(heads) > 1:
            deepest = max((trail for trail in heads if trail is not None), key=lambda trail: len([*marks_of(trail)]))
            end = min(end, deepest.place)
            heads = heads - {deepest} | {deepest.parent}
        assert agreed(asked, 200) == (heads.pop(), end)


OWN = {  # how a user's own format says that a turn begins → a turn as a model writes it, what it thinks, what it says
    "free": [("Clouds. Yes.<|im_end|>", "", "Clouds. Yes."), ("<think>\nClouds.\n</think>\n\nYes.<|im_end|>", "Clouds.", "Yes.")],
    "think-open": [
        ("Clouds.\n</think>\n\nYes.<|im_end|>", "Clouds.", "Yes."), ("\n</think>\n\nYes.<|im_end|>", "", "Yes."),
        ("<think>\nClouds.\n</think>\n\nYes.<|im_end|>", "Clouds.", "Yes."), ("Clouds, I think.<|im_end|>", "Clouds, I think.", ""),
    ],
    "think-closed": [("Yes.<|im_end|>", "", "Yes."), ("<think>\nClouds.\n</think>\n\nYes.<|im_end|>", "Clouds.", "Yes.")],
}


@pytest.mark.parametrize("start", OWN)
def test_a_format_says_how_its_prompt_begins_a_turn(start, tmp_path):
    """All that reads, writes and generates turns takes it for granted; ``prompt=""`` asks for the whole turn."""
    (tmp_path / "own.toml").write_text(f'title = "Own"\nspecification = "ours"\nextends = "qwen3"\nprompt = "{start}"\n')
    chat = ChatFormat.load(tmp_path / "own.toml")
    asked = [{"role": "user", "content": "Rain?"}]
    begun = chat.generation_prompt()
    assert chat.render_text(asked, add_generation_prompt=True).endswith(f"assistant\n{begun}")
    for text, thought, content in OWN[start]:
        read = chat.parse(text)
        assert (read.thoughts, read.content) == ({"reasoning": thought} if thought else {}, content)
        told = [repair.rule for repair in read.repairs]
        assert told == (["begun_again"] if start != "free" and text.startswith("<think>") else [] if content else ["unclosed_thought"])
        for at in range(len(text) + 1):
            stream = chat.stream_parser()
            assert total([*stream.feed(text[:at]), *stream.feed(text[at:]), *stream.end()]) == said(read)
            assert content.startswith(chat.parse(text[:at], partial=True).content)
        stream, most, known = chat.stream_parser(), 0, 0
        for at, char in enumerate(text, 1):
            known += sum(len(event.text) for event in stream.feed(char) if isinstance(event, (TextDelta, ThoughtDelta)))
            most = max(most, at - known)
        assert most <= 32
    vocabulary = Vocabulary([bytes([at]) for at in range(256)], special={name: 256 + at for at, name in enumerate(chat.tokens)})
    for message in (Message("Yes."), Message("Yes.", thoughts={"reasoning": "Clouds."})):
        for prompt in (None, ""):
            text = chat.write(message, prompt=prompt)
            again = prompt is None and start == "think-closed" and bool(message.thoughts)
            assert chat.parse(text, prompt=prompt) == replace(message, stop="<|im_end|>")
            if not again:
                chat.validate(text, "assistant_turn", strict=True, prompt=prompt)
                matcher = compile(chat.grammar(prompt=prompt), vocabulary).matcher()
                for token in (*text.removesuffix("<|im_end|>").encode(), vocabulary.special["<|im_end|>"]):
                    matcher.advance(token)
                assert matcher.is_accepting() or matcher.is_finished()
    with pytest.raises(Rejected):
        chat.validate("Clouds.\n</think>\n\nYes.<|im_end|>", "assistant_turn", strict=True, prompt="")
