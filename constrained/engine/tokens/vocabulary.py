"""`Vocabulary`: each id of a tokenizer stands for bytes of text, a named special token, or nothing.

The engine reads bytes, so a tokenizer is reduced to a table: id → bytes.  Everything else that a tokenizer does
(splitting, merging, normalising) only decides which of several spellings it would choose, never what an id means.  A
special token has a name but no bytes: that is why text can never spell one, and why a mask can never allow one that the
grammar does not name.

Loading the table from the many kinds of tokenizers is in `tokenizers`, walking it in `trie`.

Tests: the tables of four real tokenizers against their own files; a table of wrong uses with their messages; damaged
files in tests/test_saved_vocabulary.py.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from constrained.engine.memory.registry import Kernels
from constrained.engine.tokens.bitmask import number
from constrained.engine.tokens.trie import COUNTS, Layout, TokenTrie, shapes
from constrained.errors import ConstrainedError, Rejected, VocabularyError, said_by, shown
from constrained.work import spend

# -- checks of arguments ----------------------------------------------------------------------------------------------

MOST = 1 << 24  # ids


def kind(value: object) -> str:
    """Return a value's type with its article, for messages."""
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


def check_tokens(tokens: Sequence[bytes | None]) -> None:
    """Raise unless `tokens` is a list or tuple of non-empty bytes and None.  Cost: 3 ms for 128,000 tokens."""
    if not isinstance(tokens, (list, tuple)):
        raise VocabularyError(
            f"not a list of tokens: {kind(tokens)}",
            instead=(
                "list bytes by id, None for ids without text; Vocabulary.from_tokenizer reads tokenizers and "
                "their files"
            ),
        )
    if not set(map(type, tokens)) <= {bytes, type(None)}:
        token, text = next((i, t) for i, t in enumerate(tokens) if type(t) not in (bytes, type(None)))
        raise VocabularyError(
            "neither bytes nor None", where=f"token {token}", because=f"{shown(text)} is {kind(text)}",
            instead="give the bytes that the token stands for; for a text, text.encode()",
        )
    if b"" in tokens:
        raise VocabularyError(
            "empty token", where=f"token {tokens.index(b'')}",
            because="a generation could repeat it for ever without a byte of progress",
            instead="None for ids that stand for no text",
        )


def checked_id(value: object, what: str) -> int:
    token = number(value)
    if token < 0:
        because = (
            f"{shown(value)} is negative"
            if isinstance(value, int) and value < 0
            else f"{shown(value)} is {kind(value)}"
        )
        raise VocabularyError(f"{what} is not a token id", because=because, instead="an int from 0 on")
    return token


def checked_special(special: Mapping[str, int], tokens: Sequence[bytes | None]) -> dict[int, str]:
    """Return the special tokens, id → name."""
    if not isinstance(special, Mapping):
        raise VocabularyError(
            f"not special tokens: {kind(special)}", because="they come as name → id",
            instead='for instance {"<|eot_id|>": 128009}',
        )
    names: dict[int, str] = {}
    for name, value in special.items():
        if not isinstance(name, str) or not name:
            raise VocabularyError(f"a special token named {shown(name)}", because="a name is a str, and not empty")
        if not name.isascii() and any("\ud800" <= character <= "\udfff" for character in name):
            raise VocabularyError(
                f"a special token named {shown(name)}",
                because="half of a surrogate pair cannot be written",
            )
        token = checked_id(value, f"the id of special token {shown(name)}")
        if token >= MOST:
            raise VocabularyError(
                f"the id of special token {shown(name)} is too large",
                because=f"a mask of more than {MOST:,} tokens is not supported",
            )
        if token in names:
            raise VocabularyError(
                f"two special tokens with id {token}", because=f"{names[token]!r} and {name!r} share it",
                instead="keep one name per id",
            )
        if token < len(tokens) and tokens[token] is not None:
            raise VocabularyError(
                f"special token {name!r} is also text", where=f"token {token}",
                because=f"the token list has {tokens[token]!r} there, so text could spell it",
                instead=f"tokens[{token}] = None",
            )
        names[token] = name
    return names


