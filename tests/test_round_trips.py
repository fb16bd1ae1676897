"""Conversations whose texts spell anything: what is rendered, under real vocabularies, is read back as the same
messages, and rendered again as the same ids.

Each run takes other examples, under one vocabulary a format; ``CONSTRAINED_EXAMPLES=200 pytest`` of this file, many.
"""

from __future__ import annotations

import os
import random
from functools import lru_cache

import pytest
from constrained.benchmarks import vocabularies
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from constrained import ChatFormat, ConstrainedError
from constrained.formats import Message, ToolCall

SEED = os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(random.randrange(1 << 32))  # the same for all workers
EXAMPLES = int(os.environ.get("CONSTRAINED_EXAMPLES", "4"))
NAMES = ChatFormat.names()
VOCABULARIES = {"llama3": vocabularies.llama3, "sentencepiece": vocabularies.mistral, "tekken": vocabularies.tekken}
RESULTS = ("tool", "observation", "ipython", "environment")
PIECES = (
    "<|im_end|>", "<|im_start|>", "<tool_call>", "</tool_call>", "<|eot_id|>", "<|user|>", "[TOOL_CALLS]", "</think>", "<think>", "<|python_tag|>",
    "[/INST]", "<｜DSML｜", "<arg_key>", "</parameter>", "<function=f>", '{"name": "f", "parameters": {}}', "[f(x=1)]", ">>>all\n", "```python\n", "<|",
    "|>", "<", "'", '"', "\\", "\\u0041", "{", "}", "</", "\n", "\n\n", " ", "\t", "\r\n", "北京", "🌧", "👩‍👩‍👧", "é", "\x00", "\x1b", "\u202e", "\ufeff",
    "\u2028", "a", "Hello", "1", "0.1", "null", "true", "&amp;", "%", "functools[",
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join)
SOME_TEXTS = st.one_of(TEXTS, st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8))
SCALARS = st.one_of(
    SOME_TEXTS,
    st.just(""),
    st.integers(-(10**20), 10**20),
    st.booleans(),
    st.none(),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
)
VALUES = st.one_of(
    SCALARS, st.lists(SCALARS, max_size=3), st.dictionaries(st.sampled_from(["b", "c_d"]), SCALARS, max_size=2)
)
TOOLS = [
    {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {
        "text": {"type": "string"}, "n": {"type": "number"}, "any": {}, "list": {"type": "array"}, "inner": {"type": "object"}}}}},
    {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}},
]  # fmt: skip
ARGUMENTS = st.fixed_dictionaries({}, optional={
    "text": SOME_TEXTS, "n": st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False)), "any": VALUES,
    "list": st.lists(VALUES, max_size=3), "inner": st.dictionaries(st.sampled_from(["b", "c_d"]), VALUES, max_size=2)})


@lru_cache
def _roles(chat):
    return frozenset(chat.definition.messages.values())


@st.composite
def _conversations(draw, chat):
    """Messages that some template would print: questions, answers, calls with their results, thoughts where the format
    has them.
    """
    roles, own = _roles(chat), chat.definition.payload is None
    result = next(role for role in RESULTS if role in roles)
    messages = [Message(draw(SOME_TEXTS), role="system")] if "system" in roles and draw(st.booleans()) else []
    for _ in range(draw(st.integers(1, 2))):
        messages.append(Message(draw(SOME_TEXTS), role="user"))
        kinds = list(chat.definition.thoughts)[:1] if chat.definition.generates_thoughts else []
        thoughts = {kind: draw(SOME_TEXTS) for kind in kinds if draw(st.booleans())}
        if draw(st.booleans()):
            messages.append(Message(draw(SOME_TEXTS), thoughts=thoughts))
            continue
        calls = [ToolCall("brave_search", {"query": draw(SOME_TEXTS)})] if own else [ToolCall("f", draw(ARGUMENTS))]
        calls += (
            [ToolCall("look_up", {})] if not own and chat.definition.calls is not None and draw(st.booleans()) else []
        )
        messages.append(Message(draw(SOME_TEXTS) if draw(st.booleans()) else "", calls, thoughts=thoughts))
        messages += [Message(draw(SOME_TEXTS), role=result) for _ in calls]
        messages.append(Message(draw(SOME_TEXTS)))
    return messages


def _told(messages):
    return [
        (
            m.role,
            m.content,
            {kind: text for kind, text in m.thoughts.items() if text},
            [(c.name, c.arguments) for c in m.tool_calls],
        )
        for m in messages
    ]


def _parts(messages):
    """Return messages with text that has no place beside a call as a turn before it."""
    for message in messages:
        if message.tool_calls and message.content:
            yield from (Message(message.content, thoughts=message.thoughts), Message("", message.tool_calls))
        else:
            yield message


def _single(messages):
    """Return messages with a call a turn, and its result behind it, where a format has one a turn."""
    waiting = []
    for message in messages:
        if len(message.tool_calls) > 1:
            turns = [Message("", [call]) for call in message.tool_calls]
            yield Message(message.content, turns.pop(0).tool_calls, thoughts=message.thoughts)
            waiting = turns
        else:
            yield message
            if message.role in RESULTS and waiting:
                yield waiting.pop(0)


def check(name, vocabulary, messages):
    """Return why a conversation is not rendered, or None; what is rendered must be read as it was."""
    chat = ChatFormat.load(name)
    tools = None if chat.definition.payload is None else TOOLS
    try:
        ids = chat.render(messages, vocabulary, tools, tool_prompt=False)
    except ConstrainedError as error:
        return str(error)
    read = chat.parse(ids, tools, vocabulary, kind="conversation")
    assert _told(read) in [_told(way) for way in (messages, _parts(messages), _single(messages), _parts(_single(messages)))]
    assert chat.render(read, vocabulary, tools, tool_prompt=False) == ids
    return None


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
def test_conversations_are_read_back(name):
    vocabulary = random.Random(SEED + name).choice([*VOCABULARIES])
    made = VOCABULARIES[vocabulary]()
    if made is None:
        pytest.skip(f"the package with the vocabulary of {vocabulary} is not installed")

    @seed(f"{SEED} {name}")
    @settings(deadline=None, max_examples=EXAMPLES, phases=[Phase.generate], database=None, suppress_health_check=list(HealthCheck))
    @given(_conversations(ChatFormat.load(name)))
    def run(messages):
        check(name, made, messages)

    run()
