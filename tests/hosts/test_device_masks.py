"""`DeviceMasks` on the host, and the kernel of Triton in its interpreter, bit by bit as `fill_masks`."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import constrained as c
from constrained.integrations.masks import DeviceMasks, forbid_rows

SPECIAL = {"</s>": 300}
VOCABULARY = c.Vocabulary([bytes([byte]) for byte in range(256)] + [b'", "', b"ab", b'":'], SPECIAL, [300], 310)
SCHEMAS = (
    {"type": "object", "properties": {"a": {"type": "string", "maxLength": 9}, "b": {"enum": [1, "x"]}}},
    {"type": "array", "items": {"type": ["integer", "string"]}},
    {"enum": ["yes", "no"]},
)
CONSTRAINTS = [c.compile(c.Grammar.from_json_schema(schema), VOCABULARY) for schema in SCHEMAS]


def expected(logits, matchers):
    """Return logits that are set by the masks of the host, token by token."""
    packed = np.zeros((len(matchers), VOCABULARY.words), np.int32)
    c.fill_masks(matchers, packed)
    bits = np.unpackbits(packed.view(np.uint8), axis=1, bitorder="little").astype(bool)
    allowed = np.zeros(tuple(logits.shape), bool)
    width = min(bits.shape[1], allowed.shape[1])
    allowed[:, :width] = bits[:, :width]
    return logits.masked_fill(~torch.from_numpy(allowed), float("-inf"))


def advance(random_, matchers):
    """Advance each matcher by a token that it allows; one that is finished begins anew."""
    row = np.zeros((1, VOCABULARY.words), np.int32)
    for matcher in matchers:
        if matcher.is_finished():
            matcher.reset()
        matcher.fill_mask(row)
        matcher.advance(int(random_.choice(np.flatnonzero(np.unpackbits(row[0].view(np.uint8), bitorder="little")))))


@pytest.mark.parametrize("rows", [7, 20, 2048])
@pytest.mark.parametrize("width", [310, 320, 301, 400])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_logits_are_those_of_the_masks_whatever_is_evicted(rows, width, dtype):
    random_, masks = random.Random(rows + width), DeviceMasks(VOCABULARY, "cpu", rows=rows)
    matchers = [random_.choice(CONSTRAINTS).matcher(budget=random_.choice([None, None, 60])) for _ in range(6)]
    for _ in range(40):
        batch = random_.sample(matchers, random_.randrange(1, 7))
        logits = torch.randn((len(batch), width)).to(dtype)
        wanted = expected(logits, batch)
        masks.forbid(logits, batch)
        assert torch.equal(logits, wanted)
        advance(random_, batch)


def test_known_masks_are_not_made_again(monkeypatch):
    masks, matchers = DeviceMasks(VOCABULARY, "cpu"), [constraint.matcher() for constraint in CONSTRAINTS]
    first = masks.rows(matchers)
    monkeypatch.setattr(masks, "_copy", lambda _: pytest.fail("copied again"))
    assert masks.rows(matchers * 2).tolist() == first.tolist() * 2
    assert len({*first.tolist()}) == 3 and 0 not in first.tolist()


def test_a_finished_text_may_not_go_on():
    matcher, masks = CONSTRAINTS[2].matcher(), DeviceMasks(VOCABULARY, "cpu")
    for token in (*b'"no"', 300):
        matcher.advance(token)
    assert masks.rows([matcher]).tolist() == [0]
    logits = torch.zeros((1, 310))
    masks.forbid(logits, [matcher])
    assert bool(torch.isneginf(logits).all())


def test_a_batch_that_costs_too_much_leaves_the_table_as_it_was(monkeypatch):
    def refuse(matchers, packed):
        raise c.LimitExceeded("too much work")

    masks = DeviceMasks(VOCABULARY, "cpu", rows=3)
    before = masks.rows([CONSTRAINTS[0].matcher(), CONSTRAINTS[1].matcher()]).tolist()
    table = masks.table.clone()
    with monkeypatch.context() as patch:
        patch.setattr("constrained.integrations.masks.fill_masks", refuse)
        with pytest.raises(c.LimitExceeded):
            masks.rows([CONSTRAINTS[2].matcher()])
        assert masks.rows([CONSTRAINTS[0].matcher(), CONSTRAINTS[1].matcher()]).tolist() == before
    assert torch.equal(masks.table, table)


def test_wrong_use():
    with pytest.raises(c.ConstrainedError, match="a table of masks has two rows or more"):
        DeviceMasks(VOCABULARY, "cpu", rows=1)
    with pytest.raises(c.ConstrainedError, match="3 masks at once"):
        DeviceMasks(VOCABULARY, "cpu", rows=3).rows([constraint.matcher() for constraint in CONSTRAINTS])
    assert DeviceMasks(VOCABULARY, "cpu").rows([]).tolist() == []


INTERPRETED = """
import torch
from constrained.integrations.masks import launch
from constrained.integrations.masks import forbid_rows
torch.manual_seed(1)
for width, words, n in ((70, 3, 4), (96, 3, 1), (130, 3, 5), (2100, 66, 2), (5, 1, 3)):
    table = torch.randint(-2**31, 2**31, (9, words), dtype=torch.int64).to(torch.int32)
    rows = torch.randint(0, 9, (n,))
    for logits in (torch.randn(n, width), torch.randn(n, 2 * width)[:, ::2], torch.randn(n, width + 3)[:, :width]):
        wanted = logits.clone()
        forbid_rows(wanted, table, rows)
        launch(logits, table, rows)
        assert torch.equal(logits, wanted), (width, words, n)
launch(torch.zeros(0, 5), table, torch.zeros(0, dtype=torch.int64))
"""


def test_the_kernel_of_triton_does_the_same():
    pytest.importorskip("triton")
    pytest.importorskip("torch")
    run = subprocess.run(
        [sys.executable, "-c", INTERPRETED], env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr[-2000:]


def test_shifts_find_what_the_host_finds():
    """The way of devices, made on the host."""
    from constrained.integrations import masks

    words = torch.randint(-(2**31), 2**31, (5, 7), dtype=torch.int64).to(torch.int32)
    assert torch.equal(masks._by_shifts(words), masks._by_numpy(words))
    logits = torch.zeros((5, 224))
    forbid_rows(logits, words, torch.arange(5))
    assert torch.equal(torch.isneginf(logits), ~masks._by_shifts(words))
