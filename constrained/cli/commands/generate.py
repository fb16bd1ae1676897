"""`generate`: let a model write under a grammar."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

import typer

from constrained.api import compile
from constrained.cli.console import results_only
from constrained.cli.generation import Sampling, prompt_text
from constrained.cli.generation import generate as run_model
from constrained.cli.inputs import (
    ChoiceOption,
    FormatOption,
    JsonOption,
    ModelOption,
    OutOption,
    PromptOption,
    RayOption,
    SchemaOption,
    TemperatureOption,
    ToolsOption,
    read_model,
    read_rows,
)
from constrained.cli.languages import (
    LanguageOptions,
    LarkOption,
    OrderOption,
    ParallelOption,
    Profile,
    ProfileOption,
    RegexOption,
    TextsOption,
    Unsupported,
    UnsupportedOption,
    WhitespaceOption,
)
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.errors import ConstrainedError
from constrained.formats import ChatFormat
from constrained.integrations.ray_data import is_unread, results


def generate(
    model: ModelOption = None,
    format: FormatOption = None,
    schema: SchemaOption = None,
    regex: RegexOption = None,
    lark: LarkOption = None,
    choice: TextsOption = None,
    tools: ToolsOption = None,
    tool_choice: ChoiceOption = "auto",
    parallel: ParallelOption = None,
    profile: ProfileOption = Profile.PRACTICAL,
    whitespace: WhitespaceOption = None,
    property_order: OrderOption = None,
    unsupported: UnsupportedOption = Unsupported.RAISE,
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
    asked = LanguageOptions.among(locals())
    grammar = asked.told()
    if jsonl is not None:
        settings = {"temperature": temperature, "max_tokens": max_tokens, "top_p": top_p}
        arguments = model, asdict(asked), settings
        wrong = 0
        with results_only() as file:
            for result in results(_prompts(jsonl, seed), f"{__name__}:writer", arguments, actors=ray, out=out):
                typer.echo(json.dumps(result, ensure_ascii=False), file=file)
                wrong += "error" in result
        if wrong:
            raise typer.Exit(1)
        return
    language_model, tokenizer = read_model(model)
    vocabulary = Vocabulary.from_tokenizer(tokenizer, size=language_model.config.vocab_size)
    constraint = compile(grammar, vocabulary)
    stop = stop_ids(vocabulary, format)
    text = prompt_text(tokenizer, prompt, asked.definitions(), format) or tokenizer.bos_token
    for turn in range(n):
        ids = run_model(
            language_model, tokenizer, text, Sampling(temperature, seed + turn, max_tokens, top_p), stop, constraint
        )
        row = _row(vocabulary, ids, stop, asked)
        typer.echo(json.dumps(row, ensure_ascii=False) if as_json else row["text"])


def _prompts(path: str, seed: int) -> list[dict[str, Any]]:
    """Return the rows of a file of prompts, each with a seed."""

    def holds(row: dict[str, Any]) -> bool:
        return isinstance(row.get("prompt"), str) and type(row.get("seed", 0)) is int

    rows = read_rows(path, holds, what="prompt", instead='{"prompt": …}')
    return [row if is_unread(row) else {"seed": seed + at, **row} for at, (_, row) in enumerate(rows)]


def writer(
    model: str | None, asked: dict[str, Any], settings: dict[str, Any]
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return what writes the text of a row; a worker of `ray_data`, so each of its actors loads the model
    once.
    """
    import torch

    # sums in one order, however many actors share the machine: a row's text depends on the row alone
    torch.set_num_threads(1)
    language = LanguageOptions(**asked)
    language_model, tokenizer = read_model(model)
    vocabulary = Vocabulary.from_tokenizer(tokenizer, size=language_model.config.vocab_size)
    constraint = compile(language.grammar(), vocabulary)
    stop = stop_ids(vocabulary, language.format)

    def write(row: dict[str, Any]) -> dict[str, Any]:
        text = prompt_text(tokenizer, row["prompt"], language.definitions(), language.format) or tokenizer.bos_token
        ids = run_model(language_model, tokenizer, text, Sampling(seed=row["seed"], **settings), stop, constraint)
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
