"""Does every bomb work, or end soon with an error that names the place?

    python -m constrained.benchmarks.bombs [--only ID] [--sample N --seed S] [--update]

The table is described in `bomb_inputs`.  A row runs in a process of its own, forked from one that has loaded the
package and the vocabulary (Llama 3's where it is installed): the grammar is made, compiled, its first mask filled, and
`STEPS` allowed tokens are taken, chosen by a seeded draw.  What is counted is the processor time of all that and the
most memory beyond what the process began with.

A row fails if its outcome or place is not the one in the table, if its message is longer than `LONGEST` bytes, or if it
takes more than `MOST_SECONDS` or `MOST_MEGABYTES`.  It also fails if an error comes after `compile`, in a mask or a
step, printed as "late", where the row does not say why it must.  ``--update`` writes outcomes, places and units of work
into the table: to be read before it is committed.
Cost: 0.1 s a row.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from constrained import ChatFormat, ConstrainedError, Constraint, Grammar, Vocabulary, caches, compile, work
from constrained.errors import (
    BitmaskError,
    GrammarError,
    LimitExceeded,
    NothingAllowed,
    Rejected,
    SchemaError,
    UnsupportedSchema,
    VocabularyError,
)

from . import vocabularies
from .bomb_inputs import Bomb, build, read, write

STEPS = 20
MOST_SECONDS = 2.0
MOST_MEGABYTES = 300.0
LONGEST = 2048  # bytes of a message
STOPPED_AFTER = 20  # seconds of processor time
_OUTCOMES: tuple[tuple[type[ConstrainedError], str], ...] = (
    (UnsupportedSchema, "unsupported"),
    (SchemaError, "schema-error"),
    (GrammarError, "grammar-error"),
    (LimitExceeded, "limit"),
    (Rejected, "rejected"),
    (VocabularyError, "vocabulary-error"),
    (NothingAllowed, "nothing-allowed"),
    (BitmaskError, "bitmask-error"),
    (ConstrainedError, "error"),
)


@dataclass(frozen=True, slots=True)
class Run:
    """What became of a row."""

    outcome: str  # as in the table; "raw TypeError" and "killed by 9" are never right
    where: str | None
    message: str
    work: int
    seconds: float
    megabytes: float
    late: bool = False  # the error came in generation: `compile` had let the grammar pass

    def faults(self, bomb: Bomb) -> list[str]:
        """Return what is wrong, in words."""
        found = []
        if self.outcome != bomb.outcome:
            found.append(f"{self.outcome}, not {bomb.outcome}: {self.message[:300]}")
        elif (
            (bomb.where is None) != (self.where is None) or bomb.where is not None and bomb.where not in str(self.where)
        ):
            found.append(f"at {self.where!r}, not {bomb.where!r}")
        if self.late and bomb.late is None:
            found.append(f"an error in generation, not before it: {self.message[:300]}")
        if len(self.message.encode("utf-8", "replace")) > LONGEST:
            found.append(f"a message of {len(self.message):,} characters")
        if self.seconds > MOST_SECONDS:
            found.append(f"{self.seconds:.1f} s")
        if self.megabytes > MOST_MEGABYTES:
            found.append(f"{self.megabytes:.0f} MB")
        return found


def grammar_of(bomb: Bomb, given: Any, vocabulary: Vocabulary) -> Grammar:
    """Return the grammar that the row asks for, of a text or messages behind reading or writing them."""
    options = {name: build(value) for name, value in bomb.options.items() if name not in ("format", "then", "tools")}
    if bomb.kind == "schema":
        return Grammar.from_json_schema(given, **options)
    if bomb.kind == "pattern":
        return Grammar.from_regex(given, **options)
    if bomb.kind == "lark":
        return Grammar.from_lark(given, **options)
    chat = ChatFormat.load(given if bomb.kind == "format" else bomb.options.get("format", "hermes"))
    tools = build(bomb.options.get("tools"))
    if bomb.kind == "stream":
        stream, size = chat.stream_parser(tools), options.get("size", 1)
        for start in range(0, len(given), size):
            stream.feed(given[start : start + size])
        stream.close()
    if bomb.kind == "messages":
        chat.render_text(given, tools, **options)
        chat.loss_mask(given, vocabulary, tools, **options)
    if bomb.kind in ("stream", "messages"):
        return Grammar.choice(["read"])
    if bomb.kind == "text":
        chat.parse(given, tools, **options)
    return chat.grammar(given if bomb.kind == "tools" else tools, **options)


def walk(constraint: Constraint, seed: str) -> None:
    """Fill a mask, and take up to `STEPS` tokens that the masks allow."""
    matcher, vocabulary = constraint.matcher(), constraint.vocabulary
    picks = random.Random(seed)
    bitmask = np.zeros((1, vocabulary.words), np.int32)
    for _ in range(STEPS):
        matcher.fill_mask(bitmask)
        allowed = np.flatnonzero(np.unpackbits(bitmask[0].view(np.uint8), bitorder="little"))
        if matcher.is_finished() or not len(allowed):
            break
        matcher.advance(int(picks.choice(allowed)))


def attempt(bomb: Bomb, given: Any, vocabulary: Vocabulary) -> tuple[str, str | None, str, bool]:
    """Return the outcome, the place, the message, and whether generation had begun; `given` is the input that the row
    describes.
    """
    begun = False
    try:
        grammar = grammar_of(bomb, given, vocabulary)
        if bomb.options.get("then") == "to_lark":
            grammar.to_lark()
        constraint = compile(grammar, vocabulary, spell_missing=True)
        begun = True
        walk(constraint, bomb.id)
    except ConstrainedError as error:
        return next(name for kind, name in _OUTCOMES if isinstance(error, kind)), error.where, str(error), begun
    except Exception as error:
        return f"raw {type(error).__name__}", None, str(error), begun
    return "works", None, "", False


def run(bomb: Bomb, vocabulary: Vocabulary, before: Sequence[Bomb] = (), held: int = 0) -> Run:
    """Run a row in a forked process, behind some others, and with so many bytes in the caches of the process."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        try:
            _run_here(bomb, vocabulary, writing, before, held)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    _, status, used = os.wait4(child, 0)
    if not said:
        name = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}"
        return Run(f"killed by {name}", None, "", 0, used.ru_utime + used.ru_stime, 0)
    return Run(*json.loads(said))


