"""Long texts: the work of reading grows as the text does; the seconds are measured by benchmarks/reading.py."""

from __future__ import annotations

import sys

import pytest
from constrained.benchmarks.reading import texts
from constrained.rendering import render

from constrained import ChatFormat, LimitExceeded, Rejected, Vocabulary
from constrained.work import Budget, metered


def _work(chat, kind, text, tools):
    with metered(Budget(10**12)) as budget:
        chat.parse(text, tools, kind=kind)
    return 10**12 - budget.left


@pytest.mark.parametrize("name", ["hermes", "chatglm3", "qwen3-coder"])
def test_work_is_linear(name):
    chat = ChatFormat.load(name)
    short, long = list(texts(chat, 5_000)), list(texts(chat, 20_000))
    assert len(short) == len(long) >= 5
    for (shape, kind, text, tools), (_, _, longer, _) in zip(short, long, strict=True):
        chat.parse(text, tools, kind=kind)  # what is met first takes longer
        assert _work(chat, kind, longer, tools) <= 6 * _work(chat, kind, text, tools) + 5_000, shape


@pytest.mark.parametrize("text", ["some words\nand <b> more " * 4_000, "<a>" * 40_000, "a b" * 40_000])
@pytest.mark.parametrize("name", ["hermes", "qwen3-coder"])
def test_words_are_read_and_written_in_a_few_calls_a_character(name, text):
    """A space may begin what stands before a call."""
    chat = ChatFormat.load(name)
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": text.strip()}]
    chat.render_text(messages)
    assert _counted(lambda: chat.render_text(messages)) < 8 * len(text)


def test_tokens_of_long_messages_are_counted():
    chat, letters = ChatFormat.load("hermes"), Vocabulary([bytes([byte]) for byte in range(256)], {"<|im_start|>": 256, "<|im_end|>": 257})
    with pytest.raises(LimitExceeded, match="too much work at the texts of the messages"):
        chat.render([{"role": "user", "content": "a" * 1_500_000}], letters)


def _counted(act):
    """Return how many functions an act calls."""
    called = 0

    def count(frame, event, argument):
        nonlocal called
        called += event == "call"

    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(None)
    return called


def _calls(chat, text):
    """Return how many functions validating calls, and what is wrong."""
    wrong = []

    def validate():
        try:
            chat.validate(text, kind="assistant_turn", all_errors=True)
        except Rejected as error:
            wrong.extend([error, *error.others])

    return _counted(validate), wrong


@pytest.mark.parametrize(("name", "level"), [("pythonic", "["), ("llama3.1-json", '{"a":')])
def test_what_is_nested_deeply_is_read_in_a_few_calls_a_character(name, level):
    """Nothing is copied where stacks are cut; it was up to 80 calls a character."""
    chat, few, many = ChatFormat.load(name), level * (300 // len(level)), level * (1_200 // len(level))
    _calls(chat, few)
    assert _calls(chat, many)[0] - _calls(chat, few)[0] < 5 * (len(many) - len(few))


# a text may hold the arguments, so its quote is not wrong yet
BROKEN = [("functionary-3.1", '<function=f>": ', ":"), ("hermes", '<tool_call>\n{"name": "f"]</tool_call>\n', "]")]


@pytest.mark.parametrize(("name", "call", "wrong"), BROKEN)
def test_diagnosis_is_linear(name, call, wrong):
    chat = ChatFormat.load(name)
    few, many = "I will.\n" + call * 100, "I will.\n" + call * 400
    _calls(chat, few)  # what is met first takes longer
    (before, some), (after, more) = _calls(chat, few), _calls(chat, many)
    assert (len(some), len(more)) == (100, 400)
    assert after <= 5 * before
    assert [error.call for error in more] == [*range(1, 401)]
    place = more[-1].position
    assert (more[-1].line, place) == (1 + many[:place].count("\n"), many.rindex(call) + call.index(wrong))


def _stream(chat, text):
    stream = chat.stream_parser()
    for char in text:
        stream.feed(char)
    stream.close()


def test_a_stream_of_many_parameters_is_linear():
    """What readings agree on was looked for from the end of each back to the beginning, at every piece."""
    chat = ChatFormat.load("qwen3-coder")
    few, many = (
        "<tool_call>\n<function=f>\n"
        + "".join(f"<parameter=k{at}>\n1\n</parameter>\n" for at in range(count))
        + "</function>\n</tool_call><|im_end|>"
        for count in (20, 80)
    )
    _stream(chat, few)
    assert _counted(lambda: _stream(chat, many)) <= 5 * _counted(lambda: _stream(chat, few))


def test_a_stream_that_was_refused_reads_nothing_more():
    stream = ChatFormat.load("hermes").stream_parser()
    errors = []

    def feed():
        with pytest.raises(Rejected) as error:
            stream.feed("<|im_end|>x")
        errors.append(str(error.value))

    feed()
    assert _counted(feed) < 100
    assert len(errors) == 2
    assert len({*errors}) == 1


def test_what_is_learned_is_found_in_one_pass(monkeypatch):
    """The tokens that end turns were looked for among all, for each message."""
    seen = 0

    class Counted(tuple):
        def __iter__(self):
            nonlocal seen
            for entry in tuple.__iter__(self):
                seen += 1
                yield entry

    find = render.learned
    monkeypatch.setattr(render, "learned", lambda *given: find(*given[:3], Counted(given[3]), given[4]))
    ChatFormat.load("hermes").render_text([{"role": "assistant", "content": "Ho"}] * 100)
    assert 0 < seen <= 200
