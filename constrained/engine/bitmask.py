"""Bitmasks as callers hand them over: arrays, tensors, and what is wrong with one.

Layout: int32 (rows, ceil(vocabulary size / 32)), bit i of word w = token 32 w + i is allowed; the layout of vLLM, XGrammar, llguidance.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from constrained.errors import BitmaskError

_INSTEAD = "pass an int32 array or CPU tensor of shape (rows, ceil(vocabulary size / 32)), rows contiguous"


def as_array(bitmask: Any) -> Any:
    """Return a bitmask as an array: CPU tensors share their memory."""
    if type(bitmask).__module__.partition(".")[0] != "torch":
        return bitmask
    if bitmask.device.type != "cpu":
        raise BitmaskError(f"a bitmask lies on {bitmask.device}", instead="fill a CPU tensor, then copy it to the device")
    return bitmask.numpy()


def fits(bitmask: Any, row: int, words: int) -> bool:
    """Say whether a row of `words` words can be written.  The compiled kernel makes the same test."""
    if not isinstance(bitmask, np.ndarray) or bitmask.ndim != 2 or bitmask.dtype.kind not in "iu" or bitmask.itemsize != 4:
        return False
    if not bitmask.dtype.isnative:
        return False
    return bitmask.shape[1] == words and 0 <= row < len(bitmask) and bitmask.flags.writeable and bitmask.strides[1] == 4


def misfit(bitmask: Any, row: int, words: int) -> BitmaskError:
    """Return the error for a bitmask that does not fit.

    >>> print(misfit(np.zeros(3, np.float32), 0, 3).because)
    it is a float32 array of shape (3,); row 0 with 3 words was to be written
    """
    found = f"a {bitmask.dtype} array of shape {bitmask.shape}" if isinstance(bitmask, np.ndarray) else f"a {type(bitmask).__name__}"
    if isinstance(bitmask, np.ndarray) and not bitmask.flags.writeable:
        found = f"{found}, read-only"
    return BitmaskError("a bitmask does not fit", because=f"it is {found}; row {row} with {words} words was to be written", instead=_INSTEAD)
