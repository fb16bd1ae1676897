"""Text or token ids → characters and special tokens, whole or as they come.

In text every spelling of a special token counts as the token; of ids only those of special tokens do, so that text
which a user typed can never end a message.  A stream keeps back what may still become a token or a character.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_left
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache

from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.errors import Rejected
from constrained.formats.definition import Definition

Piece = tuple[str, bool]  # (text or name, whether it is a special token)


@dataclass(frozen=True, slots=True)
class Turn:
    """A text and the special tokens in it; marks[i] = (start, end, name), ascending, places in `text`."""

    text: str
    marks: tuple[tuple[int, int, str], ...]

    @classmethod
    def of(cls, pieces: Iterable[Piece]) -> Turn:
        """Return the turn that pieces add up to."""
        marks, texts, at = list[tuple[int, int, str]](), list[str](), 0
        for text, is_token in pieces:
            texts.append(text)
            if is_token:
                marks.append((at, at + len(text), text))
            at += len(text)
        return cls("".join(texts), tuple(marks))

    def behind(self, other: Turn) -> Turn:
        """Return the turn of another's text and this one's."""
        if not other.text:
            return self
        size = len(other.text)
        return Turn(
            other.text + self.text,
            (*other.marks, *((start + size, end + size, name) for start, end, name in self.marks)),
        )

    def part(self, begin: int, end: int) -> Turn:
        """Return the turn of the text between two places, which are in no token."""
        first, last = bisect_left(self.marks, (begin,)), bisect_left(self.marks, (end,))
        marks = tuple((low - begin, high - begin, name) for low, high, name in self.marks[first:last] if high <= end)
        return Turn(self.text[begin:end], marks)

    def outside(self, place: int) -> int:
        """Return a place, or the end of the token that it is in."""
        before = bisect_left(self.marks, (place,)) - 1
        return max(place, self.marks[before][1]) if before >= 0 else place

    def pieces(self) -> Iterable[Piece]:
        """Yield the text between special tokens, and the tokens."""
        at = 0
        for start, end, name in self.marks:
            if start > at:
                yield self.text[at:start], False
            yield name, True
            at = end
        if at < len(self.text):
            yield self.text[at:], False


def split_text(text: str, definition: Definition) -> Turn:
    """Return the turn in which every spelling of a special token, or of a reserved text, is that token.

    Raises: Rejected: the text has lone surrogates, which no bytes spell.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        position = len(text[: error.start].encode())
        because = f"{text[error.start]!r} is no character"
        raise Rejected("turn rejected", where=f"byte {position}", because=because, position=position) from error
    spellings = _spellings(definition.spellings).finditer(text)
    return Turn(text, tuple((match.start(), match.end(), match[0]) for match in spellings))


def certain(turn: Turn, definition: Definition) -> Turn:
    """Return the turn without what may be the beginning of a special token at its end."""
    begun = _beginnings(definition.spellings).search(turn.text, turn.marks[-1][1] if turn.marks else 0)
    return turn if begun is None else Turn(turn.text[: begun.start()], turn.marks)


def unpadded(turn: Turn, definition: Definition) -> Turn:
    """Return the turn without the tokens behind its stop that fill a row of a batch."""
    end = len(turn.text)
    for start, stop, name in reversed(turn.marks):
        if stop != end or name not in definition.padding:
            is_padded = stop == end < len(turn.text) and name in definition.stop
            return turn.part(0, end) if is_padded else turn
        end = start
    return turn


def split_ids(ids: Iterable[int], vocabulary: Vocabulary, definition: Definition) -> Turn:
    """Return the turn that token ids spell, see `Incoming.ids`."""
    incoming = Incoming(definition, vocabulary)
    return Turn.of([*incoming.ids(ids), *incoming.end()])


def bytes_of(token: int, vocabulary: Vocabulary, markers: Collection[str]) -> bytes | None:
    """Return the text of an id, None for a special token."""
    if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < vocabulary.size:
        raise Rejected(
            "turn rejected", because=f"{token!r} is not an id of the vocabulary",
            instead=f"ids go from 0 to {vocabulary.size - 1}",
        )
    name = vocabulary.names.get(token)
    return name.encode() if name in markers and name is not None else vocabulary.tokens[token]


def name_of(token: int, vocabulary: Vocabulary) -> str:
    """Return the name of a special token."""
    name = vocabulary.names.get(token)
    if name is None:
        raise Rejected("turn rejected", because=f"token {token} stands for nothing")
    return name


@lru_cache(maxsize=64)
def _spellings(names: frozenset[str]) -> re.Pattern[str]:
    return re.compile("|".join(re.escape(name) for name in sorted(names, key=len, reverse=True)) or r"(?!)")


class Incoming:
    """Pieces of a stream: text is cut into characters and special tokens, bytes and ids are decoded.

    What may be the beginning of a spelling, or of a character, waits for what follows.  `rest` is the text that waits.
    """

    def __init__(self, definition: Definition, vocabulary: Vocabulary | None) -> None:
        self._definition, self._vocabulary = definition, vocabulary
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._size = 0  # bytes that were decoded, and those of special tokens
        self._held: list[int] = []  # a token that ends the sequence and is none of the format's
        self.rest = ""

    def decoded(self, data: bytes, *, final: bool = False) -> str:
        """Return the characters that more bytes complete.  Raises: Rejected: they are not UTF-8."""
        try:
            text = self._decoder.decode(data, final=final)
        except UnicodeDecodeError as error:
            position = self._size - len(self._decoder.getstate()[0]) + error.start
            raise Rejected(
                "turn rejected", where=f"byte {position}", because="the text is not UTF-8", position=position
            ) from error
        self._size += len(data)
        return text

    def text(self, text: str) -> list[Piece]:
        """Return what has become certain with more text."""
        turn = split_text(self.rest + text, self._definition)
        sure = certain(turn, self._definition)
        self.rest = turn.text[len(sure.text) :]
        return [*sure.pieces()]

    def ids(self, ids: Iterable[int]) -> list[Piece]:
        """Return what has become certain with more ids; only those of special tokens are special tokens, and those of
        the format's markers are their text.

        Where a turn ends with a token that the model does not stop at, it may write one of its own stop tokens behind
        it.  That token is kept back, and left out at the end: it is none of the format's.

        Raises: Rejected: the bytes between two special tokens are not UTF-8, or an id stands for nothing.
        """
        vocabulary, definition = self._vocabulary, self._definition
        assert vocabulary is not None
        pieces: list[Piece] = []
        ids, self._held = [*self._held, *ids], []
        if ids and ids[-1] in vocabulary.stop and vocabulary.names.get(ids[-1]) not in definition.stop:
            self._held = [ids.pop()]
        for token in ids:
            data = bytes_of(token, vocabulary, definition.markers)
            text = self.decoded(b"" if data is None else data, final=data is None)
            pieces += [(text, False)] if text else []
            if data is None:
                pieces.append((name_of(token, vocabulary), True))
                self._size += len(pieces[-1][0].encode())
        return pieces

    def end(self) -> list[Piece]:
        """Return what still waited, as text."""
        rest, self.rest = self.rest + self.decoded(b"", final=True), ""
        return [(rest, False)] if rest else []


@lru_cache(maxsize=64)
def _beginnings(names: frozenset[str]) -> re.Pattern[str]:
    """Return what finds the beginning of a spelling at the end of a text."""
    begun = sorted({name[:size] for name in names for size in range(1, len(name))}, key=len, reverse=True)
    return re.compile(f"(?:{'|'.join(map(re.escape, begun))})\\Z" if begun else r"(?!)")
