"""Texts for other engines that are read as Lark: what they are known by, and how Lark says it."""

from __future__ import annotations

import re

from constrained.errors import GrammarError
from constrained.grammar.lark.syntax import WHAT, LarkText

# a pattern, what it is, how Lark says it
_FOREIGN = tuple(
    (re.compile(pattern), because, instead)
    for pattern, because, instead in (
        (r"^[\s\w<>-]*::=", "'::=' is GBNF (llama.cpp) or EBNF", "Grammar.from_gbnf(text), or from_ebnf(text)"),
        (r"^%llguidance\b", "'%llguidance' is a setting of llguidance", "Grammar.from_llguidance(text)"),
        (r"^[!?]?\w+ *\[[^\]]*\]", "attributes of rules are llguidance's",
         "from_llguidance(text), or the rule without its brackets"),
        (r"\{\d*,?\d*\}", "counts in braces are those of regular expressions", '"a"~2..3'),
        (r"@\w+", "'@' names a grammar in llguidance", 'Grammar.from_llguidance(text, define={"name": grammar})'),
        (r"<\|?[^<>|\s]+\|?>", "bare special tokens are llguidance's",
         'from_llguidance(text, specials=["<|name|>"])'),
        ("'", "texts stand between double quotes", '"…"'),
        (r"^\w+ *(?:=|->)", "a rule is a name, a colon and what it derives", 'name: "a" | "b"'),
        (";", "statements end with their line", "leave the semicolon out"),
    )
)


def recognised(error: GrammarError, file: LarkText) -> GrammarError:
    """Return an error of a file that is written for another engine with what that is and how Lark says it."""
    at = re.fullmatch(rf"{re.escape(f'{file.name} ' if file.name else '')}line (\d+) column (\d+)", error.where or "")
    lines = file.text.splitlines()
    if error.what == WHAT and at is not None and int(at[1]) <= len(lines):
        for pattern, because, instead in _FOREIGN:
            for match in pattern.finditer(lines[int(at[1]) - 1]):
                if match.start() < int(at[2]) <= match.end() + 1:
                    return GrammarError(WHAT, where=error.where, because=because, instead=instead)
    return error
