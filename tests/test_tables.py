"""What notebooks show: short tables in which nothing of a text is markup."""

from __future__ import annotations

import pytest

import constrained as c
from constrained.formats.message import Message, ToolCall

VOCABULARY = c.Vocabulary([bytes([byte]) for byte in range(256)], special={"<end>": 256}, stop=[256], size=257)
CALL = ToolCall("search", {"q": "<b>tea</b>"}, id="a1")
CHOICE = c.Grammar.choice(["<yes>", "no"])
SHOWN = {
    "grammar": (CHOICE, ["start", "choice"]),
    "lark text": (c.Grammar.from_lark('start: "<i>" | "b"'), ["&lt;i&gt;"]),
    "constraint": (c.compile(CHOICE, VOCABULARY), ["Grammar by choice", "Vocabulary"]),
    "tool call": (CALL, ["search", "&lt;b&gt;tea", "a1"]),
    "message": (Message("Hi <u>", [CALL], "<end>", {"thought": "<s>"}), ["Hi &lt;u&gt;", "search", "&lt;end&gt;"]),
    "empty message": (Message(), ["assistant"]),
    "long message": (Message("x" * 10_000), ["…"]),
}


@pytest.mark.parametrize("name", SHOWN)
def test_what_notebooks_show(name):
    value, wanted = SHOWN[name]
    text = value._repr_html_()
    assert text.startswith("<table><tr><th>") and text.endswith("</table>") and len(text) < 4_000
    assert [part for part in wanted if part not in text] == []
    bare = text
    for tag in ("<table>", "</table>", "<tr>", "<th>", "<td>", "<pre>", "</pre>"):
        bare = bare.replace(tag, "")
    assert "<" not in bare and ">" not in bare
