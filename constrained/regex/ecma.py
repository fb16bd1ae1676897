r"""Patterns of ECMA-262 with the ``u`` flag, as JSON Schema's ``pattern`` uses them.

The language is that of a search: all texts that contain a match.  ``^`` and ``$`` are the ends of the text.

Real schemas are sloppier than the ``u`` flag.  Where ECMA-262 without the flag (Annex B) gives the same pattern one
meaning that cannot be confused with another, it is taken: escaped punctuation (``\-``, ``\_``, ``\@``), a lone ``{ }
]``, ``[\w-.]``, repeated look-aheads. A leading ``(?i)`` is the modifier ``(?i:…)`` of ECMA-262:2025 around the whole
pattern.  Everything that engines read differently is refused with a remedy: escaped letters without meaning (``\Z``:
Annex B's letter Z, Python's anchor), octal escapes, ``(?P<…>``, possessive and atomic groups; backreferences are not
regular.

Tested against the verdicts of a JavaScript engine (`tests/corpus/regex_ecma.jsonl`) and on small worlds.
"""

from __future__ import annotations

import re
from typing import NoReturn

import constrained.regex.charset as charset
from constrained.caches import cached
from constrained.errors import GrammarError, LimitExceeded
from constrained.regex.algebra import char_class, literal, literals
from constrained.regex.assertions import (
    TEXT_END,
    TEXT_START,
    LookAhead,
    LookBehind,
    PatternTree,
    PlainPart,
    alt,
    build,
    has_ahead,
    loop,
    seq,
    word_edge,
)
from constrained.regex.charset import Ranges, closed_under_case, unicode_property
from constrained.regex.expr import ANY_TEXT, Expr
from constrained.work import metered, place, spend, working_on

_CLASSES = {"d": charset.ASCII_DIGIT, "w": charset.ASCII_WORD, "s": charset.ECMA_SPACE}
_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_LETTER_REMEDY = {
    "A": "^",
    "Z": "$",
    "z": "$",
    "a": r"\x07",
    "e": r"\x1b",
    "G": "^",
    "h": r"[ \t]",
    "R": r"\r?\n",
    "Q": "escape each character",
}


def shown(pattern: str) -> str:
    """Return a pattern as errors show it."""
    return repr(pattern if len(pattern) <= 60 else pattern[:57] + "…")