def checked_size(size: int | None, least: int) -> int:
    if size is not None:
        if number(size) < 0:
            raise VocabularyError(
                f"size is {shown(size)}", because="it is a number of tokens", instead="the width of the model's logits",
            )
        size = number(size)
    if size is not None and size < least:
        raise VocabularyError(
            f"size {size} is too small", because=f"the tokenizer has ids up to {least - 1}",
            instead="the width of the model's logits",
        )
    if size is not None and size > MOST:
        raise VocabularyError(
            f"size {shown(size)} is too large", because=f"a mask of more than {MOST:,} tokens is not supported"
        )
    if not (size or least):
        raise VocabularyError("a vocabulary without tokens", because="the list is empty")
    return least if size is None else size


def checked_stop(stop: Iterable[int], tokens: Sequence[bytes | None]) -> tuple[int, ...]:
    """Return the stop ids without repetitions, in the order given."""
    if isinstance(stop, str) or not isinstance(stop, Iterable):
        raise VocabularyError(
            f"not stop tokens: {kind(stop)}", because="they come as a list of ids", instead="for instance stop=[128009]"
        )
    ids = tuple(dict.fromkeys(checked_id(token, "a stop token") for token in stop))
    for token in ids:
        if token >= len(tokens):
            raise VocabularyError(
                f"stop token {shown(token)} is out of range", because=f"the vocabulary has size {len(tokens)}"
            )
        if tokens[token] is not None:
            raise VocabularyError(
                f"stop token {token} is text",
                because=f"it spells {tokens[token]!r}, which a grammar may want to go on with",
                instead="stop at a special token; a text that ends the output belongs into the grammar",
            )
    return ids


def check_rest(notes: Iterable[str], encode: object) -> None:
    if isinstance(notes, str) or not isinstance(notes, Iterable):
        raise VocabularyError(f"not notes: {kind(notes)}", because="they come as a list", instead="[text, …]")
    if encode is not None and not callable(encode):
        raise VocabularyError(
            f"encode is {kind(encode)}", because="it is a function from a text to its token ids",
            instead="tokenizer.encode, for instance",
        )


# ======================================================================================================================
# A vocabulary ↔ a file that processes map and share, and that may come from a stranger.
#
#     constrained vocabulary 1
#     {"fingerprint": …, "special": …, "stop": …, "counts": …, …}      JSON, blanks up to a multiple of 64 bytes
#     arrays of `Layout`, one after another, each at a multiple of 64 bytes
#
# Nothing in the file is believed: texts and special tokens are checked as those of any caller and against the
# fingerprint, and every number of the arrays is compared with what follows from the texts, which takes a third of the
# time of making them, as nothing is sorted.  Only then the mapped arrays serve, so that processes share them.  So a
# file is refused or is the vocabulary that it names; no number of it reaches the kernel unseen.
#
# What is mapped is read from the file later as well: whoever can write to it then can change masks or end the process.
# `write` therefore never writes to a file that is there, it puts another one in its place.
#
# Refused: pickle, which runs code; context-independent masks, which nothing short of making them again can check.
# ======================================================================================================================

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
        raise VocabularyError("cannot read the vocabulary", where=shown(path, 200), because=said_by(error)) from error
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
        "not a saved vocabulary", where=shown(path, 200), because=because,
        instead="a file that Vocabulary.save has written",
    )


# -- the vocabulary ---------------------------------------------------------------------------------------------------

Encoder = Callable[[str], Sequence[int]]  # a tokenizer's own choice of tokens for a text
_NO_SPECIAL: Mapping[str, int] = MappingProxyType({})
_BEGINNING = 3  # bytes, see `_widths_by_beginning`
_ALL_ONES = (1 << 32) - 1
_ANCHOR = "\n"  # a text that no tokenizer merges with what follows it, as a rule; the result is checked


