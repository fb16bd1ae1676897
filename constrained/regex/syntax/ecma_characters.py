r"""Characters, escapes and classes in patterns of ECMA-262 with the ``u`` flag.

Which sloppy spellings are read, and which are refused with a remedy, says `ecma`.
"""

from __future__ import annotations

from typing import NoReturn

import constrained.regex.charset as charset
from constrained.errors import GrammarError
from constrained.regex.charset import Ranges
from constrained.regex.syntax.properties import closed_under_case, unicode_property
from constrained.work import spend

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
        found: list[tuple[int, int]] = []
        while not self.take("]"):
            low = self.member(start)
            if self.peek("-") and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                dash = self.at
                self.at += 1
                high = self.member(start)
                if _is_point(low) and _is_point(high):
                    if low[0][0] > high[0][0]:
                        self.fail("the range is in the wrong order", at=dash)
                    found.append((low[0][0], high[0][0]))
                    continue
                found += [*high, (0x2D, 0x2D)]
            found += low
        ranges = self.folded(charset.normal(found))
        return charset.negate(ranges) if negated else ranges

    def member(self, start: int) -> Ranges:
        if self.at >= len(self.text):
            self.fail("the character class is not closed", at=start, instead=r"\[ for the character")
        spend(1)
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
