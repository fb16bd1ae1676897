"""Tokenizer files → tables of token bytes: tiktoken ranks, SentencePiece, tekken.json, tokenizer.json, folders.

Every format is read here from its bytes, with the standard library alone, so that no host has to be installed; a
SentencePiece model is a protobuf message of which five fields matter, which takes thirty lines instead of a dependency.

Formats are told apart by content, not by name: JSON starts with "{", a rank file with a base64 line, a SentencePiece
model with the tag of its first piece.

Tests: against each file's own host (tiktoken, sentencepiece, mistral-common) on the real files where these are
installed.
Sources: sentencepiece_model.proto; tiktoken `load_tiktoken_bpe`; mistral-common `Tekkenizer.from_file`; llama-models
tokenizer.py.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from constrained.engine.tokens.tokenizer_json import TokenTable, read_tokenizer_json, table_of
from constrained.errors import VocabularyError, said_by, shown

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
            "special tokens unknown",
            where=where,
            because=f"a tiktoken file holds texts only; {len(texts)} is none of Llama's counts",
            instead='Vocabulary.from_tokenizer(path, special={"<|endoftext|>": 100257, …})',
        )
    return table_of(texts, names)


def _llama3() -> tuple[str, ...]:
    named = (
        "begin_of_text",
        "end_of_text",
        "reserved_special_token_0",
        "reserved_special_token_1",
        "finetune_right_pad_id",
        "step_id",
        "start_header_id",
        "end_header_id",
        "eom_id",
        "eot_id",
        "python_tag",
        "image",
    )
    return tuple(f"<|{name}|>" for name in (*named, *_reserved("", 2, 246)))


def _llama4() -> tuple[str, ...]:
    names = (
        "begin_of_text",
        "end_of_text",
        "fim_prefix",
        "fim_middle",
        "fim_suffix",
        "header_start",
        "header_end",
        "eom",
        "eot",
        "step",
        *_reserved("text_post_train_", 0, 6),
        "python_start",
        "python_end",
        "finetune_right_pad",
        *_reserved("text_post_train_", 8, 69),
        "image_start",
        "image_end",
        *_reserved("vision_", 0, 2),
        "tile_x_separator",
        "tile_y_separator",
        *_reserved("vision_", 2, 6),
        "image",
        *_reserved("vision_", 6, 7),
        "patch",
        *_reserved("vision_", 7, 1048),
        *_reserved("reasoning_", 0, 8),
        "reasoning_thinking_start",
        "reasoning_thinking_end",
    )
    return tuple(f"<|{name}|>" for name in (*names, *_reserved("", 0, 2048 - len(names))))


def _reserved(prefix: str, start: int, end: int) -> list[str]:
    return [f"{prefix}reserved_special_token_{n}" for n in range(start, end)]


_LLAMA = {128_000: _llama3, 200_000: _llama4}


# -- tekken ------------------------------------------------------------------------------------------------------------


_TEKKEN_UP_TO_V7 = (
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
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
            "not a tokenizer file",
            where=where,
            because="it is no SentencePiece model: the protobuf message is damaged",
            instead=_ACCEPTED,
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
