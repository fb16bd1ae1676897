r"""Two parsers agree: what the shipped grammars take is what the `lark` library takes by the same files.

    python -m tests.fuzz.format_texts --texts 200 --seed 1 [--formats hermes,qwen3] [--vectors FOLDER]

Each `.lark` file is read here and by the library's Earley parser with the complete dynamic lexer, without tools,
special tokens as their texts, from each of its four entries.  Half of the texts are words of the file, or short texts
of the vectors of its formats; the other half are damaged.

Left out: texts of more than `LONGEST` characters, for which the library takes minutes.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import lark

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from oracles import LarkOracle, derived, mutated

from constrained import ChatFormat, Vocabulary, compile
from constrained.errors import GrammarError
from constrained.grammar import Grammar
from constrained.grammar.lark import shipped_folder

ENTRIES = ("assistant_turn", "any_assistant_turn", "conversation", "any_conversation")
LONGEST = 90
BYTES = Vocabulary([bytes([byte]) for byte in range(256)], special={"<end>": 256}, stop=[256], size=257)


def files() -> dict[str, Path]:
    """Return the grammars that are formats, not parts of some."""
    return {path.stem: path for path in sorted(shipped_folder().glob("*.lark")) if path.with_suffix(".toml").exists()}


def check(path: Path, entry: str, count: int, seed: int, samples: list[str] = []) -> Counter[bool]:  # noqa: B006  # never changed
    """Check so many texts of one entry and return how often which verdict came.

    Raises: AssertionError: the two parsers differ.
    """
    chance, outcomes = random.Random(f"{seed} {path.stem} {entry}"), Counter[bool]()
    grammar = Grammar.from_lark_file(path, start=entry)
    takes, library = _taker(grammar), LarkOracle(path.read_text(encoding="utf-8"), start=entry, source_path=str(path))
    for text in _texts(grammar, chance, count, samples):
        taken = takes(text)
        assert taken is _taken(library, text), f"{path.stem}, {entry}: on {text!r}: {taken}, lark says otherwise"
        outcomes[taken] += 1
    return outcomes


def _texts(grammar: Grammar, chance: random.Random, count: int, samples: list[str]) -> Iterator[str]:
    for number in range(count):
        text = chance.choice(samples) if samples and chance.random() < 0.5 else _word(grammar, chance)
        if number % 2:
            text = mutated(text, chance, "".join(sorted(set(text))) or "a")
        yield text[: LONGEST + 10]


def _word(grammar: Grammar, chance: random.Random) -> str:
    """Return a short word, or a beginning of one where all that were drawn are long."""
    found = (derived(grammar, chance, chance.choice((3, 8, 20, 40))) for _ in range(5))
    return min(found, key=lambda text: (len(text) > LONGEST, chance.random()))


def _taker(grammar: Grammar) -> Callable[[str], bool]:
    constraint = compile(grammar, BYTES)

    def takes(text: str) -> bool:
        matcher = constraint.matcher()
        for byte in text.encode():
            if not matcher.accepts(byte):
                return False
            matcher.advance(byte)
        return matcher.is_accepting()

    return takes


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


def vectors(folder: Path) -> dict[str, list[str]]:
    """Return the short texts of files of vectors, by the file of their format's grammar."""
    found: dict[str, list[str]] = {}
    for path in sorted([*folder.glob("*.jsonl"), *folder.glob("*.jsonl.gz")]):
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                if (
                    isinstance(row.get("text"), str)
                    and len(row["text"]) <= LONGEST
                    and row.get("kind") in ("assistant_turn", "conversation")
                ):
                    found.setdefault(_grammar_of(row["format"]), []).append(row["text"])
    return found


def _grammar_of(name: str) -> str:
    try:
        return ChatFormat.load(name.replace("_", "-").replace("llama31", "llama3.1")).definition.grammar.stem
    except GrammarError:
        return name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=200, help="for each format")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--formats", help="names, with commas; default: all")
    parser.add_argument("--vectors", type=Path, help="a folder of files of vectors, whose short texts are tried too")
    options = parser.parse_args()
    samples, wrong = vectors(options.vectors) if options.vectors else {}, 0
    for name, path in files().items():
        if options.formats is None or name in options.formats.split(","):
            outcomes = Counter[bool]()
            for entry in ENTRIES:
                try:
                    outcomes += check(
                        path, entry, max(options.texts // len(ENTRIES), 1), options.seed, samples.get(name, [])
                    )
                except (AssertionError, GrammarError, lark.exceptions.LarkError) as error:
                    wrong += 1
                    print(f"{name}, {entry}: {error}", file=sys.stderr, flush=True)
            print(
                f"{name:20} {outcomes[True]:5} taken {outcomes[False]:5} refused, {len(samples.get(name, []))} vectors",
                flush=True,
            )
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
