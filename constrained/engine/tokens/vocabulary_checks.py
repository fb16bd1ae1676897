"""Checks of the arguments of `Vocabulary`: tokens, special tokens, size, stop ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from constrained.engine.tokens.bitmask import number
from constrained.errors import VocabularyError, shown

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
            "empty token",
            where=f"token {tokens.index(b'')}",
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
            f"not special tokens: {kind(special)}",
            because="they come as name → id",
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
                f"two special tokens with id {token}",
                because=f"{names[token]!r} and {name!r} share it",
                instead="keep one name per id",
            )
        if token < len(tokens) and tokens[token] is not None:
            raise VocabularyError(
                f"special token {name!r} is also text",
                where=f"token {token}",
                because=f"the token list has {tokens[token]!r} there, so text could spell it",
                instead=f"tokens[{token}] = None",
            )
        names[token] = name
    return names


def checked_size(size: int | None, least: int) -> int:
    if size is not None:
        if number(size) < 0:
            raise VocabularyError(
                f"size is {shown(size)}",
                because="it is a number of tokens",
                instead="the width of the model's logits",
            )
        size = number(size)
    if size is not None and size < least:
        raise VocabularyError(
            f"size {size} is too small",
            because=f"the tokenizer has ids up to {least - 1}",
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
            f"encode is {kind(encode)}",
            because="it is a function from a text to its token ids",
            instead="tokenizer.encode, for instance",
        )
