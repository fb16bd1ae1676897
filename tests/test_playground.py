"""What the page asks, as tables; the page as one file; and, where Chromium is, the page in it."""

from __future__ import annotations

import json
import re
import shutil

import pytest

pytest.importorskip("railroad")

from constrained.serve import playground
from constrained.serve.diagrams import diagrams, rules_of

import constrained as c

HERMES = {"format": "hermes", "tools": playground.TOOLS}
CALL = c.ChatFormat.load("hermes").write_call("get_weather", playground.CALL, playground.TOOLS)


@pytest.fixture(scope="module")
def context(tiny_vocabulary):
    return playground.Context(tiny_vocabulary)


@pytest.mark.parametrize(("asked", "verdict", "word"), [
    ({**HERMES, "text": CALL}, "whole", "get_weather"),
    ({**HERMES, "text": CALL[:60]}, "unfinished", "get_weather"),
    ({**HERMES, "text": CALL.replace("celsius", "kelvin")}, "refused", "kelvin"),
    ({**HERMES, "text": "Hello.<|im_end|>"}, "whole", "Hello."),
    ({**HERMES, "text": "<tool_call>", "tool_choice": "none"}, "refused", "<tool_call>"),
    ({"schema": playground.SCHEMA, "text": playground.VALUE}, "whole", ""),
    ({"schema": playground.SCHEMA, "text": '{"name": 1'}, "refused", "byte 9"),
    ({"schema": playground.SCHEMA, "text": ""}, "unfinished", ""),
])  # fmt: skip
def test_read(context, asked, verdict, word):
    found = playground.read(asked, context)
    assert found["verdict"] == verdict
    assert asked["text"].startswith("".join(found["tokens"]))
    assert word in json.dumps(found)
    assert (found["refusal"] is not None) == (verdict == "refused")


def test_events_add_up_to_the_message(context):
    found = playground.read({**HERMES, "text": CALL}, context)
    told = [event["text"] for event in found["events"] if event["event"] == "ArgumentDelta"]
    assert "".join(told) == found["message"]["tool_calls"][0]["function"]["arguments"]


def test_next_tells_what_is_forced_and_what_a_budget_leaves(context):
    found = playground.next_tokens({**HERMES, "text": CALL[:60]}, context)
    assert found["allowed"] > 0 and found["why"] and not found["complete"]
    allowed = [row["allowed"] for row in found["budgets"]]
    assert allowed == sorted(allowed) and allowed[-1] == found["allowed"]
    whole = CALL[:60] + found["shortest"]["text"]
    assert playground.read({**HERMES, "text": whole}, context)["verdict"] == "whole"
    assert playground.next_tokens({**HERMES, "text": "<tool_call>"}, context)["forced"].startswith("\n{")
    assert playground.next_tokens({**HERMES, "text": CALL}, context) == {"finished": True}
    with pytest.raises(c.Rejected):
        playground.next_tokens({**HERMES, "text": "<tool_call>x"}, context)


@pytest.mark.parametrize("asked", [
    [], {"text": 3}, {"format": "../hermes.toml"}, {"schema": {"type": "objec"}}, {"format": "hermes", "tools": 3},
    {"text": "a" * (playground.MOST_TEXT + 1)},
])  # fmt: skip
def test_what_is_no_question_is_an_error_of_the_package(context, asked):
    for answer in playground.ANSWERS.values():
        with pytest.raises(c.ConstrainedError):
            answer(asked, context)


@pytest.mark.parametrize("name", ["hermes", "pythonic", "qwen3-coder", "gpt-oss"])
def test_diagrams_escape_what_they_show(name):
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"<script>": {"enum": ["</svg><b>"]}}}}
    drawn = diagrams(c.ChatFormat.load(name).grammar([tool]))
    assert drawn[0]["name"] == "start"
    for one in drawn:
        assert one["svg"].count("<svg") == 1 and "<script" not in one["svg"] and "<b>" not in one["svg"]
    names = {one["name"] for one in drawn}
    assert {link for one in drawn for link in re.findall(r'href="#rule-(\w+)"', one["svg"])} <= names


def test_rules_of_a_printed_grammar():
    assert rules_of('start: "a|b" x |\nx: /c/ [x]') == {"start": [['"a|b"', "x"], []], "x": [["/c/", "x"], []]}


def test_the_page_is_one_file_without_addresses():
    page = playground.page({"examples": []})
    assert "{{data}}" not in page
    for loaded in re.findall(r'(?:src|href)="([^"]*)"', page.partition('<script id="data"')[0]):
        assert loaded.startswith("data:")
    for control in re.findall(r'<(?:textarea|select|input)[^>]*\bid="(\w+)"', page):
        assert f'for="{control}"' in page  # each has a label


def test_the_page_has_every_format_and_a_call_of_each(context):
    found = {format["name"]: format for format in playground._formats()}
    assert tuple(found) == c.ChatFormat.names()
    own = {name: format for name, format in found.items() if "tools" in format}  # the others are asked with the page's
    assert list(own) == ["llama3.1-builtin"]
    for name, format in (own | {"hermes": found["hermes"]}).items():
        asked = {"format": name, "tools": format.get("tools", playground.TOOLS), "text": format["call"]}
        assert playground.read(asked, context)["message"]["tool_calls"]


@pytest.mark.slow
def test_the_page_in_a_browser(context, tmp_path):
    """At three widths: nothing overflows, nothing fails, the cursor is told of."""
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium is installed")
    title, asked = playground.EXAMPLES[0]
    example = playground._example(title, dict(asked), context)
    path = tmp_path / "page.html"
    path.write_text(playground.page({"examples": [example]}), encoding="utf-8")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for width in (1280, 768, 420):
            seen, failures = browser.new_page(viewport={"width": width, "height": 900}), []
            seen.on("pageerror", lambda error, failures=failures: failures.append(str(error)))
            seen.goto(path.as_uri())
            seen.click("#tokens button >> nth=0")
            assert "What a budget leaves" in seen.inner_text("#next")
            assert "forced" in seen.inner_text("#next") and "get_weather" in seen.inner_text("#next")
            seen.click("#diagrams-part summary")
            assert seen.is_visible("#diagrams svg >> nth=0")
            assert seen.evaluate("document.documentElement.scrollWidth") <= width
            assert failures == []
        browser.close()
