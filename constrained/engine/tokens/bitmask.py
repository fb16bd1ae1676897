"""Bitmasks and numbers as callers hand them over: arrays, tensors, other people's ints, and what is wrong with one.

Layout: int32 (rows, ceil(vocabulary size / 32)), bit i of word w = token 32 w + i is allowed; the layout of vLLM,
XGrammar, llguidance.
"""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np

from constrained.errors import BitmaskError, shown

_INSTEAD = "pass an int32 array or CPU tensor of shape (rows, ceil(vocabulary size / 32)), rows contiguous"


def number(value: object) -> int:
    """Return an int of any kind (numpy's, torch's) as an int; -1 for what is none, for bool, and for negative ones.

    >>> number(np.int64(3)), number(True), number(2.0), number("3")
    (3, -1, -1, -1)
    """
    try:
        # whether it can be an index is the question
        return -1 if isinstance(value, (bool, np.bool_)) else max(-1, index(value))  # type: ignore[arg-type]
    except Exception:  # of a tensor with several elements, say
        return -1


def as_array(bitmask: Any) -> Any:
    """Return a bitmask as an array: CPU tensors share their memory."""
    if str(type(bitmask).__module__).partition(".")[0] != "torch":
        return bitmask
    device = getattr(bitmask, "device", None)
    if device is not None and device.type != "cpu":
        raise BitmaskError(f"a bitmask lies on {device}", instead="fill a CPU tensor, then copy it to the device")
    if lacks_memory(bitmask):
        raise BitmaskError("a bitmask has no memory", because="its storage is smaller than its shape", instead=_INSTEAD)
    try:
        return bitmask.numpy()
    except Exception as error:  # sparse, with a gradient, of a type that numpy lacks, or no tensor at all
        raise BitmaskError(
            "a bitmask cannot be written in place", because=f"its numpy() says: {shown(str(error), 200)}",
            instead=_INSTEAD,
        ) from None


def lacks_memory(tensor: Any) -> bool:
    """Say whether a tensor has less memory than its shape says: a meta tensor, or one whose storage was made smaller,
    past whose end somebody would write.
    """
    try:
        held = 0 if tensor.device.type == "meta" else tensor.untyped_storage().nbytes()
        last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
        return bool(tensor.numel() > 0 and held < (tensor.storage_offset() + last + 1) * tensor.element_size())
    except Exception:  # sparse, or no tensor at all: told by who reads it
        return False


def fits(bitmask: Any, row: int, words: int) -> bool:
    """Say whether a row of `words` words can be written.  The compiled kernel makes the same test."""
    if (
        not isinstance(bitmask, np.ndarray)
        or bitmask.ndim != 2
        or bitmask.dtype.kind not in "iu"
        or bitmask.itemsize != 4
    ):
        return False
    if not bitmask.dtype.isnative:
        return False
    return (
        bitmask.shape[1] == words
        and 0 <= number(row) < len(bitmask)
        and bitmask.flags.writeable
        and bitmask.strides[1] == 4
    )


def misfit(bitmask: Any, row: int, words: int) -> BitmaskError:
    """Return the error for a bitmask that does not fit.

    >>> print(misfit(np.zeros(3, np.float32), 0, 3).because)
    it is an array of float32, shape (3,); row 0 with 3 words was to be written
    """
    given = (
        f"an array of {bitmask.dtype}, shape {bitmask.shape}"
        if isinstance(bitmask, np.ndarray)
        else f"a {type(bitmask).__name__}"
    )
    if isinstance(bitmask, np.ndarray) and not bitmask.flags.writeable:
        given = f"{given}, read-only"
    return BitmaskError(
        "a bitmask does not fit", because=f"it is {given}; row {shown(row)} with {words} words was to be written",
        instead=_INSTEAD,
    )
