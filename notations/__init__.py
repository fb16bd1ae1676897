"""Grammars in other notations, as grammars of ours: the other direction of `export.engines`.

    gbnf         llama.cpp's                 bnf.py
    ebnf         XGrammar's                  bnf.py
    abnf         of RFCs                     abnf.py
    iso-ebnf     ISO/IEC 14977               iso.py
    llguidance   llguidance's Lark           llguidance.py

Each is a Lark grammar of the notation and a few methods for its literals; `rules` holds what they share.  An error
stands at its place in the text that was given.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from constrained.errors import GrammarError, shown
from constrained.grammar.ir import Productions

from .abnf import Abnf
from .bnf import Ebnf, Gbnf
from .iso import IsoEbnf
from .llguidance import LlguidanceLark
from .rules import Reading, Translated, translate

SUFFIXES = {".gbnf": "gbnf", ".ebnf": "ebnf", ".abnf": "abnf", ".iso": "iso-ebnf"}  # of files
NOTATIONS: dict[str, tuple[type[Reading], str | None]] = {  # and the rule that begins; None: the first
    "gbnf": (Gbnf, "root"),
    "ebnf": (Ebnf, "root"),
    "abnf": (Abnf, None),
    "iso-ebnf": (IsoEbnf, None),
    "llguidance": (LlguidanceLark, None),
}


def translated(
    text: str, notation: str, start: str | None = None, specials: Collection[str] = (), file: str | None = None,
    define: Mapping[str, Productions] | None = None,
) -> Translated:
    """Return a grammar as Lark text with its places; `start`: the rule to begin with, if not that of the notation.

    Raises: GrammarError: no such notation, or the text is wrong; LimitExceeded.
    """
    if notation not in NOTATIONS:
        raise GrammarError(f"unknown notation {shown(notation)}", instead=f"one of: {', '.join(NOTATIONS)}")
    reading, first = NOTATIONS[notation]
    return translate(reading, text, start or first, specials, file, define)
