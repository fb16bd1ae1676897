"""A format's .toml file → `Definition`: everything about a chat format that its grammar does not say.

The grammar states the language; the definition names the tokens, the rules that tool binding and reading need, and the
options. An option names, for each of its values, rules to drop or to replace, so that variants of a format are spelled
out in its grammar. The anatomy of both files is explained in ``grammars/README.md``.

Everything is refused with the file and the key, in words, unknown keys too: a typo must not change a language, and
whoever writes a format reads no Python.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from constrained.errors import GrammarError, shown
from constrained.export.declarations import LANGUAGES
from constrained.formats.message import RESULTS
from constrained.formats.payload import ELEMENTS
from constrained.once import once
from constrained.schema.surfaces.tags import KINDS

# -- the definition ----------------------------------------------------------------------------------------------------

ENTRY = "assistant_turn"

# what a text of a definition names, for `pairs.check_names_of`
RuleName = Annotated[str, "rule"]
TextRule = Annotated[str, "rule", "text"]  # one that is a terminal, as it is read back as a text
TokenName = Annotated[str, "token"]
Role = Annotated[str, "role"]

Fault = tuple[str, str, str]  # what is wrong with a table: the key in it, because, instead


@dataclass(frozen=True, slots=True)
class Change:
    """What the value of an option does to the grammar: alternatives that use a dropped rule go, a replaced rule takes
    another's.

    `avoid`, `notes`: what strings in arguments do without and what readers cannot take, beside what the format says.
    `stops`: rules of whole turns → the tokens that end them, in place of the format's.
    """

    drop: tuple[RuleName, ...] = ()
    replace: Mapping[RuleName, RuleName] = field(default_factory=dict)
    avoid: tuple[str, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    stops: Mapping[RuleName, tuple[TokenName, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sign:
    """By what a conversation tells that an option is on: a message by a role, of a speaker, with a special token or a
    text that fits a regular expression; speaker and token by their names in the grammar.
    """

    by: Role
    name: str | None = None
    token: TokenName | None = None
    text: str = ""

    def fault(self) -> Fault | None:
        return _no_pattern("text", self.text)


@dataclass(frozen=True, slots=True)
class Member:
    """What changes where a list has a name, and where it has not; `told`: by what a conversation tells of it."""

    present: Change
    absent: Change
    told: Sign | None = None


@dataclass(frozen=True, slots=True)
class Option:
    """A choice that the caller makes.

    Either one of the `values`, or, where there are `members`, a list of some of them (None: unknown, nothing changes):
    each with what changes where the list has its name, and where it has not.  `generated`: the value where a turn is
    generated and nothing is said; `default`: where one is read.  `told`: the sign by which a conversation tells that
    the option is true.
    """

    about: str
    default: object = None
    values: Mapping[str | bool, Change] = field(default_factory=dict)
    members: Mapping[str, Member] = field(default_factory=dict)
    generated: object = None
    told: Sign | None = None

    @property
    def signs(self) -> dict[object, Sign]:
        """By what a conversation tells of the option: True, or a member, → its sign."""
        own: dict[object, Sign] = {name: one.told for name, one in self.members.items() if one.told is not None}
        return own if self.told is None else {True: self.told}


@dataclass(frozen=True, slots=True)
class Elements:
    """Expressions of an element's opening tag, with the groups ``name`` and ``type`` where it has them, and of its
    closing tag.

    `item`: the name of a list's elements, None where they have none.
    """

    open: str
    close: str
    item: str | None = None


@dataclass(frozen=True, slots=True)
class Payload:
    """How a tool's name and arguments are written.

    `surface`: "json" or "python" (keyword arguments).  `name`: "raw", "json" (inside the quotes of a string), "python"
    (a dotted name). `tag_safe`: a slash after "<" is escaped, so that no closing tag can appear inside a string.
    `quote`: of the surface "quoted", the special token around strings, by name; `sorts`: whether members are written in
    the order of their names; `whitespace`: of JSON, see `schema.embed`.  `avoid`: what strings do not spell besides
    markers, as a published reader misreads it.  `elements`: how values are nested that the rules of `payload.ELEMENTS`
    read.
    """

    surface: Literal["json", "python", "tagged", "quoted"]
    name: Literal["raw", "json", "python"]
    tag_safe: bool = False
    quote: TokenName | None = None
    sorts: bool = False
    whitespace: Literal["canonical", "compact"] = "canonical"
    avoid: tuple[str, ...] = ()
    elements: Elements | None = None

    def fault(self) -> Fault | None:
        if (self.quote is not None) != (self.surface == "quoted"):
            return "quote", "it belongs to the surface 'quoted'", README
        if self.elements is None:
            return None
        return _no_pattern("elements.open", self.elements.open) or _no_pattern("elements.close", self.elements.close)


@dataclass(frozen=True, slots=True)
class CallRepeat:
    """How further calls follow the first: `repeat` derives any number of `next`; `default` is the most calls of a turn,
    None: no bound.

    `ids`: where calls have ids, "counted", in decimal from `first` on, or "unique", texts of the rule `call_id`; then
    `all` is the rule of all calls, and `per` says whether they are counted in a "turn" or in the "conversation".
    """

    repeat: RuleName
    next: RuleName
    default: int | None = None
    all: RuleName | None = None
    ids: Literal["counted", "unique"] | None = None
    first: int = 0
    per: Literal["conversation", "turn"] = "conversation"

    def fault(self) -> Fault | None:
        if (self.ids is None) != (self.all is None):
            return "", "'ids' and 'all' belong together", README
        return None


@dataclass(frozen=True, slots=True)
class Builtin:
    """A tool of the format itself: the rule that writes the call, and for each argument the rule that writes its
    value, which does without the texts of `avoid`.  Where the call holds `arguments` as that of any tool, they fit
    `parameters`, a JSON Schema, and `description` is what a conversation tells of it.
    """

    rule: RuleName
    arguments: Mapping[str, TextRule] = field(default_factory=dict)
    avoid: tuple[str, ...] = ()
    parameters: Mapping[str, Any] | None = None
    description: str = ""

    def fault(self) -> Fault | None:
        if bool(self.arguments) == (self.parameters is not None):
            return "", "it has 'arguments' or 'parameters', one of them", README
        return None

    def told(self, name: str) -> dict[str, Any]:
        """Return the tool as a conversation lists it: without its namespace, which the words around it name."""
        return {"name": name.rpartition(".")[2], "description": self.description, "parameters": self.parameters or {}}


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Where a turn thinks: `rule` may derive nothing or `block`, and `prompt` is how a template begins the thought for
    the model; `closed`: what it writes in its place where the model shall not think, None: it cannot say so.
    """

    rule: RuleName
    block: RuleName
    prompt: str
    closed: str | None = None


