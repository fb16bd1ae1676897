"""What a constraint's kernel knows, as bytes: states with their successors, and masks; for files that are signed.

    sizes      int32, see `_SIZES`
    arrays     int32, see `_INTS`, then bytes, see `_BYTES`; what they are stands at `SavedTable`

A table is believed: a mask in it allows what it says.  So nobody reads one whose signature has not been found right
(`engine.signed`), or that other code has written (`code`).  What is compared here is that no number leads out of its
bounds, so that a table that was damaged before it was signed cannot end the process.

Masks are alike: those of the texts of one grammar differ in some hundred words.  So a mask is a list of blocks that
differ from a whole one, as in the kernel, and a whole one a list of words that differ from one before it.

Refused: to map the file, which whoever can write to it could change after the signature was found right; the bytes are
read once.  Tables for the plain kernel.
Tested in tests/test_saved_states.py.
"""

from __future__ import annotations

import hashlib
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from constrained.engine.twin.automaton import PlainKernel
from constrained.work import Preempted

if TYPE_CHECKING:
    from constrained.engine.constraint import Constraint

MOST_STATES = 1 << 17
_RECORD = 5  # words of a block with its number
_SIZES = "states runs names masks blocks wholes raw changes maps".split()
_INTS = "before symbols ends dead which targets named masks records wholes changes raw".split()
_BYTES = "flags bytes maps".split()
_ALIKE = 8  # whole masks that another is compared with, of the first and of the last ones
_CODE = ("*.py", "*.so", "*.pyd", "*.lark", "*.toml")
_NO_CODE = ("benchmarks", "cli", "research")  # folders that no mask depends on

Ints = npt.NDArray[np.int32]


@lru_cache(maxsize=1)
def code() -> bytes:
    """Return a name of the code that makes masks: of the package's files, of Python and of the kind of machine.

    Cost: 17 MB are read, once in a process: 15 ms.
    """
    package = Path(__file__).parents[1]
    digest = hashlib.sha256(repr((sys.version, sys.byteorder, unicodedata.unidata_version)).encode())
    for path in sorted(path for kind in _CODE for path in package.rglob(kind)):
        name = path.relative_to(package)
        if name.parts[0] not in _NO_CODE:
            data = path.read_bytes()
            digest.update(f"{name.as_posix()} {len(data)}\n".encode() + data)
    return digest.digest()


# -- from a kernel -----------------------------------------------------------------------------------------------------


def dump(constraint: Constraint, most_bytes: int) -> bytes:
    """Return what the kernel of a constraint knows of it, and what it is believed by: the code, and the bound that the
    states were made under.

    Where not all fits, the states nearest to the start; no table where the kernel is the plain one.
    """
    beginning = _beginning(constraint)
    most = MOST_STATES
    while most:
        kernel, start = constraint.place()
        if isinstance(kernel, PlainKernel):
            break
        try:
            table = _packed(_kernel_unit().survey(kernel, start, most))
        except Preempted:  # it was emptied meanwhile
            constraint.leave(kernel)
            continue
        if len(beginning) + len(table) <= most_bytes:
            return beginning + table
        most //= 4
    return beginning


def _kernel_unit() -> Any:
    from constrained.engine.kernel import _kernel

    return _kernel


def _beginning(constraint: Constraint) -> bytes:
    return code() + constraint.options.max_configurations.to_bytes(8, "little")


def _packed(found: Mapping[str, Any]) -> bytes:
    """Return the arrays of `survey` as bytes."""
    numbers: dict[bytes, int] = {}
    dead = np.array([numbers.setdefault(row, len(numbers)) for row in map(bytes, found["dead"])], np.int32)
    maps = np.frombuffer(b"".join(numbers), np.uint8).reshape(-1, 32)
    counts = [len(records) // (4 * _RECORD) for records in found["records"]]
    wholes, raw, changes = _alike([np.frombuffer(whole, np.uint32) for whole in found["wholes"]])
    arrays = {
        **found, "dead": dead, "maps": maps, "ends": found["begins"][1:], "wholes": wholes, "raw": raw,
        "changes": changes, "targets": found["runs"][:, 2], "bytes": found["runs"][:, :2],
        "masks": np.array([found["likes"], counts]).T, "records": np.frombuffer(b"".join(found["records"]), np.int32),
    }  # fmt: skip
    sizes = {
        "states": len(found["flags"]), "runs": len(found["runs"]), "names": len(found["named"]), "masks": len(counts),
        "blocks": sum(counts), "wholes": len(wholes), "raw": len(raw), "changes": len(changes), "maps": len(maps),
    }  # fmt: skip
    parts = [np.array([sizes[name] for name in _SIZES], np.int32).tobytes()]
    parts += [arrays[name].astype(np.int32, copy=False).tobytes() for name in _INTS]
    return b"".join(parts + [arrays[name].astype(np.uint8).tobytes() for name in _BYTES])


def _alike(masks: Sequence[npt.NDArray[np.uint32]]) -> tuple[Ints, Ints, Ints]:
    """Return whole masks as `wholes`, `raw` and `changes` of a table, each by the one that it differs least from."""
    wholes: list[tuple[int, int, int]] = []
    raw: list[npt.NDArray[np.uint32]] = []
    changes = [np.zeros((0, 2), np.int32)]
    for at, mask in enumerate(masks):
        others = sorted({*range(min(at, _ALIKE)), *range(max(at - _ALIKE, 0), at)})
        count, like = min([(np.count_nonzero(mask), -1)] + [(np.count_nonzero(mask != masks[i]), i) for i in others])
        if 2 * count >= len(mask):
            wholes.append((-1, len(raw), 0))
            raw.append(mask)
            continue
        words = np.flatnonzero(mask != masks[like] if like >= 0 else mask)
        wholes.append((like, -1, len(words)))
        changes.append(np.array([words.astype(np.int32), mask[words].view(np.int32)]).T)
    shaped = np.array(wholes, np.int32).reshape(-1, 3)
    return shaped, np.array(raw, np.uint32).view(np.int32), np.concatenate(changes)


# -- into a kernel -----------------------------------------------------------------------------------------------------


def add(constraint: Constraint, data: bytes) -> int:
    """Give a constraint's kernel the states that `dump` has written, which are believed; return how many these are.

    None: other code has written them, or under another bound; the kernel is the plain one; the table is damaged, or
    larger than the constraint's cache.
    """
    beginning = _beginning(constraint)
    kernel, start = constraint.place()
    if isinstance(kernel, PlainKernel) or data[: len(beginning)] != beginning:
        return 0
    table = _kernel_unit().SavedTable(data[len(beginning) :], constraint.vocabulary.size)
    if not table.fits() or kernel.cached_bytes() + table.held() > constraint.options.cache_bytes:
        return 0
    try:
        _kernel_unit().add_saved(kernel, start, table)
    except Preempted:  # it was emptied meanwhile
        return 0
    return int(table.states)
