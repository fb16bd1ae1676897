"""`convert`, `lint`, `compare` and `coverage`: grammars of one's own, from any notation, against themselves, each other
and texts.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args

import typer
from constrained.export.engines import export
from constrained.notations import NOTATIONS, SUFFIXES, translated
from constrained.research.compare import DRAWN, Comparison, differences
from constrained.research.coverage import call_coverage, lines_of, rule_coverage, schema_coverage
from constrained.research.examples import read_examples
from constrained.research.lint import CHECKS
from constrained.research.lint import lint as lint_of
from constrained.research.places import Source

from constrained.errors import ConstrainedError
from constrained.formats import ChatFormat
from constrained.grammar import Grammar
from constrained.integrations.ray_data import is_unread
from constrained.work import Budget, metered

from .inputs import (
    JsonOption,
    ToolsOption,
    as_utf8,
    check_writable,
    read_json,
    read_rows,
    read_text,
    read_tools,
    read_vocabulary,
)

if TYPE_CHECKING:
    from constrained.notations.rules import Translated


Notation = Literal["lark", "gbnf", "ebnf", "llguidance", "abnf", "iso-ebnf", "schema", "format"]
NotationOption = Annotated[
    Notation | None, typer.Option("--from", help="Notation of the file; default: as its name ends.")
]
_FILES = "A grammar file: .lark .gbnf .ebnf .abnf .iso .json (a schema) .toml (a format), or a format's name."
GrammarArgument = Annotated[str, typer.Argument(metavar="GRAMMAR", help=_FILES)]
StartOption = Annotated[str | None, typer.Option("--start", help="The rule to begin with.")]
SpecialOption = Annotated[
    list[str] | None, typer.Option("--special", callback=as_utf8, help="A special token that it may name; repeatable.")
]


def notation_of(file: str, given: Notation | None = None) -> Notation:
    """Return the notation of a file.

    Raises: ConstrainedError: nothing says which it is.
    """
    if given is not None:
        return given
    suffix = Path(file).suffix
    known = {".lark": "lark", ".json": "schema", ".toml": "format", **SUFFIXES}
    if suffix not in known and not Path(file).exists():
        return "format"  # by its name
    if suffix not in known:
        raise ConstrainedError(
            f"in which notation is {file}?",
            because=f"its name ends in none of {' '.join(known)}",
            instead="--from NAME",
        )
    return cast("Notation", known[suffix])


def read_translated(
    file: str, notation: Notation, start: str | None = None, special: list[str] | None = None
) -> Translated:
    """Return a file in one of the other notations as Lark text."""
    return translated(read_text(file), notation, start, special or (), file)


def read_grammar(
    file: str, given: Notation | None = None, start: str | None = None, special: list[str] | None = None
) -> Grammar:
    """Return the grammar in a file of any notation, of a schema, or of a chat format."""
    notation = notation_of(file, given)
    if notation == "lark":
        return Grammar.from_lark_file(file, start, special or ())
    if notation == "schema":
        return Grammar.from_json_schema(read_json(file))
    if notation == "format":
        return ChatFormat.load(file).grammar()
    return Grammar.of(read_translated(file, notation, start, special).grammar())


# -- spec: examples of one's own ---------------------------------------------------------------------------------------


def own_examples(path: str, *, as_json: bool) -> None:
    """Print what the grammar makes of each example of a file; exit 1 where one is not what it says."""
    specification = read_examples(path)
    wrong = count = 0
    for outcome in specification.outcomes(_grammar_of):
        example, count, wrong = outcome.example, count + 1, wrong + (not outcome.holds)
        if as_json:
            row = {"file": example.file, "line": example.line, "text": example.text, "valid": example.valid}
            error = None if outcome.error is None else str(outcome.error)
            row |= {"holds": outcome.holds, "found": outcome.found, "place": outcome.place(), "error": error}
            typer.echo(json.dumps(row, ensure_ascii=False))
            continue
        said = "valid" if example.valid else "invalid"
        mark = "ok   " if outcome.holds else "WRONG"
        typer.echo(f"{mark} {example.file} line {example.line}: said to be {said}, {outcome.found}")
        if outcome.error is not None:
            reason = outcome.error.because or outcome.error.what
            typer.echo(f"      stops at {outcome.place()}: {reason}" + _expected(outcome.error.expected))
    if not as_json:
        typer.echo(f"{count} examples, {f'{wrong} of them not' if wrong else 'all'} as they say")
    if wrong:
        raise typer.Exit(1)


def _expected(expected: str | None) -> str:
    return f"; expected: {expected}" if expected else ""


def _grammar_of(file: str, notation: str | None, start: str | None, specials: list[str]) -> Grammar:
    known = get_args(Notation)
    if notation is not None and notation not in known:
        raise ConstrainedError(f"unknown notation '{notation}'", instead=f"one of: {', '.join(sorted(known))}")
    return read_grammar(file, cast("Notation | None", notation), start, specials)


# -- lint and compare --------------------------------------------------------------------------------------------------


def read_source(file: str, given: Notation | None, start: str | None, special: list[str] | None) -> Source:
    """Return a grammar with its text.

    Raises: ConstrainedError: it is a schema, which has no rules.
    """
    notation = notation_of(file, given)
    if notation == "schema":
        raise ConstrainedError(f"{file} is a schema", because="it has no rules", instead="a grammar")
    if notation == "format":
        return Source.of_format(file)
    if notation == "lark" and start is None and Path(file).with_suffix(".toml").exists():
        return Source.of_format(file)  # a pair
    if notation == "lark":
        return Source.of_file(file, start, special or ())
    return Source.of_translated(read_translated(file, notation, start, special))


def lint(
    file: GrammarArgument,
    notation: NotationOption = None,
    start: StartOption = None,
    special: SpecialOption = None,
    tokenizer: Annotated[
        str | None, typer.Option("--tokenizer", help="Look for what it cannot spell, too: a file, folder or hub id.")
    ] = None,
    check: Annotated[
        list[str] | None, typer.Option("--check", help=f"Look for this only, repeatable: {' '.join(CHECKS)}.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Look for what a grammar says and cannot mean; exit code 1 where there is such a thing."""
    vocabulary = None if tokenizer is None else read_vocabulary(tokenizer)
    source = read_source(file, notation, start, special)
    report = lint_of(source, vocabulary, check or CHECKS)
    for finding in report.findings:
        typer.echo(json.dumps(asdict(finding), ensure_ascii=False) if as_json else str(finding))
    if not as_json:
        count = len(report.findings)
        compared = "ambiguous" in (check or CHECKS) and source.generated != frozenset()
        tried = f"; ambiguity: texts of at most {report.tried} terminals" if compared else ""
        typer.echo(f"{count or 'no'} finding{'s' * (count != 1)}{tried}", err=True)
        if source.generated == frozenset():
            typer.echo("no rule is called start, so this is a part of other files; --start RULE: a whole", err=True)
    if report.findings:
        raise typer.Exit(1)


