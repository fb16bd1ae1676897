"""Tokenizer objects and files → the exact table behind `Vocabulary.from_tokenizer`.

    path                    rank files, SentencePiece models, tekken.json, tokenizer.json, folders
    tokenizers.Tokenizer    its own JSON
    transformers, fast      the JSON of its backend, plus its eos token
    transformers, slow      the SentencePiece model behind it, plus its added tokens
    tiktoken.Encoding       its token bytes
    mistral-common          tekken pieces, or the SentencePiece model behind it
    sentencepiece           its serialised model

Files are read from their bytes, with the standard library alone.  Objects are recognised by the module of their class
and asked only through their public methods: nothing here imports a host, so whoever has no transformers does not wait
for it.  The object's encoder comes along, so that `Vocabulary.tokenize` writes what the tokenizer would.

Stop ids are what the object declares as its end of sequence (a path: generation_config.json, config.json), and the
whole family where that is one of Llama's; where nothing is declared, the special tokens of `_ENDINGS` that exist.

Tests: against each file's own host (tiktoken, sentencepiece, mistral-common) on the real files where these are
installed.
Sources: the decoders' Rust code (huggingface/tokenizers, src/decoders); GPT-2's `bytes_to_unicode`;
sentencepiece_model.proto; tiktoken `load_tiktoken_bpe`; mistral-common `Tekkenizer.from_file`; llama-models
tokenizer.py.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from constrained.engine.tokens.trie import MOST_BYTES, cut
from constrained.errors import VocabularyError, said_by, shown

# ======================================================================================================================
# tokenizer.json (Hugging Face `tokenizers`) → a table of token bytes.
#
# What a token means is what the file's *decoder* turns it into, so the decoder is read as a short program on one piece:
# byte-level tables, `▁` → space, `<0x0A>` → byte.  Only decoders that work piece by piece are exact; one that joins
# with spaces, strips or cleans up (WordPiece, BPE with `</w>`, CTC) means different bytes in different neighbourhoods
# and is refused.
#
# Calling `decode([id])` instead was refused: it replaces partial characters by U+FFFD and drops leading spaces; so does
# `convert_tokens_to_string` (706 of Llama 3's tokens come out wrong that way).
# ======================================================================================================================

_MARK = "▁"  # SentencePiece's visible space
_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
# GPT-2's table: printable Latin-1 stands for itself, the other bytes for U+0100, U+0101, … in order.
BYTE_LEVEL: Mapping[str, int] = {chr(b): b for b in _PRINTABLE} | {
    chr(0x100 + n): b for n, b in enumerate(b for b in range(256) if b not in _PRINTABLE)
}
_BYTES = np.full(2 + max(map(ord, BYTE_LEVEL)), -1, np.int16)  # by code point; the last one for all above
_BYTES[list(map(ord, BYTE_LEVEL))] = list(BYTE_LEVEL.values())
_MOST = 1 << 24  # more tokens than any model has; a damaged file must not fill the memory
_NORMALISES = {
    "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Precompiled", "Lowercase", "StripAccents", "BertNormalizer", "Strip",
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
    least, most = min(ids), max(ids)
    if least < 0 or most >= _MOST:
        because = f"ids are numbered from 0, and below {_MOST:,}"
        raise VocabularyError(f"token id {least if least < 0 else most} cannot be right", because=because)
    tokens: list[bytes | None] = [None] * (1 + most)
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
    pieces = vocab if isinstance(vocab, _ById) else {token: piece for piece, token in vocab.items()}
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
        if self.byte_pieces and (match := _BYTE_PIECE.fullmatch(piece)):
            return bytes([int(match[1], 16)])
        return self.added(piece)

    def all(self, pieces: Mapping[int, str]) -> dict[int, bytes | None]:
        """Return the bytes of all pieces of the model, each as the call returns it, None for no bytes.

        Byte-level characters are bytes, so all pieces in a row are looked up at once, and cut where they end.
        """
        starts = np.zeros(len(pieces) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, pieces.values()), np.int64, len(pieces)), out=starts[1:])
        if not self.byte_level or starts[-1] > MOST_BYTES:
            return {token: self(piece) for token, piece in pieces.items()}
        codes = np.frombuffer("".join(pieces.values()).encode("utf-32-le"), np.dtype("<u4"))
        values = _BYTES[np.minimum(codes, len(_BYTES) - 1)]
        texts = dict(zip(pieces, cut(starts.astype(np.int32), values.astype(np.uint8)), strict=True))
        foreign = set((np.searchsorted(starts, np.flatnonzero(values < 0), side="right") - 1).tolist())
        for token in [token for at, token in enumerate(pieces) if at in foreign] if foreign else ():
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
    steps = [step for step in _steps(data.get("normalizer")) if step.get("content") != _MARK]  # a space
    kinds = [step.get("type") for step in steps]
    changing: Iterable[str] = sorted({kind for kind in kinds if kind in _NORMALISES})
    return tuple(
        f"the encoder normalises text ({kind}): encoding what was decoded may give other tokens" for kind in changing
    )


# ======================================================================================================================
# Tokenizer files → tables of token bytes: tiktoken ranks, SentencePiece, tekken.json, tokenizer.json, folders.
#
# Every format is read here from its bytes, with the standard library alone, so that no host has to be installed; a
# SentencePiece model is a protobuf message of which five fields matter, which takes thirty lines instead of a
# dependency.
#
# Formats are told apart by content, not by name: JSON starts with "{", a rank file with a base64 line, a SentencePiece
# model with the tag of its first piece.
# ======================================================================================================================

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = 1, 2, 3, 4, 5, 6  # SentencePiece.Type


def load_path(path: Path, special: Mapping[str, int]) -> TokenTable:
    """Return the table of a tokenizer file or of a model directory.

    Raises: VocabularyError: no such file, or no format that is read here.
    """
    try:
        data = None if path.is_dir() else path.read_bytes()
    except (OSError, ValueError) as error:  # a name that no file system takes is a ValueError
        because = said_by(error) if isinstance(error, OSError) else "no file can have that name"
        instead = f"{_ACCEPTED}; for the name of a model, AutoTokenizer.from_pretrained(name)"
        raise VocabularyError(f"cannot read tokenizer {shown(str(path))}", because=because, instead=instead) from error
    if data is None:
        return _load_directory(path, special)
    where = path.name
    if data.lstrip()[:1] == b"{":
        return _read_json(data, where)
    if data[:1] == b"\x0a":
        return read_sentencepiece(data, where)
    return read_tiktoken(data, special, where)


_ACCEPTED = (
    "a tokenizer.json, a tokenizer.model (SentencePiece or tiktoken ranks), a tekken.json, "
    "or a directory that has one of them"
)


def _read_json(data: bytes, where: str) -> TokenTable:
    try:
        parsed = json.loads(data)
    except ValueError as error:
        raise VocabularyError(
            "not a tokenizer file", where=where, because=f"it looks like JSON, but {error}", instead=_ACCEPTED
        ) from error
    if "vocab" in parsed and "config" in parsed:
        return read_tekken(parsed, where)
    return read_tokenizer_json(parsed, where)


# -- directories -------------------------------------------------------------------------------------------------------


def _load_directory(path: Path, special: Mapping[str, int]) -> TokenTable:
    """Return the table of a model directory as `save_pretrained` or a vendor writes it.

    tokenizer.json says everything about texts; beside a SentencePiece model, tokenizer_config.json lists the added
    tokens.
    """
    for name in ("tokenizer.json", "tekken.json", "tokenizer.model"):
        if (path / name).is_file():
            break
    else:
        raise VocabularyError(
            f"no tokenizer in directory {str(path)!r}", because="none of the known files is there", instead=_ACCEPTED
        )
    config = _optional_json(path / "tokenizer_config.json")
    added = config.get("added_tokens_decoder") or {}
    table = load_path(path / name, special)
    if name == "tokenizer.model":
        table = with_added(
            table, {int(token): (entry["content"], bool(entry.get("special"))) for token, entry in added.items()}
        )
    declared = declared_stops(path) or _ids_of_names(config.get("eos_token"), table)
    return TokenTable(table.tokens, table.special, declared or table.stop, table.dummy_prefix, table.notes)


def declared_stops(path: Path) -> tuple[int, ...]:
    """Return the stop ids that generation_config.json, else config.json, in a model directory lists."""
    for name in ("generation_config.json", "config.json"):
        value = _optional_json(path / name).get("eos_token_id")
        if value is not None:
            ids = tuple(value) if isinstance(value, list) else (value,)
            if any(isinstance(one, (dict, list)) for one in ids):
                raise VocabularyError(f"cannot read {name}", because=f"eos_token_id is {shown(value)}")
            return ids
    return ()


def _optional_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        raise VocabularyError(f"cannot read {path.name}", because=said_by(error)) from error
    return value if isinstance(value, dict) else {}


def _ids_of_names(name: Any, table: TokenTable) -> tuple[int, ...]:
    content = name.get("content") if isinstance(name, dict) else name
    return (table.special[content],) if isinstance(content, str) and content in table.special else ()


def with_added(table: TokenTable, added: Mapping[int, tuple[str, bool]]) -> TokenTable:
    """Return the table with added tokens, id → (content, special), in place of what their ids were before."""
    texts = {token: text for token, text in enumerate(table.tokens) if text is not None and token not in added}
    special = {name: token for name, token in table.special.items() if token not in added}
    for token, (content, is_special) in added.items():
        if is_special:
            special[content] = token
        else:
            try:
                texts[token] = content.replace("▁", " ").encode()
            except UnicodeEncodeError as error:
                because = "it holds a lone surrogate, which no bytes spell"
                raise VocabularyError(f"added token {shown(content)} is no text", because=because) from error
    return table_of(
        texts, special, stop=table.stop, dummy_prefix=table.dummy_prefix, notes=table.notes, encode=table.encode
    )


# -- tiktoken rank files -----------------------------------------------------------------------------------------------


def read_tiktoken(data: bytes, special: Mapping[str, int], where: str) -> TokenTable:
    """Return the table of a rank file: lines of base64 text and id.

    Such a file does not hold the special tokens.  Two are known by their number of ranks, 128,000 (Llama 3) and 200,000
    (Llama 4); for others, and to override, the caller names them.
    """
    texts: dict[int, bytes] = {}
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            text, rank = line.split()
            texts[int(rank)] = base64.b64decode(text, validate=True)
        except (ValueError, binascii.Error) as error:
            raise VocabularyError(
                "not a tokenizer file", where=f"{where} line {number}",
                because=f"{line[:40]!r} is no tiktoken rank (base64, space, number)", instead=_ACCEPTED,
            ) from error
    names = dict(special) or {name: len(texts) + n for n, name in enumerate(_LLAMA.get(len(texts), tuple)())}
    if not names:
        raise VocabularyError(
            "special tokens unknown", where=where,
            because=f"a tiktoken file holds texts only; {len(texts)} is none of Llama's counts",
            instead='Vocabulary.from_tokenizer(path, special={"<|endoftext|>": 100257, …})',
        )
    return table_of(texts, names)


def _llama3() -> tuple[str, ...]:
    named = (
        "begin_of_text", "end_of_text", "reserved_special_token_0", "reserved_special_token_1",
        "finetune_right_pad_id", "step_id", "start_header_id", "end_header_id", "eom_id", "eot_id", "python_tag",
        "image",
    )
    return tuple(f"<|{name}|>" for name in (*named, *_reserved("", 2, 246)))


def _llama4() -> tuple[str, ...]:
    names = (
        "begin_of_text", "end_of_text", "fim_prefix", "fim_middle", "fim_suffix", "header_start", "header_end", "eom",
        "eot", "step", *_reserved("text_post_train_", 0, 6), "python_start", "python_end", "finetune_right_pad",
        *_reserved("text_post_train_", 8, 69), "image_start", "image_end", *_reserved("vision_", 0, 2),
        "tile_x_separator", "tile_y_separator", *_reserved("vision_", 2, 6), "image", *_reserved("vision_", 6, 7),
        "patch", *_reserved("vision_", 7, 1048), *_reserved("reasoning_", 0, 8), "reasoning_thinking_start",
        "reasoning_thinking_end",
    )
    return tuple(f"<|{name}|>" for name in (*names, *_reserved("", 0, 2048 - len(names))))


def _reserved(prefix: str, start: int, end: int) -> list[str]:
    return [f"{prefix}reserved_special_token_{n}" for n in range(start, end)]


_LLAMA = {128_000: _llama3, 200_000: _llama4}


# -- tekken ------------------------------------------------------------------------------------------------------------


_TEKKEN_UP_TO_V7 = (
    "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]",
    "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]",
)  # files of these versions do not list their special tokens


def read_tekken(data: Mapping[str, Any], where: str) -> TokenTable:
    """Return the table of a tekken.json: the special tokens come first, then the texts by rank.

    The file may hold more texts than the model has: `default_vocab_size` counts.
    """
    try:
        config = data["config"]
        reserved, size = config["default_num_special_tokens"], config["default_vocab_size"]
        listed = data.get("special_tokens")
        names = dict(enumerate(_TEKKEN_UP_TO_V7)) if listed is None else {s["rank"]: s["token_str"] for s in listed}
        texts = {
            reserved + entry["rank"]: base64.b64decode(entry["token_bytes"])
            for entry in data["vocab"][: size - reserved]
        }
    except (KeyError, TypeError, ValueError) as error:
        raise VocabularyError(
            "not a tekken file", where=where, because=f"{type(error).__name__}: {error}", instead=_ACCEPTED
        ) from error
    special = {names.get(token, f"<SPECIAL_{token}>"): token for token in range(reserved)}
    return table_of(texts, special, stop=tuple(special[name] for name in ("</s>",) if name in special))


# -- SentencePiece -----------------------------------------------------------------------------------------------------


def read_sentencepiece(data: bytes, where: str) -> TokenTable:
    """Return the table of a SentencePiece ModelProto.

    Byte pieces are that byte, control pieces and the unknown piece are special, user-defined pieces are text, unused
    ones nothing.
    """
    pieces, trainer, normalizer = read_model_proto(data, where)
    if not any(kind == _BYTE for _, kind in pieces):
        raise VocabularyError(
            "cannot read this tokenizer exactly", where=where,
            because="the model has no byte pieces: a text that a grammar demands may have no spelling",
            instead="a SentencePiece model trained with byte_fallback",
        )
    texts: dict[int, bytes] = {}
    special: dict[str, int] = {}
    for token, (piece, kind) in enumerate(pieces):
        if kind in (_CONTROL, _UNKNOWN):
            special[piece] = token
        elif kind == _BYTE:
            texts[token] = bytes([int(piece[3:5], 16)])
        elif kind != _UNUSED:
            texts[token] = piece.replace("▁", " ").encode()
    eos = trainer.get(42, 2)  # TrainerSpec.eos_id
    named = normalizer.get(1, b"").decode()  # NormalizerSpec.name
    notes = (f"the encoder normalises text ({named}): encoding what was decoded may give other tokens",)
    return table_of(
        texts, special, stop=(eos,) if eos in special.values() else (), dummy_prefix=bool(normalizer.get(3, 1)),
        notes=() if named in ("", "identity") else notes,
    )


def read_model_proto(data: bytes, where: str) -> tuple[list[tuple[str, int]], dict[int, Any], dict[int, Any]]:
    """Return (piece, type) by id, and the fields of the trainer's and the normalizer's specification."""
    pieces: list[tuple[str, int]] = []
    specs: dict[int, dict[int, Any]] = {2: {}, 3: {}}
    try:
        for tag, value in _fields(data):
            if tag == 1:
                entry = dict(_fields(value))
                pieces.append((entry[1].decode(), entry.get(3, _NORMAL)))
            elif tag in specs:
                specs[tag] = dict(_fields(value))
    except (IndexError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise VocabularyError(
            "not a tokenizer file", where=where,
            because="it is no SentencePiece model: the protobuf message is damaged", instead=_ACCEPTED,
        ) from error
    return pieces, specs[2], specs[3]


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield (field number, value) of a protobuf message: int for varints, bytes for the rest.

    Source: protobuf encoding, https://protobuf.dev/programming-guides/encoding.
    """
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if wire == 2:
            width, at = _varint(data, at)
        elif wire in (1, 5):
            width = 8 if wire == 1 else 4
        else:
            raise ValueError(f"wire type {wire}")
        if at + width > len(data):
            raise ValueError("cut short")
        yield key >> 3, data[at : at + width]
        at += width


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


