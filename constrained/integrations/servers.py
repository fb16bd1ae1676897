"""What serving engines use: requests → constraints, a cursor for each request.

**Requests** come as text, from strangers: a kind and what it is about.  The same is found again.

    json      a JSON Schema                          regex     a regular expression of Python
    choice    a JSON list of texts                   lark      a Lark grammar
    format    the name of a chat format; `tools`, `tool_choice` and `prompt` beside it

Schemas are read practically (see `schema.profiles`) unless the request says ``profile="exact"``: an endless run of
blanks loses a request.  `budget` beside any of them is for the engine: see `budget_of`.

**A cursor** is a matcher that answers instead of raising, reads many tokens at once, and takes back the end as well.
Whatever goes wrong in one request may not end the engine that serves the others: where a mask or a step takes too much
work, or fails, the request is told to stop, and the log says why; it never goes on without its grammar.

Tested in tests/hosts/test_servers.py, against fresh matchers.
"""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from threading import Lock
from typing import Any

import numpy as np

from constrained.engine.compiled import CompiledGrammar, compile_grammar
from constrained.engine.matcher import Matcher
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.errors import BitmaskError, ConstrainedError, LimitExceeded, Rejected, shown
from constrained.formats import ChatFormat
from constrained.grammar import Grammar
from constrained.schema.by_content import content

KINDS = ("json", "regex", "choice", "lark", "format")
BESIDE = ("profile", "tools", "tool_choice", "prompt", "budget")
PREFIX = "constrained_"
_KEPT = 256  # constraints
_KEPT_BYTES = 1 << 24  # of what was asked for; a request that is longer than a quarter of it is not kept


