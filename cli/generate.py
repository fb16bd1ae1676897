"""`generate`, `demo`, `trace` and `bench`: let a model write under a grammar, and measure it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer
from constrained.default_model import prompt_of
from constrained.default_model.questions import OWN_PROMPT, OWN_TOOLS, PROMPT, TOOLS
from constrained.research.page import figures
from constrained.research.trace import Trace
from constrained.research.trace import trace as run_trace

from constrained.api import Constraint, compile
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.errors import ConstrainedError, LimitExceeded
from constrained.formats import ChatFormat
from constrained.integrations.ray_data import is_unread, results
from constrained.integrations.typed import described

from .console import print_table, results_only
from .inputs import (
    JsonOption,
    LanguageOptions,
    ModelOption,
    OutOption,
    PromptOption,
    RayOption,
    TemperatureOption,
    check_writable,
    read_model,
    read_rows,
    refuse_alone,
    takes_language,
)


@takes_language
def generate(
    asked: LanguageOptions,
    model: ModelOption = None,
    prompt: PromptOption = "",
    n: Annotated[int, typer.Option("--n", "-n", min=1, help="Generations, each with the next seed.")] = 1,
    temperature: TemperatureOption = 1.0,
    top_p: Annotated[
        float,
        typer.Option("--top-p", min=0.0, max=1.0, help="Sample from the most likely tokens of this total probability."),
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of the first generation.")] = 0,
    max_tokens: Annotated[int, typer.Option(min=1, help="Most tokens of a text; it ends within them.")] = 400,
    jsonl: Annotated[
        str | None, typer.Option("--jsonl", help="File of prompts, one JSON object a line: prompt, and seed if wanted.")
    ] = None,
    ray: RayOption = 0,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a model write under a chat format or a schema.

    Prints one text (with --json: one object) per generation, without the token that ends it; of a file of prompts one
    object each, in its order; what is wrong with a row is its "error", and exit code 1.
    """
    asked.grammar_with_warnings()
    settings = {"temperature": temperature, "max_tokens": max_tokens, "top_p": top_p}
    arguments = model, asdict(asked), settings
    if jsonl is None:
        refuse_alone("jsonl", ray=ray, out=out)
        write = writer(*arguments)
        for turn in range(n):
            row = write({"prompt": prompt, "seed": seed + turn})
            typer.echo(json.dumps(row, ensure_ascii=False) if as_json else row["text"])
        return
    wrong = 0
    with results_only() as file:
        for result in results(_prompts(jsonl, seed), f"{__name__}:worker", arguments, actors=ray, out=out):
            typer.echo(json.dumps(result, ensure_ascii=False), file=file)
            wrong += "error" in result
    if wrong:
        raise typer.Exit(1)


def _prompts(path: str, seed: int) -> list[dict[str, Any]]:
    """Return the rows of a file of prompts, each with a seed."""

    def holds(row: dict[str, Any]) -> bool:
        return isinstance(row.get("prompt"), str) and type(row.get("seed", 0)) is int

    rows = read_rows(path, holds, what="prompt", instead='{"prompt": …}')
    return [row if is_unread(row) else {"seed": seed + at, **row} for at, (_, row) in enumerate(rows)]


