"""The stack above a call of a processor → the call of `generate` that it belongs to.

Reading the callers is the only way to tell one `generate` from the next: it offers no hook, and its arguments may be
equal.  What is not found there is reported as missing, and whoever asked does without.

Tested by every mode of `generate` in tests/hosts.
"""

from __future__ import annotations

import inspect
from types import FrameType
from typing import Any

from transformers import GenerationMixin, LogitsProcessorList, StoppingCriteriaList

_GENERATE = inspect.unwrap(GenerationMixin.generate).__code__
_CALL = LogitsProcessorList.__call__.__code__
_SAMPLE = getattr(getattr(GenerationMixin, "_sample", None), "__code__", None)  # private


def calling(frame: FrameType | None) -> LogitsProcessorList | None:
    """Return the list of processors that is calling, inside the innermost `generate` that is running if one is."""
    while frame is not None and frame.f_code is not _GENERATE:
        if frame.f_code is _CALL:
            caller = frame.f_locals.get("self")
            return caller if isinstance(caller, LogitsProcessorList) else None
        frame = frame.f_back
    return None


def depth(frame: FrameType | None) -> int:
    """Return how many `generate` calls are running."""
    count = 0
    while frame is not None:
        count += frame.f_code is _GENERATE
        frame = frame.f_back
    return count


def appends(frame: FrameType | None) -> bool:
    """Say whether a list of processors is called by the loop of greedy decoding and sampling: it appends an id to each
    row and never changes one, where beams change places and drafts are taken back.
    """
    caller = frame.f_back if frame is not None and frame.f_code is _CALL else None
    return _SAMPLE is not None and caller is not None and caller.f_code is _SAMPLE


def generation_config(frame: FrameType | None) -> Any:
    """Return the configuration of the innermost `generate` that is running, None outside of any."""
    return _argument(frame, "generation_config")


def streamer(frame: FrameType | None) -> Any:
    """Return the streamer of the innermost `generate` that is running, which it does not hand on to a
    `custom_generate`; None: it has none.
    """
    return _argument(frame, "streamer")


def _argument(frame: FrameType | None, name: str) -> Any:
    while frame is not None and frame.f_code is not _GENERATE:
        frame = frame.f_back
    return None if frame is None else frame.f_locals.get(name)


def stopping_criteria(frame: FrameType | None) -> StoppingCriteriaList | None:
    """Return what decides when the innermost `generate` that is running stops; None where that cannot be found.

    It makes the list anew for each call, so nobody else sees what is added.
    """
    while frame is not None and frame.f_code is not _GENERATE:
        found = frame.f_locals.get("stopping_criteria")
        if isinstance(found, StoppingCriteriaList):
            return found
        frame = frame.f_back
    return None
