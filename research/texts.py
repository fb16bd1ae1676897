"""Texts against a grammar, byte by byte, special tokens by name: is it a word, and where does it stop being one?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from constrained.engine.compiled import CompiledGrammar, compile_grammar
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.errors import ConstrainedError, Rejected, shown
from constrained.grammar import Grammar
from constrained.work import spend


def letters_of(special: Iterable[str]) -> Vocabulary:
    """Return the vocabulary of single bytes and some special tokens."""
    names = {name: 256 + at for at, name in enumerate(special)}
    return Vocabulary([bytes([byte]) for byte in range(256)], special=names, stop=[], size=256 + len(names))


def byte_constraint(grammar: Grammar) -> CompiledGrammar:
    """Return a grammar over single bytes and its own special tokens."""
    return compile_grammar(grammar, letters_of(sorted(grammar.specials)))


def as_bytes(text: object) -> bytes:
    if isinstance(text, bytes):
        return text
    try:
        return text.encode()  # type: ignore[attr-defined,no-any-return]
    except (AttributeError, UnicodeEncodeError) as error:
        raise ConstrainedError(f"no text: {shown(text)}", instead="a str, or bytes") from error


def symbols(text: bytes, special: Sequence[str]) -> list[int | str]:
    """Return a text's bytes, with the special tokens that it spells as such."""
    found: list[int | str] = []
    names = [name.encode() for name in sorted(special, key=len, reverse=True) if name]
    at = 0
    for match in re.finditer(b"|".join(map(re.escape, names)), text) if names else ():
        found += [*text[at : match.start()], match[0].decode()]
        at = match.end()
    return [*found, *text[at:]]


def reads(constraint: CompiledGrammar, word: Sequence[int | str]) -> bool:
    """Say whether symbols are a word of a constraint over single bytes."""
    matcher = constraint.matcher()
    spend(1 + 3 * len(word))
    for symbol in word:
        token = constraint.vocabulary.special[symbol] if isinstance(symbol, str) else symbol
        if not matcher.accepts(token):
            return False
        matcher.advance(token)
    return matcher.is_accepting()


def rejection(constraint: CompiledGrammar, text: str) -> Rejected | None:
    """Return where a text stops being a word of a constraint over single bytes; None: it is one."""
    matcher = constraint.matcher()
    position = 0
    for symbol in symbols(as_bytes(text), sorted(constraint.vocabulary.special)):
        try:
            matcher.advance(constraint.vocabulary.special[symbol] if isinstance(symbol, str) else symbol)
        except Rejected as error:
            return _rejected(text, position, error.expected)
        position += len(symbol.encode()) if isinstance(symbol, str) else 1
    if matcher.is_accepting():
        return None
    following = matcher.forced_bytes()
    expected = repr(following.decode(errors="replace"))[:60] if following else None
    return _rejected(text, position, expected or "more")


def _rejected(text: str, position: int, expected: str | None) -> Rejected:
    before = text.encode()[:position].decode(errors="ignore")
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    ended = position == len(text.encode())
    return Rejected(
        "text rejected", where=f"line {line} column {column} (byte {position})",
        because="it ends too early" if ended else f"no word goes on with {text[len(before)]!r}",
        instead=f"expected: {expected}" if expected else None,
        position=position, expected=expected, line=line, column=column,
    )  # fmt: skip