def _run_here(bomb: Bomb, vocabulary: Vocabulary, writing: int, others: Sequence[Bomb], held: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (STOPPED_AFTER, STOPPED_AFTER + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    spent = watched()
    given = build(bomb.input)
    for other in others:
        attempt(other, build(other.input), vocabulary)
    caches.charge(max(held - caches.held(), 0))
    first = spent()
    before, seconds = _megabytes("VmRSS"), _seconds()
    outcome, where, message, late = attempt(bomb, given, vocabulary)
    seconds = _seconds() - seconds
    found = (outcome, where, message, spent() - first, round(seconds, 3), round(_megabytes("VmHWM") - before, 1), late)
    os.write(writing, json.dumps(found).encode())  # ASCII, and below the size of a pipe


def watched() -> Callable[[], int]:
    """Return what says how many units of work the budgets of this process have lost by now."""
    taken: Callable[[], int] | None = getattr(work, "taken", None)
    if taken is not None:  # compiled budgets count themselves
        return taken
    spent, slot = [0], work.PlainBudget.__dict__["left"]

    def set_left(budget: work.Budget, left: int) -> None:
        spent[0] += max(slot.__get__(budget) - left, 0) if budget in known else 0
        known.add(budget)
        slot.__set__(budget, left)

    known: set[work.Budget] = set()
    work.PlainBudget.left = property(slot.__get__, set_left)  # type: ignore[assignment]
    return lambda: spent[0]


def _seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _megabytes(field: str) -> float:
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field + ":"))


def sample(bombs: list[Bomb], count: int, seed: int) -> list[Bomb]:
    """Return a seeded sample in the order of the table."""
    chosen = set(random.Random(seed).sample(range(len(bombs)), min(count, len(bombs))))
    return [bomb for index, bomb in enumerate(bombs) if index in chosen]


def _print(line: str) -> None:
    """Print a line that may quote what no terminal shows."""
    print(line.encode("ascii", "backslashreplace").decode(), flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the table; return 1 if a row fails."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="part of an id")
    parser.add_argument("--sample", type=int, help="so many rows, drawn with --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--update", action="store_true", help="write what comes out into the table")
    options = parser.parse_args(arguments)
    vocabulary = vocabularies.llama3() or vocabularies.embedded()
    _ = vocabulary.trie
    gc.freeze()  # what a collection looks at, a forked process copies
    bombs = list(read(only="" if options.update else options.only))
    chosen = bombs if options.sample is None else sample(bombs, options.sample, options.seed)
    failed, updated = 0, []
    for bomb in chosen:
        if options.only not in bomb.id:
            updated.append(bomb)
            continue
        found = run(bomb, vocabulary)
        if options.update:
            bomb = replace(bomb, outcome=found.outcome, where=found.where, work=found.work)
        updated.append(bomb)
        faults = found.faults(bomb)
        failed += bool(faults)
        _print(
            f"{bomb.id:<44} {'late ' * found.late + found.outcome:<14} {found.work:>10,} units {found.seconds:6.2f} s "
            f"{found.megabytes:6.0f} MB  {found.where or ''}"[
                :200
            ]
        )
        for fault in faults:
            _print(f"    FAILS: {fault}")
    if options.update:
        write(updated)
    print(f"{failed} of {len(chosen)} rows fail; at most {MOST_SECONDS} s and {MOST_MEGABYTES:.0f} MB are allowed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
