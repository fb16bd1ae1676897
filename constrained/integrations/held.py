"""Stand-ins for grammars and vocabularies: types, schemas, patterns and texts; tokenizers and models.

Tested in tests/hosts/test_generate.py and tests/test_held.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from constrained.engine.compiled import CompiledGrammar
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.errors import ConstrainedError, GrammarError, VocabularyError, shown
from constrained.formats import ChatFormat
from constrained.grammar import Grammar
from constrained.python_types import is_python_type

_vocabularies: WeakKeyDictionary[Any, dict[int | None, Vocabulary]] = WeakKeyDictionary()


def grammar_of(wanted: Any, *, profile: str | None = None) -> Grammar:
    """Return the grammar that something stands for.

    wanted: a `Grammar`; a JSON Schema, as a mapping, a boolean or JSON text; a Python type or a `TypeAdapter`, None, or
    a callable with hints (its keyword arguments); a compiled pattern; a list of texts.
    profile: how schemas are read, see `Grammar.from_json_schema`.

    Raises: GrammarError, SchemaError: it cannot be read.  GrammarError: nobody knows what it stands for.

    >>> [symbol.source for symbol in grammar_of(re.compile("a+", re.I)).symbols()]
    ['(?i)a+']
    """
    if isinstance(wanted, Grammar):
        return wanted
    if isinstance(wanted, re.Pattern):
        return _of_pattern(wanted)
    if isinstance(wanted, str) and (schema := _schema_in(wanted)) is not None:
        wanted = schema
    if isinstance(wanted, Mapping | bool):
        return Grammar.from_json_schema(wanted, profile=profile)
    if isinstance(wanted, (list, tuple)):
        return Grammar.choice(wanted)
    if wanted is None or is_python_type(wanted):
        return Grammar.from_json_schema(type(None) if wanted is None else wanted, profile=profile)
    if callable(wanted) and not isinstance(wanted, (ChatFormat, CompiledGrammar)):
        return Grammar.from_json_schema(wanted, profile=profile)
    instead = (
        "Grammar.from_lark, from_json_schema, from_regex, ChatFormat.grammar, a type such as list[int], a schema, "
        "a pattern or a list of texts"
    )
    because = f"a text stands for a JSON Schema, and {_no_schema(wanted)}" if isinstance(wanted, str) else None
    raise GrammarError(f"not a grammar: {type(wanted).__name__}", because=because, instead=instead)


def _schema_in(text: str) -> Any:
    """Return the schema that a JSON text spells, None where it is none."""
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return schema if isinstance(schema, Mapping | bool) else None


def _no_schema(text: str) -> str:
    """Return why a text spells no schema."""
    try:
        return f"this is the JSON value {shown(json.loads(text))}"
    except (ValueError, RecursionError) as error:  # or nests deeper than the library reads
        return f"{shown(text)} is not JSON: {error}"


def _of_pattern(pattern: re.Pattern[Any]) -> Grammar:
    """Return the texts that the whole of a compiled pattern matches; its flags stand in front of it."""
    if not isinstance(pattern.pattern, str):
        raise ConstrainedError("a pattern of bytes", instead="a pattern of text")
    flags = "".join(
        letter for letter, flag in zip("aimsx", (re.A, re.I, re.M, re.S, re.X), strict=True) if pattern.flags & flag
    )
    return Grammar.from_regex(f"(?{flags}){pattern.pattern}" if flags else pattern.pattern)


def vocabulary_of(held: Any, *, size: int | None = None) -> Vocabulary:
    """Return the vocabulary of a tokenizer, or of a model of transformers by the tokenizer that it was saved with; kept
    per object.

    size: the width of the model's logits, where they are wider than the tokenizer.
    Raises: VocabularyError: it is neither.
    """
    if isinstance(held, Vocabulary):
        return held
    model_size = _logits_width(held)
    tokenizer = held if model_size is None else _tokenizer_of(held)
    size = model_size if size is None else size
    try:
        known = _vocabularies.setdefault(held, {})
    except TypeError:  # neither weak references nor hashes: a path, for instance
        known = {}
    if size not in known:
        known[size] = Vocabulary.from_tokenizer(tokenizer, size=size)
    return known[size]


def check_vocabulary(vocabulary: Vocabulary, tokenizer: Any, size: int) -> None:
    """Refuse a vocabulary that is not the one of a tokenizer and a model.

    Raises: VocabularyError: another size, or other tokens.
    """
    own = vocabulary_of(tokenizer, size=size)
    if vocabulary is own or vocabulary.fingerprint == own.fingerprint:
        return
    if vocabulary.size != size:
        because = f"its size is {vocabulary.size:,}, the model's logits have {size:,}"
    elif vocabulary.tokens != own.tokens or vocabulary.special != own.special:
        at = next((token for token, text in enumerate(own.tokens) if vocabulary.tokens[token] != text), None)
        because = (
            "its special tokens are others"
            if at is None
            else f"token {at} is {shown(vocabulary.tokens[at])} there and {shown(own.tokens[at])} here"
        )
    else:
        return  # other stop tokens: the caller's choice
    raise VocabularyError(
        "the vocabulary is not the model's", because=because,
        instead="Vocabulary.from_tokenizer(tokenizer, size=model.config.vocab_size)",
    )


def _logits_width(held: Any) -> int | None:
    """Return the width of a model's logits, None of what is no model."""
    config = getattr(held, "config", None)
    if config is None or not hasattr(held, "generate"):
        return None
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    return int(text.vocab_size)


def _tokenizer_of(model: Any) -> Any:
    """Return the tokenizer that lies beside a model."""
    name = getattr(model, "name_or_path", "") or getattr(model.config, "_name_or_path", "")
    if not name:
        raise VocabularyError(
            "no tokenizer lies beside the model", because="it was not loaded from a folder or a hub",
            instead="the tokenizer in its place",
        )
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(name)