# -- objects of hosts -------------------------------------------------------------------------------------------------

# A model of these families ends a message with any of the names, whichever of them its tokenizer calls eos.
_FAMILIES = (("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"), ("<|eot|>", "<|eom|>", "<|end_of_text|>"))
_ENDINGS = ("<|im_end|>", "<|endoftext|>", "<|end|>", "<end_of_turn>", "<|eos|>", "<eos>", "</s>")


def load(tokenizer: Any, special: Mapping[str, int] | None = None) -> TokenTable:
    """Return the table of `tokenizer`, an object or a path; `special` adds special tokens, in place of texts with the
    same ids.

    Raises: VocabularyError: not a tokenizer, or one that cannot be read exactly.
    """
    if special is not None and not isinstance(special, Mapping):
        raise VocabularyError(
            f"not special tokens: {shown(special)}", because="they come as name → id",
            instead='for instance {"<|eot_id|>": 128009}',
        )
    extra = dict(special or {})
    table = (
        load_path(Path(tokenizer), extra) if isinstance(tokenizer, (str, PathLike)) else _reader(tokenizer)(tokenizer)
    )
    if extra:
        table = with_added(table, {token: (name, True) for name, token in extra.items()})
    if not any(table.tokens):
        raise VocabularyError("a tokenizer without texts", because="it has special tokens only, or nothing")
    return replace(table, stop=_stops(table))


