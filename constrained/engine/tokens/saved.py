"""A vocabulary ↔ a file that processes map and share, and that may come from a stranger.

    constrained vocabulary 1
    {"fingerprint": …, "special": …, "stop": …, "counts": …, …}      JSON, blanks up to a multiple of 64 bytes
    arrays of `Layout`, one after another, each at a multiple of 64 bytes

Nothing in the file is believed: texts and special tokens are checked as those of any caller and against the
fingerprint, and every number of the arrays is compared with what follows from the texts, which takes a third of the
time of making them, as nothing is sorted.  Only then the mapped arrays serve, so that processes share them.  So a file
is refused or is the vocabulary that it names; no number of it reaches the kernel unseen.

What is mapped is read from the file later as well: whoever can write to it then can change masks or end the process.
`write` therefore never writes to a file that is there, it puts another one in its place.

Refused: pickle, which runs code; context-independent masks, which nothing short of making them again can check.
Tested in tests/test_saved_vocabulary.py, on damaged files among others.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from constrained.engine.tokens.bitmask import number
from constrained.engine.tokens.layout import COUNTS, Layout, shapes
from constrained.engine.tokens.vocabulary_checks import MOST, check_rest, checked_special, checked_stop
from constrained.errors import ConstrainedError, VocabularyError, said_by, shown

MAGIC = b"constrained vocabulary 1\n"
MOST_HEADER = 1 << 24  # bytes
_ALIGNED = 64
_KINDS = {"fingerprint": str, "byteorder": str, "special": dict, "stop": list, "dummy_prefix": bool, "notes": list,
          "counts": dict}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class SavedTable:
    """What a vocabulary consists of, checked."""

    tokens: tuple[bytes | None, ...]
    names: Mapping[int, str]
    stop: tuple[int, ...]
    dummy_prefix: bool
    notes: tuple[str, ...]
    layout: Layout


def write(path: str | os.PathLike[str], layout: Layout, header: Mapping[str, Any]) -> None:
    """Write the arrays of a vocabulary into a file.

    header: fingerprint, special, stop, dummy_prefix, notes.
    Raises: OSError: the file cannot be written.  VocabularyError: more than 16 MB of names and notes.
    """
    counts = dict(zip(COUNTS, _counts(layout), strict=True))
    text = json.dumps({**header, "byteorder": sys.byteorder, "counts": counts}).encode()
    beginning = _padded(MAGIC + text + b"\n", len(MAGIC) + len(text))
    if len(beginning) > MOST_HEADER:
        raise VocabularyError("the vocabulary cannot be saved", because=f"names and notes take {len(text):,} bytes")
    replace_file(path, [beginning, *(_padded(array.tobytes()) for _, array in layout.arrays())])


def replace_file(path: str | os.PathLike[str], parts: Iterable[bytes]) -> None:
    """Write a file; whoever reads or maps it at the same time has the old one or the new one."""
    if not isinstance(path, (str, os.PathLike)) or not isinstance(os.fspath(path), str):
        raise ConstrainedError(f"cannot save to {shown(path)}", instead="the path of a file")
    beside = Path(f"{os.fspath(path)}.{os.getpid()}.part")
    try:
        with beside.open("wb") as file:
            file.writelines(parts)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def read(path: str | os.PathLike[str]) -> SavedTable:
    """Return the vocabulary in a file, its arrays mapped.

    Raises: VocabularyError: it cannot be read, or is not what `write` writes.
    """
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            end = mapped.find(b"\n", len(MAGIC), MOST_HEADER)
            header = _header(path, mapped[:end] if end > 0 and mapped[: len(MAGIC)] == MAGIC else b"")
            arrays = _arrays(path, file.fileno(), header["counts"], -(-(end + 1) // _ALIGNED) * _ALIGNED)
    except (OSError, TypeError, ValueError) as error:
        if isinstance(error, VocabularyError):
            raise
        raise VocabularyError(
            "cannot read the vocabulary", where=shown(path, 200), because=said_by(error)
        ) from error
    return _checked(path, header, arrays)


def is_saved(path: str | os.PathLike[str]) -> bool:
    """Say whether a file begins as those that `write` writes."""
    with suppress(OSError), open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC
    return False


def _padded(data: bytes, at: int | None = None) -> bytes:
    """Return bytes filled up to a multiple of 64, with blanks at a place, else with zeros behind them."""
    missing = -len(data) % _ALIGNED
    return data + bytes(missing) if at is None else data[:at] + b" " * missing + data[at:]


def _counts(layout: Layout) -> tuple[int, ...]:
    trie = layout.trie
    return len(layout.starts) - 1, len(layout.data) - 1, len(trie.ids), trie.nodes, layout.longest


def _header(path: object, data: bytes) -> dict[str, Any]:
    """Return the header of a file, of the right shape."""
    try:
        header = json.loads(data[len(MAGIC) :])
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        _refuse(path, "it does not begin as one")
    wrong = [name for name, kind in _KINDS.items() if type(header.get(name)) is not kind]
    if wrong:
        _refuse(path, f"{wrong[0]} is missing")
    if header["byteorder"] != sys.byteorder:
        _refuse(path, f"its numbers are {shown(header['byteorder'], 40)}-endian, this machine's {sys.byteorder}-endian")
    counts = header["counts"]
    if any(type(counts.get(name)) is not int or number(counts[name]) < 0 for name in COUNTS):
        _refuse(path, "its counts are none")
    if not 0 < counts["size"] <= MOST:
        _refuse(path, f"its size is {shown(counts['size'], 40)}")
    return header


def _arrays(path: object, file: int, counts: Mapping[str, int], at: int) -> dict[str, npt.NDArray[Any]]:
    """Return the mapped arrays of a file."""
    sizes = {name: int(np.dtype(kind).itemsize) * math.prod(shape) for name, (kind, shape) in shapes(counts).items()}
    wanted = at + sum(size + -size % _ALIGNED for size in sizes.values())
    if wanted != os.fstat(file).st_size:
        _refuse(path, f"it has {os.fstat(file).st_size:,} bytes, not {shown(wanted, 40)}")
    mapped, arrays = mmap.mmap(file, wanted, access=mmap.ACCESS_READ), {}
    for name, (kind, shape) in shapes(counts).items():
        arrays[name] = np.frombuffer(mapped, kind, math.prod(shape), at).reshape(shape)
        at += sizes[name] + -sizes[name] % _ALIGNED
    return arrays


def _checked(path: object, header: Mapping[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> SavedTable:
    """Return the vocabulary that a header and arrays describe, once they are found to be one."""
    try:
        layout = Layout.of_arrays(arrays)
    except ValueError as error:
        _refuse(path, str(error))
    tokens = layout.texts()
    names, stop = checked_special(header["special"], tokens), checked_stop(header["stop"], tokens)
    notes = header["notes"]
    check_rest(notes, None)
    if not all(type(note) is str for note in notes) or max(names, default=0) >= len(tokens):
        _refuse(path, "a note or a special token is none")
    special = {name: token for token, name in names.items()}
    if layout.fingerprint(special, stop, header["dummy_prefix"]) != header["fingerprint"]:
        _refuse(path, "its contents do not have its fingerprint")
    return SavedTable(tokens, names, stop, header["dummy_prefix"], tuple(notes), layout)


def _refuse(path: object, because: str) -> NoReturn:
    raise VocabularyError(
        "not a saved vocabulary",
        where=shown(path, 200),
        because=because,
        instead="a file that Vocabulary.save has written",
    )
