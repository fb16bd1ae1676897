"""A format's .toml file → `Definition`: everything about a chat format that its grammar does not say.

The grammar states the language; the definition names the tokens, the rules that tool binding and reading need, and the options.
An option names, for each of its values, rules to drop or to replace, so that variants of a format are spelled out in its grammar.
The anatomy of both files is explained in ``grammars/README.md``.  Unknown keys are errors: a typo must not change a language.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from constrained.errors import GrammarError

ENTRY = "assistant_turn"
PLACES = ("first", "before the first user", "before the last user")  # of the list of tools


@dataclass(frozen=True, slots=True)
class Change:
    """What the value of an option does to the grammar: alternatives that use a dropped rule go, a replaced rule takes another's."""

    drop: tuple[str, ...] = ()
    replace: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Option:
    """A choice that the caller makes.

    Either one of the `values`, or, where there are `members`, a list of some of them (None: unknown, nothing changes):
    members[name] = (change where the list has the name, change where it has not).  `generated`: the value where a turn is generated and
    nothing is said; `default`: where one is read.
    """

    about: str
    default: object
    values: Mapping[str | bool, Change]
    members: Mapping[str, tuple[Change, Change]]
    generated: object = None


@dataclass(frozen=True, slots=True)
class Payload:
    """How a tool's name and arguments are written.

    `surface`: "json" or "python" (keyword arguments).  `name`: "raw", "json" (inside the quotes of a string), "python" (a dotted name).
    `tag_safe`: a slash after "<" is escaped, so that no closing tag can appear inside a string.  `quote`: of the surface "quoted", the
    special token around strings, by name; `sorts`: whether members are written in the order of their names.  `avoid`: what strings do not
    spell besides markers, as a published reader misreads it.
    """

    surface: str
    name: str
    tag_safe: bool
    quote: str | None = None
    sorts: bool = False
    avoid: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Repeat:
    """How further calls follow the first: `rule` derives any number of `next`; `default` is the most calls of a turn, None: no bound.

    `ids`: where calls have ids, "counted", in decimal from `first` on, or "unique", texts of the rule `call_id`; then `all` is the rule
    of all calls, and `per` says whether they are counted in a "turn" or in the "conversation".
    """

    rule: str
    next: str
    default: int | None
    all: str | None = None
    ids: str | None = None
    first: int = 0
    per: str = "conversation"


