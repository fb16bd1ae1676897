"""`formats`, `show`, `mask`, `spec`, `derive` and `vocabulary`: chat formats and grammars, and what they allow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from constrained.export.engines import TARGETS, export
from constrained.research.next_tokens import encode, report
from constrained.research.specifications import REFUSED, Verdict, examples, found_of
from rich.columns import Columns

from constrained.api import compile
from constrained.errors import ConstrainedError, Rejected
from constrained.formats import ChatFormat
from constrained.formats.definition import Definition, read_definition
from constrained.grammar import Embedded
from constrained.grammar.lark import shipped_folder
from constrained.schema.embedding import EmbeddedSchema

from .console import console, print_table
from .inputs import (
    JsonOption,
    LanguageOptions,
    TokenizerOption,
    as_utf8,
    check_writable,
    read_json,
    read_tokenizer,
    read_vocabulary,
    takes_language,
)
from .specifications import own_examples

ShowTarget = Literal["lark", "llguidance", "xgrammar", "xgrammar-tags", "gbnf", "response_template", "values"]


def formats(as_json: JsonOption = False) -> None:
    """List the chat formats and their special tokens."""
    folder = shipped_folder()  # without the grammars, which take 49 formats seven seconds to read
    rows = [_describe(name, read_definition(folder / f"{name}.toml", folder)) for name in ChatFormat.names()]
    if as_json:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    told = [
        (row["name"], "\n".join((row["title"], row["specification"], _listed("tokens", row), _listed("stop", row))))
        for row in rows
    ]
    print_table(("format", "specification, special tokens, tokens that end a turn"), told)


def _listed(name: str, row: dict[str, Any]) -> str:
    return f"{name:6}  " + " ".join(row[name])


def _describe(name: str, format: Definition) -> dict[str, Any]:
    said = {"name": name, "title": format.title, "specification": format.specification}
    return {**said, "tokens": list(format.tokens.values()), "stop": list(format.stop)}


@takes_language
def show(
    asked: LanguageOptions,
    to: Annotated[
        ShowTarget | None,
        typer.Option(
            "--to",
            help=(
                "lark: a grammar file (default of a format); llguidance, xgrammar, gbnf: for these engines; "
                "xgrammar-tags: a structural tag; response_template: for the readers of transformers, vLLM and SGLang; "
                "values: what is enforced (of a schema)."
            ),
        ),
    ] = None,
) -> None:
    """Print a grammar, tools included, as one file; of a schema, what is enforced once its references and conjunctions
    are worked out.
    """
    if to == "values" and asked.schema is None:
        raise ConstrainedError("--to values without --schema", because="a chat format has no values of its own")
    grammar = asked.grammar()
    if to == "response_template":
        typer.echo(json.dumps(grammar.to_response_template(), ensure_ascii=False, indent=2))
        return
    if to in TARGETS:
        text = export(grammar, to)
        typer.echo(text, nl=False)
        for note in text.notes:
            typer.echo(f"note: {note}", err=True)
        return
    if asked.schema is None or to == "lark":
        typer.echo(grammar.to_lark())
        return
    ((value,),) = grammar.rules[grammar.start].alternatives
    assert isinstance(value, Embedded)
    assert isinstance(value.machine, EmbeddedSchema)
    typer.echo(value.machine.describe())


# -- mask: what may come next after a prefix, and why other tokens may not ---------------------------------------------


@takes_language
def mask(
    asked: LanguageOptions,
    tokenizer: TokenizerOption = None,
    prefix: Annotated[
        str,
        typer.Option(
            "--prefix",
            "-p",
            callback=as_utf8,
            help="What was generated so far; names of special tokens count as these.",
        ),
    ] = "",
    why: Annotated[
        list[str] | None, typer.Option("--why", callback=as_utf8, help="Explain this token (id or text); repeatable.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="Allowed tokens to list.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """Say what may come after a prefix, and why not others."""
    vocabulary = read_vocabulary(tokenizer)
    matcher = compile(asked.grammar_with_warnings(), vocabulary).matcher()
    try:
        for token in encode(vocabulary, prefix):
            matcher.advance(token)
    except Rejected as error:
        if not as_json:
            raise
        typer.echo(json.dumps({"complete": False, "error": str(error)}, indent=2, ensure_ascii=False))
        raise typer.Exit(1) from error
    found = report(matcher, why or [], limit)
    if as_json:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        _print_report(found)


def _print_report(report: dict[str, Any]) -> None:
    out = console()
    end = "may end here" if report["complete"] else "may not end here"
    out.print(f"{report['allowed']:,} of {report['size']:,} tokens may come next; the text {end}", soft_wrap=True)
    if report["forced"]:
        out.print(f"forced: {report['forced']!r}", soft_wrap=True)
    if report["tokens"]:
        out.print(Columns([f"{row['id']:>6} {row['text']}" for row in report["tokens"]], equal=True))
    for row in report["why"]:
        out.print(row["explanation"], soft_wrap=True)


# -- spec: the examples of the formats' specifications, and what the grammars say of them ------------------------------


_SHOWN = 6  # lines of an example


def spec(
    format: Annotated[
        str | None, typer.Argument(help="A format, or a .toml of examples; default: all formats with a specification.")
    ] = None,
    as_json: JsonOption = False,
    whole: Annotated[bool, typer.Option("--whole", help="Print examples in full.")] = False,
) -> None:
    """Print the examples of a format's specification, where they stand, and which form of the grammar takes them; of a
    file of examples of your own, whether each is what it says: exit code 1 where one is not.
    """
    if format is not None and format.endswith(".toml"):
        own_examples(format, as_json=as_json)
        return
    counts: dict[str, int] = {}
    for example in examples(format):
        found = found_of(example)
        counts[found.form] = counts.get(found.form, 0) + 1
        typer.echo(json.dumps(_as_json(found), ensure_ascii=False) if as_json else _shown(found, whole=whole))
    if not as_json:
        typer.echo(", ".join(f"{count} {form}" for form, count in counts.items()))


def _as_json(found: Verdict) -> dict[str, object]:
    example = found.example
    said = {
        "format": example.format,
        "document": example.document,
        "lines": example.lines,
        "repaired": example.repaired,
        "kind": example.kind,
    }
    return {**said, "text": example.text, "form": found.form, "because": example.because, "error": found.error}


def _shown(found: Verdict, *, whole: bool) -> str:
    example = found.example
    repaired = ", repaired" if example.repaired else ""
    lines = example.text.split("\n")
    shown = (
        lines if whole or len(lines) <= _SHOWN else [*lines[: _SHOWN - 1], f"… {len(lines) - _SHOWN + 1} more lines"]
    )
    kind = example.kind.replace("_", " ")
    head = f"{example.format}: {example.document}, lines {example.lines}{repaired} ({kind}): {found.form}"
    reason = [f"  because: {example.because}"] if example.because else []
    place = (found.error or "").split("\n", 1)[0]
    stop = [f"  {'reading' if found.form == REFUSED else 'the canonical grammar'} stops: {place}"] if place else []
    return "\n".join([head, *reason, *stop, *(f"    {line}" for line in shown), ""])


# -- derive: a chat template → a format, as a pair of files, with the report of its proof ------------------------------


def derive(
    template: Annotated[
        str,
        typer.Argument(
            metavar="TOKENIZER|TEMPLATE",
            help="A tokenizer's folder or hub id, a .jinja file, or a .json file: a response template.",
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FOLDER", help="Where the two files go.")],
    special: Annotated[
        list[str] | None,
        typer.Option("--special", metavar="TOKEN", help="A special token, or NAME=TOKEN: eos_token=<|im_end|>."),
    ] = None,
    stop: Annotated[list[str] | None, typer.Option("--stop", metavar="TOKEN", help="A token that ends a turn.")] = None,
    conversations: Annotated[int, typer.Option(min=20, help="How many random conversations prove it.")] = 500,
) -> None:
    """Derive a chat format from a chat template, and prove it; exit 1 where the template cannot be explained."""
    from constrained.deriving.derive import derive as derived

    from constrained.formats.load import ChatFormat

    if template.endswith(".json"):
        made = ChatFormat.from_response_template(read_json(template), stop=stop)
        typer.echo("\n".join([str(made.save(output)), *(f"{what}: {why}" for what, why in made.doubts)]))
        return
    found = derived(_given(template), ChatFormat.load, _named(special or []), stop, conversations)
    path = found.format.save(output)
    proof = found.proof
    typer.echo(f"{path} and {path.with_suffix('.lark').name}")
    typer.echo(
        f"{proof.alike} of {conversations} random conversations come out as the template prints them, "
        f"{proof.turns} of their turns are generated"
    )
    if proof.marked:
        typer.echo(f"{proof.marked} hold a marker of the format in a text, which is refused or escaped")
    for what, why in found.format.doubts:
        typer.echo(f"{what}: {why}")


def _given(template: str) -> Any:
    return (
        template
        if template.endswith((".jinja", ".jinja2", ".j2")) or Path(template).exists()
        else read_tokenizer(template)
    )


def _named(special: list[str]) -> dict[str, str] | list[str]:
    """Return tokens as `from_template` takes them."""
    pairs = [text.partition("_token=") for text in special]
    if not any(sign for _, sign, _ in pairs):
        return special
    if not all(sign for _, sign, _ in pairs):
        raise ConstrainedError("--special has tokens with names and without", instead="either of both")
    return {f"{name}_token": text for name, _, text in pairs}


# -- vocabulary: the table of a tokenizer as a file that processes map -------------------------------------------------


def vocabulary(
    out: Annotated[str, typer.Argument(help="The file to write.")],
    tokenizer: TokenizerOption = None,
    size: Annotated[int | None, typer.Option("--size", min=1, help="Width of the model's logits.")] = None,
) -> None:
    """Save a tokenizer's vocabulary for `Vocabulary.load` and `--tokenizer`, which then take some 10 ms."""
    check_writable(out)
    found = read_vocabulary(tokenizer, size)
    found.save(out)
    typer.echo(f"{out}: {found!r}, {Path(out).stat().st_size / 1e6:.1f} MB, fingerprint {found.fingerprint:.12}")