def read_arguments(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what a request's further arguments say: those named ``constrained_…``, without that; empty where there are
    none.

    Raises: ConstrainedError: an unknown name, several kinds, or none; a budget that is none.

    >>> read_arguments({"constrained_choice": '["yes", "no"]', "other": 1})
    {'choice': '["yes", "no"]'}
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ConstrainedError(f"the arguments of a request are {shown(given)}", instead="a mapping by name")
    ours = [name for name in given if isinstance(name, str) and name.startswith(PREFIX)]
    asked = {name.removeprefix(PREFIX): given[name] for name in ours}
    unknown = sorted(asked.keys() - {*KINDS, *BESIDE})
    names = ", ".join(PREFIX + name for name in (*KINDS, *BESIDE))
    if unknown:
        raise ConstrainedError(f"unknown argument {PREFIX}{unknown[0]:.100}", instead=f"one of: {names}")
    if asked and len(asked.keys() & set(KINDS)) != 1:
        raise ConstrainedError(
            f"{len(asked.keys() & set(KINDS))} grammars in a request", because="it has exactly one",
            instead=f"one of: {names}",
        )
    budget_of(asked, None)
    return asked


def budget_of(asked: Mapping[str, Any], most: int | None) -> int | None:
    """Return the tokens within which an answer is to end as a whole one; None: it may be cut.

    A number of tokens, or true: as many as the engine gives it, `most`; either as text too, as some servers make
    numbers of what is true in JSON.
    Raises: ConstrainedError: it is neither.

    >>> budget_of({"budget": "true"}, 40), budget_of({"budget": 7}, 40), budget_of({}, 40)
    (40, 7, None)
    """
    given = asked.get("budget")
    if given is None or given is False or isinstance(given, str) and given == "false":
        return None
    if given is True or isinstance(given, str) and given == "true":
        return most
    tokens = int(given) if isinstance(given, str) and given.isdecimal() and len(given) < 10 else given
    if type(tokens) is not int or not 0 < tokens < 1 << 31:
        raise ConstrainedError(f"budget of a request is {shown(given)}", instead="a number of tokens, or true")
    return tokens


def grammar_of(asked: Mapping[str, Any]) -> Grammar:
    """Return the grammar that a request asks for.

    Raises: ConstrainedError: it cannot be read.
    """
    kind = next((kind for kind in KINDS if kind in asked), None) if isinstance(asked, Mapping) else None
    if kind is None:
        raise ConstrainedError("a request without a grammar", instead="one of: " + ", ".join(KINDS))
    spec = asked[kind]
    if not isinstance(spec, str):
        raise ConstrainedError(f"{kind} of a request is {shown(spec)}", because="it is no text", instead="JSON as text")
    if kind == "json":
        return Grammar.from_json_schema(_json(spec, kind), profile=asked.get("profile", "practical"))
    if kind == "choice":
        return Grammar.choice(_json(spec, kind))
    if kind == "regex":
        return Grammar.from_regex(spec)
    if kind == "lark":
        return Grammar.from_lark(spec)
    if spec not in ChatFormat.names():
        raise ConstrainedError(f"unknown format {shown(spec)}", instead="a name that 'constrained formats' lists")
    tools = _json(asked["tools"], "tools") if "tools" in asked else None
    return ChatFormat.load(spec).grammar(
        tools, tool_choice=asked.get("tool_choice", "auto"), prompt=asked.get("prompt")
    )


def _json(text: Any, name: str) -> Any:
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConstrainedError(f"{name} of a request is no JSON", because=str(error)[:200]) from error


class Requests:
    """The constraints of an engine, by what was asked for; those that were asked for last are kept.

    Bounds: `_KEPT` constraints, and `_KEPT_BYTES` of what asked for them.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._known: OrderedDict[bytes, CompiledGrammar] = OrderedDict()
        self._bytes = 0  # of all keys
        self._lock = Lock()

    def constraint(self, asked: Mapping[str, Any]) -> CompiledGrammar:
        """Return the constraint that a request asks for.

        Raises: what `grammar_of` and `compile` raise.
        """
        key = _name(asked)
        with self._lock:
            known = self._known.get(key) if key is not None else None
            if known is not None and key is not None:
                self._known.move_to_end(key)
                return known
        made = compile_grammar(grammar_of(asked), self.vocabulary)
        if key is not None and len(key) <= _KEPT_BYTES >> 2:
            self._keep(key, made)
        return made

    def _keep(self, key: bytes, made: CompiledGrammar) -> None:
        with self._lock:
            self._bytes += 0 if key in self._known else len(key)
            self._known[key] = made
            while len(self._known) > _KEPT or self._bytes > _KEPT_BYTES:
                self._bytes -= len(self._known.popitem(last=False)[0])


def _name(asked: Mapping[str, Any]) -> bytes | None:
    """Return what tells one request from others, None where it is no plain values; the order of properties counts."""
    if not isinstance(asked, Mapping):
        return None
    return content(*[(name, asked[name]) for name in (*KINDS, *BESIDE) if name in asked and name != "budget"])


# -- a cursor for each request -----------------------------------------------------------------------------------------


_log = logging.getLogger("constrained.servers")


def log_end(error: Exception) -> None:
    """Say why a request is ended; with the way there, where it is no error of the package."""
    _log.error("a request is ended: %s", error, exc_info=None if isinstance(error, ConstrainedError) else error)


class Cursor:
    """A cursor of one request.

    stop: the ids at which the engine ends the request, None: those of the vocabulary.  Each may come exactly where the
    text may end; other stop tokens of the vocabulary would not end it, so they come only where nothing else can, or
    where the grammar names them.
    Invariant: `_behind` counts the tokens since the end, which are read and mean nothing.
    """

    def __init__(self, matcher: Matcher, stop: Collection[int] | None = None) -> None:
        self._matcher = matcher
        known = matcher.constraint.stop
        self._stop = frozenset(known if stop is None else stop)
        self._further = self._stop.difference(known)  # ids that end the request and not the text
        self._others = frozenset(matcher.constraint.vocabulary.stop) - self._stop
        self._behind = 0

    @property
    def finished(self) -> bool:
        """Whether a stop token has been read."""
        return self._behind > 0 or self._matcher.is_finished()

    def accept(self, tokens: Sequence[int]) -> bool:
        """Read some tokens, all or, where one may not come, none; what comes behind the end is read and means
        nothing.
        """
        for read, token in enumerate(tokens):
            may_come = None if self.finished else self._advance(token)
            if may_come is False:
                self.rollback(read)
                return False
            if may_come is None:  # behind the end; what cannot be worked out is one too
                self._behind += 1
        return True

    def _advance(self, token: int) -> bool | None:
        """Read a token; say whether it may come, None: it cannot be worked out."""
        try:
            return self._stepped(token)
        except Exception as error:
            log_end(error)
            return None

    def _stepped(self, token: int) -> bool:
        if token in self._others and not self._allows(token):
            return False
        try:
            self._matcher.advance(token)
        except Rejected:
            if token not in self._further or not self._matcher.is_accepting():
                return False
            self._behind = 1
        return True

    def _allows(self, token: int) -> bool:
        row = np.zeros((1, self._matcher.constraint.vocabulary.words), np.uint32)
        self.fill(row, 0)
        return bool(row[0, token >> 5] >> (token & 31) & 1)

    def validate(self, tokens: Sequence[int]) -> list[int]:
        """Return the tokens that may come, up to the first that may not; nothing is read.  Negative ids are padding."""
        allowed: list[int] = []
        for token in tokens:
            if token < 0 or self.finished or not self._advance(token):
                break
            allowed.append(token)
        self.rollback(len(allowed))
        return allowed

    def rollback(self, count: int) -> None:
        """Take back the last tokens, those behind the end included."""
        behind = min(count, self._behind)
        self._behind -= behind
        self._matcher.rollback(count - behind)

    def fill(self, bitmask: Any, row: int) -> None:
        """Write the mask of the next token into a row; behind the end, only stop tokens."""
        if self.finished:
            _only(bitmask, row, self._ends)
            return
        try:
            self._matcher.fill_mask(bitmask, row)
            if self._further or self._others:
                self._stop_here(bitmask, row)
        except BitmaskError:  # the engine's fault, in all rows
            raise
        except Exception as error:
            log_end(error)
            _only(bitmask, row, self._ends)

    @property
    def _ends(self) -> Collection[int]:
        """What ends the request, or, where nothing does, the text."""
        return self._stop or self._matcher.constraint.stop

    def _stop_here(self, bitmask: Any, row: int) -> None:
        """Allow what ends the request where the text may end, and only there, and no other stop token; unless nothing
        else could come.
        """
        words = _words(bitmask, row)
        before = words.copy()
        ends, named = self._matcher.is_accepting(), self._matcher.named_tokens()
        allow(words, self._further if ends else ())
        _clear(words, self._others - named if ends else self._further)
        if not words.any():
            words[:] = before

    def forced(self) -> list[int]:
        """Return tokens that have to come, as far as they can be worked out."""
        try:
            return [] if self.finished else self._matcher.forced_tokens()
        except LimitExceeded:
            return []

    def end(self) -> None:
        """Let nothing come but what ends the request."""
        self._behind += 1

    def copy(self) -> Cursor:
        """Return an independent cursor at the same place."""
        twin = object.__new__(Cursor)
        twin._matcher, twin._behind = self._matcher.copy(), self._behind
        twin._stop, twin._further, twin._others = self._stop, self._further, self._others
        return twin

    def reset(self) -> None:
        """Go back to the start."""
        self._matcher.reset()
        self._behind = 0


def _words(bitmask: Any, row: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    array = bitmask if isinstance(bitmask, np.ndarray) else bitmask.numpy()
    words: np.ndarray[Any, np.dtype[np.uint32]] = array[row].view(np.uint32)
    return words


def _only(bitmask: Any, row: int, tokens: Collection[int]) -> None:
    words = _words(bitmask, row)
    words[:] = 0
    allow(words, tokens)


def allow(words: np.ndarray[Any, np.dtype[np.uint32]], tokens: Collection[int]) -> None:
    for token in tokens:
        if token >> 5 < len(words):
            words[token >> 5] |= np.uint32(1 << (token & 31))


def _clear(words: np.ndarray[Any, np.dtype[np.uint32]], tokens: Collection[int]) -> None:
    for token in tokens:
        if token >> 5 < len(words):
            words[token >> 5] &= ~np.uint32(1 << (token & 31))
