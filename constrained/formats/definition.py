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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from constrained.errors import GrammarError, shown
from constrained.export.declarations import LANGUAGES
from constrained.formats.message import RESULTS
from constrained.formats.payload.tagged import ELEMENTS, Elements
from constrained.schema.surfaces.tags import KINDS

# -- the shape of tables -----------------------------------------------------------------------------------------------

def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


_KINDS: dict[str, Callable[[object], bool]] = {
    "a text": lambda value: isinstance(value, str),
    "true or false": lambda value: isinstance(value, bool),
    "a number from 0": lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0,
    "a list of texts": _texts,
    "a list of tables": lambda value: isinstance(value, list) and all(isinstance(entry, dict) for entry in value),
    "a table": lambda value: isinstance(value, dict),
    "a table of texts": lambda value: (
        isinstance(value, dict) and all(isinstance(entry, str) for entry in value.values())
    ),
    "a table of lists of texts": lambda value: isinstance(value, dict) and all(map(_texts, value.values())),
    "a table of tables": lambda value: (
        isinstance(value, dict) and all(isinstance(entry, dict) for entry in value.values())
    ),
}


@dataclass(frozen=True, slots=True)
class TableShape:
    """The keys of a table: one of `_KINDS` for each, or the texts that its value may be; `needed` must be there."""

    keys: Mapping[str, str | tuple[str, ...]]
    needed: tuple[str, ...] = ()


CHANGE = TableShape({
    "drop": "a list of texts", "replace": "a table of texts", "avoid": "a list of texts", "notes": "a table of texts",
    "stops": "a table of lists of texts",
})  # fmt: skip
MEMBER = TableShape({"present": "a table", "absent": "a table", "told": "a table"}, ("present", "absent"))
SIGN = TableShape(dict.fromkeys(("by", "name", "token", "text"), "a text"), ("by",))
CONSTRAINTS = TableShape(dict.fromkeys((
    "call_ids_differ", "calls_are_answered", "results_answer_calls", "results_in_order", "tools_are_listed",
), ("always", "strict")))  # fmt: skip
BUILTIN = TableShape(
    {"rule": "a text", "arguments": "a table of texts", "avoid": "a list of texts"}, ("rule", "arguments")
)
REASONING = TableShape(dict.fromkeys(("rule", "block", "prompt", "closed"), "a text"), ("rule", "block", "prompt"))
PAYLOAD = TableShape(
    {
        "surface": ("json", "python", "tagged", "quoted"),
        "name": ("raw", "json", "python"),
        "tag_safe": "true or false",
        "quote": "a text",
        "sorts": "true or false",
        "whitespace": ("canonical", "compact"),
        "avoid": "a list of texts",
        "elements": "a table of texts",
    },
    ("surface", "name"),
)
NESTED = TableShape(dict.fromkeys(("open", "close", "item"), "a text"), ("open", "close"))
CALLS = TableShape({
    "repeat": "a text", "next": "a text", "default": "a number from 0", "all": "a text", "ids": ("counted", "unique"),
    "first": "a number from 0",
    "per": ("conversation", "turn")}, ("repeat", "next"))  # fmt: skip
TOOL_PROMPT = TableShape({
    **dict.fromkeys(
        ("role", "text", "name", "joined", "otherwise", "tool", "between", "opened", "takes_over", "option"), "a text"),
    "place": ("before", "behind", "own", "first"),
    "declared": tuple(LANGUAGES),
    "own": "a list of texts", "indent": "a number from 0", **dict.fromkeys(("enveloped", "compact"), "true or false"),
}, ("role", "place", "text"))  # fmt: skip


def check_shape(table: Mapping[str, Any], shape: TableShape, file: str, where: str = "") -> None:
    """Raise `GrammarError` where a table lacks a key, has an unknown one or a value of another kind; where: the key of
    the table.
    """
    for key, value in table.items():
        place = f"{where}.{key}" if where else key
        if key not in shape.keys:
            raise GrammarError(f"unknown key {place!r} in {file}", instead="one of: " + ", ".join(sorted(shape.keys)))
        kind = shape.keys[key]
        if isinstance(kind, tuple) and value not in kind:
            raise refused(file, place, f"it is {shown(value)}", f"one of: {', '.join(kind)}")
        if isinstance(kind, str) and not _KINDS[kind](value):
            raise refused(file, place, f"it is {shown(value)}", kind)
    for key in shape.needed:
        if key not in table:
            raise refused(file, where or None, f"the key {key!r} is missing")


