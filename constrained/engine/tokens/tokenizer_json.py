"""tokenizer.json (Hugging Face `tokenizers`) → a table of token bytes.

What a token means is what the file's *decoder* turns it into, so the decoder is read as a short program on one piece:
byte-level tables, `▁` → space, `<0x0A>` → byte.  Only decoders that work piece by piece are exact; one that joins with
spaces, strips or cleans up (WordPiece, BPE with `</w>`, CTC) means different bytes in different neighbourhoods and is
refused.

Calling `decode([id])` instead was refused: it replaces partial characters by U+FFFD and drops leading spaces; so does
`convert_tokens_to_string` (706 of Llama 3's tokens come out wrong that way).

Source: the decoders' Rust code (huggingface/tokenizers, src/decoders); the byte-level table is GPT-2's
`bytes_to_unicode`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from constrained.engine.tokens.layout import MOST_BYTES, cut
from constrained.errors import VocabularyError

_MARK = "▁"  # SentencePiece's visible space
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
# GPT-2's table: printable Latin-1 stands for itself, the other bytes for U+0100, U+0101, … in order.
BYTE_LEVEL: Mapping[str, int] = {chr(b): b for b in _PRINTABLE} | {
    chr(0x100 + n): b for n, b in enumerate(b for b in range(256) if b not in _PRINTABLE)
}
_BYTES = np.full(2 + max(map(ord, BYTE_LEVEL)), -1, np.int16)  # by code point; the last one for all above
_BYTES[list(map(ord, BYTE_LEVEL))] = list(BYTE_LEVEL.values())
_MOST = 1 << 24  # more tokens than any model has; a damaged file must not fill the memory
_NORMALISES = {
    "NFC",
    "NFD",
    "NFKC",
    "NFKD",
    "Nmt",
    "Precompiled",
    "Lowercase",
    "StripAccents",
    "BertNormalizer",
    "Strip",
    "Replace",
}


@dataclass(frozen=True, slots=True)
class TokenTable:
    """What every loader returns; `Vocabulary` checks it."""

    tokens: list[bytes | None]  # by id
    special: dict[str, int]
    stop: tuple[int, ...] = ()
    dummy_prefix: bool = False
    notes: tuple[str, ...] = ()
    encode: Callable[[str], Sequence[int]] | None = field(default=None, compare=False)


def table_of(texts: Mapping[int, bytes | None], special: Mapping[str, int], **rest: Any) -> TokenTable:
    """Return the table of texts by id; a special token's text, if any, is dropped.

    Raises: VocabularyError: an id that is negative or so large that the file must be wrong.
    """
    ids = [0, *texts, *special.values()]
    if min(ids) < 0 or max(ids) >= _MOST:
        raise VocabularyError(
            f"token id {min(ids) if min(ids) < 0 else max(ids)} cannot be right",
            because=f"ids are numbered from 0, and below {_MOST:,}",
        )
    tokens: list[bytes | None] = [None] * (1 + max(ids))
    for token, text in texts.items():
        tokens[token] = text or None
    for token in special.values():
        tokens[token] = None
    return TokenTable(tokens, dict(special), **rest)


def read_tokenizer_json(data: Any, where: str = "tokenizer.json") -> TokenTable:
    """Return the table of a parsed tokenizer.json.

    Special are the added tokens marked so, and the model's unknown token; other added tokens are text.
    Raises: VocabularyError: a model or decoder whose tokens have no fixed bytes.
    """
    model = data.get("model") if isinstance(data, Mapping) else None
    if not isinstance(model, Mapping) or "vocab" not in model:
        raise VocabularyError("not a tokenizer.json", where=where, because="it has no model with a vocab")
    try:
        return _table(data, model, where)
    except (AttributeError, KeyError, TypeError, UnicodeEncodeError) as error:
        raise VocabularyError(
            "damaged tokenizer.json", where=where, because=f"{type(error).__name__}: {error}"
        ) from error


def _table(data: Mapping[str, Any], model: Mapping[str, Any], where: str) -> TokenTable:
    pieces = _pieces(model, where)
    spell = _Speller(data, where)
    texts = spell.all(pieces)
    special: dict[str, int] = {}
    unknown = model.get("unk_token")
    if unknown is None and isinstance(model.get("unk_id"), int):
        unknown = pieces.get(model["unk_id"])
    if unknown is not None:
        special.update((piece, token) for token, piece in pieces.items() if piece == unknown)
    for added in data.get("added_tokens") or ():
        token, content = added["id"], added["content"]
        for name in [name for name, other in special.items() if other == token]:
            del special[name]
        if added.get("special"):
            special[content] = token
        else:
            texts[token] = spell.added(content)
    return table_of(texts, special, dummy_prefix=spell.dummy_prefix, notes=_notes(data))


def _pieces(model: Mapping[str, Any], where: str) -> dict[int, str]:
    """Return the model's pieces by id, or raise where pieces are not parts of a text."""
    kind, vocab = model.get("type"), model["vocab"]
    if kind is None:  # files of old versions do not say
        kind = "Unigram" if isinstance(vocab, list) else "BPE" if "merges" in model else "WordPiece"
    if kind not in ("BPE", "Unigram"):
        why = "its tokens are words or ##continuations; the spaces between them are implied, not spelled"
        raise VocabularyError(f"cannot read {kind} tokens exactly", where=where, because=why, instead=_INSTEAD)
    for affix in ("continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(affix):
            why = f"model.{affix} is {model[affix]!r}, a mark that stands for a space in some neighbourhoods only"
            raise VocabularyError("cannot read this BPE exactly", where=where, because=why, instead=_INSTEAD)
    if kind == "Unigram":
        return {token: entry[0] for token, entry in enumerate(vocab)}
    pieces = {token: piece for piece, token in vocab.items()}
    if len(pieces) < len(vocab):
        raise VocabularyError("two pieces with one id", where=where, because="model.vocab gives an id twice")
    return pieces


_INSTEAD = (
    "a tokenizer with byte-level BPE or byte fallback; or Vocabulary(tokens, …) with bytes that you know to be right"
)


class _Speller:
    """The decoder of a file as a function piece → bytes.

    Two families are exact: *byte-level* (every character of a piece is one byte) and *SentencePiece* (UTF-8 with `▁`
    for space, and byte pieces).  A file without decoder is read by how its encoder writes pieces, in the pre-tokenizer
    or normalizer.
    """

    def __init__(self, data: Mapping[str, Any], where: str) -> None:
        self.where = where
        self.byte_level = self.byte_pieces = self.dummy_prefix = False
        self.replaced: list[tuple[str, str]] = []
        before = [*_steps(data.get("normalizer")), *_steps(data.get("pre_tokenizer"))]
        decoder = _steps(data.get("decoder"))
        for step in decoder or [step for step in before if step.get("type") in ("ByteLevel", "Metaspace")]:
            self._take(step)
        if not decoder and not self.byte_level and not self.replaced:
            self._refuse("it has no decoder, so tokens are joined with spaces")
        model = data["model"]
        if not self.byte_level:
            if not (self.byte_pieces or model.get("byte_fallback")):
                self._refuse(
                    "it has neither byte-level pieces nor byte fallback: a text that a grammar demands may have no "
                    "spelling"
                )
            self.byte_pieces = True
        self.dummy_prefix = self.dummy_prefix or any(step.get("type") == "Prepend" for step in before)

    def _take(self, step: Mapping[str, Any]) -> None:
        kind = step.get("type")
        if kind == "ByteLevel":
            self.byte_level = True
        elif kind == "ByteFallback":
            self.byte_pieces = True
        elif kind == "Metaspace":
            self.replaced.append((step.get("replacement", _MARK), " "))
            self.dummy_prefix = (
                step.get("prepend_scheme", "always" if step.get("add_prefix_space", True) else "never") != "never"
            )
        elif kind == "Replace" and isinstance(step.get("pattern"), Mapping) and "String" in step["pattern"]:
            self.replaced.append((step["pattern"]["String"], step["content"]))
        elif kind == "Strip" and step.get("content") == " " and not step.get("stop"):
            self.dummy_prefix = True
        elif kind != "Fuse":
            self._refuse(f"its decoder has a step {kind}, which changes a token according to its neighbours")

    def _refuse(self, because: str) -> None:
        raise VocabularyError("cannot read this tokenizer exactly", where=self.where, because=because, instead=_INSTEAD)

    def __call__(self, piece: str) -> bytes:
        """Return the bytes of a piece of the model."""
        if self.byte_level:
            try:
                return bytes([BYTE_LEVEL[char] for char in piece])
            except KeyError:  # not written with the table: the decoder takes such a piece literally
                return piece.encode()
        if self.byte_pieces and (match := _BYTE.fullmatch(piece)):
            return bytes([int(match[1], 16)])
        return self.added(piece)

    def all(self, pieces: Mapping[int, str]) -> dict[int, bytes | None]:
        """Return the bytes of all pieces of the model, each as the call returns it, None for no bytes.

        PERF: byte-level characters are bytes, so all pieces in a row are looked up at once, and cut where they end.
        """
        starts = np.zeros(len(pieces) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, pieces.values()), np.int64, len(pieces)), out=starts[1:])
        if not self.byte_level or starts[-1] > MOST_BYTES:
            return {token: self(piece) for token, piece in pieces.items()}
        codes = np.frombuffer("".join(pieces.values()).encode("utf-32-le"), np.dtype("<u4"))
        values = _BYTES[np.minimum(codes, len(_BYTES) - 1)]
        texts = dict(zip(pieces, cut(starts.astype(np.int32), values.astype(np.uint8)), strict=True))
        ids = list(pieces)
        foreign = np.searchsorted(starts, np.flatnonzero(values < 0), side="right") - 1
        for token in {ids[at] for at in foreign.tolist()}:
            texts[token] = self(pieces[token])
        return texts

    def added(self, content: str) -> bytes:
        """Return the bytes of an added token, which is written as text, not with the byte-level table."""
        for old, new in self.replaced:
            content = content.replace(old, new)
        return content.encode()


def _steps(part: Any) -> list[Mapping[str, Any]]:
    """Return the steps of a decoder, normalizer or pre-tokenizer, sequences flattened."""
    if not part:
        return []
    inner = next((part[key] for key in ("decoders", "normalizers", "pretokenizers") if key in part), None)
    return [part] if inner is None else [step for each in inner for step in _steps(each)]


def _notes(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what the encoder does to texts; it does not change what tokens mean."""
    kinds = [step.get("type") for step in _steps(data.get("normalizer")) if not _writes_spaces(step)]
    changing: Iterable[str] = sorted({kind for kind in kinds if kind in _NORMALISES})
    return tuple(
        f"the encoder normalises text ({kind}): encoding what was decoded may give other tokens" for kind in changing
    )


def _writes_spaces(step: Mapping[str, Any]) -> bool:
    return step.get("type") == "Replace" and step.get("content") == _MARK