def _reader(tokenizer: Any) -> Callable[[Any], TokenTable]:
    """Return the function that reads this kind of object."""
    for kind in type(tokenizer).__mro__:
        package = kind.__module__.partition(".")[0]
        if package in _READERS:
            return _READERS[package]
    raise _no_tokenizer(
        tokenizer, "only objects of transformers, tokenizers, tiktoken, mistral-common and sentencepiece are known",
        "the path of a tokenizer file, or Vocabulary(tokens, …) with the bytes of every token",
    )


def _no_tokenizer(value: Any, because: str, instead: str) -> VocabularyError:
    return VocabularyError(
        f"not a tokenizer: {type(value).__module__}.{type(value).__qualname__}", because=because, instead=instead
    )


def _stops(table: TokenTable) -> tuple[int, ...]:
    """Return the declared stop ids, completed to their family; without a declaration, the well-known endings that
    exist.
    """
    stop = list(table.stop)
    for family in _FAMILIES:
        ids = [table.special[name] for name in family if name in table.special]
        if ids and table.special.get(family[0]) in ids and (not stop or set(stop) & set(ids)):
            stop += ids
    if not stop:
        stop = [table.special[name] for name in _ENDINGS if name in table.special]
    return tuple(dict.fromkeys(stop))


def _read_tokenizers(tokenizer: Any) -> TokenTable:
    if not hasattr(tokenizer, "to_str"):
        raise _no_tokenizer(tokenizer, "it is a part of one", "the tokenizers.Tokenizer that holds it")
    table = read_tokenizer_json(_json_of(tokenizer), type(tokenizer).__name__)

    def encode(text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False).ids)

    return replace(table, encode=encode)


