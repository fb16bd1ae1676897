"""Does every walk along the masks reach an end?

    python -m constrained.benchmarks.walks SCHEMAS.jsonl[.gz]
        [--walks 3] [--tokens 60] [--vocabulary llama3|embedded|bytes]

Each line holds {"id": …, "schema": …}.  A walk draws tokens from the masks, a first byte and then a token, so that rare
ways are taken as often as common ones; half of the draws inside strings are left to chance.  After a number of tokens
it is steered towards the end: it stops where it may, closes what is open where it can, writes the keys that jsonschema
misses in the open object, and opens what must be opened with what is simplest.  It never goes back.

A *dead end* is a position where no token is allowed and the text may not end: a mask has lied, and a model would be
stuck.  A walk that is still going `LOST` tokens after it should have ended goes where a search over the bytes finds an
end; it is *unfinished* if it never gets there. What a finished walk wrote is read with `json` and validated with
`jsonschema`; "invalid" counts texts that are not valid.

Cost: 1,000 schemas of MaskBench, three walks each on the Llama 3 vocabulary: about six minutes.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from constrained import ConstrainedError, Grammar, Matcher, Vocabulary, compile

from . import vocabularies
from .json_schema_suite import bytes_vocabulary
from .laws import bits
from .needed import missing, needed_names, read_number

PATIENCE, PATIENCE_PER_NAME = 4_000, 20  # tokens of the way to the end
LOST = 300  # tokens of it, after which an end is searched for
MOST_STATES = 20_000  # of a search for an end
QUOTES = b"\"'"
# First bytes in the order in which a steered walk prefers them outside strings: what closes, what is short, what opens
# something new last.
PREFERENCE = (b"}", b"]", b")", QUOTES, b",", b":", b"ntfNTF", b"eE", b"0123456789", b"-", b"[", b"{")
FINISHED, DEAD_END, UNFINISHED, REFUSED, INVALID = "finished", "dead end", "unfinished", "refused", "finished, invalid"


@dataclass
class Tally:
    """What became of the walks."""

    walks: Counter[str] = field(default_factory=Counter)
    schemas: Counter[str] = field(default_factory=Counter)
    tokens: int = 0

    def note(self, example: str) -> None:
        """Print what went wrong, at once: a run takes minutes."""
        print(example, flush=True)


class Drawer:
    """Chooses among allowed tokens of one vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        # (size,) 256 = special or unused
        self._first = np.array([text[0] if text else 256 for text in vocabulary.tokens], np.int16)
        lengths = np.array([min(len(text or b""), 99) for text in vocabulary.tokens])
        self._outside = _ranks(PREFERENCE)[self._first] * 100 + lengths  # (size,) smaller = rather
        # Per quote: (size,) the token that is the quote first, then what starts with it, then all others alike.
        self._inside = {quote: np.where(self._first == quote, lengths, 100) for quote in QUOTES}

    def varied(self, allowed: npt.NDArray[np.bool_], chance: random.Random) -> int:
        """Return a token: first a first byte, then one of its tokens."""
        tokens = allowed.nonzero()[0]
        groups = self._first[tokens]
        chosen = tokens[groups == chance.choice(np.unique(groups).tolist())]
        return int(chosen[chance.randrange(len(chosen))])

    def closing(self, allowed: npt.NDArray[np.bool_], chance: random.Random, quote: int | None) -> int:
        """Return a token that leads towards the end, `quote` being that of an open string; now and then another one, so
        that no loop lasts for ever.
        """
        tokens = allowed.nonzero()[0]
        if chance.random() >= 0.05:
            ranks = (self._outside if quote is None else self._inside[quote])[tokens]
            tokens = tokens[ranks == ranks.min()]
        return int(tokens[chance.randrange(len(tokens))])


def _ranks(preference: Sequence[bytes]) -> npt.NDArray[np.int64]:
    ranks = np.full(257, len(preference))
    for rank, chars in enumerate(preference):
        ranks[list(chars)] = rank
    return ranks


