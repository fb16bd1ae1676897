"""Long texts: the work of reading grows as the text does; the seconds are measured by benchmarks/reading.py."""

from __future__ import annotations

import pytest
from constrained.benchmarks.reading import texts

from constrained import ChatFormat
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
