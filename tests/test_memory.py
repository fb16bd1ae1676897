"""What is left where memory ends, somebody presses Ctrl-C, or the process forks: everything as it was, and the same
call works again.
"""

from __future__ import annotations

import dis
import os
import signal
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from laws import hard_vocabulary

import constrained as c
from constrained.engine import matcher as matchers
from constrained.machine import END, Edges
from constrained.schema.normal import alternatives

pytest.importorskip("constrained.engine.kernel._kernel")
faults = pytest.importorskip("constrained.benchmarks.faults")
memory = pytest.importorskip("constrained.engine.memory._memory")

VOCABULARY = hard_vocabulary()


@pytest.mark.parametrize("case", faults.CASES)
def test_a_refused_allocation_leaves_nothing_behind(case):
    """Every fifth allocation of a walk; `python -m constrained.benchmarks.faults` takes all of them."""
    assert faults.check(case, "memory", every=5) > 5


@pytest.mark.parametrize("case", faults.CASES)
def test_an_interrupt_leaves_nothing_behind(case):
    assert faults.check(case, "interrupt", every=131) > 3


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="how CPython 3.11 enters a handler")
def test_the_normal_form_has_no_handler_that_needs_memory():
    """Behind the 256th instruction of a function CPython 3.11 makes an int to enter the handler around a handler; where
    there is no memory for it, it tries again without end.
    """
    pending, found = [compile(Path(alternatives.__file__).read_text(encoding="utf-8"), "alternatives", "exec")], []
    while pending:
        code = pending.pop()
        pending += [constant for constant in code.co_consts if hasattr(constant, "co_code")]
        entries = dis._parse_exception_table(code)
        found += [code.co_name for entry in entries if entry.lasti and entry.end // 2 > 256]
    assert found == []


def allocations(call):
    """Return how many blocks of memory a call asks for."""
    memory.refuse(1 << 40)
    try:
        call()
    finally:
        left = memory.refuse(-1)
    return (1 << 40) - left


# instructions behind which CPython looks for signals
INTERRUPTIBLE = {"RESUME", "CALL", "CALL_FUNCTION_EX", "JUMP_BACKWARD"}


def interrupted(call, number):
    """Make a call, with KeyboardInterrupt raised at the n-th place in the module of matchers where Python takes one;
    say whether it was raised.
    """
    left, raised, before = number, False, {}

    def trace(frame, event, argument):
        nonlocal left, raised
        if frame.f_code.co_filename != matchers.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            names = opcodes(frame.f_code)
            last, before[id(frame)] = before.get(id(frame)), names[frame.f_lasti]
            if last in INTERRUPTIBLE:
                left -= 1
                if left < 0 and not raised:
                    raised = True
                    raise KeyboardInterrupt
        return trace

    sys._getframe().f_trace_opcodes = True  # Python 3.12 looks for it in the frame that begins to trace
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    return raised


def opcodes(code, known={}):  # noqa: B006  the cache of the function
    if code not in known:
        known[code] = {instruction.offset: instruction.opname for instruction in dis.get_instructions(code)}
    return known[code]


def refused(matcher):
    with pytest.raises(c.Rejected):
        matcher.advance(98)


@pytest.mark.parametrize("kernel", ["plain", "compiled"])
def test_a_matcher_moves_or_does_not(kernel):
    """A signal may come behind any call: between two changes of a matcher there is none."""
    # every advance replays
    constraint = c.compile(c.Grammar.from_lark('start: "a"* "<eos>"?'), VOCABULARY, kernel=kernel, cache_bytes=100)
    stop, row = VOCABULARY.stop[0], np.zeros((1, VOCABULARY.words), np.int32)
    calls = {
        "advance": (lambda m: m.advance(97), lambda old: (*old, 97)),
        "advance to the end": (lambda m: m.advance(stop), lambda old: (*old, stop)),
        "advance by numpy": (lambda m: m.advance(np.int64(97)), lambda old: (*old, 97)),
        "rollback": (lambda m: m.rollback(2), lambda old: old[:-2]),
        "reset": (lambda m: m.reset(), lambda old: ()),
        "fill_mask": (lambda m: m.fill_mask(row), lambda old: old),
        "copy": (lambda m: m.copy(), lambda old: old),
        "fill_masks": (lambda m: c.fill_masks([m], row), lambda old: old),
        "refused": (refused, lambda old: old),
    }
    for name, (call, after) in calls.items():
        number, goes_on = 0, True
        while goes_on:
            matcher = constraint.matcher()
            for _ in range(3):
                matcher.advance(97)
            before = matcher.tokens
            goes_on = interrupted(lambda matcher=matcher, call=call: call(matcher), number)
            number += 1
            assert matcher.tokens in (
                (before,) if goes_on and name not in ("rollback", "reset") else (before, after(before))
            ), (name, number)
            assert matcher.is_finished() == (matcher.tokens[-1:] == (stop,))
            again = constraint.matcher()
            for token in matcher.tokens:
                again.advance(token)
            assert all(matcher.accepts(token) == again.accepts(token) for token in (97, 98, stop))
        assert number > 1 or name in ("reset", "fill_masks")  # these are one step, or one compiled call


class Waiting:
    """A machine state that tells when it is asked for its edges, and waits until it is told to go on."""

    def __init__(self):
        self.asked, self.answer = threading.Event(), threading.Event()

    def expand(self):
        self.asked.set()
        self.answer.wait(20)
        return Edges(ranges=((97, 97, END),))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
@pytest.mark.parametrize("kernel", ["plain", "compiled"])
def test_the_child_of_a_fork_goes_on_alone(kernel):
    """One thread computes in a kernel and holds its lock; another one forks.  In the child nobody will ever release
    that lock.
    """
    state, grammar = Waiting(), c.Grammar.from_regex("a")
    vocabulary = c.Vocabulary([bytes((byte,)) for byte in range(256)], special={"<eos>": 256}, stop=[256])
    constraint = c.compile(grammar, vocabulary, kernel=kernel)
    shared, _ = constraint.place()
    worker = threading.Thread(target=shared.start_at, args=(state, False))
    worker.start()
    assert state.asked.wait(20)
    child = os.fork()
    if not child:  # nothing here may raise into pytest
        signal.alarm(20)
        try:
            state.answer.set()
            start = shared.start_at(state, False)
            row = np.zeros((1, vocabulary.words), np.int32)
            constraint.matcher().fill_mask(row)
            fine = (
                shared.step_byte(start, 97)
                and not shared.step_byte(start, 98)
                and row[0, 3] == 2
                and not row[0, :3].any()
            )
            os._exit(0 if fine else 3)
        except BaseException:
            os._exit(4)
    state.answer.set()
    worker.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
