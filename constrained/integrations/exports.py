"""A grammar → text for another engine, so that a server enforces it without running us.

Targets: llguidance's Lark, XGrammar's EBNF and llama.cpp's GBNF (`exporting.characters`), XGrammar's structural tags
(`exporting.structural_tags`).  What a target cannot say, such as that keys which no schema names differ, is listed in
`Exported.notes`, or refused.  Tested against llguidance and XGrammar (tests/hosts/test_exports.py); GBNF is read by
XGrammar there, llama.cpp itself is not.
"""

from __future__ import annotations

from constrained.errors import GrammarError, shown
from constrained.grammar import Grammar
from constrained.integrations.exporting.characters import Exported, in_characters
from constrained.integrations.exporting.structural_tags import structural_tag

STRUCTURAL_TAGS = "xgrammar-tags"
TARGETS = ("llguidance", "xgrammar", STRUCTURAL_TAGS, "gbnf")


def export(grammar: Grammar, to: str) -> Exported:
    """Return a grammar as the text of another engine.

    Raises: GrammarError: no such target, or the target cannot say it.

    >>> print(export(Grammar.from_lark('start: "a" start "b" |'), "xgrammar"), end="")
    root ::= start
    start ::= "a" start "b" | ""
    """
    if to not in TARGETS:
        raise GrammarError(f"unknown target {shown(to, 50)}", instead="one of: " + ", ".join(map(repr, TARGETS)))
    if not isinstance(grammar, Grammar):
        instead = "constraint.grammar" if hasattr(grammar, "bound_grammar") else "Grammar.from_lark(…)"
        raise GrammarError(f"not a grammar: {shown(grammar)}", instead=instead)
    return structural_tag(grammar) if to == STRUCTURAL_TAGS else in_characters(grammar, to)