@dataclass(frozen=True, slots=True)
class Builtin:
    """A tool of the format itself: the rule that writes the call, and for each argument the rule that writes its value."""

    rule: str
    arguments: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Where a turn thinks: `rule` may derive nothing or `block`, and `prompt` is how a template begins the thought for the model."""

    rule: str
    block: str
    prompt: str


@dataclass(frozen=True, slots=True)
class Definition:
    """A format's .toml file.

    `tokens` maps the names of special tokens in the grammar to their spellings in the tokenizer.  `markers` are texts that some
    tokenizers have as tokens; where one has not, they are plain text.  `reserved` are other texts that may not stand in a turn,
    `call_markers` those by which readers find calls; `not_answers` patterns of whole texts that readers take for calls.  `variant` is what
    sets a format apart from the one whose grammar it uses.  `stops` maps rules that derive whole turns to the tokens that end them, by name.
    `messages` maps the rules of messages to roles; `slots` maps rules to those that they stand for when a text is read; texts of `escaped`
    rules have Python's escapes.
    `tool_list`: where the message of role "tools" stands, whose text is the list of tools in JSON; one of `PLACES`.
    """

    title: str
    specification: str
    grammar: Path
    tokens: Mapping[str, str]
    markers: tuple[str, ...]
    reserved: tuple[str, ...]
    call_markers: tuple[str, ...]
    not_answers: tuple[str, ...]
    stops: Mapping[str, tuple[str, ...]]
    payload: Payload | None
    repeat: Repeat | None
    builtins: Mapping[str, Builtin]
    thoughts: Mapping[str, str]
    reasoning: Reasoning | None
    variant: Change
    messages: Mapping[str, str]
    slots: Mapping[str, str]
    escaped: frozenset[str]
    options: Mapping[str, Option]
    tool_list: str | None


_KEYS = frozenset(
    """extends title specification grammar specials markers reserved call_markers not_answers spellings variant stops payload calls builtins thoughts
    messages slots escaped reasoning options tool_list""".split()
)


def read_definition(path: Path) -> Definition:
    """Return what a .toml file defines.

    Raises: GrammarError: a key is missing or unknown, or a value has the wrong shape.
    """
    table = _read_table(path)
    try:
        return _definition(table, path)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, GrammarError):
            raise
        missing = f"the key {error} is missing" if isinstance(error, KeyError) else str(error)
        raise GrammarError(f"cannot read the format {path.name}", because=missing, instead="see grammars/README.md") from error


def _read_table(path: Path, extending: tuple[Path, ...] = ()) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # not there, not UTF-8, not TOML, or no path at all
        reason = error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
        raise GrammarError(f"cannot read the format {path.name}", because=reason, instead="a .toml file in UTF-8") from error
    _check_keys(table, _KEYS, path)
    if "extends" in table:
        if path in extending:
            raise GrammarError(f"cannot read the format {path.name}", because="it extends itself")
        table = {**_read_table(path.with_name(f"{table['extends']}.toml"), (*extending, path)), **table}
    table.setdefault("grammar", f"{path.stem}.lark")
    return table


def _definition(table: dict[str, Any], path: Path) -> Definition:
    spellings = table.get("spellings", {})
    tokens = {name: str(spellings.get(name, name)) for name in table["specials"]}
    if unknown := spellings.keys() - tokens.keys():
        raise GrammarError(f"cannot read the format {path.name}", where="spellings", because=f"{min(unknown)!r} is not among its specials")
    return Definition(
        title=str(table["title"]),
        specification=str(table["specification"]),
        grammar=path.with_name(table["grammar"]),
        tokens=tokens,
        markers=tuple(table.get("markers", ())),
        reserved=tuple(table.get("reserved", ())),
        call_markers=tuple(table.get("call_markers", ())),
        not_answers=tuple(table.get("not_answers", ())),
        stops={rule: tuple(names) for rule, names in table["stops"].items()},
        payload=_payload(table["payload"], path) if "payload" in table else None,
        repeat=_repeat(table["calls"], path) if "calls" in table else None,
        builtins={name: Builtin(str(value["rule"]), dict(value["arguments"])) for name, value in table.get("builtins", {}).items()},
        thoughts=dict(table.get("thoughts", {})),
        reasoning=_reasoning(table["reasoning"], path) if "reasoning" in table else None,
        variant=_change(table.get("variant", {}), path),
        messages={str(rule): str(role) for rule, role in table.get("messages", {}).items()},
        slots={str(rule): str(slot) for rule, slot in table.get("slots", {}).items()},
        escaped=frozenset(map(str, table.get("escaped", ()))),
        options={name: _option(value, name, path) for name, value in table.get("options", {}).items()},
        tool_list=_place(table.get("tool_list")),
    )


def _place(place: str | None) -> str | None:
    if place not in (None, *PLACES):
        raise ValueError(f"tool_list is {place!r}, not one of {', '.join(PLACES)}")
    return place


def _payload(table: dict[str, Any], path: Path) -> Payload:
    _check_keys(table, {"surface", "name", "tag_safe", "quote", "sorts", "avoid"}, path)
    for key, known in (("surface", ("json", "python", "tagged", "quoted")), ("name", ("raw", "json", "python"))):
        if table[key] not in known:
            raise ValueError(f"payload.{key} is {table[key]!r}, not one of {', '.join(known)}")
    if ("quote" in table) != (table["surface"] == "quoted"):
        raise ValueError("payload.quote belongs to the surface 'quoted'")
    return Payload(table["surface"], table["name"], bool(table.get("tag_safe", False)), table.get("quote"), bool(table.get("sorts", False)),
        tuple(map(str, table.get("avoid", ()))))


def _repeat(table: dict[str, Any], path: Path) -> Repeat:
    _check_keys(table, {"repeat", "next", "default", "all", "ids", "first", "per"}, path)
    for key, known in (("ids", (None, "counted", "unique")), ("per", ("conversation", "turn"))):
        if table.get(key, known[0]) not in known:
            raise ValueError(f"calls.{key} is {table[key]!r}, not one of {', '.join(filter(None, known))}")
    if ("ids" in table) != ("all" in table):
        raise ValueError("calls.ids and calls.all belong together")
    return Repeat(
        table["repeat"], table["next"], table.get("default"), table.get("all"), table.get("ids"), table.get("first", 0),
        table.get("per", "conversation"))


def _reasoning(table: dict[str, Any], path: Path) -> Reasoning:
    _check_keys(table, {"rule", "block", "prompt"}, path)
    return Reasoning(str(table["rule"]), str(table["block"]), str(table["prompt"]))


def _option(table: dict[str, Any], name: str, path: Path) -> Option:
    about = str(table["about"])
    if "members" in table:
        _check_keys(table, {"about", "members"}, path)
        members = {key: (_change(value["present"], path), _change(value["absent"], path)) for key, value in table["members"].items()}
        return Option(about, None, {}, members)
    words = {"true": True, "false": False}
    values: dict[str | bool, Change] = {
        words.get(key, key): _change(value, path) for key, value in table.items() if key not in ("about", "default", "generated")
    }
    generated = table.get("generated", table["default"])
    if table["default"] not in values or generated not in values:
        raise ValueError(f"the default of option {name!r} is none of its values")
    return Option(about, table["default"], values, {}, generated)


def _change(table: dict[str, Any], path: Path) -> Change:
    _check_keys(table, {"drop", "replace"}, path)
    return Change(tuple(table.get("drop", ())), tuple(table.get("replace", {}).items()))


def _check_keys(table: Mapping[str, Any], known: frozenset[str] | set[str], path: Path) -> None:
    if unknown := table.keys() - known:
        raise GrammarError(f"unknown key {min(unknown)!r} in {path.name}", instead="one of: " + ", ".join(sorted(known)))
