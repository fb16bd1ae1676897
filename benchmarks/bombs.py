"""Does every bomb work, or end soon with an error that names the place?

    python -m constrained.benchmarks.bombs [--only ID] [--sample N --seed S] [--operations] [--update]

The table is described in `bomb_inputs`.  A row runs in a process of its own, forked from one that has loaded the
package and the vocabulary (Llama 3's where it is installed): the grammar is made, compiled, its first mask filled, and
`STEPS` allowed tokens are taken, chosen by a seeded draw.  What is counted is the processor time of all that, the most
memory beyond what the process began with, and the longest stretch for which no other thread got a turn
(`stretches`).

A row fails if its outcome or place is not the one in the table, if its message is longer than `LONGEST` bytes, or if it
takes more than `MOST_SECONDS`, `MOST_MEGABYTES`, `MOST_MICROSECONDS` a unit of work or `MOST_STRETCH`.  It also fails
if an error comes after `compile`, in a mask or a step, printed as "late", where the row does not say why it must.
With --operations what else can be asked of each row is counted as well, each thing in a process that has made the
grammar and its constraint and nothing else: `OPERATIONS`.  ``--update`` writes outcomes, places and units of work into
the table: to be read before it is committed.
Cost: 0.1 s a row; with --operations 1.
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
import traceback
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from constrained import ChatFormat, ConstrainedError, Constraint, Grammar, Matcher, Vocabulary, caches, compile, work
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
from .stretches import watched_stretches

STEPS = 20
MOST_SECONDS = 2.0
MOST_MEGABYTES = 300.0
MOST_MICROSECONDS = 1.5  # a unit of work, of what takes `TELLING` seconds or more
MOST_STRETCH = 0.020  # seconds of processor time without a turn for other threads
TELLING = 0.2
LONGEST = 2048  # bytes of a message
STOPPED_AFTER = 20  # seconds of processor time
MOST_ADDRESSED = 4 << 30  # bytes beyond what the process had, so that what has no bound ends itself
Outcome = tuple[str, str | None, str, bool]  # what became of it, the place, the message, whether generation had begun
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
    stretch: float = 0.0  # seconds, see `stretches`
    collection: float = 0.0

    def excess(self) -> list[str]:
        """Return what is too much, in words."""
        found = []
        if self.outcome.startswith(("raw", "killed")):
            found.append(f"{self.outcome}: {self.message[:300]}")
        if len(self.message.encode("utf-8", "replace")) > LONGEST:
            found.append(f"a message of {len(self.message):,} characters")
        if self.seconds > MOST_SECONDS:
            found.append(f"{self.seconds:.1f} s")
        if self.seconds > TELLING and self.seconds * 1e6 > MOST_MICROSECONDS * self.work:
            found.append(f"{self.seconds * 1e6 / max(self.work, 1):.1f} µs a unit")
        if self.megabytes > MOST_MEGABYTES:
            found.append(f"{self.megabytes:.0f} MB")
        if self.stretch > MOST_STRETCH:
            found.append(f"a stretch of {1e3 * self.stretch:.0f} ms")
        return found

    def faults(self, bomb: Bomb) -> list[str]:
        """Return what is wrong with a row of the table, in words."""
        found = []
        if self.outcome != bomb.outcome:
            found.append(f"{self.outcome}, not {bomb.outcome}: {self.message[:300]}")
        elif (
            (bomb.where is None) != (self.where is None) or bomb.where is not None and bomb.where not in str(self.where)
        ):
            found.append(f"at {self.where!r}, not {bomb.where!r}")
        if self.late and bomb.late is None:
            found.append(f"an error in generation, not before it: {self.message[:300]}")
        return found + self.excess()


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


def walk(constraint: Constraint, seed: str, budget: int | None = None) -> Matcher:
    """Fill a mask, and take up to `STEPS` tokens that the masks allow."""
    matcher, vocabulary = constraint.matcher(budget=budget), constraint.vocabulary
    picks = random.Random(seed)
    bitmask = np.zeros((1, vocabulary.words), np.int32)
    for _ in range(STEPS):
        matcher.fill_mask(bitmask)
        allowed = np.flatnonzero(np.unpackbits(bitmask[0].view(np.uint8), bitorder="little"))
        if matcher.is_finished() or not len(allowed):
            break
        matcher.advance(int(picks.choice(allowed)))
    return matcher


def attempt(bomb: Bomb, given: Any, vocabulary: Vocabulary) -> Outcome:
    """Make the grammar and walk; `given` is the input that the row describes."""
    begun = False

    def tried() -> None:
        nonlocal begun
        grammar = grammar_of(bomb, given, vocabulary)
        if bomb.options.get("then") == "to_lark":
            grammar.to_lark()
        constraint = compile(grammar, vocabulary, spell_missing=True)
        begun = True
        walk(constraint, bomb.id)

    outcome, where, message = outcome_of(tried)
    return outcome, where, message, begun and outcome != "works"


def outcome_of(call: Callable[[], object]) -> tuple[str, str | None, str]:
    """Return what became of a call, the error's place, and its message."""
    try:
        call()
    except ConstrainedError as error:
        return next(name for kind, name in _OUTCOMES if isinstance(error, kind)), error.where, str(error)
    except Exception as error:
        return f"raw {type(error).__name__}", None, str(error)
    return "works", None, ""


