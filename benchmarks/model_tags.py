"""Our canonical calls next to XGrammar's structural tags: for each of its model keys, the calls that both accept.

    python -m constrained.benchmarks.model_tags [KEY…] [--calls 60] [--seed 0]

Calls are drawn at random for three tools; every third one is broken (a missing or an unknown argument, a value of
another type, an enum's stranger).  Each is written by our format and given, without the stop token, to our strict
reader and to XGrammar's matcher.  What they spell differently is respelled first (`SPELLINGS`); every other difference
fails the run.  Needs xgrammar, of version 0.2.8 or later.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

from ..errors import ConstrainedError
from ..formats import ChatFormat

KEYS = {
    "llama": "llama-3.1", "kimi": "kimi-k2", "kimi_k3": "kimi-k3", "deepseek_r1": "deepseek-r1",
    "deepseek_v3_1": "deepseek-v3.1",
    "qwen_3_5": "qwen3.5", "qwen_3_coder": "qwen3-coder", "mimo": "mimo", "qwen_3": "qwen3", "harmony": "gpt-oss",
    "deepseek_v3_2": "deepseek-v3.2",
    "minimax": "minimax-m2", "minimax_m3": "minimax-m3", "glm_4_7": "glm-4.7", "deepseek_v4": "deepseek-v4",
    "deepseek_v4_1": "deepseek-v4.1",
    "cohere": "cohere-xml", "exaone": "exaone-4.0",
}  # fmt: skip
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "get_weather", "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                                         "days": {"type": "integer", "minimum": 1, "maximum": 14}},
        "required": ["city"], "additionalProperties": False}}},
    {"type": "function", "function": {"name": "save_note", "parameters": {
        "type": "object",
        "properties": {"title": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}},
            "pinned": {"type": "boolean"},
                                         "place": {"type": "object",
                                             "properties": {"x": {"type": "number"}, "label": {"type": "string"}},
                                                   "required": ["x"], "additionalProperties": False}},
        "required": ["title"], "additionalProperties": False}}},
    {"type": "function",
        "function": {"name": "ping",
            "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}},
]  # fmt: skip
Call = tuple[str, dict[str, Any], str]  # name, arguments, what is wrong with them

# Where the two spell calls differently: what is replaced in our text before XGrammar reads it, and why it would refuse
# ours.
SPELLINGS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "kimi_k3": (
        ("^<|open|>response<|sep|>", "", "without reasoning the prompt holds the beginning of the response"),
        ("<|end_of_msg|>$", "", "no structure of XGrammar holds a stop token"),
    ),
    "harmony": (
        (
            " <|constrain|>",
            "<|constrain|>",
            "the document writes a call with and without a space before the token; XGrammar takes only the latter",
        ),
    ),
    "minimax": (
        (
            "^",
            "\n</think>\n\n\n\n",
            "without reasoning it writes the end of an empty thought, and two more line breaks than the template",
        ),
    ),
    "qwen_3_5": (
        (
            "<function=ping>\n</function>",
            "<function=ping>\n\n</function>",
            "without arguments it needs one more line break than the template",
        ),
    ),
}
SPELLINGS["qwen_3_coder"] = SPELLINGS["qwen_3_5"]
KEPT = {"harmony": ("<|call|>",)}  # stop tokens that are a part of XGrammar's structures all the same


def calls(count: int, seed: int) -> Iterator[Call]:
    """Yield calls, every third one broken."""
    rng = random.Random(seed)
    words = ["Oslo", "Xi'an", "a b", "café 雨", "line\nbreak", 'say "hi"', "12", "x < y", "{}", "true"]
    for at in range(count):
        kind = at % 5
        if kind < 2:
            name, given = (
                "get_weather",
                {"city": rng.choice(words), "unit": rng.choice(["celsius", "fahrenheit"]), "days": rng.randint(1, 14)},
            )
        elif kind < 4:
            name, given = (
                "save_note",
                {
                    "title": rng.choice(words),
                    "tags": [rng.choice(words) for _ in range(rng.randint(0, 2))],
                    "pinned": rng.random() < 0.5,
                    "place": {"x": rng.choice([1, -2.5, 0.125]), "label": rng.choice(words)},
                },
            )
        else:
            name, given = "ping", {}
        kept = {key: value for key, value in given.items() if key in ("city", "title") or rng.random() < 0.6}
        yield name, *(_broken(name, kept, rng) if at % 3 == 2 else (kept, ""))


def _broken(name: str, given: dict[str, Any], rng: random.Random) -> tuple[dict[str, Any], str]:
    needed = {"get_weather": "city", "save_note": "title"}.get(name)
    ways: list[tuple[dict[str, Any], str]] = [({**given, "zone": "UTC"}, "an unknown argument")]
    if needed:
        ways.append(({key: value for key, value in given.items() if key != needed}, "a missing argument"))
    if name == "get_weather":
        ways += [
            ({**given, "unit": "kelvin"}, "a stranger of an enum"),
            ({**given, "days": "three"}, "a text for a number"),
        ]
    if name == "save_note":
        ways += [
            ({**given, "pinned": "yes"}, "a text for a boolean"),
            ({**given, "tags": {"a": 1}}, "an object for a list"),
        ]
    return rng.choice(ways)


def compared(key: str, count: int, seed: int) -> Iterator[tuple[Call, str, bool, bool]]:
    """Yield each call, its text as XGrammar spells it, whether we accept it, and whether XGrammar does."""
    import xgrammar
    from xgrammar.builtin_structural_tag import get_model_structural_tag
    from xgrammar.testing import _is_grammar_accept_string

    tag = get_model_structural_tag(key, tools=TOOLS, tool_choice="required", reasoning="disabled")
    theirs = xgrammar.Grammar.from_structural_tag(tag)
    chat = ChatFormat.load(KEYS[key])
    for call in calls(count, seed):
        turn = chat.write_call(call[0], call[1], TOOLS, prompt="")
        text = respelled(key, turn, chat.stop)
        try:
            chat.parse(turn, TOOLS, strict=True, tool_choice="required", prompt="")
            ours = True
        except ConstrainedError:
            ours = False
        yield call, text, ours, bool(_is_grammar_accept_string(theirs, text))


def respelled(key: str, turn: str, stops: tuple[str, ...]) -> str:
    """Return a turn without its stop token, in XGrammar's spelling."""
    text = turn
    for stop in stops:
        text = text if stop in KEPT.get(key, ()) else text.removesuffix(stop)
    for ours, theirs, _ in SPELLINGS.get(key, ()):
        if ours.startswith("^"):
            text = theirs + text.removeprefix(ours[1:])
        elif ours.endswith("$"):
            text = text.removesuffix(ours[:-1]) + theirs
        else:
            text = text.replace(ours, theirs)
    return text


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="constrained.benchmarks.model_tags", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("keys", nargs="*", metavar="KEY", help=f"of {', '.join(KEYS)}; default: all")
    parser.add_argument("--calls", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    different = 0
    for key in options.keys or KEYS:
        told, counts = list[str](), Counter[str]()
        for call, text, ours, theirs in compared(key, options.calls, options.seed):
            counts["both accept" if ours and theirs else "both refuse" if not ours and not theirs else "differ"] += 1
            if ours != theirs:
                told.append(f"{'ours' if ours else 'theirs'} accepts: {call[2] or 'valid'} {text!r}")
        different += len(told)
        print(f"{key} = {KEYS[key]}: {', '.join(f'{name} {count}' for name, count in sorted(counts.items()))}")
        for _, _, reason in SPELLINGS.get(key, ()):
            print(f"    respelled: {reason}")
        for line in told:
            print(f"    {line}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
