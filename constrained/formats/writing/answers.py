"""Answers that only a `response_schema` lets a model generate: JSON, where an answer may not begin as a call does.

The grammar's own answers leave them out, as readers take what begins so for a call; readers take those that are none
for answers all the same (Llama's JSON profiles: ``{"city": "Oslo"}``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from constrained.errors import ConstrainedError

if TYPE_CHECKING:
    from constrained.formats.load import ChatFormat

_COMPOUND = re.compile(r"\s*[\[{]")


def may_be_json(text: str) -> bool:
    """Return whether a text begins as an object or a list."""
    return _COMPOUND.match(text) is not None


def is_json_answer(chat: ChatFormat, text: str, tools: object) -> bool:
    """Return whether a text is what some `response_schema` would generate, and is read as an answer."""
    if not may_be_json(text):
        return False
    stop = next(iter(chat.definition.stops.get("answer", ())), "")
    try:
        read = chat.parse(text + stop, tools, strict=True, response_schema={})
    except ConstrainedError:
        return False
    return bool(read.content == text and not read.tool_calls and not read.thoughts)
