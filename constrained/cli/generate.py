"""`generate`: let a model write under a grammar."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from ..engine.constraint import Constraint, compile
from ..engine.vocabulary import Vocabulary
from ..errors import ConstrainedError
from ..formats import ChatFormat
from .generation import Sampling, prompt_text
from .generation import generate as run_model
from .inputs import ChoiceOption, FormatOption, JsonOption, SchemaOption, ToolsOption, read_grammar, read_model, read_tools


def generate(
    model: Annotated[str | None, typer.Option("--model", "-m", help="Local folder or hub id; default: the embedded model.")] = None,
    format: FormatOption = None, schema: SchemaOption = None, tools: ToolsOption = None, tool_choice: ChoiceOption = "auto",
    prompt: Annotated[str, typer.Option("--prompt", "-p", help="What the user says.")] = "",
    n: Annotated[int, typer.Option("--n", "-n", min=1, help="Generations, each with the next seed.")] = 1,
    temperature: Annotated[float, typer.Option(min=0.0, help="0 is greedy.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of the first generation.")] = 0,
    max_tokens: Annotated[int, typer.Option(min=1, help="Where a generation is cut.")] = 400,
    as_json: JsonOption = False,
) -> None:
    """Let a model write under a chat format or a schema.

    Prints one text (with --json: one object) per generation.
    """
    grammar = read_grammar(format, schema, tools, tool_choice)
    language_model, tokenizer = read_model(model)
    vocabulary = Vocabulary.from_tokenizer(tokenizer, size=language_model.config.vocab_size)
    constraint = compile(grammar, vocabulary)
    stop = stop_ids(vocabulary, format)
    text = prompt_text(tokenizer, prompt) or tokenizer.bos_token
    for turn in range(n):
        ids = run_model(language_model, tokenizer, text, Sampling(temperature, seed + turn, max_tokens), stop, constraint)
        finished = bool(ids) and ids[-1] in stop
        row = _row(vocabulary, ids, finished, format, tools, constraint)
        typer.echo(json.dumps(row, ensure_ascii=False) if as_json else row["text"] + ("" if finished else "  [cut]"))


def stop_ids(vocabulary: Vocabulary, format: str | None) -> list[int]:
    """Return the ids that end a generation: the tokenizer's own and those of the chat format."""
    names = [] if format is None else ChatFormat.load(format).stop
    ids = dict.fromkeys([*(vocabulary.special[name] for name in names if name in vocabulary.special), *vocabulary.stop])
    if not ids:
        raise ConstrainedError("the tokenizer has no stop token", instead="give its end-of-sequence token in the tokenizer's configuration")
    return list(ids)


def _row(vocabulary: Vocabulary, ids: list[int], finished: bool, format: str | None, tools: str | None, constraint: Constraint) -> dict[str, Any]:
    row: dict[str, Any] = {"text": vocabulary.decode(ids).decode(errors="backslashreplace"), "tokens": len(ids), "finished": finished}
    if format is not None and finished:
        message = ChatFormat.load(format).parse(row["text"], tools=read_tools(tools))
        row["calls"] = [{"name": call.name, "arguments": call.arguments} for call in message.tool_calls]
    return row