class _ById(dict[int, str]):
    """The pieces of a model by id; files have them the other way round."""


def _json_of(tokenizer: Any) -> Any:
    """Return the JSON of a tokenizer, as far as tokens are concerned.

    With 128,000 tokens, three quarters of `to_str` are merges, which say nothing about tokens, and to ask for each id
    takes half of the time of `get_vocab`.
    """
    try:
        if type(model := tokenizer.model).__name__ == "BPE":
            parts = {name: getattr(tokenizer, name) for name in ("normalizer", "pre_tokenizer", "decoder")}
            marks = ("unk_token", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback")
            ids = range(tokenizer.get_vocab_size(with_added_tokens=False))
            pieces = _ById(zip(ids, map(model.id_to_token, ids), strict=True))
            vocab = tokenizer.get_vocab(with_added_tokens=False) if None in pieces.values() else pieces
            return {
                "added_tokens": [
                    {"id": token, "content": added.content, "special": added.special}
                    for token, added in tokenizer.get_added_tokens_decoder().items()
                ],
                "model": {"type": "BPE", "vocab": vocab} | {name: getattr(model, name) for name in marks},
            } | {name: None if part is None else json.loads(part.__getstate__()) for name, part in parts.items()}
    except Exception:
        pass  # another version of the package, or a part of one's own: `to_str` says what is wrong
    return json.loads(tokenizer.to_str())


def _read_transformers(tokenizer: Any) -> TokenTable:
    if not hasattr(tokenizer, "convert_ids_to_tokens"):
        raise _no_tokenizer(
            tokenizer, "it does not map ids to tokens", "the model's tokenizer, AutoTokenizer.from_pretrained(…)"
        )
    if (backend := getattr(tokenizer, "backend_tokenizer", None)) is not None:
        table = _read_tokenizers(backend)
    elif type(getattr(tokenizer, "tokenizer", None)).__module__.startswith("mistral_common."):
        table = _read_mistral(tokenizer.tokenizer)
    elif (model := _sentencepiece_of(tokenizer)) is not None:
        table = _read_slow(tokenizer, model)
    else:
        raise VocabularyError(
            f"cannot read {type(tokenizer).__name__} exactly",
            because="it is a slow tokenizer without a SentencePiece model",
            instead="its fast variant, or the file it was loaded from",
        )
    declared = declared_stops(Path(tokenizer.name_or_path)) if getattr(tokenizer, "name_or_path", "") else ()
    eos = getattr(tokenizer, "eos_token_id", None)
    stop = declared or (() if eos is None else (eos,))
    return _control(replace(table, stop=stop or table.stop), tokenizer)


def _control(table: TokenTable, tokenizer: Any) -> TokenTable:
    """Return the table with a text that the tokenizer calls its end of sequence turned into a special token."""
    spelled = [token for token in table.stop if token < len(table.tokens) and table.tokens[token] is not None]
    return (
        with_added(table, {token: (tokenizer.convert_ids_to_tokens(token), True) for token in spelled})
        if spelled
        else table
    )


def _sentencepiece_of(tokenizer: Any) -> Any:
    """Return the SentencePieceProcessor of a slow tokenizer, also where a wrapper holds it (ChatGLM)."""
    inner = getattr(tokenizer, "tokenizer", None)
    return getattr(tokenizer, "sp_model", None) or getattr(inner, "sp_model", None)


def _read_slow(tokenizer: Any, model: Any) -> TokenTable:
    """Return the table of a slow tokenizer over SentencePiece; its ids may be shifted against the model's."""
    proto = model.serialized_model_proto()
    own = read_sentencepiece(proto, type(tokenizer).__name__)
    position = {piece: at for at, (piece, _) in enumerate(read_model_proto(proto, "")[0])}
    added = {token: (entry.content, bool(entry.special)) for token, entry in tokenizer.added_tokens_decoder.items()}
    texts: dict[int, bytes] = {}
    special: dict[str, int] = {}
    for token in range(len(tokenizer)):
        piece = tokenizer.convert_ids_to_tokens(token)
        at = position.get(piece)
        if at is None or token in added:
            continue
        if (text := own.tokens[at]) is not None:
            texts[token] = text
        elif piece in own.special:
            special[piece] = token
    extra = getattr(getattr(tokenizer, "tokenizer", None), "special_tokens", None)  # ChatGLM keeps its own
    added |= {token: (name, True) for name, token in extra.items()} if isinstance(extra, Mapping) else {}
    table = table_of(texts, special, dummy_prefix=own.dummy_prefix, notes=own.notes)
    return replace(with_added(table, added), encode=_without_special(tokenizer))


def _without_special(tokenizer: Any) -> Callable[[str], list[int]]:
    def encode(text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False))

    return encode


