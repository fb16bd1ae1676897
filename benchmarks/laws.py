"""Is every bit of every mask right?

For every chat format, three sets of tools and two real vocabularies, tokens are drawn from the masks along random
walks.  At every position, for *all* ids of the vocabulary:

    mask bit = Matcher.accepts(id) = mask bit of the plain twin, which steps every token byte by byte

and a special id is allowed only where the grammar names it or a stop token may end the text.  So that walks see the
whole grammar and not only its free text, half of them follow a valid call until they leave it by chance, and half of
the draws prefer tokens that close something.

    python -m constrained.benchmarks.laws
        [--positions 100] [--formats hermes,chatglm3] [--vocabularies llama3,mistral,embedded]

Cost: about 60 ms a position on the Llama 3 vocabulary; 100 positions of everything take five minutes.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from constrained import ChatFormat, Grammar, Matcher, Vocabulary, compile

from . import vocabularies
from .tool_sets import tool_sets

LONGEST_WALK = 80  # tokens
LEAVE = 0.05  # how likely a walk leaves the call that it follows, per token
CLOSERS = b"\"'}])>`\n"
VOCABULARIES: dict[str, Callable[[], Vocabulary | None]] = {
    "llama3": vocabularies.llama3, "mistral": vocabularies.mistral, "embedded": vocabularies.embedded,
}  # fmt: skip


@dataclass
class Tally:
    """What was compared, and what differed."""

    positions: int = 0
    ids: int = 0
    walks: int = 0
    finished: int = 0
    against_accepts: int = 0  # ids on which the mask and Matcher.accepts differ
    against_twin: int = 0  # ids on which the mask and the plain twin's differ
    stray_specials: int = 0  # special ids allowed that the grammar does not name
    example: str = ""  # the first difference

    @property
    def mismatches(self) -> int:
        return self.against_accepts + self.against_twin + self.stray_specials


def check(grammar: Grammar, vocabulary: Vocabulary, positions: int, seed: int = 0, word: Sequence[int] = ()) -> Tally:
    """Compare masks at a number of positions on random walks through a grammar; every other walk follows `word` for a
    while.
    """
    constraint, twin = compile(grammar, vocabulary), compile(grammar, vocabulary, kernel="plain")
    chance, tally = random.Random(seed), Tally()
    closing = _closing(vocabulary)
    marked = {name for symbol in grammar.symbols() for name in getattr(getattr(symbol, "machine", None), "markers", ())}
    named = {vocabulary.special[name] for name in grammar.specials | (marked & vocabulary.special.keys())} | set(
        vocabulary.stop
    )
    special = np.array([token in vocabulary.names and token not in named for token in range(vocabulary.size)])
    while tally.positions < positions:
        tally.walks += 1
        follows = tally.walks % 2 > 0
        fast, slow = constraint.matcher(), twin.matcher()
        while tally.positions < positions and len(fast.tokens) < LONGEST_WALK and not fast.is_finished():
            allowed = _compare(fast, slow, special, tally)
            follows = follows and len(fast.tokens) < len(word) and chance.random() > LEAVE
            token = word[len(fast.tokens)] if follows else _draw(allowed, closing, chance)
            fast.advance(token)
            slow.advance(token)
        tally.finished += fast.is_finished()
    return tally


def bits(matcher: Matcher) -> npt.NDArray[np.bool_]:
    """Return a matcher's mask; (vocabulary size,) bool, True = allowed."""
    vocabulary = matcher.constraint.vocabulary
    bitmask = np.zeros((1, vocabulary.words), np.int32)
    matcher.fill_mask(bitmask)
    return np.unpackbits(bitmask.view(np.uint8), bitorder="little").astype(bool)[: vocabulary.size]


def _compare(fast: Matcher, slow: Matcher, strays: npt.NDArray[np.bool_], tally: Tally) -> npt.NDArray[np.bool_]:
    size = fast.constraint.vocabulary.size
    mask, accepts = bits(fast), fast.accepts
    accepted = np.fromiter(map(accepts, range(size)), bool, size)
    differences = {"accepts": mask != accepted, "twin": mask != bits(slow), "special": mask & strays}
    tally.positions += 1
    tally.ids += size
    tally.against_accepts += int(differences["accepts"].sum())
    tally.against_twin += int(differences["twin"].sum())
    tally.stray_specials += int(differences["special"].sum())
    if tally.mismatches and not tally.example:
        law, where = next((law, found.nonzero()[0]) for law, found in differences.items() if found.any())
        tally.example = (
            f"{law}: after {fast.text()!r} the mask says {bool(mask[where[0]])} for {fast.explain(int(where[0]))}"
        )
    return mask


def _closing(vocabulary: Vocabulary) -> npt.NDArray[np.bool_]:
    """Return which tokens may end something: special ones, and texts with a closing character."""
    return np.array([text is None or any(byte in CLOSERS for byte in text) for text in vocabulary.tokens])


def _draw(allowed: npt.NDArray[np.bool_], closing: npt.NDArray[np.bool_], chance: random.Random) -> int:
    choices: Sequence[int] = (allowed & closing).nonzero()[0] if chance.random() < 0.5 else ()
    if not len(choices):
        choices = allowed.nonzero()[0]
    return int(choices[chance.randrange(len(choices))])


def main() -> int:
    """Check what the command line names; return 1 if anything differed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--positions", type=int, default=100, help="positions per format, tool set and vocabulary")
    parser.add_argument("--formats", default=",".join(ChatFormat.names()))
    parser.add_argument("--vocabularies", default="llama3,mistral")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    total = Tally()
    for name in options.vocabularies.split(","):
        vocabulary = VOCABULARIES[name]()
        if vocabulary is None:
            print(f"{name}: not installed")
            continue
        for format in options.formats.split(","):
            chat = ChatFormat.load(format)
            for title, wanted in tool_sets(format).items():
                word = vocabularies.encode(vocabulary, wanted.text(chat))
                tally = check(chat.grammar(wanted.tools), vocabulary, options.positions, options.seed, word)
                print(f"{name}, {format}, {title}: {_line(tally)}", flush=True)
                total.positions += tally.positions
                total.ids += tally.ids
                total.against_accepts += tally.against_accepts
                total.against_twin += tally.against_twin
                total.stray_specials += tally.stray_specials
    print(f"total: {_line(total)}")
    return 1 if total.mismatches else 0


def _line(tally: Tally) -> str:
    counts = f"{tally.positions:,} positions, {tally.ids:,} ids, {tally.mismatches} mismatches"
    return f"{counts}\n  {tally.example}" if tally.example else counts


if __name__ == "__main__":
    sys.exit(main())
