"""`constrained serve` under many clients at once: malformed calls, memory, and the masks' share of a pass of the model.

    python -m constrained.benchmarks.serving --clients 50 --minutes 10

The server is a process of its own with the embedded model.  Clients are OpenAI's: they stream tool calls (any, a named
one, several), values of a schema and text, leave in the middle, or send what has to be refused.  An answer is malformed
when a call or a value is no JSON of its schema, when a call was cut, or when the server failed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import openai

WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 16},
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
        "unit": {"enum": ["celsius", "fahrenheit"]},
    },
    "required": ["city", "unit"],
    "additionalProperties": False,
}
EVENT = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "maxLength": 16},
        "date": {"type": "string", "pattern": "^20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9])$"},
        "guests": {"type": "array", "items": {"type": "string", "maxLength": 8}, "maxItems": 3},
    },
    "required": ["title", "date"],
}
SCHEMAS = {"get_weather": WEATHER, "create_event": EVENT}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": schema}} for name, schema in SCHEMAS.items()
]
STRICT = {"type": "json_schema", "json_schema": {"name": "event", "strict": True, "schema": EVENT}}
NAMED = {"type": "function", "function": {"name": "create_event"}}
KINDS: dict[str, dict[str, Any]] = {
    "required": {"tools": TOOLS, "tool_choice": "required"},
    "named": {"tools": TOOLS, "tool_choice": NAMED, "max_tokens": 60},
    "parallel": {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": True, "max_tokens": 150},
    "auto": {"tools": TOOLS, "max_tokens": 100},
    "schema": {"response_format": STRICT, "max_tokens": 80},
    "text": {"max_tokens": 60},
    "leaves": {"tools": TOOLS, "tool_choice": "required"},
    "refused": {"tools": TOOLS, "tool_choice": "nothing"},
}


async def _client(client: Any, until: float, seen: Counter[str], seed: int) -> None:
    drawn = random.Random(seed)
    while time.monotonic() < until:
        kind = drawn.choice(list(KINDS))
        seen[kind] += 1
        try:
            await _one(client, kind, drawn)
        except openai.BadRequestError:
            seen["malformed"] += kind != "refused"
        except (openai.APIError, ValueError, jsonschema.ValidationError) as error:
            seen["malformed"] += 1
            print(f"{kind}: {error}")


async def _one(client: Any, kind: str, drawn: random.Random) -> None:
    """Ask once; raises where the answer is not what was asked for."""
    prompt = [{"role": "user", "content": f"What is the weather in town {drawn.randrange(1000)} in celsius?"}]
    asked = {"model": "embedded", "messages": prompt, "temperature": drawn.choice([0, 1, 2]), **KINDS[kind]}
    if kind == "leaves":
        stream = await client.chat.completions.create(**asked, stream=True)
        async for _ in stream:
            break
        await stream.close()
        return
    if kind not in ("auto", "text") and drawn.random() < 0.5:  # this client takes a text's full length for an error
        async with client.chat.completions.stream(**asked) as stream:
            message = (await stream.get_final_completion()).choices[0].message
    else:
        message = (await client.chat.completions.create(**asked)).choices[0].message
    for call in message.tool_calls or ():
        jsonschema.validate(json.loads(call.function.arguments), SCHEMAS[call.function.name])
    if kind == "schema":
        jsonschema.validate(json.loads(message.content), EVENT)
    elif kind in ("required", "named", "parallel") and not message.tool_calls:
        raise ValueError("no call")


def _metrics(port: int) -> dict[str, float]:
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    rows = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in rows}


def _wait(port: int) -> None:
    """Return when the server answers."""
    until = time.monotonic() + 120
    while True:
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{port}/health").close()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def _percentile(metrics: dict[str, float], name: str, part: float) -> str:
    """Return the bucket of a histogram in which a part of all observations ends."""
    whole = metrics[f"{name}_count"]
    buckets = [(key.split('"')[1], value) for key, value in metrics.items() if key.startswith(f"{name}_bucket")]
    return "≤ " + next(bound for bound, value in buckets if value >= part * whole)


async def _run(port: int, clients: int, minutes: float) -> tuple[Counter[str], list[float]]:
    seen: Counter[str] = Counter()
    until, resident = time.monotonic() + 60 * minutes, list[float]()
    async with openai.AsyncOpenAI(
        base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0, timeout=300
    ) as client:
        running = asyncio.gather(*[_client(client, until, seen, seed) for seed in range(clients)])
        while not running.done():
            await asyncio.wait({running}, timeout=min(60, 10 * minutes))
            resident.append((await asyncio.to_thread(_metrics, port))["process_resident_memory_bytes"] / 1e6)
        await running
    return seen, resident


def main(clients: int, minutes: float, record: Path | None = None) -> dict[str, Any]:
    """Run and print; return the figures."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "constrained", "serve", "--port", str(port)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server:
        try:
            _wait(port)
            began = time.monotonic()
            seen, resident = asyncio.run(_run(port, clients, minutes))
            metrics = _metrics(port)
        finally:
            server.terminate()
    malformed = seen.pop("malformed", 0) + int(metrics["constrained_malformed_total"])
    figures = {
        "clients": clients, "seconds": round(time.monotonic() - began), "requests": dict(sorted(seen.items())),
        "malformed": malformed, "calls": int(metrics["constrained_tool_calls_total"]),
        "left": int(metrics["constrained_cancelled_total"]), "still running": int(metrics["constrained_running"]),
        "tokens": int(metrics['constrained_tokens_total{kind="answer"}']),
        "resident MB": [round(size) for size in resident],
        "mask's share of a pass": {
            "mean": round(metrics["constrained_mask_share_sum"] / metrics["constrained_mask_share_count"], 4),
            "p99": _percentile(metrics, "constrained_mask_share", 0.99),
        },
        "one mask, seconds": {"p50": _percentile(metrics, "constrained_mask_seconds", 0.5),
                              "p99": _percentile(metrics, "constrained_mask_seconds", 0.99)},
    }  # fmt: skip
    print(json.dumps(figures, indent=2, ensure_ascii=False))
    if record is not None:
        record.write_text(json.dumps(figures, ensure_ascii=False) + "\n", encoding="utf-8")
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--record", type=Path, help="file for the figures")
    given = parser.parse_args()
    sys.exit(main(given.clients, given.minutes, given.record)["malformed"] > 0)
