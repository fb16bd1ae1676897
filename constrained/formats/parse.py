"""A generated turn → `Message`.  The engine judges, the search reads.

First the turn is split into special tokens and text; in text input every spelling of a special token counts as the token.  Then the
format's grammar, bound to the tools, reads it byte by byte: what the grammar does not derive is rejected with the place and with what
could have come.  Only then a search over the same rules finds which parts are content, names, arguments and code; arguments are read
with strict readers, nothing is ever evaluated.

So what is returned was valid, down to the schema of each call, and what a published parser would have guessed is an error.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..caches import cached
from ..engine.constraint import compile
from ..engine.matcher import Matcher
from ..engine.vocabulary import Vocabulary
from ..errors import Rejected
from ..grammar import Grammar, Literal, Pattern, Ref, Special, Symbol
from ..machine import Language
from .bind import id_slot, terminal_of
from .definition import ENTRY, Definition
from .message import Message, ToolCall
from .rules import Alternatives
from .search import derive
from .values import read_json, read_keywords

_SHOWN = 30  # characters of the turn in a message


@dataclass(frozen=True, slots=True)
class Turn:
    """A text and the special tokens in it; marks[i] = (start, end, name), ascending, places in `text`."""

    text: str
    marks: tuple[tuple[int, int, str], ...]

    def byte(self, place: int) -> int:
        """Return a place as a number of bytes."""
        return len(self.text[:place].encode())


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of the turn that a rule wrote; value: what it means, where that is not its text."""

    rule: str
    start: int
    end: int
    value: Any = None


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
    names = sorted({*definition.tokens.values(), *definition.reserved}, key=len, reverse=True)
    found = re.finditer("|".join(map(re.escape, names)), text)
    return Turn(text, tuple((match.start(), match.end(), match[0]) for match in found))


def split_ids(ids: Iterable[int], vocabulary: Vocabulary, stops: Collection[str] = ()) -> Turn:
    """Return the turn that token ids spell; only ids of special tokens are special tokens.

    Where a turn ends with a token that the model does not stop at, it may write one of its own stop tokens behind it.  That token is
    left out: it is none of the format's `stops`.

    Raises: Rejected: the bytes between two special tokens are not UTF-8, or an id stands for nothing.
    """
    text, marks, run = "", [], b""
    ids = list(ids)
    if ids and ids[-1] in vocabulary.stop and vocabulary.names.get(ids[-1]) not in stops:
        del ids[-1]
    for token in [*ids, None]:
        data = None if token is None else _bytes_of(token, vocabulary)
        if data is not None:
            run += data
            continue
        try:
            text += run.decode()
        except UnicodeDecodeError as error:
            position = len(text.encode()) + error.start
            raise Rejected("turn rejected", where=f"byte {position}", because="the text is not UTF-8", position=position) from error
        run = b""
        if token is not None:
            name = vocabulary.names.get(token)
            if name is None:
                raise Rejected("turn rejected", where=f"byte {len(text.encode())}", because=f"token {token} stands for nothing")
            marks.append((len(text), len(text) + len(name), name))
            text += name
    return Turn(text, tuple(marks))


def _bytes_of(token: int, vocabulary: Vocabulary) -> bytes | None:
    if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < vocabulary.size:
        raise Rejected("turn rejected", because=f"{token!r} is not an id of the vocabulary", instead=f"ids go from 0 to {vocabulary.size - 1}")
    return vocabulary.tokens[token]


@cached(64, 50_000)
def _byte_vocabulary(names: frozenset[str]) -> Vocabulary:
    special = {name: 256 + index for index, name in enumerate(sorted(names))}
    return Vocabulary([bytes([byte]) for byte in range(256)], special=special, size=256 + len(names))


def check(turn: Turn, grammar: Grammar, definition: Definition) -> None:
    """Let the engine read a turn.

    Raises: Rejected: the grammar does not derive it; with the place and what could have come there.
    """
    vocabulary = _byte_vocabulary(frozenset({*definition.tokens.values(), *grammar.specials}))
    matcher = compile(grammar, vocabulary).matcher()
    position = at = 0
    for start, end, name in (*turn.marks, (len(turn.text), len(turn.text), None)):
        for token in [*turn.text[at:start].encode(), *([vocabulary.special.get(name)] if name is not None else [])]:
            if token is None:
                raise _rejection(turn, position, f"{name!r} belongs to another spelling of the format", None)
            try:
                matcher.advance(token)
            except Rejected as error:
                raise _rejection(turn, position, None, error.expected) from error
            position += 1
        at, position = end, turn.byte(end)
    if not matcher.is_accepting():
        raise _rejection(turn, position, "it ends too early", _expected(matcher))


def _expected(matcher: Matcher) -> str:
    """Return in words how an incomplete turn could go on."""
    names = [name for name, token in matcher.constraint.vocabulary.special.items() if matcher.accepts(token)]
    forced = matcher.forced_bytes()
    return ", ".join([*names, *([repr(forced.decode(errors="backslashreplace"))] if forced else [])]) or "more text"


def _rejection(turn: Turn, position: int, because: str | None, expected: str | None) -> Rejected:
    """Word the engine's refusal for a reader of text: line, column, what stands there."""
    before = turn.text.encode()[:position].decode(errors="ignore")
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    rest = turn.text[len(before) :]
    return Rejected(
        "turn rejected", where=f"line {line} column {column} (byte {position})",
        because=because or f"{rest[:_SHOWN]!r} cannot follow {before[-_SHOWN:]!r}",
        instead=f"expected: {expected}" if expected else None, position=position, expected=expected,
    )


