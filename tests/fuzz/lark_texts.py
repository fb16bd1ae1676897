r"""Random Lark texts: small right ones mean what the `lark` library means by them, damaged real ones are read or
explained.

    python -m tests.fuzz.lark_texts --count 10000 --seed 1

Half of the texts are small grammars whose terminals begin and end with assertions, some of them ignored; where they are
read, they take the texts that Earley's parser with the complete dynamic lexer takes.  The other half are grammars of
the tables and of the library with a piece cut out, doubled, moved or replaced: an exception is one of the tree, worded
in at most 2 KB.

Left out: assertions inside repeats, of which `grammar.lark.lookahead` says where they differ.
"""

from __future__ import annotations

import argparse
import random
import sys
import tomllib
from collections import Counter
from pathlib import Path

import lark

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from oracles import Acceptor, LarkOracle

from constrained.errors import ConstrainedError, GrammarError, LimitExceeded
from constrained.grammar import Grammar
from constrained.work import Budget, metered

UNITS = 100_000  # of work for one text
BEGINS = ("", "", "", "(?!a)", "(?!ab)", "(?=a)", r"\b", "^", "(?<!a)", "(?<=b)", r"\B", r"(?!a\b)", "(?!(?:ab|b) )")
ENDS = ("", "", "", "(?!a)", "(?=b)", r"\b", "$", r"(?!\w)", "(?! )", r"(?=\b)", r"\Z")
BODIES = (
    "a",
    "b",
    "ab",
    "[ab]",
    "a+",
    "[ab]+",
    "a*b",
    "a|ab",
    "ab?",
    "a+?",
    "b{1,2}",
    "(?:ab)+",
    r"\w+",
    "[^a]",
    " +",
    "a b?",
)
IGNORED = (" ", " +", "b", "#", r"[ #]+", "#[^a]*", "a", " (?!b)", r"\b ", "# ?")
DEBRIS = (
    "(", ")", "[", "]", "{", "}", '"', "/", ":", "|", "~", "~3..2", "~0..99999", "%ignore", "%import", "%declare X", "%extend", "%override", "->", "!", "?", ".5", "\n",
    "\\", "\\x", "_", "start", "A", "x{y}", "\x00", "\ud800", "é", "9" * 30, "..", "i", "//", "*", "+", "(?=a)", "[[", "(?P<a>", "\\1",
)  # fmt: skip
CORPUS = Path(__file__).resolve().parents[1] / "corpus"


class Texts:
    """Random Lark texts; the same seed, the same texts."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        rows = (
            tomllib.loads((CORPUS / "lark.toml").read_text())["case"]
            + tomllib.loads((CORPUS / "errors_lark.toml").read_text())["case"]
        )
        self._real = [row["grammar"] for row in rows if len(row.get("grammar", "")) in range(1, 3000)]
        library = Path(lark.__file__).with_name("grammars")
        self._real += [
            (library / name).read_text(encoding="utf-8") for name in ("common.lark", "lark.lark", "python.lark")
        ]

    def small(self) -> str:
        choose = self.random.choice
        names = ["A", "B", "C"][: self.random.randint(1, 3)]
        symbols = [*names, *names, '"a"', '"b"', "x"]

        def alternatives() -> str:
            parts = [
                " ".join(
                    choose(symbols) + choose(("", "", "", "?", "*", "+", "~1..2"))
                    for _ in range(self.random.randint(1, 3))
                )
                for _ in range(2)
            ]
            return " | ".join(parts)

        lines = [f"start: {alternatives()} | A", f"x: {alternatives()} | B" if "B" in names else "x: A"]
        lines += [f"{name}: /{choose(BEGINS)}(?:{choose(BODIES)}){choose(ENDS)}/" for name in names]
        lines += [f"%ignore /{choose(IGNORED)}/" for _ in range(choose((0, 0, 1, 2)))]
        return "\n".join(lines)

    def damaged(self) -> str:
        text = self.random.choice(self._real)
        for _ in range(self.random.randint(1, 4)):
            at, end = sorted(self.random.randrange(len(text) + 1) for _ in "ab")
            end = min(end, at + 200)
            kind = self.random.randrange(4)
            piece = ("", self.random.choice(DEBRIS), text[at:end] * self.random.randint(2, 4), text[at:end][::-1])[kind]
            text = text[:at] + piece + (text[at:] if kind == 1 else text[end:])
        return text

    def inputs(self, count: int) -> list[str]:
        return [
            "",
            "a",
            "b",
            *("".join(self.random.choices("aaabbb #", k=self.random.randint(2, 6))) for _ in range(count)),
        ]


def check(source: str, inputs: list[str], *, oracle: bool) -> str:
    """Return the class of outcome: "read", "wrong", "limit".

    Raises: AssertionError: a law is broken.  Any exception outside the tree passes through.
    """
    try:
        with metered(Budget(UNITS)):
            grammar = Grammar.from_lark(source, specials=["_INDENT", "_DEDENT"])
        acceptor = Acceptor(grammar.start_state())
    except ConstrainedError as error:
        assert isinstance(error, (GrammarError, LimitExceeded)), error
        assert len(str(error).encode("utf-8", "backslashreplace")) <= 2048, f"a message of {len(str(error))} characters"
        return "limit" if isinstance(error, LimitExceeded) else "wrong"
    if oracle:
        library = LarkOracle(source)
        for text in inputs:
            assert acceptor.accepts(text) is _taken(library, text), (
                f"on {text!r}: {acceptor.accepts(text)}, lark says otherwise"
            )
    return "read"


def _taken(library: LarkOracle, text: str) -> bool:
    """Return whether the library takes a text; that it has found two items for the whole of it, it reports as a bug of
    its own.
    """
    try:
        return library.accepts(text)
    except RuntimeError as error:
        if "multiple start symbol items" in str(error):
            return True
        raise


def run(count: int, seed: int) -> Counter[str]:
    """Check `count` texts and return how often each outcome came."""
    texts, outcomes = Texts(seed), Counter[str]()
    for number in range(count):
        small = number % 2 == 0
        source = texts.small() if small else texts.damaged()
        try:
            outcomes[f"{'small' if small else 'damaged'}, {check(source, texts.inputs(5), oracle=small)}"] += 1
        except Exception:
            print(f"seed {seed}, text {number}: {source!r}", file=sys.stderr)
            raise
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000, help="texts")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(dict(sorted(run(options.count, options.seed).items())))


if __name__ == "__main__":
    main()