# -- what else can be asked --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asked:
    """A row, its grammar and constraint, its schemas as tools, and a turn that calls one of these."""

    bomb: Bomb
    grammar: Grammar
    constraint: Constraint
    tools: list[Any] | None
    arguments: str

    @property
    def turn(self) -> str:
        assert self.tools is not None
        name = self.tools[0].get("function", self.tools[0])["name"]
        return f'<tool_call>\n{{"name": {json.dumps(name)}, "arguments": {self.arguments}}}\n</tool_call><|im_end|>'

    def stream(self) -> None:
        reader, turn = ChatFormat.load("hermes").stream_parser(self.tools), self.turn
        for start in range(0, len(turn), 3):
            reader.feed(turn[start : start + 3])
        reader.close()

    def render(self) -> None:
        call = {"type": "function", "function": {"name": "f", "arguments": self.arguments}}
        messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "", "tool_calls": [call]}]
        ChatFormat.load("hermes").render_text(messages, self.tools)


OPERATIONS: dict[str, Callable[[Asked], object]] = {
    "min_tokens": lambda asked: asked.constraint.min_tokens,
    "shortest_completion": lambda asked: walk(asked.constraint, asked.bomb.id).shortest_completion(),
    "budget": lambda asked: walk(asked.constraint, asked.bomb.id, asked.constraint.min_tokens + 10),
    "count": lambda asked: asked.constraint.count(16),
    "sample": lambda asked: asked.constraint.sample(random.Random(asked.bomb.id), 32),
    "to_lark": lambda asked: asked.grammar.to_lark(),
}
OF_TOOLS: dict[str, Callable[[Asked], object]] = {
    "parse": lambda asked: ChatFormat.load("hermes").parse(asked.turn, asked.tools),
    "stream": Asked.stream,
    "render": Asked.render,
}


def asked_of(bomb: Bomb, vocabulary: Vocabulary) -> list[tuple[Any, ...]]:
    """Return each operation on a row, and what became of it; none, where it has no constraint.

    To be called in a process of its own, as the row's grammar and constraint stay in its caches.
    """
    given = build(bomb.input)
    try:
        grammar = grammar_of(bomb, given, vocabulary)
        constraint = compile(grammar, vocabulary, spell_missing=True)
    except Exception:
        return []  # told by the row itself
    tools = given if bomb.kind == "tools" else [{"name": "f", "parameters": given}] if bomb.kind == "schema" else None
    shortest = forked(lambda: _shortest(constraint)) if bomb.kind == "schema" else None
    asked = Asked(bomb, grammar, constraint, tools, shortest[0] if isinstance(shortest, list) else "{}")
    operations = {**OPERATIONS, **(OF_TOOLS if tools else {})}
    gc.freeze()  # as in `main`
    return [(name, *astuple(run_of(partial(operation, asked)))) for name, operation in operations.items()]


def _shortest(constraint: Constraint) -> list[str]:
    try:
        return [constraint.vocabulary.decode(constraint.matcher().shortest_completion()).decode()]
    except Exception:
        return ["{}"]


# -- processes ---------------------------------------------------------------------------------------------------------


