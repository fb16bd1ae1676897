"""`Vocabulary`: each id of a tokenizer stands for bytes of text, a named special token, or nothing.

The engine reads bytes, so a tokenizer is reduced to a table: id → bytes.  Everything else that a tokenizer does
(splitting, merging, normalising) only decides which of several spellings it would choose, never what an id means.  A
special token has a name but no bytes: that is why text can never spell one, and why a mask can never allow one that the
grammar does not name.

Loading the table from the many kinds of tokenizers is in `tokenizers`, walking it in `trie`.

Tests: the tables of four real tokenizers against their own files; a table of wrong uses with their messages.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from constrained.engine.memory.registry import Kernels
from constrained.engine.tokens.bitmask import number
from constrained.engine.tokens.layout import Layout
from constrained.engine.tokens.saved import SavedTable, read, write
from constrained.engine.tokens.trie import TokenTrie
from constrained.engine.tokens.vocabulary_checks import (
    check_rest,
    check_tokens,
    checked_size,
    checked_special,
    checked_stop,
    kind,
)
from constrained.errors import VocabularyError, shown
from constrained.work import spend

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
            tokens=tokens,
            special=MappingProxyType({name: token for token, name in table.names.items()}),
            names=MappingProxyType(dict(table.names)),
            stop=table.stop,
            size=len(tokens),
            used=max([texts, *(token + 1 for token in (*table.names, *table.stop))]),
            words=-(-len(tokens) // 32),
            longest=layout.longest,
            dummy_prefix=table.dummy_prefix,
            notes=table.notes,
            _encode=encode,
            kernels=Kernels(),
            layout=layout,
            trie=layout.trie,
            spelled=(layout.starts, layout.data),
            characters=layout.characters,
            by_characters=(layout.fewest_first, layout.with_at_most),
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
    def levels(self) -> list[npt.NDArray[np.int32]]:
        """The nodes of the trie by depth, ascending."""
        trie = self.trie
        by_depth = np.argsort(trie.depth, kind="stable").astype(np.int32)
        return np.split(by_depth, np.cumsum(np.bincount(trie.depth)[1:-1])) if trie.nodes else []

    @cached_property
    def unfinished(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], list[bytes]]:
        """The tokens whose texts end inside a character: their places in trie.ids, ascending, which end each has, and
        the ends: the bytes of that character.
        """
        ends: dict[bytes, int] = {}
        found = []
        for place, token in enumerate(self.trie.ids.tolist()):
            text = self.tokens[token] or b""
            if text[-1] >= 0x80 and (length := _begun(text)):
                found.append((place, ends.setdefault(text[-length:], len(ends))))
        table = np.array(found, np.int32).reshape(-1, 2)
        return table[:, 0], table[:, 1], [*ends]

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
    def widths(self) -> list[int]:
        """The lengths of texts in bytes, each once, descending."""
        lengths: list[int] = np.unique(np.diff(self.spelled[0])).tolist()
        return [length for length in reversed(lengths) if length]

    @cached_property
    def _widths_by_beginning(self) -> tuple[list[int], Mapping[bytes, int]]:
        """The lengths of texts, descending where they begin alike, and the first bytes of texts, `_BEGINNING` or all
        that they have, → where such lengths begin, times 2^32, and where they end.

        PERF: numbers, which the garbage collector need not look at: 50-200 -> 20 ms for Llama 3.
        """
        begins, data = self.spelled
        lengths = np.diff(begins)
        starts, lengths = begins[:-1][lengths > 0], lengths[lengths > 0].astype(np.int64)
        padded = np.concatenate([data, np.zeros(_BEGINNING, np.uint8)])
        beginnings = np.minimum(lengths, _BEGINNING)
        for place in range(_BEGINNING):
            beginnings = beginnings << 8 | np.where(place < lengths, padded[starts + place], 0)
        rows, _ = np.unique(beginnings << 32 | _ALL_ONES - lengths, return_index=True)  # PERF: 90 -> 10 ms, else hashed
        names, firsts = np.unique(rows >> 32, return_index=True)
        places = firsts << 32 | np.append(firsts[1:], len(rows))
        return (_ALL_ONES - (rows & _ALL_ONES)).tolist(), {
            name.to_bytes(_BEGINNING + 1, "big")[1 : 1 + (name >> 8 * _BEGINNING)]: place
            for name, place in zip(names.tolist(), places.tolist(), strict=True)
        }

    def _segmented(self, data: bytes) -> list[int]:
        """Return the segmentation that takes the longest token everywhere, with as few steps back as necessary.

        Cost: a microsecond a token; a position from which the end is out of reach is left once and for all.
        PERF: only lengths are tried that texts of the same beginning have, looked up once for each: a megabyte of
        English 13 -> 0.2 s.
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


def _begun(text: bytes) -> int:
    """Return how many bytes of a character stand at the end of a text that lacks the rest of it, as far as its leading
    byte says; else 0.
    """
    for behind, byte in enumerate(reversed(text[-3:]), 1):
        if byte >= 0xC0:
            return behind if behind < (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4) else 0
        if byte < 0x80:
            return 0
    return 0
