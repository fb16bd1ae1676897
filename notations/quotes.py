"""Other languages inside a Lark text, as llguidance spells them: ``%json {…}`` and ``%regex {…}``.

    start: "Answer: " %json {"type": "integer"} | quote
    quote: %regex {"substring_words": "the quick brown fox"}

``%json`` is any instance of the schema.  ``%regex`` is any run, also an empty one, of the parts of a text:
"substring_chars", its characters; "substring_words", its runs of word characters, of blanks and of other characters;
"substring_chunks", a list of parts.  Each becomes a rule.  A terminal may be a ``%regex`` and nothing else, and then it
stands in rules only.  Tested against llguidance where it is installed (tests/test_lark_inline.py).
"""

from __future__ import annotations

import re
from typing import Any

from constrained.errors import GrammarError
from constrained.grammar.compose import of_machine, optional, substring_of
from constrained.grammar.ir import Literal, Productions, Ref, Rule
from constrained.work import spend

_WORDS = re.compile(r"\w+|\s+|[^\w\s]+")
_KINDS = ("substring_chars", "substring_words", "substring_chunks")


def quoted_source(word: str, value: Any, where: str) -> Productions:
    """Return the grammar of what stands behind ``%json`` or ``%regex``."""
    if word == "json":
        from constrained.schema.embedding import machine_of

        return of_machine(machine_of(value, None, {}), Productions)
    kinds = list(value) if isinstance(value, dict) else []
    because = None if len(kinds) == 1 and kinds[0] in _KINDS else f"it is none of {', '.join(_KINDS)}"
    (kind, content), *_ = value.items() if because is None else ((None, None),)
    chunks = kind == "substring_chunks"
    if chunks and isinstance(content, list) and all(isinstance(chunk, str) for chunk in content):
        return _chunks(content)
    if because is not None or chunks or not isinstance(content, str):
        because = because or f"{kind} takes a {'list of texts' if chunks else 'text'}"
        instead = '%regex {"substring_words": "…"}'
        raise GrammarError("cannot read %regex", where=where, because=because, instead=instead)
    if kind == "substring_words":
        return _chunks(_WORDS.findall(content))
    return optional(substring_of(content)) if content else _chunks([])


def _chunks(chunks: list[str]) -> Productions:
    """Return the grammar of the runs of some parts of a text: each rule derives a part and what may follow it."""
    rules = {"start": Rule("start", ((), *((Ref(f"from_{at}"),) for at in range(len(chunks)))))}
    for at, chunk in enumerate(chunks):
        spend(2)
        first = (Literal(chunk),) if chunk else ()
        longer = ((*first, Ref(f"from_{at + 1}")),) if at + 1 < len(chunks) else ()
        rules[f"from_{at}"] = Rule(f"from_{at}", (first, *longer))
    return Productions(rules, adopts=False)