def run(bomb: Bomb, vocabulary: Vocabulary, before: Sequence[Bomb] = (), held: int = 0) -> Run:
    """Run a row in a forked process, behind some others, and with so many bytes in the caches of the process."""

    def here() -> Run:
        given = build(bomb.input)
        built = replace(bomb, options={name: build(value) for name, value in bomb.options.items()})
        for other in before:
            attempt(other, build(other.input), vocabulary)
        caches.charge(max(held - caches.held(), 0))
        return measured(lambda: attempt(built, given, vocabulary))

    return _told(forked(lambda: astuple(here())))


def run_of(call: Callable[[], object]) -> Run:
    """Run something in a forked process."""
    return _told(forked(lambda: astuple(measured(lambda: (*outcome_of(call), False)))))


def _told(said: Any) -> Run:
    return Run(*said) if isinstance(said, list) else Run(said, None, "", 0, 0, 0)


def forked(call: Callable[[], object]) -> Any:
    """Return what a call returns in a forked process, as JSON has it; a text: what the process died of."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (STOPPED_AFTER, STOPPED_AFTER + 1))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            addressed = (int(_megabytes("VmSize")) << 20) + MOST_ADDRESSED
            hard = resource.getrlimit(resource.RLIMIT_AS)[1]  # untouched, as what is forked in turn sets its own
            resource.setrlimit(resource.RLIMIT_AS, (addressed, hard))
            with os.fdopen(writing, "w", encoding="ascii") as pipe:
                pipe.write(json.dumps([call()]))
        except BaseException as error:
            traceback.print_exception(error)
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, encoding="ascii") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    if said:
        return json.loads(said)[0]
    name = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}"
    return f"killed by {name}"


def measured(attempted: Callable[[], Outcome]) -> Run:
    """Count what something takes; once in a process, as the most memory that it had cannot be forgotten."""
    spent = watched()
    first, before = spent(), _megabytes("VmRSS")
    with watched_stretches() as stretches:
        seconds = _seconds()
        outcome, where, message, late = attempted()
        seconds = _seconds() - seconds
    most = round(_megabytes("VmHWM") - before, 1)
    turns = round(stretches.longest, 4), round(stretches.collection, 4)
    return Run(outcome, where, message, spent() - first, round(seconds, 3), most, late, *turns)


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
    used = resource.getrusage(resource.RUSAGE_THREAD)  # those that watch have their own
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


def _ready(vocabulary: Vocabulary) -> None:
    """Have what is made once for a process or a vocabulary, so that it counts for no row."""
    easy = Bomb("easy", "tools", [{"name": "f", "parameters": {"maxProperties": 0}}], "works")
    grammar = grammar_of(easy, easy.input, vocabulary)
    asked = Asked(easy, grammar, compile(grammar, vocabulary, spell_missing=True), easy.input, "{}")
    for operation in (*OPERATIONS.values(), *OF_TOOLS.values()):
        outcome_of(partial(operation, asked))


def _tell(name: str, found: Run, faults: Sequence[str]) -> int:
    """Print a row; return 1 if it fails."""
    _print(
        f"{name:<56} {'late ' * found.late + found.outcome:<14} {found.work:>10,} units {found.seconds:6.2f} s "
        f"{found.megabytes:6.0f} MB {1e3 * found.stretch:5.0f} ms, {1e3 * found.collection:.0f} for the collector"
        f"  {found.where or ''}"[:100]
    )
    for fault in faults:
        _print(f"    FAILS: {fault}")
    return bool(faults)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the table; return 1 if a row fails."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="part of an id")
    parser.add_argument("--sample", type=int, help="so many rows, drawn with --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--operations", action="store_true", help="count what else can be asked of each row as well")
    parser.add_argument("--update", action="store_true", help="write what comes out into the table")
    options = parser.parse_args(arguments)
    vocabulary = vocabularies.llama3() or vocabularies.embedded()
    _ = vocabulary.trie
    _ready(vocabulary)
    work.full_collections.enabled = True  # as a server does
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
        failed += _tell(bomb.id, found, found.faults(bomb))
        if options.operations and found.outcome in ("works", "limit"):
            for operation, *asked in forked(partial(asked_of, bomb, vocabulary)):
                failed += _tell(f"{bomb.id}: {operation}", Run(*asked), Run(*asked).excess())
    if options.update:
        write(updated)
    print(
        f"{failed} faults in {len(chosen)} rows; allowed are {MOST_SECONDS} s, {MOST_MEGABYTES:.0f} MB, "
        f"{MOST_MICROSECONDS} µs a unit and stretches of {1e3 * MOST_STRETCH:.0f} ms"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
