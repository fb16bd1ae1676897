"""Questions for the embedded model, to train and to measure it: tools, a question about one, the call that it asks for,
what the tool gives back, and the sentence that ends it.

The words are data, in `questions.toml`; values are drawn: half of all names are made of random syllables, so that
nothing but copying helps.  Held out are whole tools (their words and arguments), values of every list, and every name
made of the held-out syllables.

    >>> import random
    >>> example = draw(random.Random(4), held=False)
    >>> sorted(example.tools[0]["function"])
    ['name', 'parameters']
"""

from __future__ import annotations

import json
import random
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from typing import Any

from constrained.formats import Message, ToolCall

LANGUAGES = ("en", "de", "fr", "es")
SYLLABLES = ("ba", "den", "fo", "gra", "hil", "ka", "lin", "mor", "na", "pel", "ri", "sta", "tur", "vo", "wes", "zi")
HELD_SYLLABLES = ("bro", "cal", "dun", "hem")
LITERAL = 0.35  # share of questions that name the tool and its arguments
OWN_TOOLS = ("brave_search", "wolfram_alpha")  # of formats that take no others
OWN_QUESTIONS = {
    "brave_search": dict(zip(LANGUAGES, ("Search for {}.", "Suche nach {}.", "Cherche {}.", "Busca {}."))),
    "wolfram_alpha": dict(zip(LANGUAGES, ("Calculate {}.", "Berechne {}.", "Calcule {}.", "Calcula {}."))),
}
RESULTS = ("title", "place", "person", "count", "amount")  # kinds of what a tool that is in no family gives back


@dataclass(frozen=True, slots=True)
class Example:
    """A question, its call, and the answer that follows the call's result."""

    question: str
    tools: list[Any]  # definitions; of a format with tools of its own, their names
    name: str
    arguments: dict[str, Any]  # in the order of the tool's properties
    result: str
    answer: str

    def called(self) -> list[dict[str, Any]]:
        """Return the call and its result, as OpenAI's messages."""
        call = Message("", [ToolCall(self.name, self.arguments)])
        return [call.to_openai(), Message(self.result, role="tool", name=self.name).to_openai()]


@lru_cache(maxsize=1)
def tables() -> dict[str, Any]:
    """Return `questions.toml`."""
    read: dict[str, Any] = tomllib.loads((files(__package__) / "questions.toml").read_text(encoding="utf-8"))
    return read


def draw(chance: random.Random, *, held: bool = False, own_tools: bool = False) -> Example:
    """Return a question, its tools (one to three) and its call.

    held: about a tool that was held out, with values that were held out.  own_tools: about the tools that a format
    brings along.
    """
    if own_tools:
        name = chance.choice(OWN_TOOLS)
        query, (language, question) = _value("title", chance, held), chance.choice(list(OWN_QUESTIONS[name].items()))
        reply = _reply({}, language, {}, chance, held)
        return Example(question.format(query), list(OWN_TOOLS), name, {"query": query}, *reply)
    asked = _literal(chance, held) if chance.random() < LITERAL else _natural(chance, held)
    others: list[Any] = []
    while len(others) < chance.choice((0, 1, 1, 2)):
        other = (_literal if chance.random() < LITERAL else _natural)(chance, held).tools[0]
        if other["function"]["name"] not in {tool["function"]["name"] for tool in (*others, *asked.tools)}:
            others.append(other)
    listed = [*asked.tools, *others]
    chance.shuffle(listed)
    return replace(asked, tools=listed)


def _natural(chance: random.Random, held: bool) -> Example:
    """Return a question in a person's words."""
    family = chance.choice([family for family in tables()["family"] if bool(family.get("held")) == held])
    names = {spelled.split("|")[0]: chance.choice(spelled.split("|")) for spelled in family["args"]}
    kinds = {spelled.split("|")[0]: kind for spelled, kind in family["args"].items()}
    language = chance.choice(LANGUAGES)
    asked = chance.choice(family[language])
    optional = set(re.findall(r"\{(\w+)\}", "".join(re.findall(r"\[.*?\]", family["en"][0]))))
    question = re.sub(r"\[(.*?)\]", lambda found: str(found[1]) if chance.random() < 0.5 else "", asked)
    values = {slot: _value(kinds[slot], chance, held) for slot in kinds if f"{{{slot}}}" in question}
    if len(set(map(str, values.values()))) < len(values):
        return _natural(chance, held)  # from EUR to EUR
    tool = _tool(
        chance.choice(family["tools"]),
        {names[slot]: kinds[slot] for slot in kinds},
        [names[slot] for slot in kinds if slot not in optional],
    )
    said = question.format(**{slot: _said(value) for slot, value in values.items()})
    arguments = {names[slot]: value for slot, value in values.items()}
    return Example(said, [tool], tool["function"]["name"], arguments, *_reply(family, language, values, chance, held))


