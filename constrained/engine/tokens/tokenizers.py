"""Tokenizer objects and files → the exact table behind `Vocabulary.from_tokenizer`.

    path                    → `tokenizer_files`: rank files, SentencePiece models, tekken.json, tokenizer.json, folders
    tokenizers.Tokenizer    → `tokenizer_json`: its own JSON
    transformers, fast      → `tokenizer_json`: the JSON of its backend, plus its eos token
    transformers, slow      → the SentencePiece model behind it, plus its added tokens
    tiktoken.Encoding       → its token bytes
    mistral-common          → tekken pieces, or the SentencePiece model behind it
    sentencepiece           → its serialised model

Hosts are recognised by the module of their class and asked only through their public methods: nothing here imports one,
so whoever has no transformers does not wait for it.  The object's encoder comes along, so that `Vocabulary.tokenize`
writes what the tokenizer would.

Stop ids are what the object declares as its end of sequence (a path: generation_config.json, config.json), and the
whole family where that is one of Llama's; where nothing is declared, the special tokens of `_ENDINGS` that exist.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from constrained.engine.tokens.tokenizer_files import (
    declared_stops,
    load_path,
    read_model_proto,
    read_sentencepiece,
    with_added,
)
from constrained.engine.tokens.tokenizer_json import TokenTable, read_tokenizer_json, table_of
from constrained.errors import VocabularyError, shown

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
            f"not special tokens: {shown(special)}",
            because="they come as name → id",
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


def _json_of(tokenizer: Any) -> Any:
    """Return the JSON of a tokenizer, as far as tokens are concerned.

    PERF: with 128,000 tokens, three quarters of `to_str` are merges, which say nothing about tokens.
    """
    try:
        if type(model := tokenizer.model).__name__ == "BPE":
            parts = {name: getattr(tokenizer, name) for name in ("normalizer", "pre_tokenizer", "decoder")}
            marks = ("unk_token", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback")
            vocab = tokenizer.get_vocab(with_added_tokens=False)
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
    "transformers": _read_transformers,
    "tokenizers": _read_tokenizers,
    "tiktoken": _read_tiktoken,
    "mistral_common": _read_mistral,
    "sentencepiece": _read_sentencepiece,
}
