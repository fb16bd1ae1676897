"""What do large bounds cost?  The same schema from small to large: compile time, and masks read along one text.

    python -m constrained.benchmarks.cliffs [--record FOLDER] [--only maxLength]

A case is a family of schemas and a size.  Every repetition compiles afresh and reads the case's text twice: the first
pass is *cold* (only what belongs to the vocabulary is warm), the second *warm*.  The time of a position is the least of
all repetitions, so that other people's load does not look like a cliff; compile time is the processor's, since it
outlasts a time slice.  The percentiles are over positions.  Each figure stands next to its ratio to the family's
smallest case.

In *linear* families the schema itself grows, and so must the time to read it: there, compile time is compared per
entry.  A text is never shorter than it can be: large cases read more tokens than small ones, and those of a nested case
lie deep.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns, thread_time_ns
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from constrained import Grammar, Vocabulary, compile

from . import vocabularies
from .engines import forget_grammars
from .speed import default_record, machine

REPETITIONS = 7
PATIENCE = 10.0  # seconds after which a case is not repeated
LIMIT = 3.0  # × the smallest case
FIGURES = ("compile", "cold p50", "cold p99", "warm p50", "warm p99")
_PROSE = "The train to Bergen leaves at 08:25 from platform 4, bring a coat and something to read. "
_LETTERS = "the train to bergen leaves from platform four in the morning "


@dataclass(frozen=True, slots=True)
class Family:
    """Schemas of one kind in several sizes."""

    name: str
    sizes: tuple[int, ...]
    schema: Callable[[int], Any]
    text: Callable[[int], str]
    linear: bool = False


def _object(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False, **more}


def _filled(text: str, size: int, most: int = 2_000) -> str:
    length = min(size, most)
    return json.dumps((text * (length // len(text) + 1))[:length])


def _optional(size: int) -> dict[str, Any]:
    return _object(
        {f"field_{number:04}": {"type": ("string", "integer", "boolean")[number % 3]} for number in range(size)}
    )


def _optional_text(size: int) -> str:
    chosen = range(0, size, max(1, size // 10))
    return json.dumps({f"field_{number:04}": ("text", 7, True)[number % 3] for number in chosen})


def _sampled(values: Sequence[Any]) -> str:
    return json.dumps(random.Random(1).choices(values, k=20))


def _numbers_text(size: int) -> str:
    picks = random.Random(1)
    return json.dumps([picks.randint(-size, size) for _ in range(30)])


def _nested(size: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for level in range(size):
        schema = _object({f"a{level % 10}": schema}, required=[f"a{level % 10}"])
    return schema


def _nested_text(size: int) -> str:
    return "".join(f'{{"a{level % 10}": ' for level in reversed(range(size))) + "7" + "}" * size


def _definitions(size: int) -> dict[str, Any]:
    definitions = {
        f"node_{number}": _object(
            {"value": {"type": "integer"}, "next": {"$ref": f"#/$defs/node_{(number * 7 + 1) % size}"}}
        )
        for number in range(size)
    }
    return {"$ref": "#/$defs/node_0", "$defs": definitions}


FAMILIES = (
    Family(
        "maxLength",
        (10, 100, 1_000, 10_000, 100_000),
        lambda n: {"type": "string", "maxLength": n},
        lambda n: _filled(_PROSE, n),
    ),
    Family(
        "minLength",
        (10, 100, 1_000, 10_000),
        lambda n: {"type": "string", "minLength": n},
        lambda n: _filled(_PROSE, n, n),
    ),
    Family(
        "pattern {1,N}",
        (10, 100, 1_000, 10_000, 100_000),
        lambda n: {"type": "string", "pattern": f"^[a-z ]{{1,{n}}}$"},
        lambda n: _filled(_LETTERS, n),
    ),
    Family(
        "maxItems",
        (10, 100, 1_000, 10_000, 100_000),
        lambda n: {"type": "array", "items": {"type": "integer"}, "maxItems": n},
        lambda n: json.dumps([7 * number for number in range(min(n, 500))]),
    ),
    Family(
        "uniqueItems, maxItems",
        (10, 100, 1_000),
        lambda n: {"type": "array", "items": {"type": "integer"}, "uniqueItems": True, "maxItems": n},
        lambda n: json.dumps([7 * number for number in range(min(n, 100))]),
    ),
    Family(
        "|integer| <= N",
        (10, 1_000, 10**6, 10**12, 10**18, 10**100),
        lambda n: {"type": "array", "items": {"type": "integer", "minimum": -n, "maximum": n}},
        _numbers_text,
    ),
    Family("optional properties", (10, 30, 100, 300, 1_000), _optional, _optional_text, linear=True),
    Family(
        "enum",
        (10, 100, 1_000, 10_000),
        lambda n: {"type": "array", "items": {"enum": [f"value-{i:05}" for i in range(n)]}},
        lambda n: _sampled([f"value-{i:05}" for i in range(n)]),
        linear=True,
    ),
    Family("depth", (10, 30, 100, 300, 1_000), _nested, _nested_text, linear=True),
    Family(
        "$defs",
        (10, 100, 1_000, 5_000),
        _definitions,
        lambda n: '{"value": 1, "next": ' * 10 + "{}" + "}" * 10,
        linear=True,
    ),
)


def measure(
    families: Sequence[Family], vocabulary: Vocabulary, repetitions: int = REPETITIONS
) -> Iterator[dict[str, Any]]:
    """Yield a row per case: times in microseconds, and `ratios` to the family's smallest case."""
    for family in families:
        smallest: Mapping[str, float] | None = None
        _times(family, family.sizes[0], vocabulary, 1)  # warms what belongs to the vocabulary
        for size in family.sizes:
            figures = _times(family, size, vocabulary, repetitions)
            compared = figures | ({"compile": figures["compile"] / size} if family.linear else {})
            smallest = smallest or compared
            ratios = {name: round(compared[name] / smallest[name], 2) for name in FIGURES}
            print(family.name, size, ratios, file=sys.stderr)
            yield {
                "family": family.name,
                "size": float(size) if size > 1 << 60 else size,
                "linear": family.linear,
                **figures,
                "ratios": ratios,
            }


