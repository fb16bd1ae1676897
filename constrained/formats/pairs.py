"""A pair of files → a format's definition and its grammar, with the spellings of its tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from constrained.formats.binding.names import check_names_of, check_tokens_of
from constrained.formats.binding.rules import alternatives_of, with_empty_terminals
from constrained.formats.defining.definition import ENTRY, Definition, read_definition
from constrained.formats.lowered import lowered
from constrained.grammar import Grammar, Literal, Rule, Symbol


@lru_cache(maxsize=1)
def shipped_folder() -> Path:
    """Return the folder of the formats: inside the package when installed, beside it in a checkout."""
    package = Path(__file__).parent.parent
    return package / "grammars" if (package / "grammars").is_dir() else package.parent / "grammars"


@lru_cache(maxsize=1)
def shipped_names() -> tuple[str, ...]:
    """Return the names of the formats there, sorted."""
    return tuple(
        sorted(path.stem for path in shipped_folder().glob("*.toml") if path.stem not in ("aliases", "recognise"))
    )


def read_pair(path: Path) -> tuple[Definition, Grammar]:
    """Return what a .toml file and its grammar say.

    Raises: GrammarError: one of them is wrong, or they do not fit.
    """
    definition = read_definition(path, shipped_folder())
    is_shipped = definition.grammar.parent == shipped_folder()
    generic = (lowered(definition) if is_shipped else None) or grammar_of_text(definition, path.name)
    check_tokens_of(definition, alternatives_of(generic.rules), path.name)
    return definition, respelled(generic, {old: new for old, new in definition.tokens.items() if old != new})


def grammar_of_text(definition: Definition, name: str) -> Grammar:
    """Return what the Lark text of a definition says, with what its variant has otherwise, also in the copies of rules
    that look-ahead makes, which are made anew.

    Raises: GrammarError: the text is wrong, or has no rule that the definition, a file of that name, names.
    """
    from constrained.grammar.lark.lookahead import (
        Demanding,  # the library is loaded where a text is read
        resolved,
    )
    from constrained.grammar.lark.reader import read_file

    raw: dict[str, Any] = {}  # rules whose terminals may look ahead, which no symbol of a grammar does
    specials, change = sorted(definition.tokens), definition.variant
    read = read_file(definition.grammar, ENTRY, specials, import_paths=[shipped_folder()], shown_to=raw.update)
    rules = with_empty_terminals(alternatives_of(read.rules))
    check_names_of(definition, rules, name)
    if change.drop or change.replace:
        varied = raw | {target: raw[source] for target, source in change.replace} | dict.fromkeys(change.drop, ())
        if any(isinstance(symbol, Demanding) for parts in raw.values() for part in parts for symbol in part):
            varied = resolved(varied, read.start)[0]
        rules = with_empty_terminals(varied)
    return replace(read, rules={rule: Rule(rule, parts) for rule, parts in rules.items()}, adopts=True)


def respelled(grammar: Grammar, spellings: Mapping[str, str]) -> Grammar:
    """Return the grammar with other names for its special tokens."""
    if not spellings:
        return grammar
    changes: dict[Symbol, Symbol] = {Literal(old): Literal(new) for old, new in spellings.items()}
    rules = {
        name: Rule(
            name, tuple(tuple(changes.get(symbol, symbol) for symbol in sequence) for sequence in rule.alternatives)
        )
        for name, rule in grammar.rules.items()
    }
    specials = frozenset(spellings.get(name, name) for name in grammar.specials)
    return replace(grammar, rules=rules, specials=specials)
