"""ABNF, the notation of RFCs: RFC 5234, with case-sensitive strings of RFC 7405.

    date   = year "-" 2DIGIT ["Z"]      ; the core rules (DIGIT, ALPHA, …) need no definition
    year   = 4DIGIT
    year  =/ %s"now"                    ; a further alternative

Names and strings are blind to case, ASCII letters only.  A number is the code point of a character, so ``%x80-FF`` are
the characters U+0080 to U+00FF, not octets.  Surrogates inside a range are left out: no text holds them.  A prose value
<…> that names a rule is that rule; others are refused.

The index has a package, `abnf`, that reads ABNF and matches texts.  It wants CRLF at the ends of lines, and of a
mistake it says the rule only, so the grammar is ours, and the package is what tests compare it with.

Source: RFC 5234; RFC 7405.
"""

from __future__ import annotations

import re

from lark import Token

from .rules import Part, Reading

_CORE = {
    name.lower(): f"{name} = {definition}\n"
    for name, definition in {
        "ALPHA": "%x41-5A / %x61-7A", "BIT": '"0" / "1"', "CHAR": "%x01-7F", "CR": "%x0D", "CRLF": "CR LF",
        "CTL": "%x00-1F / %x7F", "DIGIT": "%x30-39", "DQUOTE": "%x22", "HTAB": "%x09", "LF": "%x0A",
        "HEXDIG": 'DIGIT / "A" / "B" / "C" / "D" / "E" / "F"', "LWSP": "*(WSP / CRLF WSP)", "OCTET": "%x00-FF",
        "SP": "%x20", "VCHAR": "%x21-7E", "WSP": "SP / HTAB",
    }.items()
}  # fmt: skip


class Abnf(Reading):
    """That of RFC 5234."""

    notation = "ABNF"
    grammar = r"""
start: rule*
rule: RULE (EQUALS | MORE) choice
choice: sequence ("/" sequence)*
sequence: repeated+
?repeated: atom | REPEAT atom -> counted
?atom: NAME -> name | STRING -> text | NUMBER -> number | PROSE -> prose | "(" choice ")" -> group
     | "[" choice "]" -> optional
RULE.2: /[A-Za-z][A-Za-z0-9-]*(?=(\s|;[^\n]*\n)*=)/
NAME: /[A-Za-z][A-Za-z0-9-]*/
EQUALS: "="
MORE: "=/"
REPEAT: /\d*\*\d*|\d+/
STRING: /(%[sSiI])?"[^"\n]*"/
NUMBER: /%[xX][0-9A-Fa-f]+((\.[0-9A-Fa-f]+)+|-[0-9A-Fa-f]+)?|%[dD]\d+((\.\d+)+|-\d+)?|%[bB][01]+((\.[01]+)+|-[01]+)?/
PROSE: /<[^>\n]*>/
COMMENT: /;[^\n]*/
%ignore COMMENT
%ignore /\s+/
"""

    def key(self, name: str) -> str:
        return name.lower()

    def missing(self, name: str) -> str | None:
        return _CORE.get(name.lower())

    def rule(self, name: Token, equals: Token, alternatives: list[Part]) -> None:
        self.define(name, alternatives, more=equals.type == "MORE")

    def counted(self, count: Token, part: Part) -> Part:
        least, star, most = count.partition("*")
        return self.repeated(part, *self.counts(count, least, most if star else None))

    def text(self, token: Token) -> Part:
        kind, _, rest = token.partition('"')
        text = rest[:-1]
        return self.literal(token, text) if kind.lower() == "%s" else self.any_case(token, text)

    def number(self, token: Token) -> Part:
        base = {"x": 16, "d": 10, "b": 2}[token[1].lower()]
        points = [int(digits[:40], base) for digits in re.split("[.-]", token[2:])]
        if max(points) > 0x10FFFF:
            raise self.error(token, f"{token} is no character", "code points up to %x10FFFF")
        if "-" in token:
            return self.characters(token, [(points[0], points[1])])
        return self.literal(token, "".join(map(chr, points)))

    def prose(self, token: Token) -> Part:
        name = token[1:-1]
        if re.fullmatch("[A-Za-z][A-Za-z0-9-]*", name):
            return self.name(token.update(value=name))
        raise self.error(token, f"{token} is prose", "a rule that says it")