class Characters:
    """A cursor over a pattern; `at` is the index of the next character.

    `ignore`, `multiline` and `dotall` are the modifiers in force.
    """

    def __init__(self, pattern: str) -> None:
        self.text, self.at = pattern, 0
        self.ignore = self.multiline = self.dotall = False

    def fail(self, because: str, *, instead: str | None = None, at: int | None = None) -> NoReturn:
        raise GrammarError(
            f"cannot read regular expression {shown(self.text)}",
            where=f"position {self.at if at is None else at}",
            because=because,
            instead=instead or "a pattern of ECMA-262 with the u flag",
        )

    def peek(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def take(self, text: str) -> bool:
        if self.text.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def atom(self) -> Ranges:
        """Return the class of one character."""
        char = self.text[self.at]
        if char == "[":
            return self.char_set()
        self.at += 1
        if char == ".":
            return charset.EVERYTHING if self.dotall else charset.negate(charset.ECMA_NEWLINE)
        ranges = self.escape(in_class=False) if char == "\\" else ((ord(char), ord(char)),)
        return self.folded(ranges)

    def folded(self, ranges: Ranges) -> Ranges:
        return closed_under_case(charset.normal(ranges)) if self.ignore else ranges

    def char_set(self) -> Ranges:
        start = self.at
        self.at += 1
        negated = self.take("^")
        points: list[tuple[int, int]] = []
        while not self.take("]"):
            spend(1)
            low = self.member(start)
            if self.peek("-") and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                dash = self.at
                self.at += 1
                high = self.member(start)
                if _is_point(low) and _is_point(high):
                    if low[0][0] > high[0][0]:
                        self.fail("the range is in the wrong order", at=dash)
                    points.append((low[0][0], high[0][0]))
                    continue
                points += [*high, (0x2D, 0x2D)]
            points += low
        ranges = self.folded(charset.normal(points))
        return charset.negate(ranges) if negated else ranges

    def member(self, start: int) -> Ranges:
        if self.at >= len(self.text):
            self.fail("the character class is not closed", at=start, instead=r"\[ for the character")
        char = self.text[self.at]
        self.at += 1
        return self.escape(in_class=True) if char == "\\" else ((ord(char), ord(char)),)

    def escape(self, *, in_class: bool) -> Ranges:
        """Return the characters of an escape, whose backslash is read."""
        start = self.at - 1
        if self.at >= len(self.text):
            self.fail("the pattern ends in a backslash", at=start, instead=r"\\ for the character")
        char = self.text[self.at]
        self.at += 1
        if char.lower() in _CLASSES:
            return self.negatable(_CLASSES[char.lower()], negated=char.isupper())
        if char in "pP":
            return self.property(start, negated=char == "P")
        point = self.coded(char, start)
        if point is None and char == "b" and in_class:
            point = 8
        if point is None and char == "0" and self.text[self.at : self.at + 1] not in tuple("0123456789"):
            point = 0
        if point is None:
            self.identity(char, start)
            point = ord(char)
        return ((point, point),)

    def negatable(self, ranges: Ranges, *, negated: bool) -> Ranges:
        ranges = closed_under_case(ranges) if self.ignore else ranges
        return charset.negate(ranges) if negated else ranges

    def coded(self, char: str, start: int) -> int | None:
        """Return the code point of an escape that spells one."""
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char == "c":
            letter = self.text[self.at : self.at + 1]
            if not (letter.isascii() and letter.isalpha()):
                self.fail(r"\c needs a letter", at=start)
            self.at += 1
            return ord(letter) % 32
        if char == "x":
            return self.hex(2, start)
        if char != "u":
            return None
        if self.take("{"):
            end = self.text.find("}", self.at)
            digits = self.text[self.at : max(end, self.at)]
            if not digits or set(digits) - set("0123456789abcdefABCDEF") or int(digits, 16) > charset.MAX:
                self.fail(r"\u{…} needs a code point up to 10FFFF", at=start)
            self.at = end + 1
            return int(digits, 16)
        point = self.hex(4, start)
        if 0xD800 <= point <= 0xDBFF and self.peek("\\u"):
            resume = self.at
            self.at += 2
            low = self.hex(4, start) if not self.peek("{") else 0
            if 0xDC00 <= low <= 0xDFFF:
                return 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00)
            self.at = resume
        return point

    def hex(self, width: int, start: int) -> int:
        digits = self.text[self.at : self.at + width]
        if len(digits) < width or set(digits) - set("0123456789abcdefABCDEF"):
            self.fail(f"\\{self.text[start + 1]} needs {width} hexadecimal digits", at=start)
        self.at += width
        return int(digits, 16)

    def property(self, start: int, *, negated: bool) -> Ranges:
        end = self.text.find("}", self.at, self.at + 100) if self.peek("{") else -1
        name = self.text[self.at + 1 : max(end, self.at + 1)]
        ranges = unicode_property(name)
        if ranges is None:
            self.fail(
                f"unknown Unicode property {name!r}",
                at=start,
                instead=r"a general category (\p{L}), \p{Script=Greek} or a binary property of ECMA-262 "
                r"(\p{Alphabetic})",
            )
        self.at = end + 1
        return charset.negate(ranges) if negated else ranges

    def identity(self, char: str, start: int) -> None:
        """Refuse an escaped character that does not stand for itself."""
        if char in "123456789" or char == "k":
            self.fail("a backreference is not regular", at=start, instead="write the alternatives out")
        if char == "0":
            self.fail("an octal escape is not ECMA-262 with the u flag", at=start, instead=r"\xHH")
        if char.isascii() and char.isalpha():
            self.fail(
                f"\\{char} means nothing in ECMA-262",
                at=start,
                instead=_LETTER_REMEDY.get(char, f"{char} for the character"),
            )


def _is_point(ranges: Ranges) -> bool:
    return len(ranges) == 1 and ranges[0][0] == ranges[0][1]


