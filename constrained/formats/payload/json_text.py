"""JSON text → value, as RFC 8259 writes it and stricter: no key twice, no lone surrogates.

Python's `json` is lenient (NaN, duplicate keys, lone surrogates), gives up on long integers and deep nesting, and needs
the whole text. Runs of plain characters are read by one regular expression, so that the cost per character is small:
about 0.1 µs in long strings.

Tested against `json.loads` and, cut at every place, against itself.
"""

from __future__ import annotations

import json
import re
from typing import Any

from constrained.formats.payload.value_reader import ValueReader, decimal_of, end_of, integer_of

# -- reading -----------------------------------------------------------------------------------------------------------

_SPACES = re.compile(r"[ \t\n\r]*")
_BLANKS = re.compile(r"[ \t]*")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_DIGITS = re.compile(r"[0-9]*")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORDS = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}
_HEX = frozenset("0123456789abcdefABCDEF")

# A number, character by character: state → character class → state.  d = a digit from 1, 0 = zero.
_NUMBER = {
    "-": {"0": "0", "d": "i"}, "0": {".": ".", "e": "e"}, "i": {"0": "i", "d": "i", ".": ".", "e": "e"},
    ".": {"0": "f", "d": "f"},
    "f": {"0": "f", "d": "f", "e": "e"}, "e": {"+": "s", "-": "s", "0": "x", "d": "x"}, "s": {"0": "x", "d": "x"},
    "x": {"0": "x", "d": "x"},
}  # fmt: skip
_CLASS = {**dict.fromkeys("123456789", "d"), "0": "0", ".": ".", "e": "e", "E": "e", "+": "+", "-": "-"}
_ENDS = frozenset("0ifx")

_FIRST_KEY, _FIRST_ITEM = "a key in double quotes or '}'", "a value or ']'"

_SHORT = 1_024  # characters of a value that is read as a whole
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a key appears twice")
    return members


def _no_word(word: str) -> Any:
    raise ValueError(f"{word!r} is no JSON value")


_decoder = json.JSONDecoder(
    object_pairs_hook=_members, parse_int=integer_of, parse_float=decimal_of, parse_constant=_no_word
)


def whole_json(text: str, at: int, end: int) -> tuple[Any, int] | None:
    """Return the value at a place and where it ends, if all of it is there, is short and right; None: it goes on, is
    deep, or has a fault, of which a `JsonReader` says more.
    """
    written = text[at : min(end, at + _SHORT)]
    try:
        value, size = _decoder.raw_decode(written)
    except (ValueError, RecursionError):
        return None
    return None if "\\u" in written and _SURROGATE.search(written) else (value, at + size)