def read_turn(turn: Turn, rules: Alternatives, definition: Definition) -> Message:
    """Return what a valid turn says.

    Raises: Rejected: it is not one of these rules, or its arguments have no value.
    """
    reader = _Reader(turn, rules, definition)
    parts = derive(rules, ENTRY, 0, reader.leaf, lambda place: place == len(turn.text), reader.enter)
    if parts is None:
        position = turn.byte(reader.farthest)
        raise Rejected("turn rejected", where=f"byte {position}", because=reader.because or "it has no reading", position=position)
    return _message(turn, parts, definition)


class _Reader:
    """Where the symbols of a format can end in a turn.

    `because`: why arguments could not be read; `farthest`: how far the reading got.
    """

    def __init__(self, turn: Turn, rules: Alternatives, definition: Definition) -> None:
        builtins = definition.builtins.values()
        self._turn, self._rules, self._payload = turn, rules, definition.payload
        self._starts = [start for start, _, _ in turn.marks]
        self._marks = {start: (end, name) for start, end, name in turn.marks}
        self._texts = {"content", "name", id_slot(rules), *definition.thoughts.values(), *(rule for b in builtins for rule in b.arguments.values())}
        self._calls = {"tool_call", *(builtin.rule for builtin in builtins)}
        self._specials = frozenset(definition.tokens.values())
        self.because: str | None = None
        self.farthest = 0

    def enter(self, rule: str, place: int) -> Part | None:
        return Part(rule, place, place) if rule in self._calls else None

    def leaf(self, symbol: Symbol, place: int) -> Iterable[tuple[int, Part | None]] | None:
        """Return the places where a symbol that begins at `place` can end, the farthest first."""
        self.farthest = max(self.farthest, place)
        if not isinstance(symbol, Ref):
            return [(end, None) for end in self._ends(symbol, place)]
        if symbol.rule == "arguments":
            return self._arguments(place)
        if symbol.rule in self._texts:
            terminal = terminal_of(self._rules, symbol.rule)
            assert terminal is not None
            return ((end, Part(symbol.rule, place, end)) for end in self._ends(terminal, place))
        return None

    def _arguments(self, place: int) -> list[tuple[int, Part | None]]:
        assert self._payload is not None
        read = read_keywords if self._payload.surface == "python" else read_json
        limit = self._limit(place)
        try:
            value, end = read(self._turn.text[:limit], place)
        except (ValueError, RecursionError) as error:
            self.because = f"the arguments cannot be read: {error}"
            return []
        return [(end, Part("arguments", place, end, value))]

    def _limit(self, place: int) -> int:
        """Return where the next special token begins."""
        index = bisect_right(self._starts, place - 1)
        return self._starts[index] if index < len(self._starts) else len(self._turn.text)

    def _ends(self, symbol: Symbol, place: int) -> list[int]:
        if isinstance(symbol, Literal) and symbol.text not in self._specials:
            end = place + len(symbol.text)
            return [end] if end <= self._limit(place) and self._turn.text.startswith(symbol.text, place) else []
        if isinstance(symbol, (Literal, Special)):
            end, name = self._marks.get(place, (0, None))
            return [end] if name == (symbol.text if isinstance(symbol, Literal) else symbol.name) else []
        if isinstance(symbol, Pattern):
            return self._pattern_ends(symbol.language, place)
        raise AssertionError(f"no reading for {symbol}")

    def _pattern_ends(self, language: Language, place: int) -> list[int]:
        ends = [place] if language.accepts else []
        state: Language | None = language
        for at in range(place, self._limit(place)):
            code = ord(self._turn.text[at])
            state = next((then for low, high, then in state.edges() if low <= code <= high), None) if state else None
            if state is None:
                break
            if state.accepts:
                ends.append(at + 1)
        return ends[::-1]


def _message(turn: Turn, parts: Sequence[Part], definition: Definition) -> Message:
    builtins = {
        builtin.rule: (name, {rule: key for key, rule in builtin.arguments.items()}) for name, builtin in definition.builtins.items()
    }
    kinds = {rule: kind for kind, rule in definition.thoughts.items()}
    content, thoughts = "", {}
    calls: list[tuple[str, dict[str, Any], str | None]] = []
    keys: dict[str, str] = {}  # rule → argument of the builtin that is being read
    for part in parts:
        text = turn.text[part.start : part.end]
        if part.rule == "tool_call":
            calls.append(("", {}, None))
        elif part.rule in builtins:
            name, keys = builtins[part.rule]
            calls.append((name, {}, None))
        elif part.rule == "name":
            calls[-1] = (_name(text, definition), *calls[-1][1:])
        elif part.rule in ("call_id", "call_number"):
            calls[-1] = (*calls[-1][:2], text)
        elif part.rule == "arguments":
            calls[-1] = (calls[-1][0], part.value, calls[-1][2])
        elif part.rule in kinds:
            thoughts[kinds[part.rule]] = text
        elif part.rule == "content":
            content = text
        else:
            calls[-1][1][keys[part.rule]] = text
    return Message(content, [ToolCall(*call) for call in calls], _stop(turn, definition.stops, definition.tokens), thoughts)


def _name(text: str, definition: Definition) -> str:
    if definition.payload is None or definition.payload.name != "json":
        return text
    return str(json.loads(f'"{text}"'))


def _stop(turn: Turn, stops: Mapping[str, tuple[str, ...]], tokens: Mapping[str, str]) -> str | None:
    """Return the special token that ends the turn: the first of those at its end that the format may stop with."""
    known = {tokens[name] for names in stops.values() for name in names}
    found, end = None, len(turn.text)
    for start, stop, name in reversed(turn.marks):
        if stop != end or name not in known:
            break
        found, end = name, start
    return found
