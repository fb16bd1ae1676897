"""Requests to a serving engine → constraints, found again where the same is asked for.

Requests come as text, from strangers: a kind and what it is about.

    json      a JSON Schema                          regex     a regular expression of Python
    choice    a JSON list of texts                   lark      a Lark grammar
    format    the name of a chat format; `tools`, `tool_choice` and `prompt` beside it

Schemas are read practically (see `schema.profiles`) unless the request says ``profile="exact"``: an endless run of
blanks loses a request.  `budget` beside any of them is for the engine: see `budget_of`.

Tested in tests/hosts/test_servers.py.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from typing import Any

from constrained.engine.compiled import CompiledGrammar, compile_grammar
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.errors import ConstrainedError, shown
from constrained.formats import ChatFormat
from constrained.grammar import Grammar
from constrained.integrations.servers.warming import Warmer
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
    found = {name.removeprefix(PREFIX): given[name] for name in ours}
    unknown = sorted(found.keys() - {*KINDS, *BESIDE})
    names = ", ".join(PREFIX + name for name in (*KINDS, *BESIDE))
    if unknown:
        raise ConstrainedError(f"unknown argument {PREFIX}{unknown[0]:.100}", instead=f"one of: {names}")
    if found and len(found.keys() & set(KINDS)) != 1:
        raise ConstrainedError(
            f"{len(found.keys() & set(KINDS))} grammars in a request",
            because="it has exactly one",
            instead=f"one of: {names}",
        )
    budget_of(found, None)
    return found


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
        tools, tool_choice=asked.get("tool_choice", "auto"), prompt=asked.get("prompt", "")
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

    warmer: works ahead for those that are new.
    Bounds: `_KEPT` constraints, and `_KEPT_BYTES` of what asked for them.
    """

    def __init__(self, vocabulary: Vocabulary, warmer: Warmer | None = None) -> None:
        self.vocabulary, self._warmer = vocabulary, warmer
        self._known: OrderedDict[bytes, CompiledGrammar] = OrderedDict()
        self._bytes = 0  # of all keys
        self._lock = Lock()

    def constraint(self, asked: Mapping[str, Any]) -> CompiledGrammar:
        """Return the constraint that a request asks for.

        Raises: what `grammar_of` and `compile` raise.
        """
        key = _name(asked)
        with self._lock:
            found = self._known.get(key) if key is not None else None
            if found is not None and key is not None:
                self._known.move_to_end(key)
                return found
        made = compile_grammar(grammar_of(asked), self.vocabulary)
        if self._warmer is not None:
            self._warmer.add(made)
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
