r"""Damaged programs of a part of Lua and of SQL, whose names exclude keywords: our verdict is the `lark` library's.

    python -m tests.fuzz.programs --count 300 --seed 1

The grammars are those of `corpus/languages`, with `_INDENT` of Python left to `test_lark_python`.  A name makes more
demands of what follows than can be followed, so it is read as its longest match, which the grammar lists in `narrowed`.
So the verdict lies between two of the library's: what the dynamic lexer takes, which knows only longest matches, we
take; what the complete one refuses, we refuse.
"""

from __future__ import annotations

import argparse
import random
import sys
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from oracles import LarkOracle, mutated

from constrained import Constraint, Grammar, Vocabulary, compile

FOLDER = Path(__file__).resolve().parents[1] / "corpus" / "languages"
PROGRAMS = tomllib.loads((FOLDER / "programs.toml").read_text(encoding="utf-8"))
BYTES = Vocabulary([bytes([byte]) for byte in range(256)], special={"<end>": 256}, stop=[256], size=257)
PIECES = {
    "lua": [
        " ",
        "=",
        "(",
        ")",
        "end",
        " end ",
        ",",
        "x",
        "1",
        "nil",
        "and ",
        ".",
        "'a'",
        "{",
        "}",
        "--",
        "\n",
        "_",
        "do ",
        "return ",
    ],
    "sql": [
        " ",
        "=",
        "(",
        ")",
        "select ",
        " from ",
        ",",
        "x",
        "1",
        "null",
        " and ",
        ".",
        "'a'",
        "*",
        ";",
        "--",
        "\n",
        "_",
        " as ",
        "is ",
    ],
}


@cache
def _constraint(language: str) -> Constraint:
    return compile(Grammar.from_lark((FOLDER / f"{language}.lark").read_text(encoding="utf-8")), BYTES)


@cache
def _library(language: str, lexer: str) -> LarkOracle:
    return LarkOracle((FOLDER / f"{language}.lark").read_text(encoding="utf-8"), lexer=lexer)


def takes(language: str, text: str) -> bool:
    """Return whether we take a program."""
    matcher = _constraint(language).matcher()
    for byte in text.encode():
        if not matcher.accepts(byte):
            return False
        matcher.advance(byte)
    return matcher.is_accepting()


def run(language: str, count: int, seed: int) -> Counter[str]:
    """Check so many programs and return how often each verdict came.

    Raises: AssertionError: ours is not the library's.
    """
    chance, outcomes = random.Random(f"{seed} {language}"), Counter[str]()
    known = PROGRAMS[language]["accept"] + PROGRAMS[language]["reject"]
    for number in range(count):
        text = known[number] if number < len(known) else _damaged(chance, chance.choice(known), PIECES[language])
        taken, longest, complete = (
            takes(language, text),
            _taken(language, "dynamic", text),
            _taken(language, "dynamic_complete", text),
        )
        assert longest <= taken <= complete, (
            f"{language}: {text!r} is {taken}, by lark's lexers {longest} and {complete}"
        )
        outcomes["between" if longest < complete else "taken" if taken else "refused"] += 1
    return outcomes


def _damaged(chance: random.Random, text: str, pieces: list[str]) -> str:
    for _ in range(chance.randint(1, 2)):
        at = chance.randint(0, len(text))
        text = text[:at] + chance.choice(pieces) + text[at:]
    return mutated(text, chance, "ab1= ()") if chance.random() < 0.3 else text


def _taken(language: str, lexer: str, text: str) -> bool:
    try:
        return _library(language, lexer).accepts(text)
    except RuntimeError as error:
        if "multiple start symbol items" in str(error):
            return True
        raise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=300, help="programs of each language")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for language in PROGRAMS:
        print(language, dict(run(language, options.count, options.seed)), flush=True)


if __name__ == "__main__":
    main()