_DEPTH_LIMIT = 150
_COUNT_LIMIT = 2**53  # ECMA-262's numbers are exact up to here
# characters that stand for themselves; the last may not be repeated
_ORDINARY = re.compile(r"[^\\^$.*+?()\[\]{}|]{2,}(?![*+?{])")
_WORDS = re.compile(r"(?:[^\\^$.*+?()\[\]{}|]{1,100}+\|){64,}+")  # many alternatives that are plain words


@cached(2048)
def parse_ecma(pattern: str) -> Expr:
    r"""Return the texts in which an ECMA-262 pattern finds a match.

    Raises: GrammarError for wrong syntax and for what is not regular, with its position; LimitExceeded for deep
    nesting.

    >>> from constrained.regex import matches
    >>> word = parse_ecma(r"^\p{Lu}\w*(?!d)\b")
    >>> matches(word, "Ärger"), matches(word, "Ä-"), matches(word, "ärger")
    (True, False, False)
    """
    with metered(), working_on(f"pattern {shown(pattern)}"):
        spend(len(pattern) >> 4)
        try:
            return build(_Parser(pattern).parse(), search=True)
        except RecursionError:
            raise LimitExceeded(
                f"regular expression {shown(pattern)} nests too deep",
                where=place(),
                instead=f"at most {_DEPTH_LIMIT} groups inside each other",
            ) from None


