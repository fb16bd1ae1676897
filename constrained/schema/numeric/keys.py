"""The key of a number text: equal for texts of equal numbers, however they are written.

Texts may be long: an array of distinct numbers may hold ``1e999…9`` with 20,000 digits, and is asked about every one of
them while it is written.  So digits stay text, and so does a long exponent: it is only ever moved by the length of the
text that it stands in.

Cost: some passes over the text in C.  Tested in tests/test_unique_items.py, against exact arithmetic.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TypeAlias

from constrained.caches import cached
from constrained.work import spend_nearby

# in Python's spelling too, which has every other surface's
NUMBERS = re.compile(r"-?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9_]+)?")
MOST_DIGITS = 1_000  # of a number that is kept as a fraction; its exponent is bounded by the same

Exponent: TypeAlias = "int | str"  # one of more than `_SHORT` digits as text, with a sign where it is negative
Key: TypeAlias = tuple[bool, str, Exponent]  # (negative, digits without zeros at either end, exponent)

_SHORT = 100  # digits of an exponent that is computed with
_END = 30  # digits of a long exponent that can be met by the length of a text, but for a carry
_FREE = 1_000  # characters of a text that cost nothing worth counting
_DIGITS = 4000  # that Python converts at once, to and from text; more it may refuse


def number_key(text: str) -> Key:
    """Return the key of a number's text, in any spelling.

    >>> number_key("-1.50e3") == number_key("-1500")
    True
    """
    if len(text) > _FREE:
        spend_nearby(len(text) >> 9)
    mantissa, _, exponent = text.lower().replace("_", "").partition("e")
    whole, _, fraction = mantissa.removeprefix("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    bare = digits.rstrip("0")
    if not bare:
        return False, "", 0
    return text.startswith("-"), bare, _moved(exponent, len(digits) - len(bare) - len(fraction))


def number_value(text: str) -> object:
    """Return the value of a number: a Fraction, or its key where that would be too long to write down; which of both
    is a matter of the value, not of its spelling.
    """
    key = number_key(text)
    negative, digits, exponent = key
    if len(digits) > MOST_DIGITS or isinstance(exponent, str) or abs(exponent) > MOST_DIGITS:
        return key
    return Fraction(f"{'-' if negative else ''}{digits or 0}e{exponent}")


@cached(64)
def keys_in(word: str) -> frozenset[Key]:
    """Return the keys of all numbers in a word, also of those inside strings.

    >>> number_key("12.5") in keys_in('[1250e-2,"a"]')
    True
    """
    spend_nearby(1 + len(word) // 32)
    return frozenset(map(number_key, NUMBERS.findall(word)))


def number_text(key: Key) -> str:
    """Return one text of the numbers with a key.

    >>> number_text(number_key("-1500"))
    '-15e2'
    """
    negative, digits, exponent = key
    return f"{'-' if negative else ''}{digits or '0'}e{exponent}"


def whole_number(text: str) -> int:
    """Return the value of digits with or without a sign, however many they are."""
    digits = text.lstrip("+-")
    value = 0
    for at in range(0, len(digits), _DIGITS):
        piece = digits[at : at + _DIGITS]
        value = value * 10 ** len(piece) + int(piece)
    return -value if text.startswith("-") else value


def clipped(text: str, most: int) -> int:
    """Return the value of digits with or without a sign, cut down to `most`, which is less than 10^_SHORT.

    >>> clipped("-" + "9" * 5000, 100), clipped("0012", 100)
    (-100, 12)
    """
    digits = text.lstrip("+-").lstrip("0")
    value = most if len(digits) > _SHORT else min(int(digits or "0"), most)
    return -value if text.startswith("-") else value


def _moved(exponent: str, by: int) -> Exponent:
    """Return an exponent, empty for none, plus the difference of two lengths."""
    negative, digits = exponent.startswith("-"), exponent.lstrip("+-").lstrip("0")
    if len(digits) <= _SHORT:
        found = int(exponent or "0") + by
        return found if abs(found) < 10**_SHORT else str(found)
    high, low = digits[:-_END], int(digits[-_END:]) + (-by if negative else by)
    if low < 0:  # borrow from the last digit that is not 0
        kept = high.rstrip("0")
        high, low = kept[:-1] + str(int(kept[-1]) - 1) + "9" * (len(high) - len(kept)), low + 10**_END
    elif low >= 10**_END:  # carry to the last digit that is not 9
        kept = high.rstrip("9")
        raised = kept[:-1] + str(int(kept[-1]) + 1) if kept else "1"
        high, low = raised + "0" * (len(high) - len(kept)), low - 10**_END
    digits = f"{high}{low:0{_END}d}".lstrip("0")
    sign = "-" if negative else ""
    return sign + digits if len(digits) > _SHORT else int(sign + digits)


def is_within(text: str, most: int) -> bool:
    """Say whether a number as `number_text` writes it has no more digits, and no greater exponent."""
    return len(text) <= most and abs(clipped(text.rpartition("e")[2], most + 1)) <= most
