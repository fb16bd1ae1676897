"""vLLM's real engine on the embedded model: what a contract test cannot see; `make hosts` has the environment for it.

Not here, as it takes a GPU: the newer runner (it needs Triton), and with it logits processors beside speculative tokens,
which the older one refuses.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
from constrained.benchmarks import real_hosts

import constrained as c

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed: make hosts"),
    pytest.mark.slow,
]
SCHEMA = json.dumps({"type": "object", "properties": {"n": {"type": "integer", "maximum": 99}}, "required": ["n"]})


@pytest.fixture(scope="module")
def folder():
    return real_hosts.saved_model()


@pytest.fixture(scope="module")
def engine(folder):
    return real_hosts.Vllm(folder, logits_processors=[real_hosts.PROCESSOR])


def _params(most=40, **said):
    from vllm import SamplingParams

    return SamplingParams(**{"max_tokens": most, "temperature": 1.0, "seed": 1} | said)


def test_requests_of_all_kinds_with_hostile_ones_among_them(engine):
    """Batches are mixed, requests preempted, prefixes found again; every answer is whole and ends where it should."""
    before = engine.metric("num_preemptions")
    rows = real_hosts.vllm_rows(engine, 60, 45, seed=1)
    assert not rows["failed"]
    assert rows["hostile refused"] >= 20
    assert engine.metric("num_preemptions") > before
    assert engine.metric("prefix_cache_hits") > 0


def test_structured_outputs_by_the_backend(engine):
    rows = real_hosts.vllm_rows(engine, 30, 0, seed=2, backend=True)
    assert not rows["failed"]


@pytest.mark.parametrize(("said", "ends"), [
    ({}, [1302]),
    ({"stop_token_ids": [1308]}, [1302, 1308]),
    ({"stop_token_ids": [1308], "ignore_eos": True}, [1308]),
    ({"min_tokens": 20}, [1302]),
])
def test_an_answer_ends_with_what_its_request_ends_with(said, ends, engine):
    asked = {str(seed): ("Hi", _params(**said, extra_args={"constrained_choice": '["red", "green"]'})) for seed in range(3)}
    vocabulary = c.Vocabulary.from_tokenizer(engine.llm.get_tokenizer())
    for ids in engine.run(asked).values():
        assert vocabulary.decode(ids[:-1]) in (b"red", b"green")
        assert ids[-1] in ends


def test_a_bad_request_is_refused_and_the_engine_serves_on(engine):
    good = "Hi", _params(extra_args={"constrained_json": SCHEMA})
    bad = "Hi", _params(extra_args={"constrained_json": "{"})
    found = engine.run({"bad": bad, "good": good})
    assert isinstance(found["bad"], Exception)
    assert "json of a request is no JSON" in str(found["bad"])
    assert found["good"][-1] == 1302


def test_drafts_of_n_grams():
    """By structured outputs, in a process of its own: with drafts an engine cannot be made twice in one."""
    command = [sys.executable, "-m", "constrained.benchmarks.real_hosts", "--drafts", "--requests", "20", "--hostile", "0", "--json"]
    rows = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.splitlines()[-1])
    assert rows["draft tokens"] > 0


def test_processors_beside_drafts_are_refused_by_the_engine(folder):
    with pytest.raises(ValueError, match="speculative"):
        real_hosts.Vllm(folder, logits_processors=[real_hosts.PROCESSOR], speculative_config=real_hosts.DRAFTS)


@contextlib.contextmanager
def _server(folder):
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    arguments = [
        "--model", folder, "--served-model-name", "embedded", "--host", "127.0.0.1", "--port", str(port), "--dtype",
        "float32", "--enforce-eager", "--max-model-len", "1024", "--max-num-seqs", "4", "--enable-auto-tool-choice",
        "--tool-call-parser", "hermes", "--logits-processors", real_hosts.PROCESSOR,
    ]  # fmt: skip
    settings = {name: value for name, value in real_hosts.SETTINGS.items() if name != "VLLM_ENABLE_V1_MULTIPROCESSING"}
    process = subprocess.Popen([sys.executable, "-m", "vllm.entrypoints.openai.api_server", *arguments], env=os.environ | settings)
    try:
        for _ in range(600):
            assert process.poll() is None
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health"):
                break
            time.sleep(1)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait()


def test_tool_calls_through_its_server(folder):
    """What its parser gives the client is what the format's reader reads of the same tokens; a bad request is a 400."""
    openai = pytest.importorskip("openai")
    parameters = {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}, "unit": {"enum": ["celsius", "fahrenheit"]}},
        "required": ["city", "unit"],
    }
    tools = [{"type": "function", "function": {"name": "get_weather", "parameters": parameters}}]
    chat, vocabulary = c.ChatFormat.load("hermes"), c.Vocabulary.from_tokenizer(f"{folder}/tokenizer.json")
    said = {"format": "hermes", "tools": json.dumps(tools), "tool_choice": "required", "budget": "true"}
    with _server(folder) as url:
        client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)

        def ask(**more):
            return client.chat.completions.create(
                model="embedded", tools=tools, max_tokens=120, messages=[{"role": "user", "content": "Weather in Oslo?"}],
                extra_body={
                    "chat_template_kwargs": {"format": "hermes"}, "return_token_ids": True,
                    "vllm_xargs": {f"constrained_{name}": value for name, value in (said | more).items()},
                },
            ).choices[0]  # fmt: skip

        for _ in range(10):
            choice = ask()
            ids = [token for token in choice.token_ids if token != 1302]
            read = chat.parse(vocabulary.decode(ids).decode(), tools=tools).tool_calls
            theirs = [(call.function.name, json.loads(call.function.arguments)) for call in choice.message.tool_calls]
            assert theirs == [(call.name, call.arguments) for call in read]
            assert theirs
        with pytest.raises(openai.BadRequestError, match="unknown format"):
            ask(format="none")
        assert ask().message.tool_calls