@dataclass(frozen=True, slots=True)
class ToolPrompt:
    """A part of what a conversation tells a model of its tools.

    `role`: whose message tells it, and `name` that message's speaker.  `place`: "before" or "behind" the text of the
    first message by the role, with `joined` between and `opened` before that text; where there is no such message, one
    says `otherwise`, or the text; or "own": a message behind those of the system; or "first": one before all others.
    `takes_over`: the text is what the system says, unless it holds this, by which the format's own system message is
    known.  `text` and `otherwise` have a slot {tools}: each as `tool` says, with slots {json}, {parameters}, {name},
    {description} and {declaration}, in the language `declared`, and `between` them; or, without `tool`, one JSON array.
    `ahead`: of a part behind a text, what in that text it stands ahead of, where that is there.  `own`: it tells of
    these tools of the format itself alone, where one of them is offered; `others`: only where tools are offered that
    are none of these.  `option`: it is told only where this option, of formats that have it, is true.
    `indent`: of JSON that has several lines; `compact`: without spaces, keys in order.  `enveloped`: as OpenAI's
    interface has tools, not the functions alone.
    """

    role: Role
    place: Literal["before", "behind", "own", "first"]
    text: str
    name: str | None = None
    joined: str = "\n\n"
    otherwise: str = ""
    tool: str | None = None
    between: str = "\n"
    indent: int | None = None
    compact: bool = False
    enveloped: bool = False
    declared: str | None = None
    opened: str = ""
    takes_over: str | None = None
    ahead: str | None = None
    own: tuple[str, ...] = ()
    others: bool = False
    option: str | None = None

    def fault(self) -> Fault | None:
        if self.declared is not None and self.declared not in LANGUAGES:
            return "declared", f"it is {shown(self.declared)}", f"one of: {', '.join(LANGUAGES)}"
        of_a_tool = ("json", "parameters", "name", "description", *(("declaration",) if self.declared else ()))
        for key, slots in (("text", ("tools",)), ("otherwise", ("tools",)), ("tool", of_a_tool)):
            for slot in re.findall(r"\{\{\w+\}\}|\{(\w+)\}", getattr(self, key) or ""):
                if slot and slot not in slots:
                    instead = f"one of: {', '.join(slots)}; {{{{{slot}}}}} where it is text"
                    return key, f"it has no slot {slot!r}", instead
        return None


