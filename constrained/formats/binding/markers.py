"""Marker safety: no generated text spells a special token, a reserved text or a mark by which readers find calls.

Readers of a finished text search it for the spelling of markers.  So free text leaves out texts that hold one, and
strings in arguments escape the character that would complete one (`machine.MarkerSafe`); both only where it matters, so
that all other text stays as it is.

A thought may quote a call: readers cut thoughts off first.  It may hold neither special tokens nor the marks of
thoughts.
Left out: a marker that is a word, as the ``sop`` of ChatGLM3 is, since words are said; strings between tags cannot
escape, so they do without markers, as without the tag that ends them.
"""

from __future__ import annotations

import re

from constrained.formats.binding.rules import Alternatives, beginning_of_members, reached, texts_in
from constrained.formats.definition import Definition
from constrained.grammar import Pattern, Symbol
from constrained.regex import complement, intersect, markers_of, parse_python, without
from constrained.schema.surfaces.tags import Tags

TURN = ("answer", "calling", "calling_without_environment")
CLOSING = "</"  # of all tags


def marks(definition: Definition) -> tuple[str, ...]:
    """Return what text may not spell; none is a part of another."""
    texts = (*definition.tokens.values(), *definition.reserved, *definition.markers, *definition.call_markers)
    return markers_of(text for text in texts if not text.isalnum()).texts


def misread(definition: Definition, tags: Tags | None) -> tuple[str, ...]:
    """Return what strings in arguments do not spell as readers find more in it: markers, what readers of the format
    misread, and the beginning of a member.
    """
    further = () if definition.payload is None else definition.payload.avoid
    return markers_of((*marks(definition), *further, *([] if tags is None else [beginning_of_members(tags)]))).texts


def avoided(definition: Definition, tags: Tags | None = None, *, marker_safe: bool) -> tuple[str, ...]:
    """Return what strings in arguments do not spell where they can be escaped."""
    payload = definition.payload
    closing = payload is not None and (payload.tag_safe or payload.surface == "tagged")
    return markers_of((*(misread(definition, tags) if marker_safe else ()), *([CLOSING] if closing else []))).texts


def marks_of_thoughts(definition: Definition, rules: Alternatives) -> tuple[str, ...]:
    """Return what thoughts may not spell."""
    block = () if definition.reasoning is None else reached(rules, [definition.reasoning.block])
    quoted = {text for name in block for sequence in rules[name] for text in texts_in(sequence)}
    texts = (*definition.tokens.values(), *definition.reserved, *quoted.intersection(definition.markers))
    return markers_of(text for text in texts if not text.isalnum()).texts


def marker_safe(rules: Alternatives, definition: Definition) -> Alternatives:
    """Return the rules in which no text of a turn spells a marker, and no answer or code is as a whole what readers
    take for a call.
    """
    thoughts = reached(rules, definition.thoughts.values())
    whole = reached(
        rules, ["content", *(rule for builtin in definition.builtins.values() for rule in builtin.arguments.values())]
    )
    safe = dict(rules)
    turn = reached(rules, TURN)
    ends = overlapping({name: rules[name] for name in turn}, marks(definition))
    avoid = {rule: builtin.avoid for builtin in definition.builtins.values() for rule in builtin.arguments.values()}
    for name in turn:
        texts = marks_of_thoughts(definition, rules) if name in thoughts else marks(definition)
        texts = markers_of((*texts, *avoid[name])).texts if avoid.get(name) else texts
        patterns = definition.not_answers if name in whole and name not in thoughts else ()
        safe[name] = tuple(
            tuple(_without(symbol, texts, ends, patterns) for symbol in sequence) for sequence in rules[name]
        )
    return safe


def _without(symbol: Symbol, texts: tuple[str, ...], ends: tuple[str, ...], patterns: tuple[str, ...]) -> Symbol:
    if not isinstance(symbol, Pattern) or not texts:
        return symbol
    source = f"(?#without {' '.join(map(_comment, (*texts, *ends, *patterns)))}){symbol.source}"
    language = intersect(
        symbol.language, without(texts, ends), *(complement(parse_python(pattern)) for pattern in patterns)
    )
    return symbol if language is symbol.language else Pattern(language, source, symbol.narrowed)


def overlapping(rules: Alternatives, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return beginnings of markers that what stands behind a text in the rules could complete: ``[e~`` before the token
    ``[e~[``.
    """
    firsts = {
        text[:end]
        for sequences in rules.values()
        for sequence in sequences
        for text in texts_in(sequence)
        for end in range(1, len(text) + 1)
    }
    return tuple(sorted({text[:at] for text in texts for at in range(1, len(text)) if text[at:] in firsts}))


def _comment(text: str) -> str:
    return re.sub(r"[()\\/\s]", "_", text)
