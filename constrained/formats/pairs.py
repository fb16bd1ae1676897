"""A format's name → its pair of files → its definition and its grammar, with the spellings of its tokenizer.

The two files are checked against each other: what the definition names is in the grammar, and what is read back is one
terminal.  Without this a typo would change the language silently: an alternative that nobody drops, a thought that
nobody returns, a text without its second half.

Shipped grammars are read beforehand.  To parse a grammar and to resolve its look-ahead takes 0.2 to 0.4 s; to unpickle
its rules 3 ms.  ``lowered.bin`` is written by ``python tools/lowered_grammars.py`` and counts for the texts that it was
made of: after a change to any .lark file it is passed over, and the texts are read.  It is a pickle, and as trusted as
the package that it is a part of.

A model goes by many names, and they differ mostly in the signs between letters and digits.  So names are compared
without these, and ``grammars/aliases.toml`` lists others.

Tests: test_formats.py (the file holds what the texts say; where a text was changed, the text counts).
"""

from __future__ import annotations

import pickle
import re
import tomllib
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from constrained.errors import GrammarError
from constrained.formats.binding.bind import id_slot
from constrained.formats.binding.rules import (
    Alternatives,
    alternatives_of,
    reached,
    tags_of,
    terminal_of,
    texts_in,
    with_empty_terminals,
)
from constrained.formats.definition import ENTRY, Definition, hints_of, read_definition, refused
from constrained.grammar import Grammar, Literal, Rule, Symbol
from constrained.grammar.lark import shipped_folder


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
    from constrained.grammar.lark.lookahead import Demanding, resolved
    from constrained.grammar.lark.reader import read_file

    raw: dict[str, Any] = {}  # rules whose terminals may look ahead, which no symbol of a grammar does
    specials, change = sorted(definition.tokens), definition.variant
    read = read_file(definition.grammar, ENTRY, specials, shown_to=raw.update)
    rules = with_empty_terminals(alternatives_of(read.rules))
    check_names_of(definition, rules, name)
    copies = {rule.rstrip("0123456789").removesuffix("_") for rule in rules.keys() - raw.keys()}
    for key, rule in _rules(definition):
        if key.startswith("options.") and rule in copies:
            because = f"the rule {rule!r} has copies, which look-ahead made, and an option changes no copies"
            raise refused(name, key, because, "the rule that uses it")
    if change.drop or change.replace:
        moved = {target: raw[source] for target, source in change.replace.items()}
        varied = raw | moved | dict.fromkeys(change.drop, ())
        if any(isinstance(symbol, Demanding) for parts in raw.values() for part in parts for symbol in part):
            varied = resolved(varied, read.start)[0]
        rules = with_empty_terminals(varied)
    read = replace(read, rules={rule: Rule(rule, parts) for rule, parts in rules.items()}, adopts=True)
    return Grammar.of(read)


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


# -- shipped grammars, read beforehand ---------------------------------------------------------------------------------

FILE = "lowered.bin"
Key = tuple[object, ...]


def lowered(definition: Definition) -> Grammar | None:
    """Return the grammar of a shipped definition, as `pairs.grammar_of_text` does; None where the text must be read."""
    entry = _held(definition.grammar.parent).get(key_of(definition))
    return None if entry is None else unpacked(entry)


def key_of(definition: Definition) -> Key:
    """Return what tells the grammar of a definition from the others in the file."""
    variant = definition.variant
    return definition.grammar.name, tuple(sorted(definition.tokens)), variant.drop, tuple(variant.replace.items())


def packed(grammar: Grammar) -> bytes:
    """Return a grammar as it stands in the file."""
    return zlib.compress(pickle.dumps(grammar, protocol=5), 9)


def unpacked(entry: bytes) -> Grammar:
    """Return a grammar that stands in the file."""
    grammar: Grammar = pickle.loads(zlib.decompress(entry))
    return grammar


def digest(folder: Path) -> str:
    """Return a digest of all Lark texts of a folder, as they import each other."""
    hashed = sha256()
    for path in sorted(folder.glob("*.lark")):
        hashed.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return hashed.hexdigest()


@lru_cache(maxsize=1)
def _held(folder: Path) -> Mapping[Key, bytes]:
    try:
        texts, entries = pickle.loads((folder / FILE).read_bytes())
    except FileNotFoundError:
        return {}
    return entries if texts == digest(folder) else {}


# -- names -------------------------------------------------------------------------------------------------------------

MOST_NEAR = 5  # names that an error offers


def known(name: str) -> str | None:
    """Return the format that a name stands for, None if there is none.

    >>> known("QWEN_2.5")
    'qwen2.5'
    """
    return name if name in shipped_names() else _names().get(_bare(name))


def nearest(name: str) -> list[str]:
    """Return the names that are most like a name that nobody knows, at least one."""
    from difflib import get_close_matches

    near = get_close_matches(_bare(name), _names(), MOST_NEAR, 0.3)
    return list(dict.fromkeys(_names()[bare] for bare in near)) or sorted(shipped_names())[:MOST_NEAR]


