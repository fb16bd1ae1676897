"""Keyword arguments as Python writes them, ``(a=1, b='x')`` → value.

The literals are those of `ast.literal_eval` that have a JSON value: strings in either quote, raw and over several lines
too, adjacent ones joined; numbers in any base; True, False, None; lists, tuples, dicts with string keys; parentheses
around any of them; comments, and lines that a backslash joins.  `ast` itself is not asked: it needs the whole text,
limits nesting to 200 levels and gives no value for what is unfinished.  Only the escapes of a string are left to it.

Left out: floats that overflow, which `repr` cannot write.  Tested against `ast.literal_eval`.
"""

from __future__ import annotations

import ast
import keyword
import re
import unicodedata
import warnings
from decimal import Decimal
from math import isfinite
from typing import Any

from constrained.formats.payload.value_reader import Step, ValueReader, decimal_of, end_of, integer_of

# -- parts -------------------------------------------------------------------------------------------------------------

# comments that are there as a whole are white space, and so is a backslash with its line break
SPACES = re.compile(r"(?:[ \t\n\r\f]++|#[^\n\r\x00]*+(?=[\n\r])|\\(?:\r\n|\n|\r))*+")
COMMENT = re.compile(r"[^\n\r\x00]*")
_DIGITS = r"[0-9](?:_?[0-9])*"
_INTEGER = re.compile(r"0(?:_?0)*|[1-9](?:_?[0-9])*")
_BASE = re.compile(r"0[xX](?:_?[0-9a-fA-F])+|0[oO](?:_?[0-7])+|0[bB](?:_?[01])+")
_FLOAT = re.compile(rf"(?:{_DIGITS})?\.{_DIGITS}(?:[eE][+-]?{_DIGITS})?|{_DIGITS}\.?[eE][+-]?{_DIGITS}|{_DIGITS}\.")
WORDS = {"True": True, "False": False, "None": None}

def number_of(token: str) -> int | float | Decimal:
    """Return the value of a number, its sign included.

    Raises: ValueError: it is none that has a JSON value; its arguments: why, and what was expected.
    """
    sign, digits = ("-", token[1:]) if token[0] == "-" else ("", token.removeprefix("+"))
    if _INTEGER.fullmatch(digits):
        return integer_of(sign + digits.replace("_", ""))
    if _BASE.fullmatch(digits):
        return int(sign + digits, 0)
    if not _FLOAT.fullmatch(digits):
        raise ValueError(f"{token[:40]!r} is no number that has a JSON value", "a number")
    if not isfinite(float(digits)):
        raise ValueError(f"{token[:40]!r} overflows", "a number of Python's")
    return decimal_of(sign + digits.replace("_", ""))


def string_of(prefix: str, quote: str, body: str) -> str:
    """Return the text of a literal, by its parts.

    Raises: ValueError: it has an escape that is none, or spells half of a surrogate pair; its arguments as above.
    """
    string = body
    try:
        if prefix not in ("r", "R") and "\\" in body:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of escapes that mean themselves
                string = str(ast.literal_eval(quote + body + quote))
        string.encode()
    except UnicodeEncodeError:
        raise ValueError("the string cannot be read: it spells half of a surrogate pair", "another escape") from None
    except (SyntaxError, ValueError):
        because = "the string cannot be read: it has an escape that is not Python's"
        raise ValueError(because, "another escape") from None
    return string


def unfinished(prefix: str, quote: str, body: str) -> str:
    """Return what is known of a string that was cut; an escape at its end may be incomplete."""
    for end in range(len(body), max(len(body) - 12, -1), -1):
        try:
            return string_of(prefix, quote, body[:end])
        except ValueError:
            continue
    return ""


# -- the reader --------------------------------------------------------------------------------------------------------

_WORD = re.compile(r"\w*")
_PLAIN = {
    "'": re.compile(r"[^'\\\n\r\x00]*"), '"': re.compile(r'[^"\\\n\r\x00]*'),
    "'''": re.compile(r"[^'\\\x00]*"), '"""': re.compile(r'[^"\\\x00]*'),
}  # fmt: skip
_PREFIXES = frozenset({"r", "R", "u", "U"})
_NUMBER_RUN = re.compile(r"[0-9a-zA-Z_.]*")
_CALL, _GROUP = "call", "("
_FIRST = "a keyword argument or ')'"
_CLOSING = {_CALL: ")", _GROUP: ")", "[": "]", "{": "}"}


