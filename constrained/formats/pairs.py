"""A pair of files → a format's definition and its grammar, with the spellings of its tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from constrained.formats.binding.names import check_names_of, check_tokens_of
from constrained.formats.binding.rules import alternatives_of, with_empty_terminals
from constrained.formats.defining.definition import ENTRY, Change, Definition, read_definition
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
    read = (_shipped if is_shipped else _grammar)(definition.grammar, tuple(sorted(definition.tokens)))
    check_names_of(definition, alternatives_of(read.rules), path.name)
    generic = replace(_varied(read, definition.variant), adopts=True)
    check_tokens_of(definition, alternatives_of(generic.rules), path.name)
    return definition, respelled(generic, {old: new for old, new in definition.tokens.items() if old != new})


def _grammar(path: Path, specials: tuple[str, ...]) -> Grammar:
    read = Grammar.from_lark_file(path, start=ENTRY, specials=specials, import_paths=[shipped_folder()])
    rules = with_empty_terminals(alternatives_of(read.rules))
    return replace(read, rules={name: Rule(name, alternatives) for name, alternatives in rules.items()})


# PERF: relatives differ in their definitions alone: 49 formats have 36 grammars, and load in 0.83 of the time.
_shipped = lru_cache(maxsize=64)(_grammar)


def _varied(grammar: Grammar, change: Change) -> Grammar:
    """Return the grammar of a format that differs from its relative's in some rules."""
    if not (change.drop or change.replace):
        return grammar
    rules = dict(grammar.rules)
    for target, source in change.replace:
        rules[target] = Rule(target, rules[source].alternatives)
    for name in change.drop:
        rules[name] = Rule(name, ())
    return replace(grammar, rules=rules)


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