def walk(
    matcher: Matcher,
    drawer: Drawer,
    chance: random.Random,
    tokens: int,
    names: Sequence[str] = (),
    validator: Any = None,
) -> str:
    """Walk and return what became of it; the matcher stays where the walk ended.

    names: keys that an object may need, written where they fit on the way to the end, first those that the validator
    misses there.
    """
    stop = list(matcher.constraint.vocabulary.stop)
    while len(matcher.tokens) < tokens + PATIENCE + PATIENCE_PER_NAME * len(names):
        steered = len(matcher.tokens) >= tokens
        accepting = matcher.is_accepting()
        if accepting and (steered or chance.random() < 0.02):
            return FINISHED
        if len(matcher.tokens) == tokens + LOST and _ends(matcher):
            return FINISHED
        allowed = bits(matcher)
        allowed[stop] = False
        if not allowed.any():
            return FINISHED if accepting else DEAD_END
        if not steered:
            matcher.advance(drawer.varied(allowed, chance))
            continue
        text = matcher.text()
        quote = _open_quote(text)
        if quote is not None:
            wanted = [*missing(validator, text[:-1]), *chance.sample(names, len(names))] if text[-1] == quote else []
            if _writes_name(matcher, quote, wanted) or _closes_string(matcher, quote):
                continue
        matcher.advance(drawer.closing(allowed, chance, quote))
    return FINISHED if matcher.is_accepting() or _ends(matcher) else UNFINISHED


def _writes_name(matcher: Matcher, quote: int, names: Sequence[str]) -> bool:
    """Write the rest of a key after its quote, the first of some names that fits here; say whether one did."""
    kernel, start = matcher.constraint.place()
    at = kernel.step_bytes(start, matcher.text())
    for name in names:
        text = (json.dumps(name, ensure_ascii=False) if quote == ord('"') else repr(name))[1:-1].encode(
            "utf-8", "surrogatepass"
        )
        text += bytes([quote]) + b":"
        if kernel.step_bytes(at, text):
            _advance(matcher, text)
            return True
    return False




def _closes_string(matcher: Matcher, quote: int) -> bool:
    """Write a shortest rest of the open string, quote included, in printable ASCII; say whether one was found."""
    kernel, _ = matcher.constraint.place()
    return _goes(matcher, _PLAIN, lambda state: kernel.step_byte(state, quote) != 0, bytes([quote]))


def _ends(matcher: Matcher) -> bool:
    """Write a shortest rest of the text, in few characters if that can be, else in printable ASCII; say whether one was
    found.
    """
    kernel, _ = matcher.constraint.place()
    return any(_goes(matcher, alphabet, kernel.is_final, b"") for alphabet in (_FEW, _PRINTABLE))


def _goes(matcher: Matcher, alphabet: bytes, is_goal: Callable[[int], bool], then: bytes) -> bool:
    """Write the shortest text over some bytes that leads to a goal, and what comes `then`; say whether one was
    found.
    """
    kernel, begin = matcher.constraint.place()
    start = kernel.step_bytes(begin, matcher.text())
    came: dict[int, tuple[int, int]] = {start: (start, 0)}  # state → the state before it, and the byte between them
    for state in (queue := [start]):
        if is_goal(state):
            path = bytearray()
            while state != start:
                state, byte = came[state]
                path.append(byte)
            _advance(matcher, bytes(reversed(path)) + then)
            return True
        if len(queue) > MOST_STATES or kernel.is_full():
            break
        for byte in alphabet:
            after = kernel.step_byte(state, byte)
            if after and after not in came:
                came[after] = state, byte
                queue.append(after)
    return False


def _advance(matcher: Matcher, text: bytes) -> None:
    for token in matcher.constraint.vocabulary.tokenize(text):
        matcher.advance(token)


_PRINTABLE = bytes(range(0x20, 0x7F))
_FEW = b"[]{}\",:01anulltruefalse"
_PLAIN = bytes(byte for byte in _PRINTABLE if byte not in b"\"'\\")


