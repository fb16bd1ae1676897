"""OpenAI's conversations of a table in every format: a sample that is another one in each run, of what
``python -m constrained.benchmarks.conversations`` does at length.
"""

from __future__ import annotations

import os
import random

import pytest
from constrained.benchmarks import conversations

from constrained import ChatFormat, ConstrainedError

SEED = os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(random.randrange(1 << 32))  # the same for all workers
_, ROWS = conversations.table()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ChatFormat.names())
def test_a_conversation_is_rendered_and_says_the_same(name):
    for row in random.Random(SEED + name).sample(ROWS, 2):
        assert conversations.judge(name, row) == [], f"{row['id']} in {name}"


def test_every_conversation_is_one_of_some_format():
    assert len(ROWS) >= 60 and len({row["id"] for row in ROWS}) == len(ROWS)
    for row in ROWS:
        assert conversations.judge("hermes", row) == []


TALKS = [
    [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}],
    [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}, {"role": "system", "content": "Be brief."}],
]


@pytest.mark.parametrize("name", ["chatglm3", "qwen3", "openchatml", "mistral-v3-tekken"])
def test_an_answer_begins_behind_all_that_was_said(name):
    chat = ChatFormat.load(name)
    for talk in TALKS:
        try:
            text = chat.render_text(talk, add_generation_prompt=True)
        except ConstrainedError as error:
            assert "stands behind" in str(error)
        else:
            assert all(message["content"] in text for message in talk)
