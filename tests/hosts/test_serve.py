"""The server, by the client that OpenAI publishes: what is asked is kept, streamed or not; what cannot be is refused."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import re
import socket
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import jsonschema
import pytest

pytest.importorskip("torch")
openai = pytest.importorskip("openai")
uvicorn = pytest.importorskip("uvicorn")
for needed in ("starlette", "prometheus_client", "railroad", "transformers"):
    pytest.importorskip(needed)

from constrained.default_model.build import SIZE

import constrained as c

PROMPT = [{"role": "user", "content": "What is the weather in Oslo in celsius?"}]
WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 12}, "unit": {"enum": ["celsius", "fahrenheit"]}},
    "required": ["city", "unit"],
    "additionalProperties": False,
}
TIMER = {"type": "object", "properties": {"minutes": {"type": "integer", "minimum": 1, "maximum": 60}}, "required": ["minutes"]}
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "parameters": WEATHER, "strict": True}},
    {"type": "function", "function": {"name": "set_timer", "parameters": TIMER}},
]
SCHEMAS = {"get_weather": WEATHER, "set_timer": TIMER}
PERSON = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer"}}, "required": ["name", "age"]}
STRICT = {"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": PERSON}}


BOTH = pytest.mark.parametrize("served", ["hermes", "pythonic"], indirect=True)


@contextlib.contextmanager
def _server(name):
    """The address of a server that calls in a format."""
    import torch
    from constrained.default_model import load_trained
    from constrained.serve.app import create_app
    from constrained.serve.chat import Limits

    model, tokenizer = load_trained()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the model is tiny
    app = create_app(
        model, tokenizer, name="embedded", chat_format=c.ChatFormat.load(name), own_template=True,
        limits=Limits(body=20_000, tokens=150, requests=64, tools=3, choices=4),
    )
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.02)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join()
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def servers():
    """What begins the server of a format, once however the tests are ordered."""
    with contextlib.ExitStack() as running:
        yield functools.cache(lambda name: running.enter_context(_server(name)))


@pytest.fixture
def served(request, servers):
    """The address of a server; pythonic calls are no JSON, so their arguments are told at once."""
    return servers(getattr(request, "param", "hermes"))


@pytest.fixture
def client(served):
    with openai.OpenAI(base_url=f"{served}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client


def _asked(client, **options):
    return client.chat.completions.create(**{"model": "embedded", "messages": PROMPT, "seed": 5, **options})


def _calls(message):
    """The calls of a message, each of which fits its tool."""
    calls = [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or ()]
    for name, arguments in calls:
        jsonschema.validate(arguments, SCHEMAS[name])
    return calls


def _metric(served, name):
    text = urllib.request.urlopen(f"{served}/metrics").read().decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith((f"{name} ", f"{name}{{")))


# what is asked → what holds of each choice
KEPT = {
    "auto": ({"tools": TOOLS}, lambda choice: (choice.finish_reason == "tool_calls") == bool(_calls(choice.message))),
    "required": ({"tools": TOOLS, "tool_choice": "required"}, lambda choice: _calls(choice.message)),
    "named": (
        {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "set_timer"}}},
        lambda choice: [name for name, _ in _calls(choice.message)] == ["set_timer"],
    ),
    "none": ({"tools": TOOLS, "tool_choice": "none", "max_tokens": 30}, lambda choice: not choice.message.tool_calls),
    "one call": (
        {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False},
        lambda choice: len(_calls(choice.message)) == 1,
    ),
    "several calls": (
        {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": True, "temperature": 2.0, "n": 4},
        lambda choice: _calls(choice.message) and choice.finish_reason == "tool_calls",
    ),
    "strict schema": (
        {"response_format": STRICT, "n": 2},
        lambda choice: jsonschema.validate(json.loads(choice.message.content), PERSON) is None and choice.finish_reason == "stop",
    ),
    "tools or schema": (
        {"tools": TOOLS, "response_format": STRICT},
        lambda choice: _calls(choice.message) or jsonschema.validate(json.loads(choice.message.content), PERSON) is None,
    ),
    "JSON": (
        {"response_format": {"type": "json_object"}, "max_tokens": 40},
        lambda choice: isinstance(json.loads(choice.message.content), dict),
    ),
    "few tokens": (
        {"tools": TOOLS, "tool_choice": "required", "max_tokens": 40, "temperature": 2.0, "n": 4},
        lambda choice: _calls(choice.message),
    ),
    "cut text": ({"max_tokens": 5, "messages": PROMPT}, lambda choice: choice.finish_reason == "length"),
    "stop": (
        {"stop": ["o", "ue"], "messages": PROMPT, "temperature": 1.5},
        lambda choice: "o" not in choice.message.content and "ue" not in choice.message.content,
    ),
    "greedy, biased": (
        {"temperature": 0, "logit_bias": {"5": -100}, "tools": TOOLS, "tool_choice": "required"},
        lambda choice: _calls(choice.message),
    ),
    "a conversation": (
        {
            "tools": TOOLS,
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
                {"role": "assistant", "content": None, "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Oslo", "unit": "celsius"}'}}
                ]},
                {"role": "tool", "tool_call_id": "a", "content": "4"},
            ],
        },
        lambda choice: _calls(choice.message) or True,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("served", "name"), [
    *(("hermes", name) for name in KEPT), *(("pythonic", name) for name in ("auto", "several calls", "tools or schema", "few tokens")),
], indirect=["served"])
def test_what_is_asked_is_kept(client, name):
    """Also where it is streamed: the deltas add up to the answer that the same seed gives whole, with its reason and usage."""
    options, holds = KEPT[name]
    whole = _asked(client, **options)
    assert len(whole.choices) == options.get("n", 1)
    for choice in whole.choices:
        assert holds(choice), choice
        assert choice.finish_reason in ("stop", "length", "tool_calls")
    most = options.get("max_tokens", 150) * options.get("n", 1)
    assert 0 < whole.usage.completion_tokens <= most
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    chunks = list(_asked(client, stream=True, stream_options={"include_usage": True}, **options))
    assert chunks[-1].usage == whole.usage
    for choice in whole.choices:
        own = [one for chunk in chunks for one in chunk.choices if one.index == choice.index]
        assert "".join(one.delta.content or "" for one in own) == (choice.message.content or "")
        assert own[-1].finish_reason == choice.finish_reason
        calls = {}
        for part in (part for one in own for part in one.delta.tool_calls or ()):
            call = calls.setdefault(part.index, ["", ""])
            call[0] += part.function.name or ""
            call[1] += part.function.arguments or ""
        assert [tuple(call) for _, call in sorted(calls.items())] == [
            (call.function.name, call.function.arguments) for call in choice.message.tool_calls or ()
        ]


@BOTH
def test_arguments_are_streamed_while_they_are_written(client, request):
    chunks = list(_asked(client, tools=TOOLS, tool_choice="required", stream=True))
    pieces = [part.function.arguments for chunk in chunks for part in chunk.choices[0].delta.tool_calls or ()]
    assert len([piece for piece in pieces if piece]) > (3 if request.node.callspec.params["served"] == "hermes" else 0)


@pytest.mark.parametrize("served", ["qwen3"], indirect=True)
@pytest.mark.parametrize(("effort", "thinks"), [("none", False), ("high", True)])
def test_thoughts_are_begun_or_left_out(client, effort, thinks):
    options = {"tools": TOOLS, "tool_choice": "required", "reasoning_effort": effort, "max_tokens": 100}
    found = _asked(client, **options)
    message = found.choices[0].message
    assert bool(getattr(message, "reasoning_content", None)) == thinks == bool(found.usage.completion_tokens_details.reasoning_tokens)
    assert _calls(message)
    told = [getattr(chunk.choices[0].delta, "reasoning_content", None) or "" for chunk in _asked(client, stream=True, **options)]
    assert "".join(told) == (getattr(message, "reasoning_content", None) or "")


def test_logprobs_are_those_of_what_was_allowed(client):
    found = _asked(client, response_format=STRICT, logprobs=True, top_logprobs=3, temperature=0)
    entries = found.choices[0].logprobs.content
    assert b"".join(bytes(entry.bytes) for entry in entries).decode().startswith(found.choices[0].message.content)
    for entry in entries:
        assert entry.logprob <= 0
        assert entry.top_logprobs[0].logprob == entry.logprob  # greedy
        assert 1 <= len(entry.top_logprobs) <= 3
    assert _asked(client, max_tokens=5).choices[0].logprobs is None


def test_the_same_seed_gives_the_same_answer_beside_others(client):
    def content(seed):
        return _asked(client, seed=seed, temperature=2.0, response_format=STRICT, max_tokens=40).choices[0].message.content

    first = [content(seed) for seed in range(4)]
    assert len(set(first)) > 1
    threads = [threading.Thread(target=content, args=(seed,)) for seed in range(50, 58)]
    for thread in threads:
        thread.start()
    assert [content(seed) for seed in range(4)] == first
    for thread in threads:
        thread.join()


WIDE = {"type": "object", "properties": {"a": {"type": "strin"}}}
# name → (what is asked, status, param, a word of the message)
REFUSED = {
    "no messages": ({"messages": []}, 400, "messages", "at least one"),
    "no role": ({"messages": [{"content": "a"}]}, 400, "messages[0]", "role"),
    "image": ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, 400, "messages[0].content[0]", "text"),
    "number as content": ({"messages": [{"role": "user", "content": 3}]}, 400, "messages[0].content", "text"),
    "tool without name": ({"tools": [{"type": "function", "function": {}}]}, 400, "tools", "name is missing"),
    "schema of a tool": ({"tools": [{"type": "function", "function": {"name": "f", "parameters": WIDE}}]}, 400, "tools", "tool 'f' #/properties/a/type"),
    "many tools": ({"tools": TOOLS * 2}, 400, "tools", "at most 3"),
    "one tool twice": ({"tools": TOOLS[:1] * 2}, 400, "tools", "two tools"),
    "unknown choice": ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "g"}}}, 400, "tool_choice", "'g'"),
    "required of none": ({"tool_choice": "required"}, 400, "tool_choice", "required"),
    "schema": ({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "objec"}}}}, 400, "response_format", "#/type"),
    "no schema": ({"response_format": {"type": "json_schema", "json_schema": {"name": "a"}}}, 400, "response_format.json_schema.schema", "missing"),
    "unknown form": ({"response_format": {"type": "xml"}}, 400, "response_format", "json_schema"),
    "too few tokens": ({"tools": TOOLS, "tool_choice": "required", "max_tokens": 2}, 400, "max_tokens", "too small"),
    "too many tokens": ({"max_completion_tokens": 151}, 400, "max_completion_tokens", "150"),
    "temperature": ({"temperature": 3}, 400, "temperature", "from 0 to 2"),
    "n": ({"n": 5}, 400, "n", "from 1 to 4"),
    "stop": ({"stop": ["a"] * 5}, 400, "stop", "four"),
    "top_logprobs": ({"top_logprobs": 2}, 400, "top_logprobs", "logprobs"),
    "logit_bias": ({"logit_bias": {"a": 1}}, 400, "logit_bias", "ids"),
    "penalty": ({"frequency_penalty": 1.0}, 400, "frequency_penalty", "not supported"),
    "unknown": ({"extra_body": {"wisdom": 1}}, 400, "wisdom", "unknown parameter"),
    "reasoning": ({"reasoning_effort": "high"}, 400, "reasoning_effort", "no thoughts"),
    "flag": ({"extra_body": {"parallel_tool_calls": "yes"}}, 400, "parallel_tool_calls", "true or false"),
    "long prompt": ({"messages": [{"role": "user", "content": "1 2 " * 4_500}]}, 400, "messages", "tokens long"),
    "long body": ({"messages": [{"role": "user", "content": "a" * 30_000}]}, 413, None, "20,000 bytes"),
    "model": ({"model": "gpt"}, 404, "model", "'embedded'"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("stream", [False, True])
def test_what_cannot_be_kept_is_refused(client, name, stream):
    options, status, param, word = REFUSED[name]
    with pytest.raises(openai.APIStatusError) as caught:
        _asked(client, stream=stream, **options)
    assert (caught.value.status_code, caught.value.param) == (status, param)
    assert word in caught.value.message
    assert caught.value.type == "invalid_request_error"


@pytest.mark.parametrize(
    ("data", "kind", "status"),
    [(b"{", "application/json", 400), (b"[" * 10_000, "application/json", 400), (b"[]", "application/json", 400),
     (b"{}", "text/plain", 415), (b"\xff", "application/json", 400)],
)  # fmt: skip
def test_bodies_that_are_none(served, data, kind, status):
    request = urllib.request.Request(f"{served}/v1/chat/completions", data, {"Content-Type": kind})
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request)
    assert caught.value.code == status
    assert json.load(caught.value)["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_ends_its_answer(served, client, stream):
    """Its tokens stop, and others are served."""
    before = _metric(served, "constrained_cancelled_total")
    wanted = {"temperature": 2.0, "n": 4, "tools": TOOLS, "tool_choice": "none", "logit_bias": {str(one): -100 for one in range(SIZE, SIZE + 100)}}
    if stream:
        answer = _asked(client, stream=True, **wanted)
        next(iter(answer))
        answer.close()
    else:
        with pytest.raises(openai.APITimeoutError):
            _asked(client.with_options(timeout=0.15), **wanted)
    until = time.monotonic() + 20
    while _metric(served, "constrained_running") and time.monotonic() < until:
        time.sleep(0.05)
    assert _metric(served, "constrained_running") == 0
    assert _metric(served, "constrained_cancelled_total") > before
    assert _calls(_asked(client, tools=TOOLS, tool_choice="required").choices[0].message)


def test_fifty_clients_at_once(served):
    """Every call fits its tool, streamed or not; what is wrong is refused, and nothing stays behind."""

    async def one(client, number):
        if number % 10 == 9:
            with pytest.raises(openai.BadRequestError):
                await client.chat.completions.create(model="embedded", messages=PROMPT, n=99)
            return 0
        options = {"model": "embedded", "messages": PROMPT, "tools": TOOLS, "tool_choice": "required", "temperature": 1.5}
        if number % 2:
            async with client.chat.completions.stream(**options) as stream:
                message = (await stream.get_final_completion()).choices[0].message
        else:
            message = (await client.chat.completions.create(**options)).choices[0].message
        return len(_calls(message))

    async def all_of_them():
        async with openai.AsyncOpenAI(base_url=f"{served}/v1", api_key="none", max_retries=0) as client:
            return await asyncio.gather(*[one(client, number) for number in range(50)])

    assert sum(asyncio.run(all_of_them())) >= 45
    assert _metric(served, "constrained_running") == 0
    assert _metric(served, "constrained_malformed_total") == 0
    assert 0 < _metric(served, "constrained_mask_share_sum") < _metric(served, "constrained_mask_share_count")


def test_more_than_the_server_takes_is_told(served):
    """Answers that cannot be short are under way together; the first that is refused ends the test, and all of them."""
    items = {"type": "array", "items": {"enum": ["rain", "tea"]}, "minItems": 28}
    long = {"type": "json_schema", "json_schema": {"name": "long", "schema": items}}

    async def all_of_them():
        async with openai.AsyncOpenAI(base_url=f"{served}/v1", api_key="none", max_retries=0) as client:
            asked = {"model": "embedded", "messages": PROMPT, "n": 4, "response_format": long}
            async with asyncio.TaskGroup() as group:
                for _ in range(24):
                    group.create_task(client.chat.completions.create(**asked))

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(all_of_them())
    assert {error.code for error in caught.value.exceptions} == {"rate_limit_exceeded"}


def test_what_runs_is_told(served, client):
    assert [model.id for model in client.models.list()] == ["embedded"]
    assert json.load(urllib.request.urlopen(f"{served}/health")) == {"status": "ok"}
    assert _metric(served, "constrained_tokens_total") > 0


def test_a_question_of_the_page_that_has_no_answer_is_the_clients_fault(served):
    data = json.dumps({"format": "hermes", "text": "<tool_call>\n{]"}).encode()
    asked = urllib.request.Request(f"{served}/playground/next", data, {"Content-Type": "application/json"})
    with pytest.raises(urllib.error.HTTPError) as found:
        urllib.request.urlopen(asked)
    assert found.value.code == 400 and "not allowed at byte" in json.load(found.value)["error"]["message"]


def test_the_client_of_the_page_on_deployment_runs(served, capsys):
    page = Path(__file__).parents[2].joinpath("docs", "deployment.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```\n(from openai.*?)^```", page, re.DOTALL | re.MULTILINE)
    exec(block.replace("http://127.0.0.1:8000", served), {})
    assert capsys.readouterr().out.startswith("Function(arguments='{\"city\":")
