"""Real vocabularies from installed packages, and the embedded one where they are missing.

The files are read without importing the packages that hold them: `llama-models` and `mistral-common` would load much
more.
"""

from __future__ import annotations

import importlib.util
import re
from functools import lru_cache
from pathlib import Path

from constrained.default_model import WIDTH, load_tokenizer

from constrained import ChatFormat, Vocabulary

# The 256 special tokens follow the 128,000 texts; the reserved ones fill up.
_LLAMA3_NAMED = (
    "<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>",
    "<|finetune_right_pad_id|>",
    "<|step_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>",
    "<|image|>",
)  # fmt: skip
_LLAMA3_TEXTS, _LLAMA3_SPECIAL = 128_000, 256


def llama3_file() -> Path | None:
    """Return the tokenizer file of the installed llama-models package."""
    return _installed("llama_models", "llama3", "tokenizer.model")


def mistral_file() -> Path | None:
    """Return the SentencePiece file (v3) of the installed mistral-common package."""
    return _installed("mistral_common", "data", "mistral_instruct_tokenizer_240323.model.v3")


def tekken_file() -> Path | None:
    """Return the tekken file of the installed mistral-common package."""
    return _installed("mistral_common", "data", "tekken_240911.json")


def llama3_special() -> dict[str, int]:
    """Return name → id of Llama 3.1's special tokens."""
    reserved = (f"<|reserved_special_token_{2 + i}|>" for i in range(_LLAMA3_SPECIAL - len(_LLAMA3_NAMED)))
    return {name: _LLAMA3_TEXTS + i for i, name in enumerate((*_LLAMA3_NAMED, *reserved))}


@lru_cache
def llama3(formats: tuple[str, ...] = ()) -> Vocabulary | None:
    """Return Llama 3.1's vocabulary: 128,256 ids, special tokens of formats, or all of them, on its reserved ids; None
    where it is not installed.
    """
    path = llama3_file()
    if path is None:
        return None
    special = llama3_special()
    spare = iter([name for name in special if "reserved" in name])
    for name in sorted(_format_tokens(formats) - set(special)):
        special[name] = special.pop(next(spare))
    return Vocabulary.from_tokenizer(path, special=special, stop=[special["<|eot_id|>"]])


@lru_cache
def mistral() -> Vocabulary | None:
    """Return the Mistral v3 vocabulary with the formats' special tokens after its 32,768 ids; None where it is not
    installed.
    """
    return _with_format_tokens(mistral_file())


@lru_cache
def tekken() -> Vocabulary | None:
    """Return Mistral's tekken vocabulary with the formats' special tokens after its 131,072 ids; None where it is not
    installed.
    """
    return _with_format_tokens(tekken_file())


def _with_format_tokens(path: Path | None) -> Vocabulary | None:
    if path is None:
        return None
    plain = Vocabulary.from_tokenizer(path)
    added = {name: plain.size + i for i, name in enumerate(sorted(_format_tokens() - set(plain.special)))}
    return Vocabulary(
        plain.tokens, special={**plain.special, **added}, stop=plain.stop, size=plain.size + len(added) + 27
    )


@lru_cache
def embedded() -> Vocabulary:
    """Return the embedded model's vocabulary."""
    return Vocabulary.from_tokenizer(load_tokenizer(), size=WIDTH)


def encode(vocabulary: Vocabulary, text: str) -> list[int]:
    """Return ids for a text in which the names of special tokens stand for these tokens."""
    names = sorted(vocabulary.special, key=len, reverse=True)
    ids: list[int] = []
    for piece in re.split("(" + "|".join(map(re.escape, names)) + ")", text):
        ids += [vocabulary.special[piece]] if piece in vocabulary.special else vocabulary.tokenize(piece.encode())
    return ids


def _format_tokens(formats: tuple[str, ...] = ()) -> set[str]:
    return {token for name in formats or ChatFormat.names() for token in ChatFormat.load(name).tokens.values()}


def _installed(package: str, *parts: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    path = Path(spec.submodule_search_locations[0], *parts)
    return path if path.exists() else None