class Vocabulary:
    """The table of a tokenizer; frozen; equal and hashed by content.

    Invariants: len(tokens) = size; no text is empty; tokens[i] is None for every i in special.values() and in stop.
    Texts may repeat (SentencePiece has byte and character tokens for ASCII): all their ids are equally good.
    Threads: safe.  Pickle: the table travels, the tokenizer's encoder behind `tokenize` does not.

    >>> v = Vocabulary([b"a", b"ab", None], special={"</s>": 2}, stop=[2], size=40)
    >>> v.words, v.longest, v.decode([1, 0, 2])
    (2, 2, b'aba</s>')
    """

    tokens: tuple[bytes | None, ...]  # by id; None = special, unused, or beyond the tokenizer
    special: Mapping[str, int]  # name → id
    names: Mapping[int, str]  # id → name, the inverse of special
    stop: tuple[int, ...]  # ids that end a generation; the first is the one to write where any would do
    size: int  # width of the model's logits; models pad theirs beyond the tokenizer
    used: int  # 1 + the highest id that stands for something; logits may not be narrower
    words: int  # int32 words in one row of a bitmask, ceil(size / 32)
    longest: int  # bytes of the longest text token
    layout: Layout  # the texts as the engines read them; the next four are its parts
    trie: TokenTrie  # of all text tokens
    spelled: tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]
    characters: npt.NDArray[np.int32]
    by_characters: tuple[npt.NDArray[np.int32], ...]
    # SentencePiece: the encoder puts a space before a text, the decoder drops it; tokens mean their bytes all the same
    dummy_prefix: bool
    # the automata and masks that constraints over this vocabulary share, and their bound; may be cleared at any time
    kernels: Kernels
    notes: tuple[str, ...]  # what a reader should know, e.g. that the encoder normalises text
    _encode: Encoder | None

    def __init__(
        self,
        tokens: Sequence[bytes | None],
        special: Mapping[str, int] = _NO_SPECIAL,
        stop: Iterable[int] = (),
        size: int | None = None,
        *,
        dummy_prefix: bool = False,
        notes: Iterable[str] = (),
        encode: Encoder | None = None,
    ) -> None:
        check_tokens(tokens)
        names = checked_special(special, tokens)
        size = checked_size(size, max([len(tokens), *(token + 1 for token in names)]))
        padded = (*tokens, *[None] * (size - len(tokens)))
        stop = checked_stop(stop, padded)
        check_rest(notes, encode)
        self._fill(SavedTable(padded, names, stop, dummy_prefix, tuple(notes), Layout.of_tokens(padded)), encode)

    def _fill(self, table: SavedTable, encode: Encoder | None) -> None:
        tokens, layout = table.tokens, table.layout
        texts = next((n for n in range(len(tokens), 0, -1) if tokens[n - 1] is not None), 0)
        self.__dict__.update(
            tokens=tokens, special=MappingProxyType({name: token for token, name in table.names.items()}),
            names=MappingProxyType(dict(table.names)), stop=table.stop, size=len(tokens),
            used=max([texts, *(token + 1 for token in (*table.names, *table.stop))]), words=-(-len(tokens) // 32),
            longest=layout.longest, dummy_prefix=table.dummy_prefix, notes=table.notes, _encode=encode,
            kernels=Kernels(), layout=layout, trie=layout.trie, spelled=(layout.starts, layout.data),
            characters=layout.characters, by_characters=(layout.fewest_first, layout.with_at_most),
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table and its trie into a file, which `load` maps: 9 MB for 128,000 texts, 10-20 ms to load.

        Raises: OSError: the file cannot be written.
        """
        write(path, self.layout, {
            "fingerprint": self.fingerprint, "special": dict(self.special), "stop": self.stop,
            "dummy_prefix": self.dummy_prefix, "notes": self.notes,
        })

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, encode: Encoder | None = None) -> Vocabulary:
        """Return the vocabulary that `save` wrote, equal to the one that was saved; the file may come from a stranger.

        Processes share the memory of what is mapped; a file must not be changed while it is, see `saved`.
        encode: the tokenizer's own choice of tokens for a text, which does not travel: `tokenizer.encode`, say.
        Raises: VocabularyError: no such file, or another one.
        """
        check_rest((), encode)
        made = cls.__new__(cls)
        made._fill(read(path), encode)
        return made

    @classmethod
    def from_tokenizer(
        cls,
        tokenizer: Any,
        *,
        size: int | None = None,
        stop: Iterable[int] | None = None,
        special: Mapping[str, int] | None = None,
    ) -> Vocabulary:
        """Return the exact table of a tokenizer object or file; `tokenizers` lists what is read, and how.

        size: the model's logits width where it is wider than the tokenizer.  stop: replaces the stop ids that the
        tokenizer declares. special: further special tokens, for files that do not hold them; they take the place of a
        text with the same id.

        Raises: VocabularyError: not a tokenizer, or one whose tokens have no fixed bytes (WordPiece, for instance).
        """
        from constrained.engine.tokens.tokenizers import load

        table = load(tokenizer, special)
        return cls(
            table.tokens, table.special, table.stop if stop is None else stop, size,
            dummy_prefix=table.dummy_prefix, notes=table.notes, encode=table.encode,
        )

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the table in hexadecimal digits; the same in every process (notes and encoder do not count)."""
        return self.layout.fingerprint(self.special, self.stop, self.dummy_prefix)

    @cached_property
    def unfinished(self) -> npt.NDArray[np.int32]:
        """The tokens whose texts end inside a character: their places in trie.ids, ascending."""
        begins, data = self.spelled
        last, sizes = begins[self.trie.ids + 1], np.diff(begins)[self.trie.ids]
        one, two, three = (data[last - behind] for behind in (1, 2, 3))
        continues = one & 0xC0 == 0x80
        open_ = (one >= 0xC0) | continues & (two >= 0xE0) & (sizes > 1)
        open_ |= continues & (two & 0xC0 == 0x80) & (three >= 0xF0) & (sizes > 2)
        return np.flatnonzero(open_).astype(np.int32)

    def decode(self, ids: Iterable[int]) -> bytes:
        """Return the bytes of text tokens and the names of special ones, joined; unused ids and nameless ones give
        nothing.

        Raises: VocabularyError: an id outside 0 … size - 1.
        """
        if not isinstance(ids, Iterable):
            raise VocabularyError(f"not a list of token ids: {kind(ids)}", instead="[id, …]")
        return b"".join(map(self._spelling, ids))

    def _spelling(self, token: int) -> bytes:
        known = number(token)
        if not 0 <= known < self.size:
            raise VocabularyError(f"no token {shown(token)}", because=f"ids go from 0 to {self.size - 1}")
        token = known
        text = self.tokens[token]
        return self.names.get(token, "").encode() if text is None else text

    def tokenize(self, data: bytes) -> list[int]:
        """Return text tokens whose bytes are `data`: the tokenizer's own choice where it is known, else longest match
        first.

        The tokenizer's encoder works on text and may normalise it or see special tokens in it; its answer counts only
        if it spells exactly `data` in text tokens.

        Raises: VocabularyError: no sequence of tokens spells `data`, or it is not bytes.

        >>> Vocabulary([b"a", b"ab", b"bc"]).tokenize(b"abc")
        [0, 2]
        """
        if not isinstance(data, bytes):
            raise VocabularyError(f"not bytes: {kind(data)}", instead="for a text, text.encode()")
        return self._encoded(data) or self._segmented(data)

    def _encoded(self, data: bytes) -> list[int] | None:
        """Return the encoder's tokens for `data`, or None where it has none or they spell something else."""
        if self._encode is None:
            return None
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return None
        ids = list(self._encode(text))
        # the dummy prefix is only in front of a text: hide `data` behind another one
        if self._spells(ids, b" " + data):
            anchor = list(self._encode(_ANCHOR))
            ids = list(self._encode(_ANCHOR + text))
            ids = ids[len(anchor) :] if ids[: len(anchor)] == anchor else []
        return ids if self._spells(ids, data) else None

    def _spells(self, ids: Sequence[int], data: bytes) -> bool:
        texts = [self.tokens[token] if 0 <= token < self.size else None for token in ids]
        # the test before it excludes None
        return None not in texts and b"".join(texts) == data  # type: ignore[arg-type]

    @cached_property
    def by_text(self) -> Mapping[bytes, int]:
        """Text → id; of several the highest: in SentencePiece that is the piece, not the byte that stands in for it."""
        return {text: token for token, text in enumerate(self.tokens) if text is not None}

    @cached_property
    def _widths_by_beginning(self) -> tuple[list[int], Mapping[bytes, int]]:
        """The lengths of texts, descending where they begin alike, and the first bytes of texts, `_BEGINNING` or all
        that they have, → where such lengths begin, times 2^32, and where they end.
        """
        begins, data = self.spelled
        lengths = np.diff(begins)
        starts, lengths = begins[:-1][lengths > 0], lengths[lengths > 0].astype(np.int64)
        padded = np.concatenate([data, np.zeros(_BEGINNING, np.uint8)])
        beginnings = np.minimum(lengths, _BEGINNING)
        for place in range(_BEGINNING):
            beginnings = beginnings << 8 | np.where(place < lengths, padded[starts + place], 0)
        rows, _ = np.unique(beginnings << 32 | _ALL_ONES - lengths, return_index=True)
        names, firsts = np.unique(rows >> 32, return_index=True)
        places = firsts << 32 | np.append(firsts[1:], len(rows))
        return (_ALL_ONES - (rows & _ALL_ONES)).tolist(), {
            name.to_bytes(_BEGINNING + 1, "big")[1 : 1 + (name >> 8 * _BEGINNING)]: place
            for name, place in zip(names.tolist(), places.tolist(), strict=True)
        }

    def _segmented(self, data: bytes) -> list[int]:
        """Return the segmentation that takes the longest token everywhere, with as few steps back as necessary.

        Cost: a microsecond a token; a position from which the end is out of reach is left once and for all.
        """
        ends: list[int] = [0]  # 0, then the end of each token so far
        hopeless: set[int] = set()
        by_text, size = self.by_text, len(data)
        widths, beginnings = self._widths_by_beginning
        known: dict[bytes, list[int]] = {}
        while (at := ends[-1]) < size:
            if not len(ends) & 255:
                spend(768)
            start = data[at : at + _BEGINNING]
            tried = known.get(start)
            if tried is None:
                places = [beginnings.get(start[:end], 0) for end in range(len(start), 0, -1)]
                tried = [width for place in places for width in widths[place >> 32 : place & _ALL_ONES]]
                known[start] = tried
            for width in tried:
                end = at + width
                if end <= size and data[at:end] in by_text and end not in hopeless:
                    ends.append(end)
                    break
            else:
                if not at:
                    raise VocabularyError(
                        f"cannot spell {data[:40]!r} in tokens", because="no sequence of text tokens has these bytes",
                        instead="use a tokenizer that has a token for every byte",
                    )
                hopeless.add(ends.pop())
        return [by_text[data[start:end]] for start, end in pairwise(ends)]

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Vocabulary) and self.fingerprint == other.fingerprint)

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        texts = sum(text is not None for text in self.tokens)
        sizes = f"{texts} texts, {len(self.special)} special tokens, size {self.size}"
        return f"<Vocabulary of {sizes}, stop {list(self.stop)}>"

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Vocabulary is frozen: cannot set {name!r}")

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.tokens, dict(self.special), self.stop, self.size, self.dummy_prefix, self.notes)


def _rebuild(
    tokens: Sequence[bytes | None],
    special: Mapping[str, int],
    stop: Sequence[int],
    size: int,
    dummy_prefix: bool,
    notes: Sequence[str],
) -> Vocabulary:
    return Vocabulary(tokens, special, stop, size, dummy_prefix=dummy_prefix, notes=notes)


def checked_token(vocabulary: Vocabulary, token: Any) -> int:
    """Return a token id as an int, whatever kind of int it is.

    Raises: Rejected: it is no int, or no token has this id.
    """
    known = number(token)
    if 0 <= known < vocabulary.size:
        return known
    kind = "" if isinstance(token, int) and not isinstance(token, bool) else f"; this is a {type(token).__name__}"
    raise Rejected(f"no token {shown(token)}", because=f"ids go from 0 to {vocabulary.size - 1}{kind}")


def token_name(vocabulary: Vocabulary, token: int) -> str:
    """Return how messages name a token."""
    text = vocabulary.tokens[token]
    if text is not None:
        return repr(text.decode("utf-8", "backslashreplace"))
    return vocabulary.names.get(token, "(unused)")
