"""A seeded slice of `tests.fuzz.operations`: random operations on matchers find the same in both kernels."""

from __future__ import annotations

import pytest

pytest.importorskip("constrained.engine.kernel._kernel")

from fuzz.operations import Operations


@pytest.mark.parametrize("seed", range(4))
def test_operations_agree(seed):
    Operations(seed).run(1_500)
