"""Does a matcher survive that memory runs out, or that somebody presses Ctrl-C, anywhere?

A walk builds a vocabulary, compiles a grammar, warms it and goes through a text: masks, single and in batches,
advances, refusals, rollbacks, copies, forced bytes.  It is done once in peace and then again and again, each time with
one fault more towards its end:

    memory      the n-th allocation of the kernel is refused
    interrupt   the n-th call of a Python function raises KeyboardInterrupt, in the matcher or in what the kernel asks

The call that met the fault must raise MemoryError or KeyboardInterrupt, leave the matcher as it was, and do its work
when it is called again; and all masks of the walk must be those of the walk in peace.

    python -m constrained.benchmarks.faults [--kinds memory,interrupt] [--every 1] [--cases objects,enums]

Cost: some 300 walks of 50 ms for each case with memory, some thousand with interrupts; --every 7 takes every seventh
fault.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from constrained import ChatFormat, Constraint, Grammar, Matcher, Rejected, Vocabulary, compile, fill_masks

PIECES = (
    '"', "a", "ab", "abc", '": ', '":', '", "', '",', '"]', "[", '{"', "\\n", "\\u", "00", "e9", "é", "日本", "12", "-",
    "0.", "}}", "},",
    'a": "', '"a":', '"ab":"', '"abc"', '"}', "x", "ax", ", ", "<tool_call>", "\n", '{"name": "', '", "arguments": ',
)  # fmt: skip
TOOLS = [
    {
        "name": "get",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "n": {"type": "integer"}},
            "required": ["city"],
        },
    }
]
CASES: dict[str, tuple[Callable[[], Grammar], bytes]] = {
    "objects": (
        lambda: Grammar.from_json_schema({
            "properties": {"ab": {"type": "string"},
                "abc": {"type": "array", "items": {"type": "integer"}, "maxItems": 3}}, "required": ["ab"],
            "type": "object", "additionalProperties": {"enum": ["abc", "x"]}, "maxProperties": 4,
        }), '{"x":"abc","abc":[12,3],"é":"x","ab":"\\u00e9"}'.encode(),
    ),
    "texts": (
        lambda: Grammar.from_json_schema({"prefixItems": [
            {"type": "string", "pattern": "^[a-z]+x?$"}, {"type": "string", "minLength": 2, "maxLength": 20},
            {"enum": ["abc", "abd", "日本", "é"]},
            {"type": "string", "format": "date"}], "items": False, "minItems": 4, "type": "array"}),
        '["abcx", "a\\nbé日本", "日本", "2024-02-29"]'.encode(),
    ),
    "arrays": (
        lambda: Grammar.from_json_schema({
            "type": "array", "maxItems": 3,
            "items": {"type": "array", "items": {"anyOf": [{"type": "number", "minimum": -3}, {"const": "ab"}]}}}),
        b'[[12, -0.5], [], ["ab", 1e2]]',
    ),
    "python": (
        lambda: Grammar.from_json_schema(
            {"type": "object", "additionalProperties": {"type": ["string", "null"]}}, surface="python"),
        "{'ab': 'it\\'s', \"x\": None, 'é': 'ab'}".encode(),
    ),
    "ambiguous": (lambda: Grammar.from_lark('start: e\ne: e e | e "a" e | "a" | "b" e? "ab"\n'), b"aababaaab"),
    "chat": (lambda: ChatFormat.load("hermes").grammar(TOOLS),
        b'<tool_call>\n{"name": "get", "arguments": {"city": "abc", "n": 12}}\n</tool_call>'),
}  # fmt: skip


def vocabulary() -> Vocabulary:
    """Return a small vocabulary whose tokens cross the boundaries of texts, keys and calls; it has the format's tokens
    as well.
    """
    texts = list(dict.fromkeys([*(bytes([byte]) for byte in range(256)), *(piece.encode() for piece in PIECES)]))
    end = len(texts)
    return Vocabulary(texts, special={"<|im_end|>": end, "<eos>": end + 1}, stop=[end + 1], size=end + 40)


class Different(AssertionError):
    """What happened after a fault is not what happens without one."""


class Walk:
    """One pass through a case, repeating each call that a fault broke off."""

    def __init__(self, grammar: Callable[[], Grammar], text: bytes, words: Vocabulary) -> None:
        self.grammar, self.text, self.vocabulary = grammar, text, words
        self.seen: list[Any] = []  # what every call found
        words.kernels.clear()
        words.kernels.masks.clear()

    def run(self) -> Walk:
        """Go through the text."""
        self.seen.append(self._again(None, lambda: vocabulary() == self.vocabulary))
        made: Constraint = self._again(None, lambda: compile(self.grammar(), self.vocabulary, spell_missing=True))
        self._again(None, partial(made.warm, states=8))
        matcher: Matcher = self._again(None, made.matcher)
        rows = np.zeros((2, self.vocabulary.words), np.int32)
        for at, byte in enumerate(self.text):
            self._note(matcher, partial(matcher.fill_mask, rows, 0), rows)
            if at % 4 == 1:
                copied = self._again(matcher, matcher.copy)
                self._note(matcher, partial(fill_masks, [matcher, copied], rows), rows)
                calls = [partial(matcher.accepts, token) for token in (at, 34, 300, self.vocabulary.stop[0])]
                self.seen += [
                    self._again(matcher, call) for call in (matcher.forced_bytes, partial(_refused, matcher), *calls)
                ]
            self._again(matcher, partial(matcher.advance, byte))
            if at % 7 == 6:
                self._again(matcher, partial(matcher.rollback, 3))
                for token in self.text[at - 2 : at + 1]:
                    self._again(matcher, partial(matcher.advance, token))
        self._note(matcher, partial(matcher.fill_mask, rows, 0), rows)
        self.seen.append(self._again(matcher, matcher.is_accepting))
        return self

    def _note(self, matcher: Matcher, call: Callable[[], None], rows: Any) -> None:
        self._again(matcher, call)
        self.seen.append(rows.tobytes())

    def _again(self, matcher: Matcher | None, call: Callable[[], Any]) -> Any:
        """Make a call; if a fault breaks it off, see that nothing has changed and make it again."""
        # not `tokens`: that is a call, which a fault may break off
        before = matcher._last if matcher is not None else None
        try:
            return call()
        except (MemoryError, KeyboardInterrupt):
            pass
        if matcher is not None and matcher._last is not before:
            raise Different(f"a call that raised has moved the matcher to {matcher.tokens}")
        return call()


def _refused(matcher: Matcher) -> str:
    """Return the message for a byte that no text has."""
    try:
        matcher.advance(0xFF)
    except Rejected as error:
        return str(error)
    raise Different("the byte 0xFF was taken")


@contextmanager
def memory(after: int) -> Iterator[Callable[[], bool]]:
    """Refuse one allocation of the kernel, after so many more; yield what says whether it was."""
    from constrained.engine.memory._memory import refuse

    refuse(after)
    try:
        yield lambda: refuse(-1) < 0
    finally:
        refuse(-1)


@contextmanager
def interrupt(after: int) -> Iterator[Callable[[], bool]]:
    """Raise KeyboardInterrupt in a call of a Python function of the package, after so many more; yield what says
    whether it was.
    """
    left = after

    def trace(frame: Any, event: str, argument: Any) -> None:
        nonlocal left
        if (
            "constrained" in frame.f_code.co_filename
            and "benchmarks" not in frame.f_code.co_filename
            and "<" not in frame.f_code.co_name
        ):
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt

    sys.settrace(trace)
    try:
        yield lambda: left < 0
    finally:
        sys.settrace(None)


KINDS = {"memory": memory, "interrupt": interrupt}


def check(case: str, kind: str, every: int = 1, first: int = 0, most: int = 1 << 30) -> int:
    """Walk through a case with every fault of a kind; return how many there were.

    Raises: Different: a fault left something behind.
    """
    words = vocabulary()
    peace = Walk(*CASES[case], words).run()
    for number in range(first, min(most, 1 << 30), every):
        walk = Walk(*CASES[case], words)
        with KINDS[kind](number) as raised:
            walk.run()
            over = not raised()
        if over:
            return (number - first) // every
        if walk.seen != peace.seen:
            at = next(i for i, (one, other) in enumerate(zip(walk.seen, peace.seen)) if one != other)
            raise Different(f"{case}: {kind} fault {number} changes what call {at} of {len(peace.seen)} finds")
    return (most - first) // every


def main() -> int:
    """Check what the command line names; return 1 if anything differed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--every", type=int, default=1, help="take every n-th fault")
    options, wrong = parser.parse_args(), 0
    for kind in options.kinds.split(","):
        for case in options.cases.split(","):
            try:
                print(f"{kind}, {case}: {check(case, kind, options.every)} faults, nothing left behind", flush=True)
            except (Exception, KeyboardInterrupt) as error:
                wrong = 1
                print(f"{kind}, {case}: {type(error).__name__}: {error}", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