class KeywordsReader(ValueReader):
    """Reads one list of keyword arguments, both parentheses included; begun: the first was read already.

    `_kinds` says how each open container was opened, `_commas` whether it has had a comma: without one, parentheses are
    no tuple.
    """

    __slots__ = ("_kinds", "_commas", "_token", "_at", "_quote", "_prefix", "_joined", "_sign", "_key", "_behind")
    _token: list[str]  # what is being read, in pieces; it began at `_at`
    _key: bool  # whether the string is a key of a dict
    _behind: tuple[Step, str]  # what is read behind a comment or a backslash, and what is expected there

    def __init__(self, *, begun: bool = False) -> None:
        self._kinds = [_CALL] if begun else []
        self._commas = [False] if begun else []
        self._sign = ""
        self._joined: list[str] = []  # adjacent strings so far
        if begun:
            super().__init__({}, self._name_or_end, _FIRST)
        else:
            super().__init__(None, self._start, "'('")

    def partial(self) -> Any:
        if self._step in (self._string, self._slash, self._third) and not self._key:
            self._tree.put("".join([*self._joined, unfinished(self._prefix, self._quote, "".join(self._token))]))
        elif self._joined and not self._key:
            self._tree.put("".join(self._joined))
        return super().partial()

    def _gap(self, text: str, at: int, end: int) -> int:
        """Return where white space, comments and joined lines end; the end, where it is not known yet."""
        at = end_of(SPACES, text, at, end)
        if at == end or text[at] not in "#\\":
            return at
        self._behind = self._step, self.expected
        self._go(self._comment if text[at] == "#" else self._new_line, "a line break")
        return self._step(text, at + 1, end) if at + 1 < end else end

    def _comment(self, text: str, at: int, end: int) -> int:
        at = end_of(COMMENT, text, at, end)
        if at < end and text[at] == "\x00":
            raise self._unexpected(text, at)
        if at < end:
            self._go(*self._behind)
        return at

    def _new_line(self, text: str, at: int, end: int) -> int:
        if text[at] not in "\r\n":
            raise self._unexpected(text, at)
        self._go(*self._behind)
        return at + 1

    # -- names and containers ------------------------------------------------------------------------------------------

    def _start(self, text: str, at: int, end: int) -> int:
        if text[at] != "(":
            raise self._unexpected(text, at)
        self._open(_CALL, {})
        return at + 1

    def _open(self, kind: str, container: Any) -> None:
        self._tree.open(container)
        self._kinds.append(kind)
        self._commas.append(False)
        self._begun()

    def _begun(self) -> None:
        """Expect a member of the innermost container, or its end."""
        kind = self._kinds[-1]
        if kind == _CALL:
            self._go(self._name_or_end, _FIRST)
        elif kind == "{":
            self._go(self._key_or_end, "a key in quotes or '}'")
        else:
            self._go(self._value_or_end, f"a value or {_CLOSING[kind]!r}")

    def _name_or_end(self, text: str, at: int, end: int) -> int:
        at = self._gap(text, at, end)
        if at == end:
            return at
        if text[at] == ")":
            return self._end(at)
        if not (text[at].isidentifier() or text[at] == "_"):
            raise self._unexpected(text, at)
        self._token, self._at = [], self.base + at
        self._go(self._name, "'='")
        return at

    def _name(self, text: str, at: int, end: int) -> int:
        run = end_of(_WORD, text, at, end)
        self._token.append(text[at:run])
        if run == end:
            return run
        name = unicodedata.normalize("NFKC", "".join(self._token))
        at = self._at - self.base
        if not name.isidentifier() or keyword.iskeyword(name):
            raise self._fault(at, f"{name!r} is no name of a keyword argument", "a name")
        if name in self._tree.containers[-1]:
            raise self._fault(at, f"the argument {name!r} appears twice", "another name")
        self._tree.keys[-1] = name
        self._go(self._equals, "'='")
        return run

    def _equals(self, text: str, at: int, end: int) -> int:
        return self._sign_then_value("=", text, at, end)

    def _key_or_end(self, text: str, at: int, end: int) -> int:
        at = self._gap(text, at, end)
        if at == end:
            return at
        if text[at] == "}":
            return self._end(at)
        self._key, self._at = True, self.base + at
        if text[at] in "'\"":
            self._open_string("", text[at])
            return at + 1
        if text[at] in _PREFIXES:
            return self._open_word(at)
        raise self._fault(at, f"{text[at]!r} cannot stand here: keys are strings")

    @property
    def _closing(self) -> str:
        return _CLOSING[self._kinds[-1]]

    def _end(self, at: int) -> int:
        kind, comma, container = self._kinds.pop(), self._commas.pop(), self._tree.containers[-1]
        after = super()._end(at)
        if kind == _GROUP and container and not comma:
            parent = self._tree.containers[-1]
            parent[-1 if isinstance(parent, list) else self._tree.keys[-1]] = container[0]
        return after

    def _next(self) -> None:
        self._commas[-1] = True
        self._begun()

    # -- values --------------------------------------------------------------------------------------------------------

    def _value(self, text: str, at: int, end: int) -> int:
        at = self._gap(text, at, end)
        if at == end:
            return at
        char = text[at]
        self._key = False
        if char in "'\"":
            self._open_string("", char)
        elif char in "([{":
            self._open(char, {} if char == "{" else [])
        elif char in "+-":
            self._sign = char
            self._go(self._signed, "a number")
        elif char == "." or char.isascii() and char.isdigit():
            self._open_number(at)
            return at
        elif char.isidentifier():
            return self._open_word(at)
        else:
            raise self._unexpected(text, at)
        return at + 1

    def _signed(self, text: str, at: int, end: int) -> int:
        at = self._gap(text, at, end)
        if at == end:
            return at
        if not (text[at] == "." or text[at].isascii() and text[at].isdigit()):
            raise self._unexpected(text, at)
        self._open_number(at)
        return at

    def _open_number(self, at: int) -> None:
        self._token, self._at = [self._sign], self.base + at
        self._sign = ""
        self._go(self._number, "a number")

    def _number(self, text: str, at: int, end: int) -> int:
        run = end_of(_NUMBER_RUN, text, at, end)
        self._token.append(text[at:run])
        if run == end:
            return run
        token = "".join(self._token)
        if text[run] in "+-" and token[-1] in "eE" and token.lstrip("+-")[:2] not in ("0x", "0X"):
            self._token.append(text[run])
            return run + 1
        try:
            self._put(number_of(token))
        except ValueError as error:
            raise self._fault(self._at - self.base, *error.args) from error
        return run

    def _open_word(self, at: int) -> int:
        self._token, self._at = [], self.base + at
        self._go(self._word, "a value")
        return at

    def _word(self, text: str, at: int, end: int) -> int:
        run = end_of(_WORD, text, at, end)
        self._token.append(text[at:run])
        if run == end:
            return run
        word = "".join(self._token)
        if text[run] in "'\"" and word in _PREFIXES:
            self._open_string(word, text[run])
            return run + 1
        if word not in WORDS or self._key or self._joined:
            expected = "'True', 'False' or 'None'" if word.lower() in ("true", "false", "none", "null") else "a literal"
            raise self._fault(self._at - self.base, f"{word!r} is no value", expected)
        self._put(WORDS[word])
        return run

    # -- strings -------------------------------------------------------------------------------------------------------

    def _open_string(self, prefix: str, quote: str) -> None:
        self._prefix, self._quote, self._token = prefix, quote, []
        self._go(self._second, "a character or the closing quote")

    def _second(self, text: str, at: int, end: int) -> int:
        if text[at] != self._quote:
            self._step = self._string
            return at
        self._step = self._third
        return at + 1

    def _third(self, text: str, at: int, end: int) -> int:
        """Behind two quotes: an empty string, or the third of a long one."""
        if text[at] != self._quote:
            return self._close_string(at)
        self._quote *= 3
        self._step = self._string
        return at + 1

    def _string(self, text: str, at: int, end: int) -> int:
        run = end_of(_PLAIN[self._quote], text, at, end)
        self._token.append(text[at:run])
        if run == end:
            return run
        char = text[run]
        if char == "\\":
            self._step = self._slash
            return run + 1
        if char != self._quote[0]:
            raise self._fault(run, f"{char!r} must be escaped in a string")
        if len(self._quote) == 1:
            return self._close_string(run + 1)
        self._token.append(char)
        if [piece for piece in self._token[-6:] if piece][-3:] == [char] * 3:  # between quotes stand empty pieces
            self._token = ["".join(self._token)[:-3]]
            return self._close_string(run + 1)
        return run + 1

    def _slash(self, text: str, at: int, end: int) -> int:
        self._token.append("\\" + text[at])
        self._step = self._string
        return at + 1

    def _close_string(self, at: int) -> int:
        try:
            string = string_of(self._prefix, self._quote, "".join(self._token))
        except ValueError as error:
            raise self._fault(max(at - 1, 0), *error.args) from error
        self._joined.append(string)
        self._token = []
        self._go(self._after_string, "':'" if self._key else f"',' or {_CLOSING[self._kinds[-1]]!r}")
        return at

    def _after_string(self, text: str, at: int, end: int) -> int:
        at = self._gap(text, at, end)
        if at == end:
            return at
        if text[at] in "'\"":
            self._open_string("", text[at])
            return at + 1
        if text[at] in _PREFIXES:
            return self._open_word(at)
        string, self._joined = "".join(self._joined), []
        if not self._key:
            self._put(string)
            return at
        if string in self._tree.containers[-1]:
            raise self._fault(self._at - self.base, f"the key {string!r} appears twice", "another key")
        self._tree.keys[-1] = string
        self._go(self._colon, "':'")
        return at
