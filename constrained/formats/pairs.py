"""A pair of files → a format's definition and its grammar, with the spellings of its tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from constrained.formats.binding.names import check_names_of, check_tokens_of
from constrained.formats.binding.rules import Alternatives, alternatives_of, with_empty_terminals
from constrained.formats.defining.definition import ENTRY, Change, Definition, read_definition
from constrained.grammar import Grammar, Literal, Rule, Symbol

_Raw = dict[str, Any]  # rules whose terminals may look ahead, which no symbol of a grammar does


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
    read, raw = (_shipped if is_shipped else _grammar)(definition.grammar, tuple(sorted(definition.tokens)))
    check_names_of(definition, alternatives_of(read.rules), path.name)
    generic = replace(_varied(read, raw, definition.variant), adopts=True)
    check_tokens_of(definition, alternatives_of(generic.rules), path.name)
    return definition, respelled(generic, {old: new for old, new in definition.tokens.items() if old != new})


def _grammar(path: Path, specials: tuple[str, ...]) -> tuple[Grammar, _Raw]:
    """Return the grammar of a file, and its rules before look-ahead made copies of them."""
    from constrained.grammar.lark.reader import read_file  # the library is loaded where a format is

    raw: _Raw = {}
    read = read_file(path, ENTRY, specials, import_paths=[shipped_folder()], shown_to=raw.update)
    return _with_rules(read, alternatives_of(read.rules)), raw


def _with_rules(grammar: Grammar, rules: Alternatives) -> Grammar:
    named = {name: Rule(name, alternatives) for name, alternatives in with_empty_terminals(rules).items()}
    return replace(grammar, rules=named)


# PERF: relatives differ in their definitions alone: 49 formats have 36 grammars, and load in 0.83 of the time.
_shipped = lru_cache(maxsize=64)(_grammar)


def _varied(grammar: Grammar, raw: _Raw, change: Change) -> Grammar:
    """Return the grammar of a format that differs from its relative's in some rules, and in the copies of them that
    look-ahead makes, which are made anew.
    """
    from constrained.grammar.lark.lexing.lookahead import Demanding  # as above
    from constrained.grammar.lark.lexing.trailing_context import resolved

    if not (change.drop or change.replace):
        return grammar
    rules = dict(raw)
    for target, source in change.replace:
        rules[target] = rules[source]
    for name in change.drop:
        rules[name] = ()
    looks_ahead = any(isinstance(symbol, Demanding) for parts in raw.values() for part in parts for symbol in part)
    return _with_rules(grammar, resolved(rules, grammar.start)[0] if looks_ahead else rules)


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
