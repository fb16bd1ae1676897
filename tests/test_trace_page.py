"""The page of a trace: well-formed, self-contained, harmless whatever the model writes; and alive in a real browser,
where there is one.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest
from constrained.research.models import normalised
from constrained.research.trace import trace

import constrained as c

VOID = {"meta", "rect", "polyline"}
EVIL = ("<script>alert(1)</script>", "</script><img src=x onerror=alert(2)>", '"&\'<b>', "\u2028\x00")


class Page(HTMLParser):
    """Notes tags, what is open, attributes and the text of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open, self.seen, self.attributes, self.data = [], [], [], {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.attributes.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)
        self.attributes.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.data.setdefault(self.open[-1] if self.open else "", []).append(data)


@pytest.fixture(scope="module")
def found():
    vocabulary = c.Vocabulary([text.encode() for text in EVIL], special={"<end>": len(EVIL)}, stop=[len(EVIL)])
    constraint = c.compile(c.Grammar.choice(["".join(EVIL)]) | c.Grammar.choice([EVIL[0]]), vocabulary)
    return trace(
        constraint,
        lambda ids: normalised(np.arange(len(EVIL) + 1)[::-1].astype(float)),
        "<i>prompt",
        tokenizer=lambda *_, **__: {"input_ids": [0]},
        temperature=0,
    )


def test_the_page_holds_nothing_that_a_model_wrote_as_markup(found):
    page = Page(found.html())
    assert page.open == []
    assert page.seen.count("script") == 2 and "img" not in page.seen and "i" not in page.seen
    assert [json.loads("".join(page.data["script"][:1]))[0]["text"]] == [EVIL[0]]
    assert not [
        name for _, attributes in page.attributes for name in attributes if name in ("src", "href", "onerror", "onload")
    ]
    assert "default-src 'none'" in found.html()


def test_a_notebook_gets_a_fragment(found):
    page = Page(found._repr_html_())
    assert page.open == [] and "script" not in page.seen and page.seen.count("span") == 3 + len(found.steps)


def test_a_trace_as_data(found):
    said = json.loads(found.to_json())
    assert said["text"] == found.text and [step["kind"] for step in said["steps"]] == [
        step.kind for step in found.steps
    ]
    assert found.rows()[0]["forced"] is True


def test_an_empty_trace_is_a_page(found):
    from dataclasses import replace

    assert Page(replace(found, steps=()).html()).open == []


def test_a_browser_shows_the_panel(found, tmp_path):
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium on this machine")
    path = tmp_path / "trace.html"
    found.save(path)
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--virtual-time-budget=2000",
        "--dump-dom",
    ]
    dom = subprocess.run(
        [browser, *options, path.as_uri()], capture_output=True, text=True, timeout=120, check=True
    ).stdout
    assert re.search(rf"step \d+ of {len(found.steps)}: ", dom), "the script ran, and filled the panel from the data"
    assert re.search(r'class="token \w+ on"', dom), "and marked the token that it is about"