def compare(
    first: GrammarArgument,
    second: GrammarArgument,
    notation: Annotated[Notation | None, typer.Option("--from", help="Notation of the first.")] = None,
    other: Annotated[Notation | None, typer.Option("--and-from", help="Notation of the second.")] = None,
    start: Annotated[str | None, typer.Option("--start", help="The rule that the first begins with.")] = None,
    other_start: Annotated[str | None, typer.Option("--and-start", help="The rule that the second has first.")] = None,
    up_to: Annotated[
        int | None, typer.Option("--up-to", min=0, help="Texts up to so many bytes; default: any, as far as work goes.")
    ] = None,
    special: SpecialOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say whether two grammars take the same texts, or print a shortest text that only one takes, for each of them;
    exit code 1 where there is one.
    """
    files = first, second
    grammars = read_grammar(first, notation, start, special), read_grammar(second, other, other_start, special)
    found = differences(*grammars, up_to)
    if as_json:
        rows = [{"only": file, "text": _text_of(one), "complete": one.complete, "up_to": one.up_to}
                for file, one in zip(files, found, strict=True)]  # fmt: skip
        typer.echo(json.dumps({"equal": all(found), "differences": rows}, ensure_ascii=False))
    else:
        for file, one in zip(files, found, strict=True):
            if not one:
                shortest = "" if one.complete else ", which may not be the shortest"
                typer.echo(f"only {file} takes {_text_of(one)!r}{shortest}")
        unsure = [one.up_to for one in found if one and not one.complete and one.up_to is not None]
        drawn = "" if up_to is not None else f" and {DRAWN} random ones of each"
        end = f", as far as texts of {min(unsure)} bytes{drawn}" if unsure and all(found) else ""
        typer.echo(("equal" if all(found) else "not equal") + end)
    if not all(found):
        raise typer.Exit(1)


def _text_of(found: Comparison) -> str | None:
    return None if found.word is None else found.word.decode(errors="backslashreplace")


# -- coverage ----------------------------------------------------------------------------------------------------------


_PATIENCE = 100_000_000  # units of work: a corpus is asked of all alternatives, and whoever asks can stop it


def coverage(
    grammar: GrammarArgument,
    texts: Annotated[
        list[str], typer.Argument(metavar="TEXTS", help="Files: each a text; .jsonl: rows with one; .toml: examples.")
    ],
    notation: NotationOption = None,
    start: StartOption = None,
    special: SpecialOption = None,
    tools: ToolsOption = None,
    lines: Annotated[bool, typer.Option("--lines", help="Each line of a file is a text.")] = False,
    html: Annotated[str | None, typer.Option("--html", help="Write a page, too.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Say which rules, alternatives and patterns of a grammar, or branches of a schema, no text of a corpus has used;
    exit code 1 where there is one. With --tools, a format's turns are also held against the schema of each tool.
    """
    kind = notation_of(grammar, notation)
    if html is not None:
        check_writable(html)
    if kind == "schema":
        text = read_text(grammar)
        places = {pointer: f"{grammar} line {line}" for pointer, line in lines_of(text).items()}
        with metered(Budget(_PATIENCE)):
            found = schema_coverage(read_json(grammar), list(chain.from_iterable(map(_instances, texts))), places)
    else:
        source = read_source(grammar, notation, start, special)
        words = [text for file in texts for text in _texts(file, lines=lines)]
        bound = ChatFormat.load(grammar).grammar(read_tools(tools)) if kind == "format" else source.grammar
        with metered(Budget(_PATIENCE)):
            found = rule_coverage(bound, words, source=source)
            if kind == "format" and tools is not None:
                branches = call_coverage(ChatFormat.load(grammar), words, read_tools(tools))
                found = replace(found, entries=found.entries + branches.entries)
    if as_json:
        typer.echo(json.dumps(asdict(found), ensure_ascii=False))
    else:
        typer.echo(found.table())
    if html is not None:
        Path(html).write_text(found.html(f"coverage of {grammar}"), encoding="utf-8")
    if found.unused():
        raise typer.Exit(1)


def _texts(file: str, *, lines: bool) -> list[str]:
    """Return the texts of a file."""
    if file.endswith(".toml"):
        return [example.text for example in read_examples(file).examples if example.valid]
    if file.endswith(".jsonl"):
        rows = read_rows(file, lambda row: isinstance(row.get("text"), str), what="text", instead='{"text": "…"}')
        if wrong := [row for _, row in rows if is_unread(row)]:
            raise ConstrainedError(wrong[0]["error"]["message"])
        return [row["text"] for _, row in rows if row.get("valid") is not False]
    text = read_text(file)
    return text.splitlines() if lines else [text]


def _instances(file: str) -> list[Any]:
    """Return the JSON values in a file."""
    if not file.endswith(".jsonl"):
        return [read_json(file)]
    return [json.loads(line) for line in read_text(file).splitlines() if line.strip()]


# -- convert -----------------------------------------------------------------------------------------------------------


def convert(
    file: GrammarArgument,
    notation: NotationOption = None,
    to: Annotated[
        Literal["lark", "gbnf", "ebnf", "llguidance"], typer.Option("--to", help="Notation to write.")
    ] = "lark",
    start: StartOption = None,
    special: SpecialOption = None,
    output: Annotated[str | None, typer.Option("-o", "--output", help="File to write; default: print it.")] = None,
) -> None:
    """Write a grammar in another notation; what that cannot say is told on standard error, or refused."""
    if output is not None:
        check_writable(output)
    kind = notation_of(file, notation)
    notes: list[str] = []
    if to == "lark" and kind in NOTATIONS:
        found = read_translated(file, kind, start, special)
        grammar = Grammar.of(found.grammar())
        text = str(grammar.to_lark()) if found.computed or found.parts else found.text
    else:
        grammar = read_grammar(file, notation, start, special)
        if to == "lark":
            printed = grammar.to_lark()
            text = str(printed)
        else:
            exported = export(grammar, "xgrammar" if to == "ebnf" else to)
            text, notes = str(exported), [*exported.notes]
    notes += [f"wider at {entry.pointer}: {entry.because}" for entry in grammar.widened]
    if output is None:
        typer.echo(text, nl=False)
    else:
        Path(output).write_text(text, encoding="utf-8")
    for note in dict.fromkeys(notes):
        typer.echo(f"note: {note}", err=True)
