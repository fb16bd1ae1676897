"""EBNF as ISO/IEC 14977 has it.

    message = "GET ", key, [" ", value] | "PING" ;     (* a comment *)
    key     = 3 * letter - "ALL" ;

``,`` joins, ``|`` (or ``/``, ``!``) chooses, ``[…]`` is optional, ``{…}`` repeats, ``3 * x`` counts, ``x - y`` is x
without the texts of y, ``{x}-`` one or more; ``(/ /)``, ``(: :)`` and a full stop for ``;`` are read, too.  Names may
hold spaces, which make no difference; comments may hold comments.
Exceptions are computed, so both sides must be languages without recursion.  Special sequences ``? … ?`` are prose, and
refused.
"""

from __future__ import annotations

import re
from typing import Any

from lark import Token

from constrained.regex import Expr, complement, intersect

from .rules import Part, Reading

_MARK = re.compile(r"""\(\*|\*\)|"[^"]*"|'[^']*'""")


def without(these: Expr, those: Expr) -> Expr:
    """Return the texts of one language that are none of the other."""
    return intersect(these, complement(those))


class IsoEbnf(Reading):
    """That of ISO/IEC 14977."""

    notation = "ISO EBNF"
    grammar = r"""
start: rule*
rule: NAME "=" choice (";" | ".")
choice: sequence (OR sequence)*
sequence: term ("," term)*
?term: factor | factor MINUS factor -> but
?factor: primary | COUNT "*" primary -> counted
?primary: NAME -> name | STRING -> text | SPECIAL -> prose | "(" choice ")" -> group | _OPEN choice _CLOSE -> optional
        | _BEGIN choice _END -> any_number | -> nothing
OR: "|" | "/" | "!"
MINUS: "-"
_OPEN.2: "[" | "(/"
_CLOSE.2: "]" | "/)"
_BEGIN.2: "{" | "(:"
_END.2: "}" | ":)"
NAME: /[^\W\d]\w*([ \t]+\w+)*/
COUNT: /\d+/
STRING: /"[^"]+"|'[^']+'/
SPECIAL: /\?[^?]*\?/
%ignore /\s+/
"""

    def key(self, name: str) -> str:
        return "".join(name.split())

    def _tree(self, text: str) -> Any:
        """Return the tree of a text, in which comments, with those in them, are blanks."""
        pieces, at, done, depth = list[str](), 0, 0, 0
        while (found := _MARK.search(text, at)) is not None:
            sign, at = found[0], found.end()
            if sign == "(*" or sign == "*)" and depth:
                if not depth:
                    pieces.append(text[done : found.start()])
                    done = found.start()
                depth += 1 if sign == "(*" else -1
                if not depth:
                    pieces.append(re.sub(r"[^\n]", " ", text[done:at]))
                    done = at
            elif depth:  # a quote
                at = found.start() + 1
        return super()._tree("".join((*pieces, text[done:])))

    def choice(self, *parts: Part | Token) -> list[Part]:
        return [part for part in parts if isinstance(part, Part)]

    def nothing(self) -> Part | None:
        return None

    def any_number(self, alternatives: list[Part]) -> Part:
        return self.star(self.group(alternatives))

    def counted(self, count: Token, part: Part | None) -> Part | None:
        return None if part is None else self.repeated(part, *self.counts(count, str(count), None))

    def text(self, token: Token) -> Part:
        return self.literal(token, token[1:-1])

    def prose(self, token: Token) -> Part:
        raise self.error(token, f"{token} is a special sequence, prose", "a rule that says it")

    def but(self, part: Part | None, minus: Token, other: Part | None) -> Part | None:
        if part is None:
            return None
        return self.computed(minus, without, [part], [Part("", part.at) if other is None else other])
