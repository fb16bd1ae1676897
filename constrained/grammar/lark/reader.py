"""Lark files as grammars.

The `lark` library parses the file and resolves imports, overrides and ignores; its trees become BNF here.  Its own
conversion to BNF is not used (`tree_rules`).

Meaning: the scannerless one, what ``Lark(text, parser="earley", lexer="dynamic_complete")`` accepts.  There is no
lexer: every terminal may match any text of its language (`terminals` says which that is), wherever the rules want it.
Ignored terminals may stand before every other terminal and at the end, each as long as it can be.  Priorities, aliases
and the prefixes ``? _ !`` shape trees only.  Beyond the library: terminals may match the empty text, and ``%declare``
declares special tokens.

Tested against the library itself (`tests/test_lark.py`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from lark.load_grammar import load_grammar

from constrained.errors import GrammarError, shown
from constrained.grammar.ir import Grammar
from constrained.grammar.lark.errors import LARK_ERRORS, recognised, translated
from constrained.grammar.lark.inline import extracted
from constrained.grammar.lark.printer import PrintedLark
from constrained.grammar.lark.sources import Given, Sources, Specials
from constrained.grammar.lark.text import LarkText
from constrained.grammar.lark.tree_rules import LarkTreeReader
from constrained.work import metered, spend, working_on

_RULE = re.compile("_?[a-z][_a-z0-9]*")


def read(
    text: str,
    start: str = "start",
    specials: Specials = (),
    declare: Mapping[str, str] | None = None,
    define: Mapping[str, Grammar] | None = None,
) -> Grammar:
    r"""Return the grammar of a Lark text; no file is opened for it.

    It may import from the files that come with the `lark` library, which are part of the program: common, lark, python,
    unicode.

    `specials` names the special tokens that the text may use: a string literal of that text is then the token, any
    other literal is text, even if some vocabulary has a token of that spelling.  As a mapping it gives names of
    declared terminals the tokens they stand for.  `declare` gives declared terminals texts instead.  `define` gives
    rules that the text uses and does not define: grammars of any kind.  What the text ignores may not stand in them nor
    right before them.  ``%json`` and ``%regex`` inside the text: see `inline`.

    Of a text that `to_lark` has printed, the grammar lists what that could not say.

    Raises: GrammarError: with line and column, for anything wrong; LimitExceeded: for texts too large to read.

    >>> read('start: "<s>" WORD*\nWORD: /[a-z]+/\n%ignore " "', specials=["<s>"]).specials
    frozenset({'<s>'})
    >>> answer = Grammar.choice(["yes", "no"])
    >>> sorted(read('start: "<think>" /[a-z]*/ "</think>" answer', define={"answer": answer}).rules)
    ['answer', 'answer__0_start', 'start']
    """
    if not isinstance(text, str):
        raise GrammarError(
            f"not a Lark text: {type(text).__name__}", instead="the text itself, or Grammar.from_lark_file(path)"
        )
    if text.endswith(".lark") and ":" not in text and len(text.split()) == 1:
        raise GrammarError(
            f"a path, not a Lark text: {shown(text, 80)}", because="a text opens no files",
            instead="Grammar.from_lark_file(path)",
        )
    grammar = _read(Sources(LarkText(text)), start, specials, declare, define)
    if isinstance(text, PrintedLark) and (text.widened or text.narrowed):
        return replace(grammar, widened=(*text.widened, *grammar.widened), cut=text.narrowed)
    return grammar


def read_file(
    path: str | os.PathLike[str],
    start: str = "start",
    specials: Specials = (),
    declare: Mapping[str, str] | None = None,
    import_paths: Collection[str | os.PathLike[str]] = (),
    define: Mapping[str, Grammar] | None = None,
    shown_to: Callable[[dict[str, Any]], object] = len,
) -> Grammar:
    """Return the grammar of a Lark file, which may import files of its own folder and of `import_paths`, and no others;
    `shown_to`: who is shown its rules before look-ahead makes copies of them.

    Raises: as `read`.
    """
    return _read(Sources.at(path, import_paths), start, specials, declare, define, shown_to)


def _read(
    sources: Sources,
    start: str,
    specials: Specials,
    declare: Mapping[str, str] | None,
    define: Mapping[str, Grammar] | None,
    shown_to: Callable[[dict[str, Any]], object] = len,
) -> Grammar:
    with metered(), working_on("Lark grammar"):
        given = Given(specials, declare)
        try:
            main, inline = extracted(sources.files[0])
            sources.files[0] = main
            main.check()
            parts = {**_checked(define), **inline}
            spend(100 * len(parts))
            text = main.text + "".join(f"\n%declare {name}" for name in parts)
            name = main.name or "<string>"
            loaded, _ = load_grammar(text, name, [sources.load], False)  # type: ignore[no-untyped-call]
            return LarkTreeReader(loaded, sources.files, start, given, parts).grammar(shown_to)
        except LARK_ERRORS as error:
            raise recognised(translated(error, sources.files), sources.files[-1]) from error


def _checked(define: Mapping[str, Grammar] | None) -> Mapping[str, Grammar]:
    """Return the grammars of `define`, by names that a rule may have."""
    parts = (define or {}).values() if isinstance(define, Mapping | None) else [define]
    other = next((part for part in parts if not isinstance(part, Grammar)), None)
    if other is not None:
        because = f"{shown(other)} is none"
        instead = 'define={"answer": Grammar.choice(["yes", "no"])}; Grammar.from_json_schema(…) for types and schemas'
        raise GrammarError("define is not a table of grammars", because=because, instead=instead)
    for name in define or {}:
        if not isinstance(name, str) or not _RULE.fullmatch(name):
            raise GrammarError(
                f"{shown(name, 100)} is not a name of a rule", where="define",
                because="names of rules are in small letters",
            )
    return define or {}
