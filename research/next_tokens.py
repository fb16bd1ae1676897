"""What may come next at a place of a text, and why not other tokens: for `constrained mask` and the server's page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from constrained.errors import ConstrainedError

if TYPE_CHECKING:
    from constrained.engine.matcher import Matcher
    from constrained.engine.tokens.vocabulary import Vocabulary

USUAL = ('"', "'", "{", "}", "[", "]", ",", ":", "a", "1", " ", "\n")  # texts whose refusal a reader may wonder about


def encode(vocabulary: Vocabulary, text: str) -> list[int]:
    """Return ids for a text in which the names of special tokens stand for these tokens."""
    names = sorted(vocabulary.special, key=len, reverse=True)
    pieces = re.split("(" + "|".join(map(re.escape, names)) + ")", text) if names else [text]
    ids: list[int] = []
    for piece in filter(None, pieces):
        ids += [vocabulary.special[piece]] if piece in vocabulary.special else vocabulary.tokenize(piece.encode())
    return ids


def allowed_tokens(matcher: Matcher) -> list[int]:
    """Return the ids in the matcher's mask, ascending."""
    bitmask = np.zeros((1, matcher.constraint.vocabulary.words), np.int32)
    matcher.fill_mask(bitmask)
    ids: list[int] = np.flatnonzero(np.unpackbits(bitmask.view(np.uint8), bitorder="little")).tolist()
    return ids


def report(matcher: Matcher, why: Sequence[str] = (), limit: int = 20) -> dict[str, Any]:
    """Return what may come next, as plain values: whether the text may end, what is forced, `limit` of the allowed
    tokens, and why others may not come: those in `why`, ids or texts, or a few that one may wonder about.

    Raises: ConstrainedError: what is asked about is not one token.
    """
    vocabulary = matcher.constraint.vocabulary
    allowed = allowed_tokens(matcher)
    asked = [_token(vocabulary, text) for text in why] or _usual_refusals(matcher, vocabulary)
    return {
        "complete": matcher.is_accepting(),
        "forced": matcher.forced_bytes().decode(errors="backslashreplace"),
        "allowed": len(allowed),
        "size": vocabulary.size,
        "tokens": [{"id": token, "text": spell(vocabulary, token)} for token in allowed[:limit]],
        "why": [
            {"id": token, "text": spell(vocabulary, token), "explanation": matcher.explain(token)} for token in asked
        ],
    }


def _token(vocabulary: Vocabulary, text: str) -> int:
    if text in vocabulary.special:
        return vocabulary.special[text]
    if text.isdecimal() and len(text) < 20 and int(text) < vocabulary.size:
        return int(text)
    ids = vocabulary.tokenize(text.encode())
    if len(ids) != 1:
        raise ConstrainedError(
            f"{text!r} is not one token",
            because=f"this tokenizer writes it as {len(ids)}",
            instead="give an id, or a shorter text",
        )
    return ids[0]


def _usual_refusals(matcher: Matcher, vocabulary: Vocabulary) -> list[int]:
    usual = [ids[0] for ids in map(vocabulary.tokenize, map(str.encode, USUAL)) if len(ids) == 1]
    return [token for token in (*vocabulary.stop[:1], *usual) if not matcher.accepts(token)][:5]


def spell(vocabulary: Vocabulary, token: int) -> str:
    """Return a printable form of a token: its text with escapes, or the name of a special token."""
    text = vocabulary.tokens[token]
    if text is None:
        return vocabulary.names.get(token, "(unused)")
    try:
        return repr(text.decode())
    except UnicodeDecodeError:
        return repr(text)
