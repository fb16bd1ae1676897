"""A message → the canonical text of its turn, by the format's own grammar.

The writer searches the grammar for a derivation that says all the message holds and nothing else; where several do, the first
alternatives of the grammar win.  Nothing about a format is known here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..errors import ConstrainedError
from ..grammar import Literal, Pattern, Ref, Special, Symbol
from ..regex import matches
from .bind import spell_name
from .definition import ENTRY, Definition
from .message import Message, ToolCall
from .rules import Alternatives
from .search import derive
from .tools import Tool
from .values import in_schema_order, write_json, write_keywords


class _Said(NamedTuple):
    """How much of a message has been written."""

    content: bool = False
    thoughts: tuple[str, ...] = ()
    calls: int = 0


def write_turn(rules: Alternatives, definition: Definition, message: Message, tools: tuple[Tool, ...] | None) -> str:
    """Return the text of a turn, stop token included.

    Raises: ConstrainedError: the format has no such turn.
    """
    schemas = {tool.name: tool.parameters for tool in tools or ()}
    texts = {definition.thoughts[kind]: (kind, text) for kind, text in message.thoughts.items() if kind in definition.thoughts}
    calls = [
        None if call.name in definition.builtins else _call(rules, definition, call, schemas.get(call.name)) for call in message.tool_calls
    ]

    def leaf(symbol: Symbol, said: _Said) -> Iterable[tuple[_Said, str | None]] | None:
        if not isinstance(symbol, Ref):
            return [(said, text)] if (text := _fixed(symbol)) is not None else []
        rule = symbol.rule
        if rule == "content":
            return [(said._replace(content=True), message.content)] if message.content and not said.content else []
        if rule in definition.thoughts.values():
            if rule not in texts or texts[rule][0] in said.thoughts:
                return []
            return [(said._replace(thoughts=(*said.thoughts, texts[rule][0])), texts[rule][1])]
        call = message.tool_calls[said.calls] if said.calls < len(message.tool_calls) else None
        after = said._replace(calls=said.calls + 1)
        if rule == "tool_call":
            text = calls[said.calls] if call is not None else None
            return [(after, text)] if text is not None else []
        if rule in builtin_rules:
            if call is None or definition.builtins.get(call.name) is not definition.builtins[builtin_rules[rule]]:
                return []
            return [(after, _builtin(rules, definition, call))]
        return None

    builtin_rules = {builtin.rule: name for name, builtin in definition.builtins.items()}
    whole = _Said(bool(message.content), tuple(k for k in definition.thoughts if k in message.thoughts), len(calls))
    pieces = derive(rules, ENTRY, _Said(), leaf, lambda said: _same(said, whole) and len(message.thoughts) == len(whole.thoughts))
    if pieces is None or not _fits(rules, "content", message.content):
        raise ConstrainedError(
            f"the format '{definition.title}' has no such turn", because=_reason(message, rules)
        )
    return "".join(pieces)


def _same(said: _Said, whole: _Said) -> bool:
    return said.content == whole.content and said.calls == whole.calls and set(said.thoughts) == set(whole.thoughts)


def _reason(message: Message, rules: Alternatives) -> str:
    if not _fits(rules, "content", message.content):
        return "readers would take its text for something else"
    counts = ((len(message.thoughts), "thought"), (len(message.tool_calls), "call"))
    parts = [*(["text"] if message.content else []), *(f"{count} {noun}{'s' * (count > 1)}" for count, noun in counts if count)]
    return f"none has {' and '.join(parts) or 'neither text nor calls'}"


def _call(rules: Alternatives, definition: Definition, call: ToolCall, schema: object) -> str:
    payload = definition.payload
    if payload is None or "tool_call" not in rules:
        raise ConstrainedError(f"the format '{definition.title}' cannot call {call.name!r}", because="it has tools of its own only")
    arguments = in_schema_order(call.arguments, schema)
    values = {
        "name": spell_name(call.name, payload),
        "arguments": write_keywords(arguments) if payload.surface == "python" else write_json(arguments, tag_safe=payload.tag_safe),
    }
    return _filled(rules, "tool_call", values, definition)


def _builtin(rules: Alternatives, definition: Definition, call: ToolCall) -> str:
    builtin = definition.builtins[call.name]
    if call.arguments.keys() != builtin.arguments.keys():
        raise ConstrainedError(f"cannot call {call.name!r}", because=f"its arguments are {', '.join(builtin.arguments)}")
    return _filled(rules, builtin.rule, {rule: str(call.arguments[name]) for name, rule in builtin.arguments.items()}, definition)


def _filled(rules: Alternatives, rule: str, values: dict[str, str], definition: Definition) -> str:
    """Return the first text of a rule in which each of the given rules writes its value, once."""

    def leaf(symbol: Symbol, used: frozenset[str]) -> Iterable[tuple[frozenset[str], str | None]] | None:
        if not isinstance(symbol, Ref):
            return [(used, text)] if (text := _fixed(symbol)) is not None else []
        if symbol.rule not in values:
            return None
        fits = symbol.rule not in used and (symbol.rule == "arguments" or _fits(rules, symbol.rule, values[symbol.rule]))
        return [(used | {symbol.rule}, values[symbol.rule])] if fits else []

    pieces = derive(rules, rule, frozenset[str](), leaf, lambda used: len(used) == len(values))
    if pieces is None:
        because = next((f"{rule} cannot be {text[:40]!r}" for rule, text in values.items() if not _fits(rules, rule, text)), None)
        raise ConstrainedError(f"the format '{definition.title}' cannot write this call", because=because)
    return "".join(pieces)


def _fixed(symbol: Symbol) -> str | None:
    if isinstance(symbol, Literal):
        return symbol.text
    return symbol.name if isinstance(symbol, Special) else None


def _fits(rules: Alternatives, rule: str, text: str) -> bool:
    """Return whether a rule that is one terminal derives a text; other rules are not judged."""
    sequence = rules[rule][0] if rule in rules else ()
    return not text or len(sequence) != 1 or not isinstance(sequence[0], Pattern) or matches(sequence[0].language, text)