def _read_tiktoken(encoding: Any) -> TokenTable:
    if not hasattr(encoding, "encode_single_token"):
        raise _no_tokenizer(encoding, "it has no tokens", "a tiktoken.Encoding")
    texts = {encoding.encode_single_token(text): text for text in encoding.token_byte_values()}
    special = {name: encoding.encode_single_token(name) for name in encoding.special_tokens_set}
    return table_of(texts, special, encode=encoding.encode_ordinary)


def _read_mistral(tokenizer: Any) -> TokenTable:
    """Return the table of a MistralTokenizer, an instruct tokenizer, or the tekken or SentencePiece tokenizer
    inside.
    """
    for name in ("instruct_tokenizer", "tokenizer"):
        tokenizer = getattr(tokenizer, name, tokenizer)
    if hasattr(tokenizer, "id_to_byte_piece"):
        ids = range(tokenizer.n_words)
        special = {tokenizer.id_to_piece(token): token for token in ids if tokenizer.is_special(token)}
        named = set(special.values())
        table = table_of({token: tokenizer.id_to_byte_piece(token) for token in ids if token not in named}, special)
    elif hasattr(getattr(tokenizer, "_model", None), "serialized_model_proto"):
        table = read_sentencepiece(tokenizer._model.serialized_model_proto(), type(tokenizer).__name__)
    else:
        raise _no_tokenizer(
            tokenizer, "it is another part of mistral-common", "a MistralTokenizer, or its instruct_tokenizer.tokenizer"
        )

    def encode(text: str) -> list[int]:
        return list(tokenizer.encode(text, bos=False, eos=False))

    return replace(table, stop=(tokenizer.eos_id,), encode=encode)


def _read_sentencepiece(model: Any) -> TokenTable:
    table = read_sentencepiece(model.serialized_model_proto(), type(model).__name__)

    def encode(text: str) -> list[int]:
        return list(model.encode(text))

    return replace(table, encode=encode)


_READERS: Mapping[str, Callable[[Any], TokenTable]] = {
    "transformers": _read_transformers, "tokenizers": _read_tokenizers, "tiktoken": _read_tiktoken,
    "mistral_common": _read_mistral, "sentencepiece": _read_sentencepiece,
}
