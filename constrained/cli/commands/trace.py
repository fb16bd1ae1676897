"""`trace`: a generation step by step, as a table or as a page."""

from __future__ import annotations

from typing import Annotated

import typer

from constrained.api import compile
from constrained.cli.console import print_table
from constrained.cli.generation import prompt_text
from constrained.cli.inputs import (
    ChoiceOption,
    FormatOption,
    JsonOption,
    ModelOption,
    PromptOption,
    SchemaOption,
    TemperatureOption,
    ToolsOption,
    check_writable,
    read_model,
)
from constrained.cli.languages import LanguageOptions, LarkOption, RegexOption, TextsOption
from constrained.cli.samples import PROMPT, TOOLS
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.research.page import figures
from constrained.research.trace import Trace
from constrained.research.trace import trace as run_trace


def trace(
    model: ModelOption = None,
    format: FormatOption = None,
    schema: SchemaOption = None,
    regex: RegexOption = None,
    lark: LarkOption = None,
    choice: TextsOption = None,
    tools: ToolsOption = None,
    tool_choice: ChoiceOption = "auto",
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
    if not any((format, schema, regex, lark, choice)):
        format, tool_choice = "hermes", "required"
    if html is not None:
        check_writable(html)
    asked = LanguageOptions(format, schema, regex, lark, choice, tools, tool_choice)
    definitions = TOOLS if format is not None and tools is None else asked.definitions()
    grammar = asked.grammar() if format is None else asked.chat().grammar(definitions, tool_choice=tool_choice)
    language_model, tokenizer = read_model(model)
    constraint = compile(grammar, Vocabulary.from_tokenizer(tokenizer, size=language_model.config.vocab_size))
    text = prompt_text(tokenizer, prompt, definitions, format)
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
        _print(found)


def _print(found: Trace) -> None:
    rows = []
    for step in found.steps:
        rather = ", ".join(f"{each.text!r} {each.probability:.0%}" for each in step.forbidden[:2])
        kind, bits = "" if step.kind == "free" else step.kind, f"{step.entropy_before:.2f} → {step.entropy_after:.2f}"
        rows.append((repr(step.text), kind, str(step.allowed), f"{step.removed:.1%}", bits, rather))
    print_table(("token", "", "allowed", "removed", "entropy, bits", "rather"), rows)
    typer.echo(figures(found))
