"""Random operations on matchers, each made on the compiled kernel and on its plain twin: both must find the same,
whatever came before.

    python -m tests.fuzz.operations --count 1000000 --seed 1

A few matchers of one grammar live at a time, in pairs.  An operation (advance, accepts, masks, rollback, copy, reset,
forced bytes, explain, pickling, wrong arguments, kernels that vanish or are too small) is done to both of a pair; then

* results are equal, errors are of the tree, of the same type and with the same words;
* both have the same tokens and the same end, and after an error those from before;
* a mask that was filled is the same bit by bit, and a batch is what its rows are one by one.

Cost: some 50 µs an operation, most of it the twin's and the comparison's.
"""

from __future__ import annotations

import argparse
import pickle
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

import constrained as c

PIECES = (
    *'"abcx{}[]:,. -01eé<>/\\nu', '":', '","', '": "', '"a', 'a"', 'b":', "ab", "abc", "],[", "[[", '"}', "}}", "00", "\\u00", "e9", "10", "</", "'", "it", "é\"",
    *(bytes([byte]) for byte in (0xC3, 0xA9, 0xFF, 10)),
)  # fmt: skip
LARK = r"""
start: value
value: STRING | NUMBER | "[" [value ("," value)*] "]" | "{" [pair ("," pair)*] "}" | "<call>" value
pair: STRING ":" value
STRING: /"[^"\\\n]*"/
NUMBER: /-?[0-9]+(\.[0-9]+)?/
"""
TEXTS = {"enum": ["a", "ab", "abc", "é", "x\\"]}
GRAMMARS: dict[str, Callable[[], c.Grammar]] = {
    "nested": lambda: c.Grammar.from_lark(LARK, specials=["<call>"]),
    "ambiguous": lambda: c.Grammar.from_lark('start: e\ne: e e | e "a" e | "a" | "b" "a"?'),
    "left recursion": lambda: c.Grammar.from_lark('start: n start "a" | "b"\nn: "c"?'),
    "free text": lambda: c.Grammar.from_lark(r'start: /(.|\n)*/ "</" "a"* "<call>"?', specials=["<call>"]),
    "named stop": lambda: c.Grammar.from_lark('start: ("a" "<eos>" | "b" "<call>") "x"?', specials=["<call>", "<eos>"]),
    "forced": lambda: c.Grammar.from_lark('start: "abc" ("a" "x" | "b" "10") ("[[" "]")* '),
    "any keys": lambda: c.Grammar.from_json_schema({"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 3}),
    "named keys": lambda: c.Grammar.from_json_schema(
        {"type": "object", "properties": {"a": TEXTS, "ab": {"type": "string", "maxLength": 3}, "é": True}, "required": ["a"], "additionalProperties": {"const": 1}}),
    "counted": lambda: c.Grammar.from_json_schema({"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 4}, "minItems": 1, "maxItems": 4}),
    "patterns": lambda: c.Grammar.from_json_schema({"type": "array", "items": {"type": "string", "pattern": "^a*(b|é)x?$"}}),
    "texts": lambda: c.Grammar.from_json_schema({"type": "array", "items": TEXTS, "maxItems": 9}),
    "python": lambda: c.Grammar.from_json_schema({"type": "array", "items": {"type": ["string", "null", "number"]}}, surface="python"),
    "numbers": lambda: c.Grammar.from_json_schema({"type": "array", "items": {"type": "number", "minimum": -10, "exclusiveMaximum": 100}}),
}  # fmt: skip
WRONG: tuple[Any, ...] = (-1, 2**31, 2**70, True, 1.0, "1", None, np.float32(1), [0])
LONGEST = 40  # tokens of a matcher
CURSORS = 4  # pairs alive at a time
EPISODE = 400  # operations on a grammar before the next
WEIGHTS = {
    "follow": 34, "advance": 8, "wrong": 4, "numpy": 3, "accepts": 8, "mask": 14, "masks": 4, "rollback": 7, "copy": 4, "reset": 1, "forced": 3, "explain": 2,
    "accepting": 5, "tokens": 2, "vanish": 1, "bitmask": 1,
}  # fmt: skip


class Difference(AssertionError):
    """The two kernels disagree."""


def vocabulary() -> c.Vocabulary:
    texts = list(dict.fromkeys(piece if isinstance(piece, bytes) else piece.encode() for piece in PIECES))
    end = len(texts)
    return c.Vocabulary(texts, special={"<eos>": end, "<call>": end + 1}, stop=[end], size=end + 7)


class Operations:
    """A stream of operations; the same seed, the same stream."""

    def __init__(self, seed: int) -> None:
        self.random, self.vocabulary, self.done, self.by_name = random.Random(seed), vocabulary(), 0, Counter[str]()
        self.twins = {
            name: c.compile(make(), self.vocabulary, kernel="plain", max_work=None) for name, make in GRAMMARS.items()
        }
        self.rows = (
            np.zeros((CURSORS + 1, self.vocabulary.words), np.int32),
            np.zeros((CURSORS + 1, self.vocabulary.words), np.int32),
        )
        self.story: list[Any] = []

    def run(self, count: int) -> None:
        """Do so many operations."""
        names, weights = list(WEIGHTS), list(WEIGHTS.values())
        while self.done < count:
            self.begin()
            for name in self.random.choices(names, weights, k=min(EPISODE, count - self.done)):
                at = self.random.randrange(len(self.pairs))
                self.done += 1
                self.by_name[name] += 1
                try:
                    getattr(self, f"do_{name}")(at)
                    self.same_place(at)
                except Exception as error:
                    raise Difference(
                        f"{self.grammar}, operation {self.done} ({name} of {at}): {error!r}; before it: {self.story[-12:]}"
                    ) from error

    def begin(self) -> None:
        """Take a grammar, with a cache that is large or small, and a pair of matchers."""
        choose = self.random.choice
        self.grammar = choose(list(GRAMMARS))
        twin = self.twins[self.grammar]
        bound = choose((1 << 28, 1 << 28, 60_000, 8_000, 0))
        fast = c.compile(twin.grammar, self.vocabulary, kernel="compiled", cache_bytes=bound, max_work=None)
        if self.random.random() < 0.05:
            fast = pickle.loads(pickle.dumps(fast))
        # the twin keeps all states of all grammars: begin again before they fill the memory
        if len(twin.place()[0]._states) > 20_000:
            self.vocabulary.kernels.clear()
            self.twins = {
                name: c.compile(old.grammar, self.vocabulary, kernel="plain", max_work=None)
                for name, old in self.twins.items()
            }
            twin = self.twins[self.grammar]
        self.pairs, self.story = [(fast.matcher(), twin.matcher())], [self.grammar, bound]

    def both(self, at: int, call: Callable[[c.Matcher], Any]) -> Any:
        """Make a call on both of a pair, and compare what it finds or raises."""
        fast, slow = (self.outcome(matcher, call) for matcher in self.pairs[at])
        if fast != slow:
            raise Difference(f"the compiled kernel finds {fast!r}, the plain one {slow!r}")
        return fast

    def outcome(self, matcher: c.Matcher, call: Callable[[c.Matcher], Any]) -> Any:
        before = matcher.tokens
        try:
            return call(matcher)
        except c.ConstrainedError as error:
            if matcher.tokens != before:
                raise Difference(f"{error!r} has moved the matcher from {before} to {matcher.tokens}") from error
            return type(error).__name__, str(error)

    def same_place(self, at: int) -> None:
        fast, slow = self.pairs[at]
        if fast.tokens != slow.tokens or fast.is_finished() != slow.is_finished():
            raise Difference(f"{fast.tokens} {fast.is_finished()} and {slow.tokens} {slow.is_finished()}")

    def mask(self, at: int) -> Any:
        row = self.random.randrange(CURSORS)
        for matcher, rows in zip(self.pairs[at], self.rows):
            matcher.fill_mask(rows, row)
        if self.rows[0][row].tobytes() != self.rows[1][row].tobytes():
            raise Difference(f"masks {self.rows[0][row]} and {self.rows[1][row]}")
        return np.flatnonzero(np.unpackbits(self.rows[0][row].view(np.uint8), bitorder="little"))

    # -- operations: each is done to a pair ----------------------------------------------------------------------------

    def do_follow(self, at: int) -> None:
        allowed = self.mask(at)
        if len(allowed) and len(self.pairs[at][0].tokens) < LONGEST:
            token = int(self.random.choice(allowed))
            self.story.append((at, token))
            if self.both(at, lambda matcher: matcher.advance(token)) is not None:
                raise Difference(f"token {token} is in the mask and refused")
        else:
            self.both(at, lambda matcher: matcher.rollback(min(len(matcher.tokens), 30)))

    def do_advance(self, at: int) -> None:
        token = self.random.randrange(-1, self.vocabulary.size + 2)
        self.story.append((at, token))
        self.both(at, lambda matcher: matcher.advance(token))

    def do_numpy(self, at: int) -> None:
        token = np.int64(self.random.randrange(self.vocabulary.size))
        self.both(at, lambda matcher: matcher.advance(token))

    def do_wrong(self, at: int) -> None:
        value, rows = self.random.choice(WRONG), self.rows[0]
        name = self.random.choice(("advance", "accepts", "explain", "rollback", "fill_mask"))
        found = self.both(
            at, lambda matcher: matcher.fill_mask(rows, value) if name == "fill_mask" else getattr(matcher, name)(value)
        )
        if not isinstance(found, tuple):
            raise Difference(f"{name}({value!r}) found {found!r}")

    def do_accepts(self, at: int) -> None:
        token = self.random.randrange(self.vocabulary.size)
        allowed = self.both(at, lambda matcher: matcher.accepts(token))
        if self.random.random() < 0.3 and allowed != (token in self.mask(at)):
            raise Difference(f"accepts({token}) is {allowed}, the mask says otherwise")

    def do_mask(self, at: int) -> None:
        self.mask(at)

    def do_masks(self, at: int) -> None:
        which = [self.random.randrange(len(self.pairs)) for _ in range(self.random.randint(0, CURSORS))]
        c.fill_masks([self.pairs[i][0] for i in which], self.rows[0])
        for row, i in enumerate(which):
            self.pairs[i][1].fill_mask(self.rows[1], row)
        if self.rows[0][: len(which)].tobytes() != self.rows[1][: len(which)].tobytes():
            raise Difference(f"the batch {which}")

    def do_rollback(self, at: int) -> None:
        count = self.random.choice((0, 1, 1, 1, 2, 3, 7, len(self.pairs[at][0].tokens) + 1))
        self.story.append((at, "rollback", count))
        self.both(at, lambda matcher: matcher.rollback(count))

    def do_copy(self, at: int) -> None:
        twins = self.pairs[at][0].copy(), self.pairs[at][1].copy()
        if len(self.pairs) < CURSORS:
            self.pairs.append(twins)
        else:
            self.pairs[self.random.randrange(CURSORS)] = twins
        self.story.append((at, "copy"))

    def do_reset(self, at: int) -> None:
        self.story.append((at, "reset"))
        self.both(at, lambda matcher: matcher.reset())

    def do_forced(self, at: int) -> None:
        self.both(at, lambda matcher: matcher.forced_bytes())
        self.both(at, lambda matcher: sorted(matcher.forced_tokens()))

    def do_explain(self, at: int) -> None:
        token = self.random.randrange(self.vocabulary.size)
        self.both(at, lambda matcher: matcher.explain(token))

    def do_accepting(self, at: int) -> None:
        if self.both(at, lambda matcher: matcher.is_accepting()) is True and not self.pairs[at][0].is_finished():
            self.mask(at)

    def do_tokens(self, at: int) -> None:
        self.both(at, lambda matcher: (matcher.tokens, matcher.text()))

    def do_vanish(self, at: int) -> None:
        """Let go of a kernel, or of what the vocabulary keeps, under the matchers that use it."""
        self.story.append((at, "vanish"))
        if self.random.random() < 0.5:
            self.pairs[at][0]._kernel.drop_all()
        else:
            self.vocabulary.kernels.masks.clear()

    def do_bitmask(self, at: int) -> None:
        wrong = self.random.choice(
            (np.zeros((1, 99), np.int32), np.zeros((CURSORS, self.vocabulary.words), np.int64), None, [1])
        )
        if not isinstance(self.both(at, lambda matcher: matcher.fill_mask(wrong)), tuple):
            raise Difference("a bitmask that is none was filled")


def main() -> int:
    """Do what the command line says; return 1 at the first difference."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    operations, began = Operations(options.seed), time.process_time()
    try:
        operations.run(options.count)
    except Difference as difference:
        print(f"seed {options.seed}: {difference}")
        return 1
    print(
        f"{operations.done:,} operations, 0 differences, {time.process_time() - began:.0f} s of processor: {dict(operations.by_name)}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
