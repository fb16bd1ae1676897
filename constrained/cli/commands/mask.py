"""`mask`: what may come next after a prefix, and why other tokens may not."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.columns import Columns

from constrained.api import compile
from constrained.cli.console import console
from constrained.cli.inputs import (
    ChoiceOption,
    FormatOption,
    JsonOption,
    SchemaOption,
    TokenizerOption,
    ToolsOption,
    as_utf8,
    read_vocabulary,
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
from constrained.engine.matcher import Matcher
from constrained.errors import ConstrainedError, Rejected

if TYPE_CHECKING:
    from constrained.engine.tokens.vocabulary import Vocabulary

USUAL = ('"', "'", "{", "}", "[", "]", ",", ":", "a", "1", " ", "\n")  # texts whose refusal a reader may wonder about


def mask(
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
    asked = LanguageOptions.among(locals())
    matcher = compile(asked.told(), vocabulary).matcher()
    try:
        for token in encode(vocabulary, prefix):
            matcher.advance(token)
    except Rejected as error:
        if not as_json:
            raise
        typer.echo(json.dumps({"complete": False, "error": str(error)}, indent=2, ensure_ascii=False))
        raise typer.Exit(1) from error
    report = _report(matcher, vocabulary, why or [], limit)
    if as_json:
        typer.echo(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        _print(report)


def encode(vocabulary: Vocabulary, text: str) -> list[int]:
    """Return ids for a text in which the names of special tokens stand for these tokens."""
    names = sorted(vocabulary.special, key=len, reverse=True)
    pieces = re.split("(" + "|".join(map(re.escape, names)) + ")", text) if names else [text]
    ids: list[int] = []
    for piece in filter(None, pieces):
        ids += [vocabulary.special[piece]] if piece in vocabulary.special else vocabulary.tokenize(piece.encode())
    return ids


def allowed_tokens(matcher: Matcher, vocabulary: Vocabulary) -> list[int]:
    """Return the ids in the matcher's mask, ascending."""
    bitmask = np.zeros((1, vocabulary.words), np.int32)
    matcher.fill_mask(bitmask)
    ids: list[int] = np.flatnonzero(np.unpackbits(bitmask.view(np.uint8), bitorder="little")).tolist()
    return ids


def _report(matcher: Matcher, vocabulary: Vocabulary, why: list[str], limit: int) -> dict[str, Any]:
    allowed = allowed_tokens(matcher, vocabulary)
    asked = [_token(vocabulary, text) for text in why] or _usual_refusals(matcher, vocabulary)
    return {
        "complete": matcher.is_accepting(),
        "forced": matcher.forced_bytes().decode(errors="backslashreplace"),
        "allowed": len(allowed),
        "size": vocabulary.size,
        "tokens": [{"id": token, "text": spell(vocabulary, token)} for token in allowed[:limit]],
        "why": [
            {"id": token, "text": spell(vocabulary, token), "explanation": matcher.explain(token)} for token in asked
        ],
    }


def _token(vocabulary: Vocabulary, text: str) -> int:
    if text in vocabulary.special:
        return vocabulary.special[text]
    if text.isdecimal() and len(text) < 20 and int(text) < vocabulary.size:
        return int(text)
    ids = vocabulary.tokenize(text.encode())
    if len(ids) != 1:
        raise ConstrainedError(
            f"{text!r} is not one token",
            because=f"this tokenizer writes it as {len(ids)}",
            instead="give an id, or a shorter text",
        )
    return ids[0]


def _usual_refusals(matcher: Matcher, vocabulary: Vocabulary) -> list[int]:
    usual = [ids[0] for ids in map(vocabulary.tokenize, map(str.encode, USUAL)) if len(ids) == 1]
    return [token for token in (*vocabulary.stop[:1], *usual) if not matcher.accepts(token)][:5]


def spell(vocabulary: Vocabulary, token: int) -> str:
    """Return a printable form of a token: its text with escapes, or the name of a special token."""
    text = vocabulary.tokens[token]
    if text is None:
        return vocabulary.names.get(token, "(unused)")
    return repr(text.decode()) if _is_utf8(text) else repr(text)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _print(report: dict[str, Any]) -> None:
    out = console()
    end = "may end here" if report["complete"] else "may not end here"
    out.print(f"{report['allowed']:,} of {report['size']:,} tokens may come next; the text {end}", soft_wrap=True)
    if report["forced"]:
        out.print(f"forced: {report['forced']!r}", soft_wrap=True)
    if report["tokens"]:
        out.print(Columns([f"{row['id']:>6} {row['text']}" for row in report["tokens"]], equal=True))
    for row in report["why"]:
        out.print(row["explanation"], soft_wrap=True)
