"""Strict reading: a text against the canonical grammar, which is exactly what may be generated.

The engine reads the text byte by byte, as it would follow a model.  Kinds of text are other entries into the same
grammar.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from constrained.engine.compiled import compile_grammar
from constrained.engine.matcher import Matcher
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.errors import GrammarError, Rejected
from constrained.formats.defining.definition import ENTRY, Definition
from constrained.formats.read.inputs import Turn
from constrained.formats.read.rejections import Wrong
from constrained.grammar import Grammar, Ref, Rule


def entered(generic: Grammar, definition: Definition, kind: str, entry: str) -> Grammar:
    """Return a format's grammar, with the canonical text of a kind in place of the turn."""
    if kind == "assistant_turn":
        return generic
    if kind == "tool_call" and entry not in generic.rules:
        entry = "tool_call"
    if entry not in generic.rules:
        raise GrammarError(f"the format '{definition.title}' has no rule '{entry}'", instead="see grammars/README.md")
    rules = dict(generic.rules)
    if kind == "tool_call" and definition.payload is not None:
        rules["tool_call"] = Rule("tool_call", rules[entry].alternatives)
        entry = "tool_call"
    rules[ENTRY] = Rule(ENTRY, ((Ref(entry),),))
    return replace(generic, rules=rules)


@lru_cache(maxsize=64)
def _byte_vocabulary(names: frozenset[str]) -> Vocabulary:
    special = {name: 256 + index for index, name in enumerate(sorted(names))}
    return Vocabulary([bytes([byte]) for byte in range(256)], special=special, size=256 + len(names))


def deviation(turn: Turn, grammar: Grammar, definition: Definition) -> Wrong | None:
    """Return where a text leaves the grammar, or None."""
    vocabulary = _byte_vocabulary(frozenset({*definition.tokens.values(), *grammar.specials}))
    matcher = compile_grammar(grammar, vocabulary).matcher()
    place = 0
    for piece, is_token in turn.pieces():
        if is_token:
            token = vocabulary.special.get(piece)
            if token is None:
                return Wrong(place, "structure", f"{piece!r} belongs to another spelling of the format")
            found = _advance(matcher, [token])
            if found is not None:
                return Wrong(place, "structure", f"the token {piece!r} is not what would be generated", found[1])
        else:
            found = _advance(matcher, piece.encode())
            if found is not None:
                at = place + len(piece.encode()[: found[0]].decode(errors="ignore"))
                return Wrong(at, "structure", f"{turn.text[at : at + 30]!r} is not what would be generated", found[1])
        place += len(piece)
    return None if matcher.is_accepting() else Wrong(place, "structure", "it ends too early", _expected(matcher))


def _advance(matcher: Matcher, tokens: bytes | list[int]) -> tuple[int, str | None] | None:
    """Return the number of tokens that were read and what could have come, or None where all were."""
    for index, token in enumerate(tokens):
        try:
            matcher.advance(token)
        except Rejected as error:
            return index, error.expected
    return None


def _expected(matcher: Matcher) -> str:
    """Return in words how an incomplete turn could go on."""
    names = [name for name, token in matcher.constraint.vocabulary.special.items() if matcher.accepts(token)]
    forced = matcher.forced_bytes()
    return ", ".join([*names, *([repr(forced.decode(errors="backslashreplace"))] if forced else [])]) or "more text"
