"""The caches of the process, in one registry with one bound and one `clear`: results that can be computed again.

Vocabularies bound what belongs to them (`engine.memory.registry`).  What belongs to nobody, such as parsed patterns,
nodes of expressions and machines of small schemas, is kept here: whoever keeps something says how many bytes it takes
(`charge`), and when these are too many, every cache forgets what it holds.  So nothing has to be counted down, and what
is used all the time is back after a moment.  Whoever holds a cached thing keeps it; a cache may be emptied at any
moment, even while something for it is being computed.

What others left behind is forgotten when an operation begins (`begin`), not in its midst: there only what it has
charged itself counts.  So an operation never costs more than in a process that knows nothing, however much that one
has done before; tests/test_verdicts.py holds to that.  To forget is left to those who compile: a mask or a step does it
only where nobody compiles, at twice the bound.  What is forgotten goes a part at a time, as operations begin: to free
all of it at once takes up to 120 ms.

Refused: a bound on entries alone, as one entry may be a pattern of a thousand states; a bound per cache, as which of
them a process fills depends on its inputs.
Tables that no input changes (Unicode, formats, calendars) are not counted and stay.

What was forgotten lies in pieces all over the heap, and the C library of Linux keeps free pages for itself; so those
who compile ask it to return them after every two bounds (`malloc_trim`, 1 to 6 ms, and a microsecond for each page that
is wanted again). Without that a process that compiled 60,000 schemas grew from 215 to 289 MB, though what it held
stayed the same. It is not asked where caches are emptied, as they fill again at once: asked there too, an hour over
22,000 schemas took 161 to 183 MB, else 172 to 184.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache, lru_cache, wraps
from typing import Any, TypeVar

MOST_BYTES = 1 << 24  # charged when a compile begins, and again by each operation itself

Function = TypeVar("Function", bound=Callable[..., Any])

_PARTS, _FEW_PARTS = 512, 16  # steps of letting go when an operation begins, and one that somebody waits for: 0.3 µs
_PART = 512  # bytes charged by the last mask or step for one step more, so that all is gone before more is forgotten

_forgetters: list[Callable[[], None]] = []
_incremental_frees: list[Callable[[int], bool]] = []
_leaving = False  # whether something forgotten is still there
_held = 0
_held_before = 0  # when the last mask or step began
_most = MOST_BYTES  # that may be held until the operation has ended
_unreturned = 0  # what was charged since free memory was returned last, and forgotten


def forgets(forget: Callable[[], None]) -> Callable[[], None]:
    """Register what empties a cache; a decorator."""
    _forgetters.append(forget)
    return forget


def register_incremental_free(step: Callable[[int], bool]) -> Callable[[int], bool]:
    """Register what frees what a cache has forgotten, so many steps at a time, and says whether something is left; a
    decorator.
    """
    _incremental_frees.append(step)
    return step


def begin(*, hurried: bool = False) -> None:
    """Note that an operation begins: it may charge `MOST_BYTES` of its own before anything is forgotten.

    hurried: somebody waits for a mask or a step.
    Cost: 0.1 µs.  Operations of other threads count as part of the ones that are under way.
    """
    global _held_before, _most, _unreturned
    if _held > MOST_BYTES << hurried:
        _forget()  # what becomes free is taken again at once
    elif not hurried and _held + _unreturned > 2 * MOST_BYTES:
        _unreturned = -_held
        _give_back()
    _most = MOST_BYTES + _held
    if _leaving:
        _let_go((_FEW_PARTS if hurried else _PARTS) + max(0, _held - _held_before) // _PART)
    _held_before = _held if hurried else sys.maxsize  # a compile's charge is not the first mask's to pay


def clear(*, give_back: bool = True) -> None:
    """Empty all caches of the process; for measuring what something costs that nobody has seen, and to give memory
    back.

    give_back: False leaves free memory to the C library, so that what is measured next does not wait for its pages.
    """
    for _ in range(2):  # some keep what they forget until the next time
        _forget()
    _let_go(sys.maxsize)
    if give_back:
        _give_back()


def _forget() -> None:
    global _held, _most, _unreturned, _leaving
    _held, _unreturned = 0, _unreturned + _held
    _most = MOST_BYTES
    for forget in _forgetters:
        forget()
    _leaving = True


def _let_go(count: int) -> None:
    global _leaving
    _leaving = True in [step(count) for step in _incremental_frees]  # all of them


def _give_back() -> None:
    """Let the C library return free memory to the system; other threads run meanwhile."""
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    """Return `malloc_trim` of glibc; None where there is another C library, which needs no asking or cannot be
    asked.
    """
    if sys.platform == "linux":
        with suppress(ImportError, OSError, AttributeError):
            import ctypes

            return ctypes.CDLL(None).malloc_trim
    return None


def charge(size: int) -> None:
    """Note that some bytes more are kept in a cache; where an operation keeps too many, all caches are emptied."""
    global _held, _unreturned
    _held += size
    if _held > _most:
        _forget()
        _unreturned = 0
        _give_back()


def held() -> int:
    """Return how many bytes have been charged since the caches were emptied; an estimate."""
    return _held


def cached(most: int, size: int = 1_000) -> Callable[[Function], Function]:
    """Keep the results of a function for the arguments that were used last: at most so many, of some `size` bytes each.

    What is known costs what it costs in `functools.lru_cache`, 50 ns.
    """

    def decorate(function: Function) -> Function:
        @wraps(function)
        def found(*args: Any, **options: Any) -> Any:
            result = function(*args, **options)
            held = size
            for arg in args:
                if isinstance(arg, str):
                    held += len(arg)
            charge(held)
            return result

        kept: Any = lru_cache(maxsize=most)(found)
        forgets(kept.cache_clear)
        return kept  # type: ignore[no-any-return]

    return decorate
