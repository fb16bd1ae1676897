"""`demo`: the embedded model, one question, one seed, without and with each chat format's grammar."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from constrained.api import compile
from constrained.cli.commands.generate import stop_ids
from constrained.cli.console import print_table
from constrained.cli.generation import Sampling, generate, trace
from constrained.cli.inputs import JsonOption, read_model
from constrained.cli.samples import OWN_PROMPT, PROMPT, TOOLS
from constrained.default_model import prompt_of
from constrained.default_model.questions import OWN_TOOLS
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.formats import ChatFormat

MOST = 260  # tokens of a turn
SHOWN = 170  # characters of an output; the middle of longer ones is left out
BRIEF = ("interpreter", "text_before_call")  # options that are off here: the question asks for neither


def demo(
    only: Annotated[
        list[str] | None, typer.Option("--format", help="Show this one only; may be given more than once.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the sampling.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Show every format with and without its grammar.

    The embedded model, which is small and often wrong, the same question and the same seed.
    """
    for name in only or ():
        ChatFormat.load(name)  # an unknown one is an error before anything is generated
    model, tokenizer = read_model(None)
    vocabulary = Vocabulary.from_tokenizer(tokenizer, size=model.config.vocab_size)
    rows = [
        _row(model, tokenizer, vocabulary, name, seed + number)
        for number, name in enumerate(only or ChatFormat.names())
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    told = []
    for row in rows:
        figures = f"{row['name']}\n\nforced {row['forced']} of {row['tokens']}\nmask {row['mask_us']:.1f} µs"
        told.append((figures, _shortened(row["unconstrained"]), f"{_shortened(row['constrained'])}\n\n{_calls(row)}"))
    title = f"A model of a million weights is asked: {PROMPT}"
    print_table(("format", "without the grammar", "with the grammar, and what was called"), told, title)


def _row(model: Any, tokenizer: Any, vocabulary: Vocabulary, name: str, seed: int) -> dict[str, Any]:
    chat = ChatFormat.load(name)
    wanted: dict[str, Any] = {"tool_choice": "required", "parallel_tool_calls": False, "reasoning": "none"}
    if chat.definition.payload is not None:  # else a format has tools of its own only
        wanted |= {"tools": TOOLS} | {option: False for option in BRIEF if option in chat.definition.options}
    constraint = compile(chat.grammar(**wanted), vocabulary)
    stop = stop_ids(vocabulary, name)
    own = chat.definition.payload is None
    prompt = prompt_of(tokenizer, OWN_PROMPT if own else PROMPT, list(OWN_TOOLS) if own else TOOLS, name)
    free = generate(model, tokenizer, prompt, Sampling(seed=seed, max_tokens=MOST), stop)
    held = generate(model, tokenizer, prompt, Sampling(seed=seed, max_tokens=MOST), stop, constraint)
    figures = trace(constraint, vocabulary, held)
    message = chat.parse(vocabulary.decode(held).decode(), **wanted)
    return {
        "name": name,
        "unconstrained": vocabulary.decode(free).decode(errors="replace"),
        "constrained": vocabulary.decode(held).decode(errors="replace"),
        "calls": [{"name": call.name, "arguments": call.arguments} for call in message.tool_calls],
        "tokens": figures.tokens,
        "forced": figures.forced,
        "mask_us": figures.mask_seconds * 1e6,
    }


def _calls(row: dict[str, Any]) -> str:
    return "\n".join(
        "→ " + _shortened(f"{call['name']} {json.dumps(call['arguments'], ensure_ascii=False)}")
        for call in row["calls"]
    )


def _shortened(text: str) -> str:
    shown = text if len(text) <= SHOWN else f"{text[: SHOWN // 3]} … {text[-SHOWN * 2 // 3 :]}"
    return "".join(char if char.isprintable() or char == "\n" else "�" for char in shown)