class _Parser(Characters):
    """A recursive descent parser; groups restore the modifiers that were in force before them."""

    def __init__(self, pattern: str) -> None:
        super().__init__(pattern)
        self.depth = 0

    def parse(self) -> PatternTree:
        if self.text.startswith("(?i)"):
            self.at, self.ignore = 4, True
        tree = self.alternatives()
        if self.at < len(self.text):
            self.fail("unbalanced parenthesis", instead=r"\) for the character")
        return tree

    def alternatives(self) -> PatternTree:
        self.depth += 1
        if self.depth > _DEPTH_LIMIT:
            raise LimitExceeded(
                f"regular expression {shown(self.text)} nests deeper than {_DEPTH_LIMIT} groups",
                where=f"position {self.at}",
                instead="fewer parentheses",
            )
        options: list[PatternTree] = []
        while not options or self.take("|"):
            words = _WORDS.match(self.text, self.at) if not (options or self.ignore) else None
            if words is not None:  # 100,000 words in a third of the time
                options.append(PlainPart(literals(words.group()[:-1].split("|"))))
                self.at = words.end()
            options.append(self.sequence())
        self.depth -= 1
        return alt(*options) if len(options) > 1 else options[0]

    def sequence(self) -> PatternTree:
        items: list[PatternTree] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            run = _ORDINARY.match(self.text, self.at) if not self.ignore else None
            if run is not None:
                items.append(PlainPart(literal(run.group())))
                self.at = run.end()
            else:
                items.append(self.term())
        return seq(*items)

    def term(self) -> PatternTree:
        spend(12)
        start = self.at
        char = self.text[start]
        if char in "^$":
            self.at += 1
            return self.unrepeated(self.line_edge(char), start)
        if char == "\\" and self.text[start + 1 : start + 2] in ("b", "B"):
            self.at += 2
            word = closed_under_case(charset.ASCII_WORD) if self.ignore else charset.ASCII_WORD
            return self.unrepeated(word_edge(char_class(word), positive=self.text[start + 1] == "b"), start)
        if char == "(":
            atom, repeatable = self.group()
            return self.quantified(atom) if repeatable else self.unrepeated(atom, start)
        if char in "*+?" or (char == "{" and self.counts() is not None):
            self.fail("nothing to repeat", at=start, instead=f"\\{char} for the character")
        return self.quantified(PlainPart(char_class(self.atom())))

    def line_edge(self, char: str) -> PatternTree:
        if not self.multiline:
            return TEXT_START if char == "^" else TEXT_END
        newline = char_class(charset.ECMA_NEWLINE)
        if char == "^":
            return alt(TEXT_START, behind(PlainPart(newline)))
        return alt(TEXT_END, LookAhead(PlainPart(newline)))

    def unrepeated(self, item: PatternTree, start: int) -> PatternTree:
        if self.at < len(self.text) and (self.text[self.at] in "*+?" or (self.peek("{") and self.counts() is not None)):
            self.fail("an assertion cannot be repeated", instead="leave the quantifier out", at=start)
        return item

    def quantified(self, item: PatternTree) -> PatternTree:
        char = self.text[self.at : self.at + 1]
        if char == "{":
            counts = self.counts()
            if counts is None:
                return item
            least, most, self.at = counts
        elif char and char in "*+?":
            least, most = int(char == "+"), 1 if char == "?" else None
            self.at += 1
        else:
            return item
        if most is not None and most < least:
            self.fail(f"the bounds {{{least},{most}}} are in the wrong order")
        self.take("?")  # a lazy quantifier matches the same texts
        if self.at < len(self.text) and self.text[self.at] in "*+?":
            self.fail(
                "a quantifier cannot be repeated or made possessive",
                instead="one quantifier, or a group around the first",
            )
        return loop(item, least, most)

    def counts(self) -> tuple[int, int | None, int] | None:
        """Return (least, most, index behind) if a quantifier in braces starts here, else None: the brace is a
        character.
        """
        end = self.text.find("}", self.at, self.at + 1000)  # a number may start with zeros
        low, comma, high = self.text[self.at + 1 : max(end, self.at + 1)].partition(",")
        if not low or not all("0" <= char <= "9" for char in low + high):
            return None
        if len(low) > 15 or len(high) > 15:
            raise LimitExceeded(
                f"regular expression {shown(self.text)} counts too far",
                where=f"position {self.at}",
                instead=f"bounds below {_COUNT_LIMIT}",
            )
        return int(low), (int(high) if high else None) if comma else int(low), end + 1

    def group(self) -> tuple[PatternTree, bool]:
        """Return what a parenthesis holds, and whether it may be repeated."""
        start = self.at
        self.at += 1
        kind = "("
        if self.take("?"):
            kind = next((k for k in ("<=", "<!", "=", "!", ":") if self.take(k)), "") or self.named(start)
        outer = self.ignore, self.multiline, self.dotall
        if kind == "modifiers":
            self.modifiers(start)
        body = self.alternatives()
        if not self.take(")"):
            self.fail("missing parenthesis", at=start, instead=r"\( for the character")
        self.ignore, self.multiline, self.dotall = outer
        if kind in ("=", "!"):
            return LookAhead(body, positive=kind == "="), True
        if kind in ("<=", "<!"):
            if has_ahead(body):
                self.fail(
                    "a look-behind holds an assertion about what follows", at=start,
                    instead="move the inner assertion out of the look-behind",
                )
            return behind(body, positive=kind == "<="), False
        return body, True

    def named(self, start: int) -> str:
        if self.take("<"):
            end = self.text.find(">", self.at)
            name = self.text[self.at : max(end, self.at)]
            if not name.replace("$", "_").isidentifier():
                self.fail("bad group name", at=start, instead="(?<name>…) with a letter first")
            self.at = end + 1
            return "("
        if self.peek("P"):
            self.fail("(?P…) is Python's", at=start, instead="(?<name>…)")
        if self.peek(">") or self.peek("(") or self.peek("#"):
            self.fail(f"(?{self.text[self.at]}…) is not ECMA-262", at=start, instead="(?:…)")
        return "modifiers"

    def modifiers(self, start: int) -> None:
        end = self.text.find(":", self.at)
        added, _, removed = self.text[self.at : max(end, self.at)].partition("-")
        letters = added + removed
        if end < 0 or not letters or set(letters) - set("ims") or len(set(letters)) < len(letters):
            self.fail(
                "unknown kind of group",
                at=start,
                instead="(?:…), (?<name>…), (?=…), (?!…), (?<=…), (?<!…) or (?ims-ims:…)",
            )
        self.at = end + 1
        self.ignore = (self.ignore or "i" in added) and "i" not in removed
        self.multiline = (self.multiline or "m" in added) and "m" not in removed
        self.dotall = (self.dotall or "s" in added) and "s" not in removed


def behind(body: PatternTree, *, positive: bool = True) -> PatternTree:
    """Return a look-behind for a body without assertions about what follows."""
    return LookBehind(build(seq(PlainPart(ANY_TEXT), body)), positive)
