r"""Write constrained/regex/unicode.txt again: the characters of each property it names, scanned from `regex`.

    python tools/unicode_tables.py [--check]

The names are ECMA-262's and stand in the file itself, the first column; to add a property, add a line with its names.
What follows is replaced by what the installed `regex` says of every code point, so that one package gives one version
of Unicode for all of them.  Three things it has no property for:

- surrogates, of which texts have none: the property is empty;
- ``Changes_When_NFKC_Casefolded``: those that case folding or normal form KC changes, and the ignorable ones
  (Unicode, DerivedCoreProperties.txt);
- simple case folding: what matches each other without regard to case.  `regex` lets the Turkic letters U+0130 and
  U+0131 match "i" and "I", which simple folding does not.

`--check` only says which lines differ.  Tested in tests/test_unicode_tables.py.
"""

from __future__ import annotations

import argparse
import string
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path

import regex

FILE = Path(__file__).parents[1] / "constrained" / "regex" / "unicode.txt"
HEADER = (
    "# Unicode properties that ECMA-262 names, and joining types; scanned from regex {version}"
    " by tools/unicode_tables.py."
    " A line: names, then ranges as GAP[+EXTENT] in base 36, or \"=\" and the names united;"
    " last: sets of characters equal under simple case folding, as GAP+STEP[+STEP...]."
)
DIGITS = string.digits + string.ascii_lowercase
SCALARS = "".join(map(chr, range(0x110000)))
SPECIAL = {
    "Any": r"[\s\S]",
    "Cs": r"(?!.).",
    "Changes_When_NFKC_Casefolded": r"\p{NFKC_Quick_Check=No}|\p{CWCF}|\p{Default_Ignorable_Code_Point}",
}
PROPERTY = r"\p{{{}}}"
TURKIC = {0x130, 0x131}


def base36(number: int) -> str:
    """Return a number as the file writes it."""
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = DIGITS[digit] + digits
    return digits or "0"


def coded(points: Iterable[int]) -> str:
    """Return code points as runs: how far behind the last run each begins, and how much further it goes."""
    runs: list[list[int]] = []
    for point in points:
        if runs and point == runs[-1][1] + 1:
            runs[-1][1] = point
        else:
            runs.append([point, point])
    words, at = [], 0
    for low, high in runs:
        words.append(base36(low - at) + (f"+{base36(high - low)}" if high > low else ""))
        at = high + 1
    return " ".join(words)


def members(pattern: str) -> list[int]:
    """Return the code points that match a pattern of one character."""
    return [ord(found) for found in regex.findall(pattern, SCALARS, regex.V0)]


def case_classes() -> str:
    """Return the sets of characters that are equal under simple case folding, each from its smallest member."""
    cased = "".join(map(chr, members(r"\p{Cased}|\p{CWCF}|\p{CWCM}")))
    words, at, seen = [], 0, set(TURKIC)
    for char in cased:
        equal = {ord(other) for other in regex.findall(regex.escape(char), cased, regex.I | regex.V0)} - TURKIC
        first, *others = sorted(equal | {ord(char)})
        if first in seen or not others:
            continue
        seen.update(equal)
        steps = [base36(after - before) for before, after in zip([first, *others], others, strict=False)]
        words.append("+".join([base36(first - at), *steps]))
        at = first
    return " ".join(words)


def lines(before: str) -> Iterator[str]:
    """Yield the lines of the file as they should be, given the file as it is."""
    yield HEADER.format(version=version("regex"))
    for line in before.splitlines()[1:]:
        names, _, old = line.partition(" ")
        kind, equals, all_names = names.rpartition("=")
        name = kind + equals + all_names.partition("|")[0]
        if old.startswith("= "):
            yield line
        elif name == "Case_Classes":
            yield f"{names} {case_classes()}"
        else:
            yield f"{names} {coded(members(SPECIAL.get(name, PROPERTY.format(name))))}"


def main() -> None:
    """Write the file, or say which of its lines differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; say what differs")
    before = FILE.read_text("ascii")
    after = list(lines(before))
    if parser.parse_args().check:
        for old, new in zip(before.splitlines(), after, strict=True):
            if old != new:
                print("differs:", new.partition(" ")[0])
    else:
        FILE.write_text("\n".join(after) + "\n", "ascii")


if __name__ == "__main__":
    main()
