"""Other languages inside a Lark text, as llguidance spells them: ``%json {…}`` and ``%regex {…}``.

    start: "Answer: " %json {"type": "integer"} | quote
    quote: %regex {"substring_words": "the quick brown fox"}

``%json`` is any instance of the schema.  ``%regex`` is any run, also an empty one, of the parts of a text:
"substring_chars", its characters; "substring_words", its runs of word characters, of blanks and of other characters;
"substring_chunks", a list of parts. Each becomes a rule that is given to the reader beside the text (`reader.read`,
`define`).

A terminal may be a ``%regex`` and nothing else; it stands in rules only.  Left out: both inside templates' arguments
and imported files. Tested against llguidance where it is installed (tests/test_lark_inline.py).
"""

from __future__ import annotations

import json
import re
from typing import Any

from constrained.errors import GrammarError
from constrained.grammar.compose import optional, substring_of
from constrained.grammar.ir import Grammar
from constrained.grammar.lark.text import _TOKEN, LarkText
from constrained.grammar.symbols import Literal, Ref, Rule
from constrained.work import spend

_WORDS = re.compile(r"\w+|\s+|[^\w\s]+")
_TERMINAL = re.compile(r"^[ \t]*(_?[A-Z][A-Z_0-9]*)[ \t]*:[ \t]*\Z", re.MULTILINE)
_KINDS = ("substring_chars", "substring_words", "substring_chunks")


def extracted(source: LarkText) -> tuple[LarkText, dict[str, Grammar]]:
    """Return the text with rules in place of other languages, and the grammars of these rules.

    Invariant: what stands behind is in the same line as before.
    Raises: GrammarError: a language cannot be read; with its place.
    """
    text = source.text
    if "%json" not in text and "%regex" not in text:
        return source, {}
    prefix = "inline"
    while prefix in text:
        prefix += "_"
    pieces, found, terminals = list[str](), dict[str, Grammar](), dict[str, str]()
    at = start = owed = 0  # lines that were taken out of the present one, and follow it
    while (match := _TOKEN.search(text, at)) is not None:
        at = match.end()
        if match.group() not in ("%json", "%regex"):
            continue
        value, at = _value(source, match.group(), at, match.start())
        name = f"{prefix}_{len(found)}"
        found[name] = _grammar(source, match.group(), value, match.start())
        before, owed = _with_lines(text[start : match.start()], owed)
        defined = _TERMINAL.search(before)
        if defined is not None and match.group() == "%regex":
            terminals[defined[1]] = f"{name}_terminal"
            before = before[: defined.start(1)] + f"{name}_terminal: "
        pieces += [before, name]
        owed += text.count("\n", match.start(), at)
        start = at
    pieces.append(_with_lines(text[start:], owed)[0])
    return LarkText(_renamed("".join(pieces), terminals), source.name), found


def _with_lines(text: str, owed: int) -> tuple[str, int]:
    """Return the text with further empty lines behind its first, and how many are still owed."""
    line, newline, rest = text.partition("\n")
    return (line + newline + "\n" * owed + rest, 0) if newline else (text, owed)


def _renamed(text: str, terminals: dict[str, str]) -> str:
    """Return the text with rules in place of terminals that are other languages."""
    if not terminals:
        return text
    return _TOKEN.sub(lambda match: terminals.get(match.group(), match.group()), text)


def _value(source: LarkText, word: str, at: int, start: int) -> tuple[Any, int]:
    """Return the JSON value behind a directive, and where it ends."""
    text = source.text
    while at < len(text) and text[at].isspace():
        at += 1
    try:
        value, end = json.JSONDecoder().raw_decode(text, at)
    except (ValueError, RecursionError) as error:
        raise GrammarError(
            f"cannot read what follows {word}", where=_place(source, start), because=f"it is no JSON: {error}"
        ) from error
    spend((end - at) // 10)
    return value, end


def _grammar(source: LarkText, word: str, value: Any, start: int) -> Grammar:
    if word == "%json":
        return Grammar.from_json_schema(value)
    kinds = list(value) if isinstance(value, dict) else []
    if len(kinds) != 1 or kinds[0] not in _KINDS:
        because = f"it is none of {', '.join(_KINDS)}"
        raise GrammarError(
            "cannot read %regex",
            where=_place(source, start),
            because=because,
            instead='%regex {"substring_words": "…"}',
        )
    (kind,), (content,) = kinds, value.values()
    if kind == "substring_chunks" and isinstance(content, list) and all(isinstance(chunk, str) for chunk in content):
        return _chunks(content)
    if kind == "substring_chunks" or not isinstance(content, str):
        raise GrammarError(
            "cannot read %regex",
            where=_place(source, start),
            because=f"{kind} takes a {'list of texts' if 'chunks' in kind else 'text'}",
        )
    if kind == "substring_words":
        return _chunks(_WORDS.findall(content))
    return optional(substring_of(content)) if content else _chunks([])


def _chunks(chunks: list[str]) -> Grammar:
    """Return the grammar of the runs of some parts of a text: each rule derives a part and what may follow it."""
    rules = {"start": Rule("start", ((), *((Ref(f"from_{at}"),) for at in range(len(chunks)))))}
    for at, chunk in enumerate(chunks):
        spend(2)
        first = (Literal(chunk),) if chunk else ()
        longer = ((*first, Ref(f"from_{at + 1}")),) if at + 1 < len(chunks) else ()
        rules[f"from_{at}"] = Rule(f"from_{at}", (first, *longer))
    return Grammar(rules, adopts=False)


def _place(source: LarkText, at: int) -> str:
    text = source.text
    return source.place(text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))
