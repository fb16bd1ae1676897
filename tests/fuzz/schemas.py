"""Random schemas, right and wrong: every one is compiled and walked, or refused by an error of the tree before anything
is generated.

    python -m tests.fuzz.schemas --inputs 60000 --seed 1

A schema is grown from all keywords with fitting and unfitting values, or resembles a document as people write them;
half of the time parts of it are then moved, replaced and renamed, or the bytes of its text are damaged.  What is
checked of each:

* an exception is one of the tree, worded in at most 2 KB; `LimitExceeded` says where;
* what `compile` lets pass is never refused later, where nothing else was known;
* along a walk, which is steered towards the end after some tokens, no mask is empty;
* the value that a walk has written is valid, as `jsonschema` sees it, and some small values are accepted where they are
valid, where
  the two have the same rules (`_judge`);
* the work is bounded: more than `SECONDS` of processor time is work that nothing counts.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import signal
import sys
import time
import warnings
from collections import Counter
from typing import Any

import jsonschema
import numpy as np

from constrained import Grammar, Matcher, Vocabulary, caches, compile
from constrained.errors import ConstrainedError, LimitExceeded, SchemaError
from constrained.work import Budget, metered

from .random_schemas import Schemas, parts

UNITS = 150_000  # of work for one schema
SECONDS = 4.0
STEPS = 8  # of a walk that are left to chance
TO_END = 60  # further ones
ENDINGS = b"}])\"',:0123456789"  # what a walk prefers that is to end: `find` of the empty text, of the stop token, is 0


def vocabulary() -> Vocabulary:
    """Return the bytes, and tokens that span the ends of keys, texts and items."""
    texts = [bytes([byte]) for byte in range(256)]
    texts += [
        text.encode()
        for text in (
            '"a',
            '"a"',
            '": ',
            '":',
            '", "',
            '"}',
            '"]',
            "}}",
            "]}",
            "},{",
            '{"',
            "[]",
            "{}",
            "[[",
            "true",
            "null",
            "10",
            ".5",
            "e1",
            "\\u00",
            '\\"',
            "ab",
            "abc",
            "name",
            '"name": ',
            "'a'",
            "', '",
            "True",
            "1, 2",
            "\\n",
            "  ",
            "\xe9",
        )
    ]
    return Vocabulary(texts, special={"<end>": len(texts)}, stop=[len(texts)], size=len(texts) + 1)


def check(schema: Any, options: dict[str, Any], words: Vocabulary, picks: random.Random, values: list[Any]) -> str:
    """Return the class of outcome: "works", "limit", "refused".

    Raises: AssertionError: a law is broken.  Any exception outside the tree passes through.
    """
    try:
        with metered(Budget(UNITS)):
            grammar = Grammar.from_json_schema(schema, **options)
            constraint = compile(grammar, words, max_work=UNITS)
    except ConstrainedError as error:
        _check_error(error)
        assert isinstance(error, (SchemaError, LimitExceeded)), type(error)
        return "limit" if isinstance(error, LimitExceeded) else "refused"
    try:
        written = _walk(constraint.matcher(), words, picks)
        judge = None if grammar.widened or options["surface"] != "json" else _judge(schema, options)
        # floats are judged
        if judge is not None and written is not None and not re.search(rb"[eE][+-]?[0-9]{3}", written):
            assert judge(json.loads(written)) is not False, f"{written!r} was written and is not valid"
        if judge is not None and options["property_order"] == "any" and not grammar.narrowed:
            _check_values(constraint, judge, values, options)
    except LimitExceeded as error:
        if _is_refused_anew(schema, options):
            return "passed by what was known"
        raise AssertionError(f"a limit met in a mask, not by compile: {error}") from error
    return "works"


def _is_refused_anew(schema: Any, options: dict[str, Any]) -> bool:
    """Say whether a process that knows nothing refuses a schema: then what others left behind let it pass, see
    `constrained.work`.
    """
    caches.clear()
    try:
        with metered(Budget(UNITS)):
            compile(Grammar.from_json_schema(schema, **options), vocabulary(), max_work=UNITS)
    except LimitExceeded:
        return True
    return False


def _check_error(error: ConstrainedError) -> None:
    length = len(str(error).encode("utf-8", "backslashreplace"))
    assert length <= 2048, f"a message of {length} bytes"
    assert not isinstance(error, LimitExceeded) or error.where, f"no place in {error}"


def _walk(matcher: Matcher, words: Vocabulary, picks: random.Random) -> bytes | None:
    """Return what a walk has written, None if it did not come to an end."""
    bitmask = np.zeros((1, words.words), np.int32)
    written = b""
    for step in range(STEPS + TO_END):
        matcher.fill_mask(bitmask)
        allowed = np.flatnonzero(np.unpackbits(bitmask[0].view(np.uint8), bitorder="little")).tolist()
        assert allowed, f"a dead end behind {written!r}"
        if step >= STEPS:
            token = min(allowed, key=lambda token: (ENDINGS.find((words.tokens[token] or b"")[:1]) % 99, token))
        else:
            longer = [token for token in allowed if token >= 256]
            token = picks.choice(longer if longer and picks.random() < 0.5 else allowed)
        matcher.advance(token)
        if token in words.stop:
            return written
        written += words.tokens[token] or b""
    return None


def _judge(schema: Any, options: dict[str, Any]) -> Any:
    """Return what says whether a value is valid, None where `jsonschema` follows other rules: in dialects, floats and
    patterns.
    """
    try:
        text = json.dumps(schema)
        if len(text) > 20_000 or re.search(
            r'"(?:\$schema|\$id|id|\$recursiveRef|\$dynamicRef|multipleOf|pattern|patternProperties|dependencies|definitions)"|'
            r"Infinity|NaN|\\ud|[0-9.]{17}|e[+-]?[0-9]{2}",
            text,
        ):
            return None
        if options["formats"] != "annotate" and '"format"' in text:
            return None
        if isinstance(schema, dict) and any(
            isinstance(part, dict) and isinstance(part.get("items"), list) for part in parts(schema)
        ):
            return None
        validator = jsonschema.Draft202012Validator(schema)
        validator.is_valid({"a": [1, {"b": "x"}]})
    except Exception:  # whatever a library says about nonsense
        return None

    def judge(value: Any) -> bool | None:
        try:
            return bool(validator.is_valid(value))
        except RecursionError:  # of an "if" that asks for itself and decides nothing
            return None

    return judge


def _check_values(constraint: Any, judge: Any, values: list[Any], options: dict[str, Any]) -> None:
    separators = (",", ":") if options["whitespace"] == "compact" else (", ", ": ")
    for value in values:
        text = json.dumps(value, ensure_ascii=False, separators=separators)
        if re.search(r"[\ud800-\udfff]|[0-9.]{17}|e[+-]?[0-9]{2}|\.0\b", text):
            continue
        kernel, start = constraint.place()
        state = kernel.step_bytes(start, text.encode())
        accepted = state != 0 and kernel.is_final(state)
        try:
            valid = judge(value)
        except Exception:  # as above
            return
        assert valid is None or accepted == valid, (
            f"{text}: {'accepted, not valid' if accepted else 'valid, not accepted'}"
        )


class Overdue(AssertionError):
    """More processor time than the work that was counted explains."""


def _overdue(*_: object) -> None:
    raise Overdue(f"more than {SECONDS} s")


def run(inputs: int, seed: int, *, timed: bool = False, keep_going: bool = False) -> Counter[str]:
    """Check so many schemas and return how often each outcome came.  timed: a schema that takes too long is an error,
    too.
    """
    schemas, words, outcomes = Schemas(seed), vocabulary(), Counter[str]()
    if timed:
        signal.signal(signal.SIGVTALRM, _overdue)
    for number in range(inputs):
        schema, options, values = schemas.make(), schemas.options(), [schemas.value() for _ in range(6)]
        began = time.process_time()
        try:
            if timed:
                signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                outcomes[check(schema, options, words, random.Random(number), values)] += 1
        except Exception as error:
            print(
                f"seed {seed}, input {number}: {type(error).__name__} {' '.join(str(error)[:300].split())}\n  {str(schema)[:1500]}\n  {options}",
                file=sys.stderr,
                flush=True,
            )
            if not keep_going:
                raise
            outcomes["FAILED"] += 1
        finally:
            if timed:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        outcomes["over 1 s"] += time.process_time() - began > 1
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    outcomes = run(options.inputs, options.seed, timed=True, keep_going=True)
    print(dict(outcomes))
    return int(outcomes["FAILED"] > 0)


if __name__ == "__main__":
    sys.exit(main())