def worker(*arguments: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """As `writer`, for `ray_data`: each of its actors loads the model once."""
    write = writer(*arguments)
    import torch

    # sums in one order, however many actors share the machine: a row's text depends on the row alone
    torch.set_num_threads(1)
    return write


def writer(
    model: str | None, asked: dict[str, Any], settings: dict[str, Any]
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return what writes the text of a row."""
    language = LanguageOptions(**asked)
    language_model, tokenizer = read_model(model)
    vocabulary = Vocabulary.from_tokenizer(tokenizer, size=language_model.config.vocab_size)
    constraint = compile(language.grammar(), vocabulary)
    stop = stop_ids(vocabulary, language.format)

    def write(row: dict[str, Any]) -> dict[str, Any]:
        text = prompt_text(tokenizer, row["prompt"], language.definitions(), language.format) or tokenizer.bos_token
        ids = run_model(language_model, tokenizer, text, stop, constraint, seed=row["seed"], **settings)
        return {**{key: value for key, value in row.items() if key == "id"}, **_row(vocabulary, ids, stop, language)}

    return write


def stop_ids(vocabulary: Vocabulary, format: str | None) -> list[int]:
    """Return the ids that end a generation: the tokenizer's own and those of the chat format."""
    names = [] if format is None else ChatFormat.load(format).stop
    ids = dict.fromkeys([*(vocabulary.special[name] for name in names if name in vocabulary.special), *vocabulary.stop])
    if not ids:
        raise ConstrainedError(
            "the tokenizer has no stop token", instead="give its end-of-sequence token in the tokenizer's configuration"
        )
    return list(ids)


def _row(vocabulary: Vocabulary, ids: list[int], stop: list[int], asked: LanguageOptions) -> dict[str, Any]:
    end = next(at for at, token in enumerate(ids) if token in stop)
    text = vocabulary.decode(ids[:end]).decode(errors="backslashreplace")
    row: dict[str, Any] = {"text": text, "tokens": len(ids)}
    if asked.format is not None:
        whole = vocabulary.decode(ids[: end + 1]).decode(errors="backslashreplace")
        message = asked.chat().parse(whole, tools=asked.definitions())
        row["calls"] = [{"name": call.name, "arguments": call.arguments} for call in message.tool_calls]
    return row


# -- one generation ----------------------------------------------------------------------------------------------------


def run_model(
    model: Any,
    tokenizer: Any,
    prompt: str,
    stop: Sequence[int],
    constraint: Constraint | None = None,
    *,
    temperature: float = 1.0,
    seed: int = 0,
    max_tokens: int = 400,
    top_p: float = 1.0,
) -> list[int]:
    """Return the ids that the model writes after a prompt, stop token included; under a constraint, a whole word.

    At most `max_tokens`, and no more than the model can read behind the prompt; temperature 0 is greedy.
    Raises: LimitExceeded: these are too few for any word, or the prompt alone does not fit the model.
    """
    import torch

    context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if context is not None and len(prompt) > context * _longest(tokenizer):  # 10 MB of tokens take ten seconds
        raise _too_long(f"{len(prompt):,} characters", context)
    encoded = tokenizer(prompt, return_tensors="pt").to(model.device)
    length, most = encoded["input_ids"].shape[1], max_tokens
    if context is not None:
        if length >= context:
            raise _too_long(f"{length:,} tokens", context)
        most = min(most, context - length)
    choice = (
        {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": top_p}
        if temperature > 0
        else {"do_sample": False}
    )
    processors = [] if constraint is None else [constraint.logits_processor(max_new_tokens=most)]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        output = model.generate(
            **encoded,
            **choice,
            max_new_tokens=most + len(processors),
            logits_processor=processors,  # and a stop token
            eos_token_id=list(stop),
            pad_token_id=stop[0],
        )
    return list(output[0, length:].tolist())


def _longest(tokenizer: Any) -> int:
    """Return the most characters of a prompt that one token stands for."""
    return max(map(len, tokenizer.get_vocab()))


def _too_long(size: str, context: int) -> LimitExceeded:
    return LimitExceeded(
        "the prompt does not fit the model",
        because=f"it has {size}; the model reads {context:,} tokens",
        instead="a shorter prompt",
    )


def prompt_text(tokenizer: Any, prompt: str, tools: list[Any] | None = None, format: str | None = None) -> str:
    """Return the prompt as the tokenizer's chat template writes it, with the tools and the turn begun as the format has
    it; as it is where there is no template.
    """
    if not getattr(tokenizer, "chat_template", None):
        return prompt
    messages = [{"role": "user", "content": prompt}]
    chat = None if format is None else ChatFormat.load(format)
    told = tools if chat is None else described(chat, tools)
    text = tokenizer.apply_chat_template(
        messages, tools=told, format=format or "", add_generation_prompt=True, tokenize=False
    )
    if not isinstance(text, str):
        raise ConstrainedError("the chat template returned no text", because=f"it returned {type(text).__name__}")
    begun = "" if chat is None else chat.generation_prompt()
    return text if text.endswith(begun) else text + begun


# -- demo: the embedded model, one question, one seed, without and with each chat format's grammar ---------------------


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
        _demonstrated(model, tokenizer, vocabulary, name, seed + number)
        for number, name in enumerate(only or ChatFormat.names())
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    told = []
    for row in rows:
        figures = f"{row['name']}\n\nforced {row['forced']} of {row['tokens']}\nmask {row['mask_us']:.1f} µs"
        told.append((figures, _shortened(row["unconstrained"]), f"{_shortened(row['constrained'])}\n\n{_called(row)}"))
    title = f"A model of a million weights is asked: {PROMPT}"
    print_table(("format", "without the grammar", "with the grammar, and what was called"), told, title)


def _demonstrated(model: Any, tokenizer: Any, vocabulary: Vocabulary, name: str, seed: int) -> dict[str, Any]:
    chat = ChatFormat.load(name)
    wanted: dict[str, Any] = {"tool_choice": "required", "parallel_tool_calls": False, "reasoning": "none"}
    if chat.definition.payload is not None:  # else a format has tools of its own only
        wanted |= {"tools": TOOLS} | {option: False for option in BRIEF if option in chat.definition.options}
    constraint = compile(chat.grammar(**wanted), vocabulary)
    stop = stop_ids(vocabulary, name)
    own = chat.definition.payload is None
    prompt = prompt_of(tokenizer, OWN_PROMPT if own else PROMPT, list(OWN_TOOLS) if own else TOOLS, name)
    free = run_model(model, tokenizer, prompt, stop, seed=seed, max_tokens=MOST)
    held = run_model(model, tokenizer, prompt, stop, constraint, seed=seed, max_tokens=MOST)
    bitmask, matcher = np.zeros((1, vocabulary.words), np.int32), constraint.matcher()
    forced, seconds = 0, []  # tokens that were the only one allowed; of each mask, computed before
    for token in held:
        matcher.fill_mask(bitmask)
        started = perf_counter()
        matcher.fill_mask(bitmask)
        seconds.append(perf_counter() - started)
        forced += int(np.bitwise_count(bitmask).sum()) == 1
        matcher.advance(token)
    message = chat.parse(vocabulary.decode(held).decode(), **wanted)
    return {
        "name": name,
        "unconstrained": vocabulary.decode(free).decode(errors="replace"),
        "constrained": vocabulary.decode(held).decode(errors="replace"),
        "calls": [{"name": call.name, "arguments": call.arguments} for call in message.tool_calls],
        "tokens": len(held),
        "forced": forced,
        "mask_us": median(seconds) * 1e6,
    }


def _called(row: dict[str, Any]) -> str:
    return "\n".join(
        "→ " + _shortened(f"{call['name']} {json.dumps(call['arguments'], ensure_ascii=False)}")
        for call in row["calls"]
    )


def _shortened(text: str) -> str:
    shown = text if len(text) <= SHOWN else f"{text[: SHOWN // 3]} … {text[-SHOWN * 2 // 3 :]}"
    return "".join(char if char.isprintable() or char == "\n" else "�" for char in shown)


# -- trace -------------------------------------------------------------------------------------------------------------


@takes_language
def trace(
    asked: LanguageOptions,
    model: ModelOption = None,
    prompt: PromptOption = PROMPT,
    html: Annotated[str | None, typer.Option("--html", help="Write a page that shows it, and nothing else.")] = None,
    temperature: TemperatureOption = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of the sampling.")] = 0,
    max_tokens: Annotated[int, typer.Option(min=1, help="Where the generation is cut.")] = 200,
    as_json: JsonOption = False,
) -> None:
    """Show a generation step by step: what the mask removed, what was forced, what was nearly forbidden.

    Without a language: a call of the demonstration's tools in the format hermes.
    """
    if not any((asked.format, asked.schema, asked.regex, asked.lark, asked.choice)):
        asked = replace(asked, format="hermes", tool_choice="required")
    if html is not None:
        check_writable(html)
    definitions = TOOLS if asked.format is not None and asked.tools is None else asked.definitions()
    grammar = asked.grammar() if asked.format is None else asked.with_tools(definitions)
    language_model, tokenizer = read_model(model)
    constraint = compile(grammar, Vocabulary.from_tokenizer(tokenizer, size=language_model.config.vocab_size))
    text = prompt_text(tokenizer, prompt, definitions, asked.format)
    found = run_trace(
        constraint,
        language_model,
        text,
        tokenizer=tokenizer,
        max_new_tokens=max_tokens,
        temperature=temperature,
        seed=seed,
    )
    if html is not None:
        found.save(html)
        typer.echo(f"{html}: {figures(found)}")
    elif as_json:
        typer.echo(found.to_json())
    else:
        _print_steps(found)


def _print_steps(found: Trace) -> None:
    rows = []
    for step in found.steps:
        rather = ", ".join(f"{each.text!r} {each.probability:.0%}" for each in step.forbidden[:2])
        kind, bits = "" if step.kind == "free" else step.kind, f"{step.entropy_before:.2f} → {step.entropy_after:.2f}"
        rows.append((repr(step.text), kind, str(step.allowed), f"{step.removed:.1%}", bits, rather))
    print_table(("token", "", "allowed", "removed", "entropy, bits", "rather"), rows)
    typer.echo(figures(found))


# -- bench -------------------------------------------------------------------------------------------------------------


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="One repetition of the schemas only.")] = False,
    record: Annotated[
        Path | None,
        typer.Option(file_okay=False, help="Folder for the dated record; default: benchmarks/record in a checkout."),
    ] = None,
    as_json: JsonOption = False,
    schemas: Annotated[
        Path | None,
        typer.Option("--schemas", help="Of a file of schemas with tests (.jsonl, .jsonl.gz), as MaskBench has them."),
    ] = None,
    count: Annotated[int | None, typer.Option("--count", min=1, help="Of --schemas: so many, at random.")] = None,
) -> None:
    """Measure speed next to llguidance, XGrammar and glrmask.

    All in one process, on the same tokens; what is not installed is left out.
    """
    if schemas is not None:
        from constrained.benchmarks import collection

        collection.main(schemas, count, record=record, repetitions=1 if quick else 3)
        return
    refuse_alone("schemas", count=count)
    from constrained.benchmarks import speed

    speed.main(quick=quick, record=record, as_json=as_json)
