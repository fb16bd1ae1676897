"""Masks that keep a language model inside a grammar.

The flow, from what is known before a request to what happens at every token::

    tools, chat format ──► Grammar ─┐
    tokenizer ───────► Vocabulary ──┴─ compile ──► Constraint ── matcher ──► Matcher ── fill_mask ──► bitmask
                                                   (frozen, shared)          (one per sequence)

>>> import constrained as c
>>> vocabulary = c.Vocabulary([b"[", b"]", b"1", b",", b"]]"], special={"<end>": 5}, stop=[5], size=8)
>>> grammar = c.Grammar.from_json_schema({"type": "array", "items": {"const": 1}, "maxItems": 2})
>>> matcher = c.compile(grammar, vocabulary).matcher()
>>> matcher.advance(0)
>>> [token for token in range(8) if matcher.accepts(token)]
[1, 2]

Names load on first use, so that importing the package costs next to nothing; nothing here imports torch or
transformers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from constrained.errors import (
    BitmaskError,
    ConstrainedError,
    GrammarError,
    LimitExceeded,
    NothingAllowed,
    Rejected,
    SchemaError,
    UnsupportedSchema,
    VocabularyError,
)

if TYPE_CHECKING:
    from constrained.api import Constraint, compile, logits_processor
    from constrained.engine.matcher import Matcher, fill_masks
    from constrained.engine.tokens.vocabulary import Vocabulary
    from constrained.formats import ChatFormat
    from constrained.grammar import Grammar
    from constrained.integrations.typed import generate

__version__ = "0.1.0"

__all__ = [
    "BitmaskError",
    "ChatFormat",
    "ConstrainedError",
    "Constraint",
    "Grammar",
    "GrammarError",
    "LimitExceeded",
    "Matcher",
    "NothingAllowed",
    "Rejected",
    "SchemaError",
    "UnsupportedSchema",
    "Vocabulary",
    "VocabularyError",
    "compile",
    "fill_masks",
    "generate",
    "logits_processor",
]

_HOMES = {
    "ChatFormat": "formats",
    "Constraint": "api",
    "Grammar": "grammar",
    "Matcher": "engine.matcher",
    "Vocabulary": "engine.tokens.vocabulary",
    "compile": "api",
    "fill_masks": "engine.matcher",
    "generate": "integrations.typed",
    "logits_processor": "api",
}


if not TYPE_CHECKING:  # type checkers would take any misspelt name for an object

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'constrained' has no attribute {name!r}")
        try:
            module = import_module(f"{__name__}.{home}")
        except AttributeError as error:  # `from constrained import …` would say "cannot import name", and not why
            raise ImportError(f"cannot import {__name__}.{home}: {error}") from error
        value = getattr(module, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
