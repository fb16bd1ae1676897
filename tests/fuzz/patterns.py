r"""Random patterns, right and wrong, in both syntaxes: every answer is an expression or an error of the tree.

    python -m tests.fuzz.patterns --count 50000 --seed 1

A pattern is grown from a grammar and then, half of the time, damaged.  What is checked of each:

* an exception is one of the tree, worded in at most 2 KB, and says where the trouble is;
* in Python's syntax, a pattern that is read matches the short texts that `re.fullmatch` matches, and one that `re`
refuses is refused;
* in ECMA-262's, a pattern that Python reads alike (no escape, class or assertion that differs) agrees with `re.search`;
* a text is in the language or in its complement, never in both, and liveness of every edge is true of the text that
`example` gives.
"""

from __future__ import annotations

import argparse
import random
import re
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial

from constrained import regex
from constrained.errors import ConstrainedError, GrammarError, LimitExceeded
from constrained.work import Budget, metered, working_on

Oracle = Callable[[str], bool | None]

UNITS = 60_000  # of work for one pattern
PATIENCE = 2.0  # seconds of the processor, after which nothing is known of what `re` says: it tries all ways to repeat what repeats
LETTERS = "ab-\n"
ATOMS = (
    "a",
    "b",
    "ab",
    ".",
    "[ab]",
    "[^a]",
    r"\w",
    r"\d",
    r"\s",
    r"\W",
    r"\n",
    r"\x61",
    r"\-",
    "é",
    r"\u0061",
    "[a-b-]",
    "",
)
EDGES = ("^", "$", r"\b", r"\B")
COUNTS = ("*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "*?", "{0,9999}", "{3,70000}", "{,2}")
GROUPS = ("(", "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?i:", "(?P<x>", "(?<x>", "(?>")
DEBRIS = (
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "\\",
    "|",
    "*",
    "?",
    "^",
    "$",
    r"\1",
    r"\p{L}",
    r"\p{",
    r"\u{",
    r"\x",
    r"\c",
    "(?",
    "[^",
    "-",
    "\x00",
    "\ud800",
    "\U0010ffff",
    "9" * 30,
)
PLAIN = re.compile(
    r"(?:[ab|^é]|\((?:\?[:=!])?(?![*+?{])|\)|\[\^?(?:a|ab|a-b-)\]|[*+?]\??(?![*+?{])|\{[0-9]{1,4}(?:,[0-9]{1,5})?\}(?![*+?{]))*"
)


class Patterns:
    """Random patterns; the same seed, the same patterns."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def make(self) -> str:
        pattern = self.grown(self.random.randint(1, 5))
        while self.random.random() < 0.35:
            pattern = self.damaged(pattern)
        return pattern

    def grown(self, depth: int) -> str:
        choose, roll = self.random.choice, self.random.random()
        if depth == 0 or roll < 0.2:
            return choose(ATOMS + EDGES)
        if roll < 0.5:
            return self.grown(depth - 1) + self.grown(depth - 1)
        if roll < 0.65:
            return f"(?:{self.grown(depth - 1)}|{self.grown(depth - 1)})"
        if roll < 0.85:
            return f"(?:{self.grown(depth - 1)})" + choose(COUNTS)
        return f"{choose(GROUPS)}{self.grown(depth - 1)})"

    def damaged(self, pattern: str) -> str:
        at, end = sorted(self.random.choices(range(len(pattern) + 1), k=2))
        kind = self.random.randrange(4)
        if kind == 0:
            return pattern[:at] + pattern[end:]
        if kind == 1:
            return pattern[:at] + self.random.choice(DEBRIS) + pattern[at:]
        if kind == 2:
            return pattern[:at] + pattern[at:end] * self.random.randint(2, 4) + pattern[end:]
        return pattern[:end] + pattern[at:]

    def texts(self, count: int) -> list[str]:
        return ["".join(self.random.choices(LETTERS, k=self.random.randrange(7))) for _ in range(count)]


def check(pattern: str, texts: list[str], *, python: bool) -> str:
    """Return the class of outcome: "read", "wrong", "limit".

    Raises: AssertionError: a law is broken.  Any exception outside the tree passes through.
    """
    syntax, parse = ("python", regex.parse_python) if python else ("ecma", regex.parse_ecma)
    parse.cache_clear()
    oracle = _oracle(pattern, python=python)
    try:
        with metered(Budget(UNITS)), working_on("this pattern"):
            language = parse(pattern)
            _laws(language, pattern, texts, oracle)
    except ConstrainedError as error:
        assert isinstance(error, (GrammarError, LimitExceeded)), error
        assert len(str(error).encode("utf-8", "backslashreplace")) <= 2048, (
            f"{syntax} {pattern!r}: a message of {len(str(error))} characters"
        )
        assert repr(pattern)[1:8] in str(error) or error.where, f"{syntax} {pattern!r}: no place in {error}"
        return "limit" if isinstance(error, LimitExceeded) else "wrong"
    assert oracle is not False, f"{syntax} {pattern!r} is read, `re` refuses it"
    return "read"


def _oracle(pattern: str, *, python: bool) -> Oracle | bool | None:
    """Return how `re` reads a pattern, False if it refuses it, None where the two need not agree."""
    if not python and not PLAIN.fullmatch(pattern):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return False if python else None
    if len(pattern) > 200 or re.search("[0-9]{4}", pattern):
        return None  # `re` may take long
    return partial(_asked, compiled.fullmatch if python else compiled.search)


def _asked(match: Callable[[str], re.Match[str] | None], text: str) -> bool | None:
    """Return whether `re` finds a match, None if it does not say in time."""

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE)
    try:
        return match(text) is not None
    except TimeoutError:
        return None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _laws(language: regex.Expr, pattern: str, texts: list[str], oracle: Oracle | bool | None) -> None:
    outside = regex.complement(language)
    for text in texts:
        inside = regex.matches(language, text)
        assert inside is not regex.matches(outside, text), f"{pattern!r}: {text!r} in both or neither"
        said = oracle(text) if callable(oracle) else None
        assert said is None or inside is said, f"{pattern!r} on {text!r}: {inside}, `re` says otherwise"
    shortest = regex.example(language)
    assert (shortest is None) is regex.is_empty(language), f"{pattern!r}: empty or not"
    assert shortest is None or regex.matches(language, shortest), (
        f"{pattern!r}: its example {shortest!r} does not match"
    )
    for _, _, target in language.edges():
        assert not regex.is_empty(target), f"{pattern!r}: a dead edge"


def run(count: int, seed: int) -> Counter[str]:
    """Check `count` patterns in each syntax and return how often each outcome came."""
    patterns, outcomes = Patterns(seed), Counter[str]()
    for number in range(count):
        pattern, texts = patterns.make(), patterns.texts(6)
        for python in (True, False):
            try:
                outcomes[check(pattern, texts, python=python)] += 1
            except Exception:
                print(f"seed {seed}, pattern {number}: {'python' if python else 'ecma'} {pattern!r}", file=sys.stderr)
                raise
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000, help="patterns, each in both syntaxes")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(dict(run(options.count, options.seed)))


if __name__ == "__main__":
    main()