@dataclass(frozen=True)
class Definition:
    """A format's .toml file.

    `tokens` maps the names of special tokens in the grammar to their spellings in the tokenizer.  `markers` are texts
    that some tokenizers have as tokens; where one has not, they are plain text.  `padding`: tokens that fill a row of a
    batch behind its text.  `reserved` are other texts that may not stand in a turn, `call_markers` those by which
    readers find calls; `not_answers` patterns of whole texts that readers take for calls, `not_responses` JSON Schemas
    of such answers in JSON.  `variant` is what sets a format apart from the one whose grammar it uses.  `stops` maps
    rules that derive whole turns to the tokens that end them, by name.  `messages` maps the rules of messages to roles;
    `slots` maps rules to those that they stand for when a text is read; texts of `escaped` rules have Python's escapes.
    `tool_list`: where the message of role "tools" stands, whose text is the list of tools in JSON.
    `tool_prompt`: what else is told of tools.  `notes`: what a published reader of the format cannot take, by the
    reader's name.  `results`: the roles of those who answer calls.  `constraints`: rules across messages → who keeps
    them, "always" or "strict".  `doubts`: of a format that was derived, what its template does otherwise, or does not
    say.  `prompt`: how the template's generation prompt begins a turn.  `changes`: what options change, once they are
    chosen (`bind.under`).
    """

    title: str
    specification: str
    grammar: Path
    tokens: Mapping[str, str]
    stops: Mapping[RuleName, tuple[TokenName, ...]]
    markers: tuple[str, ...] = ()
    padding: tuple[str, ...] = ()
    reserved: tuple[str, ...] = ()
    call_markers: tuple[str, ...] = ()
    not_answers: tuple[str, ...] = ()
    not_responses: tuple[Mapping[str, Any], ...] = ()
    payload: Payload | None = None
    calls: CallRepeat | None = None
    builtins: Mapping[str, Builtin] = field(default_factory=dict)
    thoughts: Mapping[str, TextRule] = field(default_factory=dict)
    reasoning: Reasoning | None = None
    variant: Change = field(default_factory=Change)
    messages: Mapping[RuleName, str] = field(default_factory=dict)
    slots: Mapping[RuleName, str] = field(default_factory=dict)
    escaped: frozenset[RuleName] = frozenset()
    options: Mapping[str, Option] = field(default_factory=dict)
    tool_list: Literal["first", "before the first user", "before the last user"] | None = None
    tool_prompt: tuple[ToolPrompt, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    results: tuple[Role, ...] = ()
    constraints: Mapping[str, str] = field(default_factory=dict)
    doubts: Mapping[str, str] = field(default_factory=dict)
    prompt: Literal["free", "think-open", "think-closed"] = "free"
    changes: tuple[Change, ...] = ()

    @once
    def stop(self) -> tuple[str, ...]:
        """The special tokens that end a turn, as the tokenizer spells them."""
        names = dict.fromkeys(name for names in self.stops.values() for name in names)
        return tuple(self.tokens[name] for name in names)

    @once
    def spellings(self) -> frozenset[str]:
        """The texts that are special tokens, or reserved."""
        return frozenset({*self.tokens.values(), *self.reserved})

    @property
    def generates_thoughts(self) -> bool:
        """Whether generated turns may have thoughts; those of relatives that have none are read all the same."""
        return bool(self.thoughts) and (self.reasoning is None or self.reasoning.block not in self.variant.drop)

    def start(self, reasoning: object = None) -> str:
        """Return what the template's generation prompt holds of a turn, unless thoughts are asked for otherwise."""
        told, table = self.prompt, self.reasoning if self.generates_thoughts else None
        if table is None or reasoning == "prefilled":
            return "" if table is None else table.prompt
        if told == "think-open":
            return table.prompt
        return table.closed or "" if told == "think-closed" and reasoning != "required" else ""

    @property
    def begun_again(self) -> tuple[str, ...]:
        """What a turn begins with that repeats what the generation prompt holds of it."""
        assert self.reasoning is not None
        closed = self.reasoning.closed if self.prompt == "think-closed" else None
        return tuple(text.strip() for text in (self.reasoning.prompt, closed) if text is not None)


# -- tables ------------------------------------------------------------------------------------------------------------

README = "see grammars/README.md"
CONSTRAINTS = (
    "call_ids_differ", "calls_are_answered", "results_answer_calls", "results_in_order", "tools_are_listed",
)  # fmt: skip
_KEPT = Literal["always", "strict"]


class _Kind(NamedTuple):
    """What a value of a table may be: in words, as a test, and what is made of it."""

    words: str
    fits: Callable[[Any], bool]
    made: Callable[[Any], Any] = lambda value: value


def _listed(value: object, kind: type = str) -> bool:
    return isinstance(value, list) and all(isinstance(entry, kind) for entry in value)


def _mapped(value: object, fits: Callable[[Any], bool] = lambda entry: isinstance(entry, str)) -> bool:
    return isinstance(value, dict) and all(map(fits, value.values()))


def _is_table(value: object) -> bool:
    return isinstance(value, dict)


_KINDS: dict[Any, _Kind] = {
    str: _Kind("a text", lambda value: isinstance(value, str)),
    Path: _Kind("a text", lambda value: isinstance(value, str), Path),
    bool: _Kind("true or false", lambda value: isinstance(value, bool)),
    int: _Kind("a number from 0", lambda value: type(value) is int and value >= 0),
    object: _Kind("anything", lambda value: True),
    tuple[str, ...]: _Kind("a list of texts", _listed, tuple),
    frozenset[str]: _Kind("a list of texts", _listed, frozenset),
    tuple[Mapping[str, Any], ...]: _Kind("a list of tables", lambda value: _listed(value, dict), tuple),
    Mapping[str, str]: _Kind("a table of texts", _mapped),
    Mapping[str, Any]: _Kind("a table", _is_table),
    Mapping[str, tuple[str, ...]]: _Kind(
        "a table of lists of texts", lambda value: _mapped(value, _listed),
        lambda value: {key: tuple(texts) for key, texts in value.items()},
    ),
}  # fmt: skip


def _kind(hint: Any) -> _Kind:
    """Return what a value of a type is in a file."""
    if get_origin(hint) is Literal:
        return _Kind(f"one of: {', '.join(get_args(hint))}", lambda value: value in get_args(hint))
    if is_dataclass(hint):
        return _Kind("a table", _is_table)
    return _KINDS.get(hint) or _Kind("a table of tables", lambda value: _mapped(value, _is_table))


@lru_cache(maxsize=32)
def hints_of(table: type, *, names: bool = False) -> dict[str, Any]:
    """Return the types of a table's values by their keys; names: with what their texts name."""
    hints = get_type_hints(table, include_extras=names)
    return {key: get_args(hint)[0] if type(None) in get_args(hint) else hint for key, hint in hints.items()}


def _needed(table: Any) -> tuple[str, ...]:
    """Return the keys that a table must have."""
    return tuple([key.name for key in fields(table) if key.default is MISSING and key.default_factory is MISSING])


def _place(where: str, key: str) -> str:
    return ".".join(filter(None, (where, key)))


def check_shape(
    table: Mapping[str, Any], hints: Mapping[str, Any], file: str, where: str = "", needed: Iterable[str] = ()
) -> None:
    """Raise `GrammarError` where a table, at the key `where`, lacks a key, has an unknown one or a value of another
    kind.
    """
    for key, value in table.items():
        if key not in hints:
            listed = ", ".join(sorted(hints))
            raise GrammarError(f"unknown key {_place(where, key)!r} in {file}", instead=f"one of: {listed}")
        if not _kind(hints[key]).fits(value):
            raise refused(file, _place(where, key), f"it is {shown(value)}", _kind(hints[key]).words)
    for key in needed:
        if key not in table:
            raise refused(file, where or None, f"the key {key!r} is missing")


def _read_keys(
    table: Mapping[str, Any], hints: Mapping[str, Any], file: str, where: str, needed: Iterable[str]
) -> dict[str, Any]:
    """Return the values of a table by its keys."""
    check_shape(table, hints, file, where, needed)
    return {key: _read_value(value, hints[key], file, _place(where, key)) for key, value in table.items()}


def _read_value(value: Any, hint: Any, file: str, where: str) -> Any:
    if hint is Option:
        return _read_option(value, file, where)
    if is_dataclass(hint):
        kind: Any = hint
        made = kind(**_read_keys(value, hints_of(kind), file, where, _needed(kind)))
        fault: Fault | None = made.fault() if hasattr(made, "fault") else None
        if fault is not None:
            raise refused(file, _place(where, fault[0]), *fault[1:])
        return made
    if hint in _KINDS or get_origin(hint) is Literal:
        return _kind(hint).made(value)
    (inner,) = [kind for kind in get_args(hint) if is_dataclass(kind)]
    read = {name: _read_value(entry, inner, file, f"{where}.{name}") for name, entry in value.items()}
    return tuple(read.values()) if get_origin(hint) is tuple else read


def _read_option(table: dict[str, Any], file: str, where: str) -> Option:
    if "members" in table:
        return Option(**_read_keys(table, {"about": str, "members": Mapping[str, Member]}, file, where, ["about"]))
    own = {"about": str, "default": object, "generated": object, "told": Sign}
    hints = {**dict.fromkeys(table, Change), **own}
    read = _read_keys(table, hints, file, where, ("about", "default"))
    words = {"true": True, "false": False}
    values = {words.get(key, key): change for key, change in read.items() if key not in own}
    for key in ("default", "generated"):
        if key in read and not (isinstance(read[key], (str, bool)) and read[key] in values):
            listed = ", ".join(key for key in table if key not in own)
            raise refused(file, f"{where}.{key}", f"{read[key]!r} is none of its values", f"one of: {listed}")
    if "told" in read and values.keys() != {True, False}:
        raise refused(file, f"{where}.told", "it belongs to an option that is true or false, or to a member of a list")
    return Option(
        read["about"], read["default"], values, generated=read.get("generated", read["default"]), told=read.get("told")
    )


def _no_pattern(key: str, text: str) -> Fault | None:
    try:
        re.compile(text)
    except re.error as error:
        return key, str(error), "a regular expression"
    return None


def refused(file: str, where: str | None, because: str, instead: str = README) -> GrammarError:
    """Return the error for a definition that is wrong at a key."""
    return GrammarError(f"cannot read the format {file}", where=where, because=because, instead=instead)


# -- files -------------------------------------------------------------------------------------------------------------

_MADE = ("tokens", "changes")  # of what a file says otherwise, or callers
_FILE = {
    **{key: hint for key, hint in hints_of(Definition).items() if key not in _MADE},
    "extends": str, "specials": tuple[str, ...], "spellings": Mapping[str, str],
}  # fmt: skip


def read_definition(path: Path, shipped: Path) -> Definition:
    """Return what a .toml file defines; `shipped`: the folder of the formats that others extend.

    Raises: GrammarError: a key is missing or unknown, or a value has the wrong shape.
    """
    return _definition(_read_table(path, shipped), path.name)


def _read_table(path: Path, shipped: Path, extending: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Return the tables of a file with those that it takes over; the grammar is an absolute path."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # not there, not UTF-8, not TOML, or no path at all
        reason = error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
        raise refused(path.name, None, reason, "a .toml file in UTF-8") from error
    check_shape(table, _FILE, path.name)
    own = path.with_suffix(".lark")
    if "grammar" in table or "extends" not in table or own.is_file():
        table["grammar"] = str(path.parent / table.get("grammar", own.name))
    if "extends" in table:
        table = {
            **_read_table(_extended(table["extends"], path, shipped, extending), shipped, (*extending, path)),
            **table,
        }
    return table


def _extended(name: str, path: Path, shipped: Path, extending: tuple[Path, ...]) -> Path:
    """Return the file of a format that another extends: beside it, or else one of those that come with the package."""
    files = [folder / f"{name}.toml" for folder in dict.fromkeys((path.parent, shipped))]
    others = [file for file in files if file not in (*extending, path)]
    file_extended = next((file for file in others if file.is_file()), None)
    if file_extended is None and files[0] in (*extending, path):
        raise refused(path.name, "extends", "it extends itself")
    if file_extended is None:
        raise refused(
            path.name, "extends",
            f"there is no format {name!r}, neither beside it nor among those that come with the package",
        )
    return file_extended


def _definition(table: dict[str, Any], file: str) -> Definition:
    read = _read_keys(table, _FILE, file, "", ("title", "specification", "specials", "stops"))
    read.pop("extends", None)
    specials, spellings = read.pop("specials"), read.pop("spellings", {})
    tokens = {name: spellings.get(name, name) for name in specials}
    reasoning, told = read.get("reasoning"), read.get("prompt", "free")
    if told != "free" and (reasoning is None or told == "think-closed" and reasoning.closed is None):
        lacks = "'reasoning'" if reasoning is None else "'reasoning.closed'"
        raise refused(file, "prompt", f"it is {told!r}, and the key {lacks} is missing, which spells that")
    if unknown := spellings.keys() - tokens.keys():
        name = min(unknown)
        raise refused(file, "spellings", f"{name!r} is not among its specials", f'"{name}" in specials')
    check_shape(read.get("constraints", {}), dict.fromkeys(CONSTRAINTS, _KEPT), file, "constraints")
    spoken = read.get("messages", {}).values()
    spelled = {
        "padding": tuple(tokens.get(name, name) for name in read.get("padding", ())),
        "results": read.get("results", tuple(role for role in RESULTS if role in spoken)),
    }
    return Definition(**{**read, **spelled}, tokens=tokens)


# -- what rules stand for ----------------------------------------------------------------------------------------------

ACCEPTED = "any_"  # what a reader takes for x is the rule any_x
LOOSE = "loose_"  # what only a tolerant reader takes is the rule loose_x, a repair with the name x

PAIR_TEXTS = ("value", "text_value", "json_value", *ELEMENTS, *(f"{kind}_value" for kind in KINDS if kind != "string"))
_OWN_TEXTS = (
    "content", "name", "arguments", "call_id", "call_number", "speaker", "answered", "string_content", "key",
    "key_again", *PAIR_TEXTS,
)
_LIBRARY = "any_json_value"  # of json.lark: no value of an argument by itself


@dataclass(frozen=True, slots=True)
class Slots:
    """What the rules of a format mean to a reader, by rule: texts, calls of the format's own tools, messages, and where
    they end.
    """

    texts: frozenset[str]
    thoughts: Mapping[str, str]  # rule → kind
    builtins: Mapping[str, str]  # rule → name
    parameters: Mapping[str, Mapping[str, str]]  # name of a builtin → rule → its argument
    roles: Mapping[str, str]  # rule → role
    aliases: Mapping[str, str]  # rule → what it stands for
    stops: frozenset[str]
    known: frozenset[str]  # the rules that mean something
    meanings: dict[str, str] = field(default_factory=dict, compare=False)  # of rules that were met

    @classmethod
    def of(cls, definition: Definition) -> Slots:
        thoughts = {rule: kind for kind, rule in definition.thoughts.items()}
        parameters = {
            name: {rule: key for key, rule in own.arguments.items()} for name, own in definition.builtins.items()
        }
        texts = {*_OWN_TEXTS, *thoughts, *(rule for rules in parameters.values() for rule in rules)}
        stops = frozenset(definition.tokens[name] for names in definition.stops.values() for name in names)
        builtins = {own.rule: name for name, own in definition.builtins.items()}
        in_all = {"unopened_thought": "thought", "unopened_call": "tool_call", "content_behind": "content"}
        aliases = {**in_all, **definition.slots}
        known = frozenset({*texts, "tool_call", *builtins, *definition.messages, *aliases})
        return cls(frozenset(texts), thoughts, builtins, parameters, definition.messages, aliases, stops, known)

    def marked(self, rules: Iterable[str]) -> dict[str, str]:
        """Return the rules that the simulation has to mark, and what they stand for."""
        return {r: self.meaning(r) for r in rules if self.meaning(r) in self.known or self.meaning(r).startswith(LOOSE)}

    def meaning(self, rule: str) -> str:
        """Return what a rule stands for; a copy of a rule, which look-ahead made, stands for the same."""
        if rule not in self.meanings:
            self.meanings[rule] = self._meaning(rule)
        return self.meanings[rule]

    def _meaning(self, rule: str) -> str:
        name = rule.removeprefix(ACCEPTED) if rule != _LIBRARY else rule
        if name[-1:].isdigit() and name not in self.known:
            original = name.rstrip("0123456789").removesuffix("_")
            name = original if original in self.known or original.startswith(LOOSE) else name
        return self.aliases.get(name, name)  # (a repair stands for itself)