def refused(file: str, where: str | None, because: str, instead: str = "see grammars/README.md") -> GrammarError:
    """Return the error for a definition that is wrong at a key."""
    return GrammarError(f"cannot read the format {file}", where=where, because=because, instead=instead)


# -- the definition ----------------------------------------------------------------------------------------------------

ENTRY = "assistant_turn"
PLACES = ("first", "before the first user", "before the last user")  # of the list of tools
PROMPTS = ("free", "think-open", "think-closed")  # how a generation prompt ends


@dataclass(frozen=True, slots=True)
class Change:
    """What the value of an option does to the grammar: alternatives that use a dropped rule go, a replaced rule takes
    another's.

    `avoid`, `notes`: what strings in arguments do without and what readers cannot take, beside what the format says.
    `stops`: rules of whole turns → the tokens that end them, in place of the format's.
    """

    drop: tuple[str, ...] = ()
    replace: tuple[tuple[str, str], ...] = ()
    avoid: tuple[str, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    stops: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sign:
    """By what a conversation tells that an option is on: a message by a role, of a speaker, with a special token or a
    text that fits a regular expression; speaker and token by their names in the grammar.
    """

    by: str
    name: str | None = None
    token: str | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Option:
    """A choice that the caller makes.

    Either one of the `values`, or, where there are `members`, a list of some of them (None: unknown, nothing changes):
    members[name] = (change where the list has the name, change where it has not).  `generated`: the value where a turn
    is generated and nothing is said; `default`: where one is read.  `told`: True, or a member → the sign by which a
    conversation tells of it.
    """

    about: str
    default: object
    values: Mapping[str | bool, Change]
    members: Mapping[str, tuple[Change, Change]]
    generated: object = None
    told: Mapping[object, Sign] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Payload:
    """How a tool's name and arguments are written.

    `surface`: "json" or "python" (keyword arguments).  `name`: "raw", "json" (inside the quotes of a string), "python"
    (a dotted name). `tag_safe`: a slash after "<" is escaped, so that no closing tag can appear inside a string.
    `quote`: of the surface "quoted", the special token around strings, by name; `sorts`: whether members are written in
    the order of their names; `whitespace`: of JSON, see `schema.embed`.  `avoid`: what strings do not spell besides
    markers, as a published reader misreads it.  `elements`: how values are nested that the rules of `tagged.ELEMENTS`
    read.
    """

    surface: str
    name: str
    tag_safe: bool
    quote: str | None = None
    sorts: bool = False
    whitespace: str = "canonical"
    avoid: tuple[str, ...] = ()
    elements: Elements | None = None


@dataclass(frozen=True, slots=True)
class CallRepeat:
    """How further calls follow the first: `rule` derives any number of `next`; `default` is the most calls of a turn,
    None: no bound.

    `ids`: where calls have ids, "counted", in decimal from `first` on, or "unique", texts of the rule `call_id`; then
    `all` is the rule of all calls, and `per` says whether they are counted in a "turn" or in the "conversation".
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
    """A tool of the format itself: the rule that writes the call, and for each argument the rule that writes its
    value, which does without the texts of `avoid`.
    """

    rule: str
    arguments: Mapping[str, str]
    avoid: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Where a turn thinks: `rule` may derive nothing or `block`, and `prompt` is how a template begins the thought for
    the model; `closed`: what it writes in its place where the model shall not think, None: it cannot say so.
    """

    rule: str
    block: str
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
    `own`: it tells of these tools of the format itself alone, where one of them is offered.  `option`: it is told only
    where this option, of formats that have it, is true.
    `indent`: of JSON that has several lines; `compact`: without spaces, keys in order.  `enveloped`: as OpenAI's
    interface has tools, not the functions alone.
    """

    role: str
    place: str
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
    own: tuple[str, ...] = ()
    option: str | None = None


@dataclass(frozen=True, slots=True)
class Definition:
    """A format's .toml file.

    `tokens` maps the names of special tokens in the grammar to their spellings in the tokenizer.  `markers` are texts
    that some tokenizers have as tokens; where one has not, they are plain text.  `padding`: tokens that fill a row of a
    batch behind its text.  `reserved` are other texts that may not stand in a turn, `call_markers` those by which
    readers find calls; `not_answers` patterns of whole texts that readers take for calls, `not_responses` JSON Schemas
    of such answers in JSON.  `variant` is what sets a format apart from the one whose grammar it uses.  `stops` maps
    rules that derive whole turns to the tokens that end them, by name.  `messages` maps the rules of messages to roles;
    `slots` maps rules to those that they stand for when a text is read; texts of `escaped` rules have Python's escapes.
    `tool_list`: where the message of role "tools" stands, whose text is the list of tools in JSON; one of `PLACES`.
    `tool_prompt`: what else is told of tools.  `notes`: what a published reader of the format cannot take, by the
    reader's name.  `results`: the roles of those who answer calls.  `constraints`: rules across messages → who keeps
    them, "always" or "strict".  `doubts`: of a format that was derived, what its template does otherwise, or does not
    say.  `prompt`: how the template's generation prompt begins a turn, one of `PROMPTS`.
    """

    title: str
    specification: str
    grammar: Path
    tokens: Mapping[str, str]
    markers: tuple[str, ...]
    padding: tuple[str, ...]
    reserved: tuple[str, ...]
    call_markers: tuple[str, ...]
    not_answers: tuple[str, ...]
    not_responses: tuple[Mapping[str, Any], ...]
    stops: Mapping[str, tuple[str, ...]]
    payload: Payload | None
    repeat: CallRepeat | None
    builtins: Mapping[str, Builtin]
    thoughts: Mapping[str, str]
    reasoning: Reasoning | None
    variant: Change
    messages: Mapping[str, str]
    slots: Mapping[str, str]
    escaped: frozenset[str]
    options: Mapping[str, Option]
    tool_list: str | None
    tool_prompt: tuple[ToolPrompt, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    results: tuple[str, ...] = ()
    constraints: Mapping[str, str] = field(default_factory=dict)
    doubts: Mapping[str, str] = field(default_factory=dict)
    prompt: str = "free"

    @property
    def stop(self) -> tuple[str, ...]:
        """The special tokens that end a turn, as the tokenizer spells them."""
        names = dict.fromkeys(name for names in self.stops.values() for name in names)
        return tuple(self.tokens[name] for name in names)

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


_SHAPE = TableShape({
    **dict.fromkeys(("extends", "title", "specification", "grammar"), "a text"), "tool_list": PLACES, "prompt": PROMPTS,
    **dict.fromkeys(("specials", "markers", "padding", "reserved", "call_markers"), "a list of texts"),
    **dict.fromkeys(("not_answers", "escaped"), "a list of texts"),
    **dict.fromkeys(("spellings", "thoughts", "messages", "slots", "notes", "doubts"), "a table of texts"),
    "results": "a list of texts", "stops": "a table of lists of texts", "not_responses": "a list of tables",
    **dict.fromkeys(("variant", "payload", "calls", "reasoning", "constraints"), "a table"),
    **dict.fromkeys(("builtins", "options", "tool_prompt"), "a table of tables"),
})  # fmt: skip
_NEEDED = TableShape(_SHAPE.keys, ("title", "specification", "specials", "stops"))


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
    check_shape(table, _SHAPE, path.name)
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
    found = next((file for file in others if file.is_file()), None)
    if found is None and files[0] in (*extending, path):
        raise refused(path.name, "extends", "it extends itself")
    if found is None:
        raise refused(
            path.name,
            "extends",
            f"there is no format {name!r}, neither beside it nor among those that come with the package",
        )
    return found


def _definition(table: dict[str, Any], file: str) -> Definition:
    check_shape(table, _NEEDED, file)
    spellings = table.get("spellings", {})
    tokens = {name: spellings.get(name, name) for name in table["specials"]}
    reasoning = _reasoning(table["reasoning"], file) if "reasoning" in table else None
    told = table.get("prompt", "free")
    if told != "free" and (reasoning is None or told == "think-closed" and reasoning.closed is None):
        lacks = "'reasoning'" if reasoning is None else "'reasoning.closed'"
        raise refused(file, "prompt", f"it is {told!r}, and the key {lacks} is missing, which spells that")
    if unknown := spellings.keys() - tokens.keys():
        name = min(unknown)
        raise refused(file, "spellings", f"{name!r} is not among its specials", f'"{name}" in specials')
    return Definition(
        title=table["title"],
        specification=table["specification"],
        grammar=Path(table["grammar"]),
        tokens=tokens,
        markers=tuple(table.get("markers", ())),
        padding=tuple(tokens.get(name, name) for name in table.get("padding", ())),
        reserved=tuple(table.get("reserved", ())),
        call_markers=tuple(table.get("call_markers", ())),
        not_answers=tuple(table.get("not_answers", ())),
        not_responses=tuple(table.get("not_responses", ())),
        stops={rule: tuple(names) for rule, names in table["stops"].items()},
        payload=_payload(table["payload"], file) if "payload" in table else None,
        repeat=_repeat(table["calls"], file) if "calls" in table else None,
        builtins={name: _builtin(value, f"builtins.{name}", file) for name, value in table.get("builtins", {}).items()},
        thoughts=dict(table.get("thoughts", {})),
        reasoning=reasoning,
        variant=_change(table.get("variant", {}), "variant", file),
        messages=dict(table.get("messages", {})),
        slots=dict(table.get("slots", {})),
        escaped=frozenset(table.get("escaped", ())),
        options={name: _option(value, f"options.{name}", file) for name, value in table.get("options", {}).items()},
        tool_list=table.get("tool_list"),
        tool_prompt=tuple(
            _tool_prompt(value, f"tool_prompt.{name}", file) for name, value in table.get("tool_prompt", {}).items()
        ),
        notes=dict(table.get("notes", {})),
        results=tuple(table.get("results", [role for role in RESULTS if role in table.get("messages", {}).values()])),
        constraints=_constraints(table.get("constraints", {}), file),
        doubts=dict(table.get("doubts", {})),
        prompt=told,
    )


def _constraints(table: dict[str, Any], file: str) -> dict[str, str]:
    check_shape(table, CONSTRAINTS, file, "constraints")
    return dict(table)


def _sign(table: dict[str, Any], where: str, file: str) -> Sign:
    check_shape(table, SIGN, file, where)
    try:
        re.compile(table.get("text", ""))
    except re.error as error:
        raise refused(file, f"{where}.text", str(error), "a regular expression") from error
    return Sign(**table)


def _payload(table: dict[str, Any], file: str) -> Payload:
    check_shape(table, PAYLOAD, file, "payload")
    if ("quote" in table) != (table["surface"] == "quoted"):
        raise refused(file, "payload.quote", "it belongs to the surface 'quoted'")
    return Payload(
        table["surface"],
        table["name"],
        table.get("tag_safe", False),
        table.get("quote"),
        table.get("sorts", False),
        table.get("whitespace", "canonical"),
        tuple(table.get("avoid", ())),
        _elements(table["elements"], file) if "elements" in table else None,
    )


def _elements(table: dict[str, Any], file: str) -> Elements:
    check_shape(table, NESTED, file, "payload.elements")
    for key in ("open", "close"):
        try:
            re.compile(table[key])
        except re.error as error:
            raise refused(file, f"payload.elements.{key}", str(error), "a regular expression") from error
    return Elements(table["open"], table["close"], table.get("item"))


def _repeat(table: dict[str, Any], file: str) -> CallRepeat:
    check_shape(table, CALLS, file, "calls")
    if ("ids" in table) != ("all" in table):
        raise refused(file, "calls", "'ids' and 'all' belong together")
    return CallRepeat(
        table["repeat"], table["next"], table.get("default"), table.get("all"), table.get("ids"), table.get("first", 0),
        table.get("per", "conversation"))


def _builtin(table: dict[str, Any], where: str, file: str) -> Builtin:
    check_shape(table, BUILTIN, file, where)
    return Builtin(table["rule"], dict(table["arguments"]), tuple(table.get("avoid", ())))


def _reasoning(table: dict[str, Any], file: str) -> Reasoning:
    check_shape(table, REASONING, file, "reasoning")
    return Reasoning(table["rule"], table["block"], table["prompt"], table.get("closed"))


def _tool_prompt(table: dict[str, Any], where: str, file: str) -> ToolPrompt:
    check_shape(table, TOOL_PROMPT, file, where)
    of_a_tool = ("json", "parameters", "name", "description", *(("declaration",) if "declared" in table else ()))
    for key, slots in (("text", ("tools",)), ("otherwise", ("tools",)), ("tool", of_a_tool)):
        for slot in re.findall(r"\{\{\w+\}\}|\{(\w+)\}", table.get(key, "")):
            if slot and slot not in slots:
                raise refused(
                    file,
                    f"{where}.{key}",
                    f"it has no slot {slot!r}",
                    f"one of: {', '.join(slots)}; {{{{{slot}}}}} where it is text",
                )
    return ToolPrompt(**{**table, "own": tuple(table.get("own", ()))})


def _option(table: dict[str, Any], where: str, file: str) -> Option:
    check_shape(
        {"about": table["about"]} if "about" in table else {}, TableShape({"about": "a text"}, ("about",)), file, where
    )
    if "members" in table:
        check_shape(table, TableShape({"about": "a text", "members": "a table of tables"}), file, where)
        return Option(
            table["about"],
            None,
            {},
            {name: _member(value, f"{where}.members.{name}", file) for name, value in table["members"].items()},
            told={
                name: _sign(value["told"], f"{where}.members.{name}.told", file)
                for name, value in table["members"].items()
                if "told" in value
            },
        )
    words = {"true": True, "false": False}
    named = {key: value for key, value in table.items() if key not in ("about", "default", "generated", "told")}
    check_shape(named, TableShape(dict.fromkeys(named, "a table")), file, where)
    values: dict[str | bool, Change] = {
        words.get(key, key): _change(value, f"{where}.{key}", file) for key, value in named.items()
    }
    if "default" not in table:
        raise refused(file, where, "the key 'default' is missing")
    for key in ("default", "generated"):
        if key in table and not (isinstance(table[key], (str, bool)) and table[key] in values):
            raise refused(
                file, f"{where}.{key}", f"{table[key]!r} is none of its values", f"one of: {', '.join(named)}"
            )
    told: dict[object, Sign] = {True: _sign(table["told"], f"{where}.told", file)} if "told" in table else {}
    if told and values.keys() != {True, False}:
        raise refused(file, f"{where}.told", "it belongs to an option that is true or false, or to a member of a list")
    return Option(table["about"], table["default"], values, {}, table.get("generated", table["default"]), told)


def _member(table: dict[str, Any], where: str, file: str) -> tuple[Change, Change]:
    check_shape(table, MEMBER, file, where)
    return _change(table["present"], f"{where}.present", file), _change(table["absent"], f"{where}.absent", file)


def _change(table: dict[str, Any], where: str, file: str) -> Change:
    check_shape(table, CHANGE, file, where)
    return Change(
        tuple(table.get("drop", ())), tuple(table.get("replace", {}).items()), tuple(table.get("avoid", ())),
        dict(table.get("notes", {})), {rule: tuple(names) for rule, names in table.get("stops", {}).items()},
    )


# -- what rules stand for ----------------------------------------------------------------------------------------------

ACCEPTED = "any_"  # what a reader takes for x is the rule any_x
LOOSE = "loose_"  # what only a tolerant reader takes is the rule loose_x, a repair with the name x

PAIR_TEXTS = ("value", "text_value", "json_value", *ELEMENTS, *(f"{kind}_value" for kind in KINDS if kind != "string"))
_OWN_TEXTS = (
    "content",
    "name",
    "arguments",
    "call_id",
    "call_number",
    "speaker",
    "answered",
    "string_content",
    "key",
    "key_again",
    *PAIR_TEXTS,
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
        aliases = {"unopened_thought": "thought", "content_behind": "content", **definition.slots}
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
