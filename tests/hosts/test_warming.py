"""`Warmer`: a thread that warms constraints, and that nobody need know of."""

from __future__ import annotations

import gc
import os
import threading
import weakref

import numpy as np
import pytest

import constrained as c
from constrained.integrations.servers import Requests, Warmer

VOCABULARY = c.Vocabulary([bytes([byte]) for byte in range(256)], {"</s>": 256}, [256])
SCHEMA = {"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}, "n": {"type": "integer"}}}

CLOSED = {"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}, "additionalProperties": False}


def constraint(schema=SCHEMA):
    fresh = c.Vocabulary(VOCABULARY.tokens, VOCABULARY.special, VOCABULARY.stop)
    return c.compile(c.Grammar.from_json_schema(schema, whitespace="compact"), fresh)


def masks(found, text=b'{"colour":"red","n":1}'):
    row, matcher, seen = np.zeros((1, VOCABULARY.words), np.int32), found.matcher(), []
    for token in text:
        matcher.fill_mask(row)
        seen.append(row.tobytes())
        matcher.advance(token)
    return seen


def test_states_are_known_before_they_are_needed():
    found, text = constraint(CLOSED), b'{"colour":"red"}'
    with Warmer(share=1.0) as warmer:
        warmer.add(found)
        assert warmer.wait(60)
        known, cold = found.place()[0].count_states(), constraint(CLOSED)
        assert masks(found, text) == masks(cold, text)
        assert found.place()[0].count_states() - known < cold.place()[0].count_states() / 3


def test_constraints_are_served_in_turns_while_others_are_asked():
    many = [constraint({**SCHEMA, "maxProperties": number}) for number in range(1, 6)]
    with Warmer(share=0.9) as warmer:
        for found in many:
            warmer.add(found)
        threads = [threading.Thread(target=lambda: [masks(found, b"{}") for found in many]) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert warmer.wait(60)
    assert all(found._warmed for found in many)
    assert masks(many[-1]) == masks(constraint({**SCHEMA, "maxProperties": 5}))


def test_what_takes_too_much_work_is_left_to_the_request():
    found = constraint({"type": "string", "pattern": "^(a|b)*a(a|b){12}$"})
    with Warmer(share=1.0, seconds=0.05) as warmer:
        warmer.add(found)
        assert warmer.wait(60)


def test_nobody_is_kept_alive():
    found = constraint()
    gone = weakref.ref(found)
    with Warmer() as warmer:
        warmer.add(found)
        assert warmer.wait(60)
        del found
        gc.collect()
        assert gone() is None


def test_a_closed_warmer_takes_no_more():
    warmer = Warmer()
    warmer.close()
    warmer.close()
    assert warmer.wait(0)
    with pytest.raises(c.ConstrainedError, match="the warmer is closed"):
        warmer.add(constraint())


@pytest.mark.parametrize("wrong", [{"share": 0}, {"share": 1.5}, {"share": "x"}, {"seconds": 0}, {"share": True}])
def test_wrong_use(wrong):
    with pytest.raises(c.ConstrainedError, match="a Warmer with share"):
        Warmer(**wrong)
    with Warmer() as warmer, pytest.raises(c.ConstrainedError, match="not a constraint"):
        warmer.add({"type": "object"})


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_the_child_of_a_fork_begins_anew():
    with Warmer(share=1.0) as warmer:
        warmer.add(constraint())
        child = os.fork()
        if not child:
            found = constraint()
            warmer.add(found)
            os._exit(0 if warmer.wait(60) and found._warmed else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_requests_hand_over_what_is_new():
    with Warmer(share=1.0) as warmer:
        requests = Requests(VOCABULARY, warmer)
        found = requests.constraint({"json": '{"enum": ["a", 1]}'})
        assert warmer.wait(60)
        assert found._warmed and requests.constraint({"json": '{"enum": ["a", 1]}'}) is found
