"""Random schemas, right and wrong: every one is compiled and walked, or refused by an error of the tree before anything
is generated.

    python -m tests.fuzz.schemas --inputs 60000 --seed 1

A schema is grown from all keywords with fitting and unfitting values, or resembles a document as people write them;
half of the time
parts of it are then moved, replaced and renamed, or the bytes of its text are damaged.  What is checked of each:

* an exception is one of the tree, worded in at most 2 KB; `LimitExceeded` says where;
* what `compile` lets pass is never refused later;
* along a walk, which is steered towards the end after some tokens, no mask is empty;
* the value that a walk has written is valid, as `jsonschema` sees it, and some small values are accepted where they are
valid, where
  the two have the same rules (`_judge`);
* the work is bounded: more than `SECONDS` of processor time is work that nothing counts.
"""

from __future__ import annotations

import argparse
import copy
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

from constrained import Grammar, Matcher, Vocabulary, compile
from constrained.errors import ConstrainedError, LimitExceeded, SchemaError
from constrained.work import Budget, metered

UNITS = 150_000  # of work for one schema
SECONDS = 4.0
STEPS = 8  # of a walk that are left to chance
TO_END = 60  # further ones
ENDINGS = b"}])\"',:0123456789"  # what a walk prefers that is to end: `find` of the empty text, of the stop token, is 0
KEYS = ("a", "b", "ab", "name", "é", "", "$ref", "x-1")
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
TEXTS = ("", "a", "ab", "abc", "1", "é\U0001f389", "a b\n\"\\/", "2024-02-29", "\ud800", "\x00")
NUMBERS = (0, 1, 2, 3, 10, -1, 1.5, 0.1, 1e-7, 1e300, -0.0, 2**31, 2**63, 10**30, 12345678901234567890, 5e-324)
SMALL = (0, 1, 2, 3, 5, 40, 1.0, 2**31, 10**400)
PATTERNS = (
    "^a",
    "b$",
    "^[ab]+$",
    "a.*b",
    "^(a|b){2,4}$",
    r"^\d+$",
    "[^a]",
    "x{3,}",
    "^(?!a)",
    "(",
    r"\p{L}",
    "^a.{3}b",
    "a{1,1000}",
    ".",
    "",
)
FORMATS = (
    "date",
    "date-time",
    "time",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uri",
    "uuid",
    "regex",
    "json-pointer",
    "duration",
    "idn-hostname",
    "odd",
)
DEBRIS: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1.5,
    "",
    "a",
    [],
    {},
    [[]],
    [1, "a"],
    {"a": 1},
    {"$ref": "#"},
    10**400,
    float("inf"),
    "\ud800",
    "#/$defs/d",
    [[[]]],
)
DIALECTS = (
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-04/schema#",
    "odd",
)
COUNTED = (
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minContains",
    "maxContains",
)
BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
ONE = (
    "not",
    "items",
    "contains",
    "additionalProperties",
    "additionalItems",
    "propertyNames",
    "if",
    "then",
    "else",
    "unevaluatedItems",
    "unevaluatedProperties",
)
MANY = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
NAMED = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions", "dependencies")
NAMES = (
    *COUNTED,
    *BOUNDS,
    *ONE,
    *MANY,
    *NAMED,
    "type",
    "enum",
    "const",
    "required",
    "dependentRequired",
    "uniqueItems",
    "pattern",
    "format",
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "$id",
    "$anchor",
    "$dynamicAnchor",
    "$schema",
    "title",
    "default",
    "nonsense",
)
REFERENCES = (
    "#",
    "#/$defs/d",
    "#",
    "#/$defs/d",
    "#/$defs/d",
    "#/properties/a",
    "#/items",
    "#d",
    "#/anyOf/0",
    "http://x/y",
    "#/definitions/a",
    "other.json",
    "#/$defs/d/items",
)
OPTIONS: dict[str, tuple[Any, ...]] = {
    "surface": ("json", "json", "python"),
    "whitespace": ("flexible", "canonical", "compact"),
    "spelling": ("any", "canonical"),
    "property_order": ("any", "any", "schema"),
    "unsupported": ("raise", "raise", "widen"),
    "formats": ("assert", "dialect", "annotate"),
}


