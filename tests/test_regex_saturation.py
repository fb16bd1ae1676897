"""Keys of masks: which states read alike as far as a token can tell, and where counts stop to matter."""

from __future__ import annotations

import pytest

from constrained import regex
from constrained.regex import concat, parse_python, saturate
from constrained.regex.expr import INFINITE, parts
from constrained.regex.saturate import reach, saturated
from tests.oracles import reachable


def continuations(state: regex.Expr, horizon: int, alphabet: str) -> dict[str, bool]:
    """Return every viable continuation up to the horizon, and whether it is a word: what a mask can see."""
    found, row = {"": state.accepts}, {"": state}
    for _ in range(horizon):
        following = {}
        for text, at in row.items():
            for char in alphabet:
                target = next((t for low, high, t in at.edges() if low <= ord(char) <= high), None)
                if target is not None:
                    following[text + char] = target
                    found[text + char] = target.accepts
        row = following
    return found


COUNTED = [
    r"a{2,9}",
    r"[ab]{0,7}",
    r"(ab|b){3,8}",
    r"(a{1,6}b){2,7}",
    r"a{4}b{0,9}",
    r"(a|ab){5,}",
    r"a{7,}|b{0,8}",
    r"(a?b){6}",
    r"a{9}(?:b|a{5})",
    r"(?=.{0,8}$)(a{0,9}b)*",
    r"(?!a{5})[ab]{4,9}",
    r"(?=[ab]{3,8}$)(ab)*",
    r"(?=.{0,12}$)(ab|b)*",
    r"(?=.{2,9}$)((ab){2}|b)*",
    r"(?=.*a)(?=.*b)[ab]{2,9}",
    r"(?=.*aba)(?=.*bb)[ab]{0,12}",
    r"(?=.*a)(?=.*b)[ab]{7,9}",
    r"(?!.*aa)[ab]{0,9}",
    r"(?!.*aa)(?!.*bab)[ab]{0,9}",
    r"(?!.*b[ab]{3})[ab]{7,12}",
    r"(?!.*aa$)[ab]{0,9}",
    r"(?=.*a)(?!.*bb)[ab]{0,9}",
    r"(?=(?:.*a){2})(?=.*b|.*aa).{3,8}",
]


@pytest.mark.parametrize("horizon", [1, 2, 3])
def test_equal_mask_keys_mean_equal_continuations(horizon):
    groups: dict[object, dict[str, bool]] = {}
    shared = 0
    for pattern in COUNTED:
        for state in reachable(parse_python(pattern), 60):
            seen = continuations(state, horizon, "ab")
            shared += state.mask_key(horizon) in groups
            assert groups.setdefault(state.mask_key(horizon), seen) == seen, (pattern, state)
    assert shared > 20


def test_what_has_no_counts_to_saturate_is_put_together_of_its_factors():
    """`saturated` returns it as it is; slowly, it would put it together again."""
    for pattern in ("abc[de]f", "a*b(?:cd|e)[x-z]*", "(?:ab|c)*d?e+f", "x(?:a{2,3}b)*y", "[0-9]{4}-[0-9]{2}T"):
        todo, seen = [parse_python(pattern)], set()
        while todo:
            state = todo.pop()
            if state not in seen:
                seen.add(state)
                todo += [target for _, _, target in state.edges()]
        assert len(seen) > 3
        for state in seen:
            assert saturated(state, 40) is state is concat(*parts(state)), (pattern, state)


def test_the_reach_of_counts_is_where_saturation_begins(monkeypatch):
    """The key is the same whether the reach is asked, or all factors are looked at; and it is the state from there on."""
    patterns = [*COUNTED, "(?:a{2,5}|b{3}c?d{0,7})e{4}", "a*b{2,3}c*", "[ab]{6}c*d", "(?:ab){3,}c{2}", "a{5}", "x+", "abc", "a|b{2}c*"]
    states = {state for pattern in patterns for state in reachable(parse_python(pattern), 60) if state.plain}
    keys = {(state, horizon): saturated(state, horizon) for state in states for horizon in range(12)}
    assert all(key is state for (state, horizon), key in keys.items() if reach(state) <= horizon)
    assert sum(key is not state for (state, _), key in keys.items()) > 200
    monkeypatch.setattr(saturate, "reach", lambda expr: INFINITE)
    assert keys == {(state, horizon): saturated(state, horizon) for state, horizon in keys}