def _times(family: Family, size: int, vocabulary: Vocabulary, repetitions: int) -> dict[str, float]:
    schema, tokens = family.schema(size), vocabulary.tokenize(family.text(size).encode())
    bitmask = np.zeros((1, vocabulary.words), np.int32)
    compiles, passes = [], []
    spent = 0.0
    for _ in range(repetitions):
        if spent > PATIENCE:
            break
        forget_grammars(vocabulary)  # else small schemas would be found again, and large ones would not
        gc.collect()
        gc.disable()
        started, ran = perf_counter_ns(), thread_time_ns()
        constraint = compile(Grammar.from_json_schema(schema), vocabulary)
        compiles.append(thread_time_ns() - ran)
        passes.append([_pass(constraint.matcher(), tokens, bitmask) for _ in range(2)])
        gc.enable()
        spent += (perf_counter_ns() - started) / 1e9
    cold, warm = np.min(np.array(passes), axis=0) / 1e3  # (repetitions, 2, tokens) → (2, tokens)
    figures = {"compile": min(compiles) / 1e3, "tokens": len(tokens)}
    for name, values in (("cold", cold), ("warm", warm)):
        figures |= {f"{name} p{percent}": float(np.percentile(values, percent)) for percent in (50, 99)}
    return {name: round(value, 3) for name, value in figures.items()}


def _pass(matcher: Any, tokens: Sequence[int], bitmask: Any) -> list[int]:
    """Return the nanoseconds of each mask along a text, which must be accepted."""
    times = []
    words = bitmask.view(np.uint32)[0]
    for token in tokens:
        started = perf_counter_ns()
        matcher.fill_mask(bitmask)
        times.append(perf_counter_ns() - started)
        if not int(words[token >> 5]) >> (token & 31) & 1:
            raise AssertionError(f"the mask after {matcher.text()[-80:]!r} forbids {token}")
        matcher.advance(token)
    if not matcher.is_accepting():
        raise AssertionError(f"{matcher.text()[-80:]!r} is not accepted")
    return times


def print_table(rows: Sequence[Mapping[str, Any]], title: str) -> None:
    """Print the figures in microseconds with their ratios; a ratio beyond the limit ends in "!"."""
    console = Console(width=None if Console().is_terminal else 140, markup=False, highlight=False, emoji=False)
    table = Table("family", "size", "tokens", "compile, ms", *(f"{name}, µs" for name in FIGURES[1:]), title=title)
    family = None
    for row in rows:
        if family not in (None, row["family"]):
            table.add_section()
        family = row["family"]
        cells = [
            _cell(row["compile"] / 1e3, row["ratios"]["compile"], row["linear"]),
            *(_cell(row[name], row["ratios"][name]) for name in FIGURES[1:]),
        ]
        table.add_row(
            family, f"{row['size']:,}" if row["size"] < 1e7 else f"{row['size']:.0e}", str(row["tokens"]), *cells
        )
    console.print(table)


def _cell(value: float, ratio: float, per_entry: bool = False) -> str:
    return f"{value:,.2f}  ×{ratio:.2f}{' per entry' if per_entry else ''}{' !' if ratio > LIMIT else ''}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, and write the dated record; return 1 if a case costs more than the limit."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--record", type=Path, default=default_record())
    parser.add_argument("--only", default="", help="part of a family's name")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    options = parser.parse_args(arguments)
    vocabulary, name = vocabularies.llama3(), "Llama 3"
    if vocabulary is None:
        vocabulary, name = vocabularies.embedded(), "embedded (llama-models is not installed)"
    rows = list(
        measure([family for family in FAMILIES if options.only in family.name], vocabulary, options.repetitions)
    )
    meta = machine(name, vocabulary, [])
    print_table(rows, f"{meta['vocabulary']}; {meta['machine']}; load {meta['load']}; × the smallest case")
    if options.record is not None and not options.only:
        options.record.mkdir(parents=True, exist_ok=True)
        stamp = meta["date"].replace(":", "").replace("+0000", "Z")
        (options.record / f"cliffs-{stamp}.jsonl").write_text(
            "\n".join(map(json.dumps, [meta, *rows])) + "\n", encoding="utf-8"
        )
    return 1 if any(ratio > LIMIT for row in rows for ratio in row["ratios"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
