r"""Random patterns of ECMA-262 next to a JavaScript engine: what both read finds a match in the same texts.

    python -m tests.fuzz.ecma_patterns --count 50000 --seed 1

The patterns are those of `patterns`, more of ECMA-262's own escapes among them, half of them below ``(?i)``; Node, where
it is installed, reads each with the ``u`` flag.  What we refuse and it reads, and the other way round, is counted only:
`regex.ecma` says which sloppy spellings are read and which are refused.

Left out: texts with characters beyond U+FFFF, within which V8 looks for an empty match (``/\\B/u`` in "b\\u{10400}1").
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections import Counter

from constrained import regex
from constrained.errors import ConstrainedError
from constrained.work import Budget, metered

from . import patterns

BATCH = 2_000  # patterns for one run of Node
LETTERS = "abAK1 _-\n\u2028\u00e9\u017f\u212a\u0345\u03b9\u00df"
ESCAPES = (r"\w", r"\W", r"\b", r"\B", r"\s", r"\S", r"\d", "[^k]", r"[^\W]", r"[\w-]", "s", "k", r"\p{Lu}", r"\P{Lu}",
           r"[^\p{Ll}]", "\u0345", r"(?=\w)", r"(?!\w)", r"(?<=s)", r"(?<!\w)", "[a-k]", r"\x4b")  # fmt: skip
_NODE = r"""
const rows = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const verdicts = rows.map(([pattern, flags, texts]) => {
  try { const found = new RegExp(pattern, flags); return texts.map(text => found.test(text)); } catch (e) { return null; }
});
console.log(JSON.stringify(verdicts));
"""


class Patterns(patterns.Patterns):
    """Random patterns, half of them with escapes in place of their parts."""

    def grown(self, depth: int) -> str:
        if self.random.random() < 0.25:
            return self.random.choice(ESCAPES)
        return super().grown(depth)

    def texts(self, count: int) -> list[str]:
        return ["".join(self.random.choices(LETTERS, k=self.random.randrange(6))) for _ in range(count)]


def rows(count: int, seed: int) -> list[tuple[str, bool, list[str]]]:
    """Return patterns, whether they ignore case, and texts for each; none with counts, in which Node backtracks."""
    made = Patterns(seed)
    found: list[tuple[str, bool, list[str]]] = []
    while len(found) < count:
        pattern = made.make()
        if len(pattern) < 100 and "9999" not in pattern and "7000" not in pattern and "(?i" not in pattern:
            found.append((pattern, made.random.random() < 0.5, made.texts(8)))
    return found


def run(count: int, seed: int) -> Counter[str]:
    """Compare `count` patterns; return how often each outcome came: "same", "only ours", "only Node", "neither".

    Raises: AssertionError: a text in which one finds a match and the other does not.
    """
    outcomes = Counter[str]()
    for at in range(0, count, BATCH):
        batch = rows(min(BATCH, count - at), seed * 1_000_003 + at)
        given = json.dumps([(pattern, "iu" if ignoring else "u", texts) for pattern, ignoring, texts in batch])
        said = subprocess.run(["node", "-e", _NODE], input=given, capture_output=True, text=True, check=True).stdout
        for (pattern, ignoring, texts), expected in zip(batch, json.loads(said), strict=True):
            outcomes[_compared("(?i)" * ignoring + pattern, texts, expected)] += 1
    return outcomes


def _compared(pattern: str, texts: list[str], expected: list[bool] | None) -> str:
    regex.parse_ecma.cache_clear()
    try:
        with metered(Budget(patterns.UNITS)):
            language = regex.parse_ecma(pattern)
            found = [regex.matches(language, text) for text in texts]
    except ConstrainedError:
        return "neither" if expected is None else "only Node"
    if expected is None:
        return "only ours"
    differing = [text for text, ours, node in zip(texts, found, expected, strict=True) if ours is not node]
    assert not differing, f"{pattern!r} on {differing[0]!r}: Node says {not found[texts.index(differing[0])]}"
    return "same"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000, help="patterns")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if shutil.which("node") is None:
        sys.exit("Node is not installed")
    print(dict(run(options.count, options.seed)))


if __name__ == "__main__":
    main()