_COMPLETE = re.compile(rb"(?:[^\"']|\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+')*+", re.DOTALL)


def _open_quote(text: bytes) -> int | None:
    """Return the quote of the string in which a text ends; None: it ends outside."""
    found = _COMPLETE.match(text)
    assert found is not None
    return text[found.end()] if found.end() < len(text) else None


def check(
    schema: Any, vocabulary: Vocabulary, drawer: Drawer, options: argparse.Namespace, tally: Tally, name: str
) -> None:
    """Walk through one schema."""
    try:
        constraint = compile(Grammar.from_json_schema(schema), vocabulary)
    except ConstrainedError as error:
        tally.schemas[REFUSED] += 1
        tally.note(f"{name}: refused: {error.what}")
        return
    tally.schemas["walked"] += 1
    validator, names = _validator(schema), needed_names(schema)
    for number in range(options.walks):
        matcher = constraint.matcher()
        try:
            outcome = walk(
                matcher, drawer, random.Random(f"{options.seed} {number} {name}"), options.tokens, names, validator
            )
        except ConstrainedError as error:
            outcome = f"error: {type(error).__name__}"
            tally.note(f"{name}: {error} after {matcher.text()!r}")
        if outcome in (DEAD_END, UNFINISHED):
            tally.note(f"{name}: {outcome} after {len(matcher.text())} bytes … {matcher.text()[-200:]!r}")
        elif outcome == FINISHED and (reason := invalid(validator, matcher.text())):
            outcome = INVALID
            tally.note(f"{name}: {reason}: {matcher.text()[:600]!r}")
        tally.walks[outcome] += 1
        tally.tokens += len(matcher.tokens)


def invalid(validator: Any, text: bytes) -> str:
    """Say why a text is not a valid value's; "" if it is."""
    try:
        value = json.loads(text, parse_float=read_number, parse_int=read_number)
    except OverflowError:
        return ""
    except ValueError as error:
        return str(error)
    try:
        found = next(validator.iter_errors(value), None)
    except Exception as error:  # jsonschema meets patterns and references that it cannot read; it then has no say
        return "" if type(error).__name__ else str(error)
    return "" if found is None else f"{found.message[:200]} ({found.json_path})"


def _validator(schema: Any) -> Any:
    from jsonschema import Draft202012Validator, validators

    declares = isinstance(schema, dict) and "$schema" in schema
    return (
        validators.validator_for(schema, default=Draft202012Validator)(schema)
        if declares
        else Draft202012Validator(schema)
    )


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a file of schemas."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


@lru_cache
def _vocabulary(name: str) -> Vocabulary:
    found = {"llama3": vocabularies.llama3, "embedded": vocabularies.embedded, "bytes": bytes_vocabulary}[name]()
    return found or vocabularies.embedded()


def main(arguments: Sequence[str] | None = None) -> int:
    """Walk through the schemas of a file and print the counts; return 1 if a walk met a dead end or wrote something
    invalid.
    """
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("schemas", type=Path)
    parser.add_argument("--walks", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=60)
    parser.add_argument("--vocabulary", choices=("llama3", "embedded", "bytes"), default="llama3")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="part of an id")
    options = parser.parse_args(arguments)
    vocabulary, tally = _vocabulary(options.vocabulary), Tally()
    drawer = Drawer(vocabulary)
    for number, row in enumerate(rows(options.schemas)):
        if number % 50 == 0:
            print(f"{number} schemas, {dict(tally.walks)}", file=sys.stderr, flush=True)
        if options.only in row["id"]:
            check(row["schema"], vocabulary, drawer, options, tally, row["id"])
    print(f"schemas: {dict(tally.schemas)}; walks: {dict(tally.walks)}; {tally.tokens:,} tokens")
    return 1 if set(tally.walks) - {FINISHED} else 0


if __name__ == "__main__":
    sys.exit(main())