class Schemas:
    """Random schemas; the same seed, the same schemas."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def make(self) -> Any:
        roll = self.random.random()
        schema = self.document(3) if roll < 0.25 else self.grown(self.random.randint(1, 4))
        if isinstance(schema, dict) and self.random.random() < 0.7:
            schema.setdefault("$defs", {"d": {"type": "string"}})
        if roll > 0.96:
            schema = self.deep(schema)
        while self.random.random() < 0.2:
            schema = self.mutated(schema)
        return self.damaged(schema) if self.random.random() < 0.1 else schema

    def options(self) -> dict[str, Any]:
        return {name: self.random.choice(values) for name, values in OPTIONS.items()}

    def value(self, depth: int = 2) -> Any:
        choose, roll = self.random.choice, self.random.random()
        if depth and roll < 0.2:
            return [self.value(depth - 1) for _ in range(self.random.randrange(4))]
        if depth and roll < 0.4:
            return {choose(KEYS): self.value(depth - 1) for _ in range(self.random.randrange(4))}
        return choose((None, True, False, choose(TEXTS), choose(TEXTS), choose(NUMBERS), choose(NUMBERS)))

    def grown(self, depth: int) -> Any:
        if depth <= 0:
            return self.random.choice(
                (
                    True,
                    False,
                    {},
                    {"type": self.random.choice(TYPES)},
                    {"const": self.value(1)},
                    {"enum": [self.value(1), self.value(2)]},
                )
            )
        schema: dict[str, Any] = {}
        if self.random.random() < 0.5:
            schema["type"] = self.random.choice(TYPES) if self.random.random() < 0.8 else self.random.sample(TYPES, 2)
        for name in self.random.choices(NAMES, k=self.random.randint(1, 4)):
            schema[name] = self.keyword(name, depth)
        return schema

    def keyword(self, name: str, depth: int) -> Any:
        choose, count = self.random.choice, self.random.randrange
        if name in COUNTED:
            return choose(SMALL)
        if name in BOUNDS:
            return choose(NUMBERS)
        if name in NAMED:
            keys = PATTERNS if name == "patternProperties" else ("d", "a") if name in ("$defs", "definitions") else KEYS
            return {choose(keys): self.grown(depth - 1) for _ in range(count(4))}
        if name in MANY and (name != "items" or count(4) == 0):
            return [self.grown(depth - 1) for _ in range(1 + count(4))]
        if name in ONE:
            return self.grown(depth - 1)
        plain: dict[str, Any] = {
            "type": choose(TYPES),
            "enum": [self.value() for _ in range(1 + count(4))],
            "const": self.value(),
            "uniqueItems": choose((True, True, False)),
            "required": list(dict.fromkeys(choose(KEYS) for _ in range(1 + count(3)))),
            "pattern": choose(PATTERNS),
            "format": choose(FORMATS),
            "dependentRequired": {choose(KEYS): [choose(KEYS)]},
            "$ref": choose(REFERENCES),
            "$dynamicRef": choose(REFERENCES),
            "$recursiveRef": "#",
            "$anchor": "d",
            "$dynamicAnchor": "d",
            "$id": choose(("http://x/y", "y", "#d", "")),
            "$schema": choose(DIALECTS),
        }
        return plain.get(name, choose(TEXTS))

    def document(self, depth: int) -> dict[str, Any]:
        """Return a schema as people write them: an object with described properties, shared definitions and tagged
        unions.
        """
        choose, roll = self.random.choice, self.random.random()
        if depth == 0 or roll < 0.3:
            return choose(
                (
                    {"type": "string", "description": "a text", "maxLength": 20},
                    {"type": "string", "enum": ["a", "b", "name"]},
                    {"type": "integer", "minimum": 0},
                    {"type": ["string", "null"]},
                    {"type": "number", "exclusiveMinimum": 0, "maximum": 100},
                    {"type": "string", "format": choose(FORMATS)},
                    {"type": "string", "pattern": choose(PATTERNS)},
                    {"type": "boolean", "default": False},
                    {"$ref": "#/$defs/d"},
                    {"const": "a"},
                )
            )
        if roll < 0.45:
            return {
                "type": "array",
                "items": self.document(depth - 1),
                "minItems": choose((0, 1, 2)),
                "uniqueItems": choose((True, False)),
            }
        if roll < 0.6:
            parts = [
                {
                    "type": "object",
                    "properties": {"a": {"const": tag}, "b": self.document(depth - 1)},
                    "required": ["a"],
                }
                for tag in ("x", "y")
            ]
            return {choose(("anyOf", "oneOf")): parts}
        keys = self.random.sample(KEYS, self.random.randint(1, 5))
        found = {
            "type": "object",
            "properties": {key: self.document(depth - 1) for key in keys},
            "required": keys[: self.random.randrange(3)],
        }
        if self.random.random() < 0.5:
            found["additionalProperties"] = choose((False, True, {"type": "integer"}))
        return {"$defs": {"d": self.document(depth - 2)}, **found} if depth > 2 else found

    def deep(self, schema: Any) -> Any:
        name = self.random.choice((*ONE, *MANY, *NAMED))
        for _ in range(self.random.choice((30, 300))):
            schema = {name: {"a": schema} if name in NAMED else [schema] if name in MANY else schema}
        return schema

    def mutated(self, schema: Any) -> Any:
        """Return a copy with one part replaced, moved, removed or renamed."""
        schema = copy.deepcopy(schema) if not _is_deep(schema) else schema
        places = [
            (part, key) for part in _parts(schema) for key in (part if isinstance(part, dict) else range(len(part)))
        ]
        if not places:
            return self.random.choice(DEBRIS)
        part, key = self.random.choice(places)
        kind = self.random.randrange(5)
        if kind == 0:
            part[key] = copy.deepcopy(self.random.choice(DEBRIS))
        elif kind == 1:
            other, at = self.random.choice(places)
            part[key] = copy.deepcopy(other[at]) if not _is_deep(other[at]) else True
        elif kind == 2:
            del part[key]
        elif kind == 3 and isinstance(part, dict):
            part[self.random.choice(NAMES)] = part.pop(key)
        elif isinstance(part, dict):
            name = self.random.choice(NAMES)
            part[name] = self.keyword(name, 1)
        return schema

    def damaged(self, schema: Any) -> Any:
        """Return what the text of a schema reads as when some of its bytes change; the text itself where it is no JSON
        any more.
        """
        try:
            text = json.dumps(schema)
        except (ValueError, RecursionError):
            return schema
        at = self.random.randrange(len(text))
        text = text[:at] + self.random.choice('{}[]",:0e-\\a9') + text[at + self.random.randrange(3) :]
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text


def _parts(schema: Any) -> list[Any]:
    todo = [schema]
    for part in todo:
        if isinstance(part, (dict, list)):
            todo.extend(part.values() if isinstance(part, dict) else part)
    return [part for part in todo if isinstance(part, (dict, list))]


def _is_deep(schema: Any, depth: int = 60) -> bool:
    if not isinstance(schema, (dict, list)):
        return False
    return depth == 0 or any(
        _is_deep(part, depth - 1) for part in (schema.values() if isinstance(schema, dict) else schema)
    )


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
        raise AssertionError(f"a limit met in a mask, not by compile: {error}") from error
    return "works"


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
            isinstance(part, dict) and isinstance(part.get("items"), list) for part in _parts(schema)
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