def _literal(chance: random.Random, held: bool) -> Example:
    """Return a question that names the tool and its arguments."""
    table = tables()["literal"]
    verbs, nouns = (table["held_verbs"], table["held_nouns"]) if held else (table["verbs"], table["nouns"])
    names = chance.sample(table["arguments"], chance.randint(1, 3))
    kinds = {name: chance.choice(("title", "place", "person", "days", "count", "flag", "date")) for name in names}
    required = [name for name in kinds if chance.random() < 0.6]
    given = [name for name in kinds if name in required or chance.random() < 0.5] or list(kinds)[:1]
    values = {name: _value(kinds[name], chance, held) for name in given}
    tool = _tool(f"{chance.choice(verbs)}_{chance.choice(nouns)}", kinds, required)
    pairs = ", ".join(f"{name} {_said(value)}" for name, value in values.items())
    language = chance.choice(LANGUAGES)
    question = chance.choice(table[language]).format(tool=tool["function"]["name"], arguments=pairs)
    return Example(question, [tool], tool["function"]["name"], values, *_reply({}, language, {}, chance, held))


def _reply(
    family: Mapping[str, Any], language: str, values: Mapping[str, Any], chance: random.Random, held: bool
) -> tuple[str, str]:
    """Return what a tool gives back, as text or as JSON, and what is said of it."""
    if "says" not in family:
        family = tables()["literal"] | {"gives": {"value": chance.choice(RESULTS)}, "result": "{value}"}
    given = {slot: _value(kind, chance, held) for slot, kind in family["gives"].items()}
    told = {slot: _said(value) for slot, value in {**values, **given}.items()}
    text = family["result"].format(**told)
    if chance.random() < 0.5:
        text = json.dumps(given or {"status": text}, ensure_ascii=False)
    return text, family["says"][language].format(**told)


def _tool(name: str, kinds: dict[str, str], required: list[str]) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": {argument: _schema(kind) for argument, kind in kinds.items()},
        "required": required,
    }
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def _schema(kind: str) -> dict[str, Any]:
    if "/" in kind:
        return {"enum": kind.split("/")}
    known: dict[str, dict[str, Any]] = {
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
        "count": {"type": "integer", "minimum": 1, "maximum": 100},
        "amount": {"type": "number", "minimum": 0},
        "flag": {"type": "boolean"},
        "date": {"type": "string", "pattern": "^20[0-9]{2}-[01][0-9]-[0-3][0-9]$"},
        "time": {"type": "string", "pattern": "^[0-2][0-9]:[0-5][0-9]$"},
    }
    return known.get(kind, {"type": "string", "minLength": 1, "maxLength": 24})


def _value(kind: str, chance: random.Random, held: bool) -> Any:
    """Return an argument's value; words come from the lists that are held out, or from those that are not."""
    words, prefix = tables()["words"], "held_" if held else ""
    if "/" in kind:
        return chance.choice(kind.split("/"))
    if kind == "date":
        return f"20{chance.randint(25, 39)}-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"
    if kind == "time":
        return f"{chance.randint(6, 23):02}:{chance.choice((0, 15, 30, 45)):02}"
    if kind in ("days", "count", "amount", "degrees"):
        most = {"days": 14, "count": 100, "amount": 999, "degrees": 35}[kind]
        return chance.randint(1, most) + (0.5 if kind == "amount" and chance.random() < 0.3 else 0)
    if kind == "flag":
        return chance.random() < 0.5
    if chance.random() < 0.5:
        made = "".join(chance.choices(HELD_SYLLABLES if held else SYLLABLES, k=chance.randint(2, 3)))
        return made if kind == "title" else made.capitalize()
    return chance.choice(words[f"{prefix}{kind}s"])


def _said(value: Any) -> str:
    """Return a value as a question has it."""
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def is_ambiguous(example: Example) -> bool:
    """Say whether two of the tools are names of the same one, so that no reader could tell which is meant."""
    names = {tool if isinstance(tool, str) else tool["function"]["name"] for tool in example.tools}
    return any(len(names & set(family["tools"])) > 1 for family in tables()["family"])


# -- what the demonstration asks, of small tools, one of each kind of argument -----------------------------------------

PROMPT = "Will it rain in Oslo within 3 days, in celsius?"
OWN_PROMPT = "Search for green tea."  # where a format has tools of its own only

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Forecast for a city",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "minLength": 1, "maxLength": 24},
                    "days": {"type": "integer", "minimum": 1, "maximum": 14},
                    "unit": {"enum": ["celsius", "fahrenheit"]},
                },
                "required": ["city", "unit"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "create_event",
            "description": "Put something into the calendar",
            "parameters": {
                "type": "object",
                "properties": {
                    "title": {"type": "string", "maxLength": 24},
                    "date": {"type": "string", "pattern": "^20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9])$"},
                    "guests": {"type": "array", "items": {"type": "string", "maxLength": 12}, "maxItems": 3},
                    "private": {"type": "boolean"},
                },
                "required": ["title", "date"],
            },
        },
    },
]