class JsonReader(ValueReader):
    """Reads one JSON value that starts with `first`, "{" for objects, "[" for arrays; lines: whether there may be line
    breaks in it.  begun: `first` was read, by whoever made this reader, right before what is fed.
    """

    __slots__ = ("_first", "_pieces", "_escape", "_high", "_word", "_is_key", "_key_at", "_spaces")
    _pieces: list[str]  # of the string or number that is being read

    def __init__(self, first: str = "{", *, lines: bool = True, begun: bool = False) -> None:
        self._spaces = _SPACES if lines else _BLANKS
        self._first = first
        if not begun:
            super().__init__(None, self._start, repr(first))
        elif first == "{":
            super().__init__({}, self._key_or_end, _FIRST_KEY)
        else:
            super().__init__([], self._value_or_end, _FIRST_ITEM)

    def partial(self) -> Any:
        if self._step in (self._string, self._escaped) and not self._is_key:
            self._tree.put("".join(self._pieces))
        return super().partial()

    def _gap(self, text: str, at: int, end: int) -> int:
        return end_of(self._spaces, text, at, end)

    # -- values --------------------------------------------------------------------------------------------------------

    def _start(self, text: str, at: int, end: int) -> int:
        if text[at] != self._first:
            raise self._unexpected(text, at)
        return self._value(text, at, end)

    def _value(self, text: str, at: int, end: int) -> int:
        at = self._gap(text, at, end)
        if at == end:
            return at
        char = text[at]
        if char == "{":
            self._tree.open({})
            self._go(self._key_or_end, _FIRST_KEY)
        elif char == "[":
            self._tree.open([])
            self._go(self._value_or_end, _FIRST_ITEM)
        elif char == '"':
            self._open_string(key=False)
        elif char in _WORDS:
            self._word = char
            self._go(self._literal, repr(_WORDS[char][0]))
        elif char == "-" or char.isascii() and char.isdigit():
            self._pieces, self._word = [char], "i" if char in "123456789" else char
            self._go(self._number, "a number")
        else:
            raise self._fault(at, f"{char!r} begins no JSON value")
        return at + 1

    def _key_or_end(self, text: str, at: int, end: int) -> int:
        at = self._gap(text, at, end)
        if at < end and text[at] == "}":
            return self._end(at)
        return self._key(text, at, end)

    def _key(self, text: str, at: int, end: int) -> int:
        at = self._gap(text, at, end)
        if at == end:
            return at
        if text[at] != '"':
            raise self._unexpected(text, at)
        self._key_at = self.base + at
        self._open_string(key=True)
        return at + 1

    def _next(self) -> None:
        if isinstance(self._tree.containers[-1], list):
            self._go(self._value, "a value")
        else:
            self._go(self._key, "a key in double quotes")

    # -- words and numbers ---------------------------------------------------------------------------------------------

    def _literal(self, text: str, at: int, end: int) -> int:
        whole, value = _WORDS[self._word[0]]
        if text[at] != whole[len(self._word)]:
            raise self._fault(at - len(self._word), f"{self._word + text[at]!r} begins no JSON value", "a value")
        self._word += text[at]
        if self._word == whole:
            self._put(value)
        return at + 1

    def _number(self, text: str, at: int, end: int) -> int:
        if self._word in "ifx":
            run = end_of(_DIGITS, text, at, end)
            if run > at:
                self._pieces.append(text[at:run])
                return run
        state = _NUMBER[self._word].get(_CLASS.get(text[at], ""))
        if state is not None:
            self._word = state
            self._pieces.append(text[at])
            return at + 1
        if self._word not in _ENDS or text[at] in _CLASS:
            raise self._fault(at, f"{text[at]!r} cannot stand here: no JSON number goes on so", "a digit")
        number = "".join(self._pieces)
        self._put(integer_of(number) if number.lstrip("-").isdigit() else decimal_of(number))
        return at

    # -- strings -------------------------------------------------------------------------------------------------------

    def _open_string(self, *, key: bool) -> None:
        self._pieces, self._high, self._is_key = [], 0, key
        self._go(self._string, "a character or '\"'")

    def _string(self, text: str, at: int, end: int) -> int:
        if self._high and text[at] != "\\":
            raise self._fault(at, "half of a surrogate pair is no character", "the other half")
        run = end_of(_PLAIN, text, at, end)
        if run > at:
            self._pieces.append(text[at:run])
            if run == end:
                return run
        char = text[run]
        if char == '"':
            self._close_string(run)
        elif char == "\\":
            self._escape = "\\"
            self._go(self._escaped, "an escape")
        else:
            raise self._fault(run, f"the control character {char!r} must be escaped in a string")
        return run + 1

    def _escaped(self, text: str, at: int, end: int) -> int:
        char, seen = text[at], len(self._escape)
        if self._high and not (char == "u" if seen == 1 else char in _HEX):
            raise self._fault(at, "half of a surrogate pair is no character", "the other half")
        if seen == 1:
            if char in _ESCAPES:
                self._pieces.append(_ESCAPES[char])
                self._go(self._string, "a character or '\"'")
            elif char == "u":
                self._escape = "\\u"
            else:
                raise self._fault(at, f"'\\{char}' is no escape of JSON", 'one of " \\ / b f n r t u')
            return at + 1
        if char not in _HEX:
            raise self._fault(at, f"{char!r} is no hexadecimal digit", "a hexadecimal digit")
        self._escape += char
        if seen == 5:
            self._unit(int(self._escape[2:], 16), at)
            self._go(self._string, "a character or '\"'")
        return at + 1

    def _unit(self, unit: int, at: int) -> None:
        """Take one UTF-16 unit of an escape."""
        if self._high:
            if not 0xDC00 <= unit < 0xE000:
                raise self._fault(at, "half of a surrogate pair is no character", "the other half")
            self._pieces.append(chr(0x10000 + ((self._high - 0xD800) << 10) + unit - 0xDC00))
            self._high = 0
        elif 0xD800 <= unit < 0xDC00:
            self._high = unit
        elif 0xDC00 <= unit < 0xE000:
            raise self._fault(at, "half of a surrogate pair is no character", "a character")
        else:
            self._pieces.append(chr(unit))

    def _close_string(self, at: int) -> None:
        if self._high:
            raise self._fault(at, "half of a surrogate pair is no character", "the other half")
        string = "".join(self._pieces)
        if not self._is_key:
            self._put(string)
            return
        if string in self._tree.containers[-1]:
            raise self._fault(self._key_at - self.base, f"the key {string!r} appears twice", "another key")
        self._tree.keys[-1] = string
        self._go(self._colon, "':'")
