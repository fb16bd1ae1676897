"""GBNF, llama.cpp's notation, and EBNF, XGrammar's, which grew out of it.

    root ::= "[" (item ("," item)*)? "]"        # a list
    item ::= [0-9]{1,3} | "\\"" [^"\\\\]* "\\""

Characters are code points.  A rule goes on until the next ``name ::=``; llama.cpp wants brackets around what goes on
in another line, and here nothing hangs on it.  In GBNF ``<think>`` is a special token, ``.`` any character.  Refused:
tokens by number and "any token but", which only a tokenizer can say; in EBNF macros of tokens and tags, attributes, and
the assertions of what follows, which are hints.  XGrammar (0.2.8) itself reads no character of code 0,
``[\\^a]`` as if it were ``[^a]``, and ``"\\u00e9a"`` as one character.

Source: https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md;
https://xgrammar.mlc.ai/docs/defining_structures/ebnf_grammar.html
"""

from __future__ import annotations

import re
from typing import Any

from lark import Token

from .rules import Part, Reading

_GRAMMAR = r"""
start: rule*
rule: RULE "::=" choice
choice: sequence ("|" sequence)*
sequence: repeated*
?repeated: atom | atom "*" -> star | atom "+" -> plus | atom "?" -> maybe | atom COUNT -> counted
?atom: NAME -> name | STRING -> text | CLASS -> chars | DOT -> dot | TOKEN -> token | "(" choice ")" -> group
     | AHEAD choice ")" -> ahead | MACRO -> macro
RULE.3: /[\w.-]+(\[[^\]\n]*\])?(?=(\s|#[^\n]*\n)*::=)/
MACRO.2: /(TagDispatch|TokenTagDispatch|Token|ExcludeToken|Regex)\s*\([\s\S]*/
NAME: /[\w.-]+/
STRING: /"([^"\\\n]|\\.)*"/
CLASS: /\[([^\]\\\n]|\\.)*\]/
COUNT: /\{\s*\d+\s*(,\s*(\d*|-1)\s*)?\}/
TOKEN: /!?<[^<>\s]+>/
AHEAD.2: "(="
DOT.2: "."
COMMENT: /#[^\n]*/
%ignore COMMENT
%ignore /\s+/
"""
_SHORT = {"n": 10, "r": 13, "t": 9}
_SHORT_EBNF = {**_SHORT, "b": 8, "f": 12, "v": 11, "a": 7, "0": 0, "e": 27}
_CHARACTER = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))|([^\\])", re.DOTALL)
_CHARACTER_EBNF = re.compile(r"\\(?:x([0-9a-fA-F]+)|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))|([^\\])", re.DOTALL)


class Gbnf(Reading):
    """llama.cpp's."""

    notation, grammar = "GBNF", _GRAMMAR
    _short, _plain, _character = _SHORT, '\\"[]', _CHARACTER

    def rule(self, name: Token, alternatives: list[Part]) -> None:
        bare, _, attributes = name.partition("[")
        if attributes:
            raise self.refuse(name, f"the attributes [{attributes} of rule '{bare}'", "the rule without its brackets")
        self.define(name, alternatives)

    def counted(self, part: Part, count: Token) -> Part:
        least, comma, most = count.strip("{}").replace(" ", "").partition(",")
        return self.repeated(part, *self.counts(count, least, most.removeprefix("-1") if comma else None))

    def text(self, token: Token) -> Part:
        points = self._points(token, token[1:-1])
        return self.literal(token, "".join(chr(point) for point, _ in points))

    def chars(self, token: Token) -> Part:
        inner = token[1:-1]
        others = inner.startswith("^")
        points, ranges, at = self._points(token, inner.removeprefix("^")), list[tuple[int, int]](), 0
        while at < len(points):
            if at + 2 < len(points) and points[at + 1] == (ord("-"), False):
                ranges.append((points[at][0], points[at + 2][0]))
                at += 3
            else:
                ranges.append((points[at][0], points[at][0]))
                at += 1
        return self.characters(token, ranges, others=others)

    def _points(self, token: Token, text: str) -> list[tuple[int, bool]]:
        """Return the characters of a literal, and whether each was escaped."""
        found = []
        for match in self._character.finditer(text):
            escaped = match[5] is None
            if match[4] is not None and match[4] not in self._short and match[4] not in self._plain:
                raise self.error(token, f"\\{match[4]} is no escape of {self.notation}")
            number = match[1] or match[2] or match[3]
            point = (
                int(number, 16) if number
                else self._short.get(match[4], ord(match[4])) if match[4] is not None
                else ord(match[5])
            )
            if point > 0x10FFFF:
                raise self.error(token, f"{match[0]} is no character")
            found.append((point, escaped))
        return found

    def dot(self, token: Token) -> Part:
        return self.characters(token, [], others=True)

    def token(self, token: Token) -> Part:
        if token.startswith(("!", "<[")):
            raise self.refuse(token, f"the token set {token}", "a special token by its name, or a class of characters")
        return self.special(token, str(token))

    def ahead(self, token: Token, _: Any) -> Part:
        raise self.refuse(token, "an assertion of what follows", "nothing: it is a hint to XGrammar")

    def macro(self, token: Token) -> Part:
        raise self.refuse(token, f"the macro {token.partition('(')[0].strip()}", "rules, texts and classes")


class Ebnf(Gbnf):
    """XGrammar's: more escapes, no dot and no tokens in angle brackets."""

    notation = "EBNF"
    _short, _plain, _character = _SHORT_EBNF, "\\\"'?^$.*+()[]{}|/-", _CHARACTER_EBNF

    def dot(self, token: Token) -> Part:
        raise self.error(token, "unexpected '.'", r"[^\x00] or another class: a dot is GBNF's")

    def token(self, token: Token) -> Part:
        raise self.error(token, f"unexpected '{token}'", "GBNF, which names special tokens so")