def _bare(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).lower()


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    """Return the formats by the letters and digits of all their names."""
    listed = tomllib.loads((shipped_folder() / "aliases.toml").read_text(encoding="utf-8"))
    table = {_bare(alias): name for name, aliases in listed.items() for alias in aliases}
    return table | {_bare(name): name for name in shipped_names()}


# -- the definition against the grammar --------------------------------------------------------------------------------

_SPECIAL = re.compile(r"<[|｜][^<>|｜\s]*[|｜]>")  # as most vocabularies spell special tokens
# what a rule can stand for when it is read, besides thoughts
SLOTS = ("content", "string_content", "speaker", "answered", "tool_call", "arguments")


def check_names_of(definition: Definition, rules: Alternatives, file: str) -> None:
    """Raise `GrammarError` for the first name that the grammar or the specials lack, and the first rule of the wrong
    shape, with its key.
    """
    turns = ("answer", "calling") if definition.payload or definition.builtins else ("answer",)
    for key, rule in (*((None, turn) for turn in turns), *_rules(definition)):
        if not {rule, f"any_{rule}", rule.removeprefix("any_")} & rules.keys():
            raise refused(file, key, f"its grammar has no rule {rule!r}")
    for key, name, what in named_in(definition):
        if "token" in what and name not in definition.tokens:
            raise refused(file, key, f"{name!r} is not among its specials", f'"{name}" in specials')
        if "role" in what and name not in definition.messages.values():
            known = ", ".join(dict.fromkeys(definition.messages.values()))
            raise refused(file, key, f"no message is by {name!r}", f"a role of [messages]: {known}")
    slots = (*SLOTS, *definition.thoughts.values())
    for rule, slot in definition.slots.items():
        if slot not in slots:
            raise refused(
                file, f"slots.{rule}", f"{slot!r} is nothing that a rule can stand for", f"one of: {', '.join(slots)}"
            )
    if definition.payload is None and "tool_call" in rules:
        raise refused(
            file, "payload", "it is missing, and the grammar has a rule 'tool_call', whose arguments it describes"
        )
    own = [(key, name) for key, name, what in named_in(definition) if "text" in what]
    own += [] if definition.calls is None or definition.calls.ids is None else [("calls.ids", id_slot(rules))]
    for place, rule in ((None, "content"), *([(None, "name")] if definition.payload else []), *own):
        if rule not in rules:
            raise refused(file, place, f"its grammar has no rule {rule!r}")
        if terminal_of(rules, rule) is None:
            raise refused(
                file, place, f"the rule {rule!r} is not one terminal",
                "a rule that is one terminal, as it is read back as a text",
            )
    try:
        tags_of(rules, definition)
    except GrammarError as error:
        raise refused(file, "payload.surface", f"{error.what}: {error.because}") from error


def check_tokens_of(definition: Definition, rules: Alternatives, file: str) -> None:
    """Raise `GrammarError` where rules that can be used hold as plain text what is spelled as a special token, or
    nowhere a marker: the name of one is misspelled.
    """
    entries = [f"{way}{name}" for way in ("", "any_") for name in ("assistant_turn", "conversation", "call_text")]
    entries.append("any_lone_call")
    replaced = [name for key, name in _rules(definition) if ".replace" in key]
    used = reached(rules, [*entries, *replaced])
    held = {text for name in used for sequence in rules[name] for text in texts_in(sequence)}
    for text in sorted(held - definition.tokens.keys()):
        for name in _SPECIAL.findall(text):
            if name not in definition.tokens and name not in definition.markers:
                raise refused(
                    file, "specials", f"the grammar has {name!r}, which is not among them",
                    "name it there, or among the markers, if it is plain text for some tokenizers",
                )
    for marker in definition.markers:
        if marker not in held:
            raise refused(file, "markers", f"the grammar has no text {marker!r}")


def named_in(value: Any, hint: Any = Definition, key: str = "") -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield what the texts of a definition name, as their types say: the key, the name, and of what it is one."""
    origin, inner = get_origin(hint), get_args(hint)
    if value is not None and origin is Annotated:
        yield key, value, hint.__metadata__
    elif is_dataclass(value):
        table: Any = type(value)
        for name, kind in hints_of(table, names=True).items():
            path = key if name == "values" else f"{key}.{name}".strip(".")  # values stand beside the other keys
            yield from named_in(getattr(value, name), kind, path)
    elif isinstance(value, Mapping) and inner:
        for entry, held in value.items():
            path = f"{key}.{str(entry).lower()}"
            yield from (*named_in(entry, inner[0], path), *named_in(held, inner[1], path))
    elif isinstance(value, (tuple, frozenset)) and inner:
        for entry in value:
            yield from named_in(entry, inner[0], key)


def _rules(definition: Definition) -> Iterator[tuple[str, str]]:
    """Yield the rules that a definition names, with their keys, and those that what it says needs."""
    yield from ((key, name) for key, name, what in named_in(definition) if "rule" in what)
    if definition.calls is not None and definition.calls.ids is not None:
        yield "calls.all", "call_id"
    if definition.payload is not None:
        tagged = ("member",) if definition.payload.surface == "tagged" else ()
        yield from (("payload", rule) for rule in ("tool_call", "arguments", *tagged))
