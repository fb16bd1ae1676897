"""What the page asks, and the page as one file.

    read     a turn, or a value: whole, unfinished or refused, with the place; what readers make of it, as it streams
    next     at the cursor: allowed tokens, reasons for refused ones, what is forced, what a budget leaves
    grammar  the grammar as railroad diagrams and as Lark

Without a server the page holds the same answers for examples, computed beforehand.

Tested in tests/test_playground.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

from constrained.research.next_tokens import allowed_tokens, encode, report, spell
from constrained.serve.diagrams import diagrams

import constrained as c

Json = dict[str, Any]
MOST_TEXT = 20_000  # characters
MOST_EVENTS = 400
SHOWN = 48  # allowed tokens
MORE = (0, 1, 4, 16, 64)  # tokens beyond the shortest way out
TOOLS: list[Json] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "maxLength": 24},
                    "days": {"type": "integer", "minimum": 1, "maximum": 14},
                    "unit": {"enum": ["celsius", "fahrenheit"]},
                },
                "required": ["city", "unit"],
            },
        },
    }
]
CALL = {"city": "Oslo", "days": 3, "unit": "celsius"}
SCHEMA: Json = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "born": {"type": "string", "pattern": "^[0-9]{4}$"},
        "likes": {"type": "array", "items": {"enum": ["tea", "rain"]}, "uniqueItems": True},
    },
    "required": ["name"],
    "additionalProperties": False,
}
VALUE = '{"name": "Ada", "born": "1815", "likes": ["tea"]}'


@dataclass(frozen=True, slots=True)
class Context:
    """What answers need: the vocabulary of the tokens, and the seconds that one compilation may take."""

    vocabulary: c.Vocabulary
    deadline: float = 10.0


@dataclass(frozen=True, slots=True)
class Question:
    """What the page shows: a turn of a format under tools, or a value of a schema."""

    grammar: c.Grammar
    text: str
    chat: c.ChatFormat | None
    tools: Any

    @classmethod
    def of(cls, asked: Any) -> Question:
        """Return the question of a body.  Raises: ConstrainedError: it is none."""
        if not isinstance(asked, dict) or not isinstance(asked.get("text", ""), str):
            raise c.ConstrainedError("not a question", instead='{"format": …, "tools": …, "text": …}')
        text = asked.get("text", "")
        if len(text) > MOST_TEXT:
            raise c.LimitExceeded("the text is too long", because=f"it has {len(text):,} characters of {MOST_TEXT:,}")
        if asked.get("schema") is not None:
            return cls(c.Grammar.from_json_schema(asked["schema"], profile="practical"), text, None, None)
        name = asked.get("format", "hermes")
        if name not in c.ChatFormat.names():  # a path would be read
            raise c.GrammarError(f"unknown format {name!r:.60}")
        chat, tools = c.ChatFormat.load(name), asked.get("tools") or []
        choice = asked.get("tool_choice", "auto")
        return cls(chat.grammar(tools, choice), text, chat, tools)

    def compiled(self, context: Context) -> c.Constraint:
        """Return the constraint."""
        return c.compile(self.grammar, context.vocabulary, deadline=context.deadline)


def read(asked: Any, context: Context) -> Json:
    """Return how far a text is one of the language, its tokens, and what readers make of it."""
    question = Question.of(asked)
    matcher, refusal = question.compiled(context).matcher(), None
    ids: list[int] = []
    for token in encode(context.vocabulary, question.text):
        try:
            matcher.advance(token)
        except c.Rejected as error:
            refusal = {"place": len(context.vocabulary.decode(ids).decode(errors="ignore")), "message": str(error)}
            break
        ids.append(token)
    verdict = "refused" if refusal else "whole" if matcher.is_accepting() or matcher.is_finished() else "unfinished"
    tokens = [context.vocabulary.decode([token]).decode(errors="replace") for token in ids]
    return {"verdict": verdict, "refusal": refusal, "tokens": tokens, **_reading(question)}


def _reading(question: Question) -> Json:
    """Return the message that readers make of a turn, what they mend, and the events of a stream."""
    if question.chat is None:
        return {}
    stream, events = question.chat.stream_parser(question.tools or None), list[Json]()
    try:
        for at, character in enumerate(question.text):
            for event in stream.feed(character):
                told = {"event": type(event).__name__, **asdict(event)}
                if events and "text" in told and {**events[-1], **told, "text": events[-1].get("text")} == events[-1]:
                    events[-1]["text"] += told["text"]  # more of the same
                else:
                    events.append({"at": at + 1, **told})
        message = stream.so_far()
        mended = [f"{repair.rule} at {repair.place}" for repair in message.repairs]
        found: Json = {"message": message.to_openai(), "repairs": mended}
    except c.ConstrainedError as error:
        found = {"unread": str(error)}
    return {**found, "events": json.loads(json.dumps(events[:MOST_EVENTS], default=repr))}


def next_tokens(asked: Any, context: Context) -> Json:
    """Return what may come behind a text, why other tokens may not, and what budgets leave of it.

    Raises: Rejected: nothing can, as the text is refused.
    """
    question = Question.of(asked)
    constraint, ids = question.compiled(context), encode(context.vocabulary, question.text)
    matcher = constraint.matcher()
    for token in ids:
        matcher.advance(token)
    if matcher.is_finished():
        return {"finished": True}
    way = matcher.shortest_completion()
    rows = [_budgeted(constraint, ids, len(ids) + len(way) + more) for more in MORE]
    ends = {"text": context.vocabulary.decode(way).decode(errors="replace"), "tokens": len(way)}
    return {**report(matcher, limit=SHOWN), "finished": False, "shortest": ends, "budgets": rows, "used": len(ids)}


def _budgeted(constraint: c.Constraint, ids: list[int], budget: int) -> Json:
    try:
        matcher = constraint.matcher(budget=budget)
        for token in ids:
            matcher.advance(token)
    except (c.LimitExceeded, c.Rejected) as error:
        return {"budget": budget, "allowed": 0, "some": [], "because": error.because}
    allowed = allowed_tokens(matcher)
    some = [spell(constraint.vocabulary, token) for token in allowed[:6]]
    return {"budget": budget, "allowed": len(allowed), "some": some}


def grammar(asked: Any, context: Context) -> Json:
    """Return the grammar as diagrams and as Lark."""
    question = Question.of(asked)
    return {"diagrams": diagrams(question.grammar), "lark": question.grammar.to_lark()}


ANSWERS: dict[str, Callable[[Any, Context], Json]] = {"read": read, "next": next_tokens, "grammar": grammar}


# -- the page ----------------------------------------------------------------------------------------------------------


def page(told: Json) -> str:
    """Return the page; told: what it knows: of a server its model and format, or examples."""
    known = {"formats": _formats(), "tools": TOOLS, "schema": SCHEMA, "value": VALUE, **told}
    data = json.dumps(known, ensure_ascii=False)
    template = files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    return template.replace("{{data}}", data.replace("<", "\\u003c"))


def _formats() -> list[Json]:
    """Return the formats, each with a call as it writes it."""
    chats = map(c.ChatFormat.load, c.ChatFormat.names())
    return [{"name": chat.name, "title": chat.title, "source": chat.specification, **_called(chat)} for chat in chats]


def _called(chat: c.ChatFormat) -> Json:
    """Return a call, and the tools of a format that has its own only."""
    if chat.definition.payload is not None:
        return {"call": chat.write_call("get_weather", CALL, TOOLS)}
    tools = [{"name": name} for name in chat.definition.builtins]
    return {"call": chat.write_call(tools[0]["name"], {"query": "weather in Oslo"}, tools), "tools": tools}


EXAMPLES: tuple[tuple[str, Json], ...] = (
    ("hermes: a call", {"format": "hermes"}),
    ("hermes: a unit that the tool does not have", {"format": "hermes", "wrong": ("celsius", "kelvin")}),
    ("llama3.1-json: a call", {"format": "llama3.1-json"}),
    ("pythonic: a call", {"format": "pythonic"}),
    ("qwen3-coder: a call in tags", {"format": "qwen3-coder"}),
    ("mistral-v11: a call", {"format": "mistral-v11"}),
    ("JSON Schema: a value", {"schema": SCHEMA, "text": VALUE}),
)


def static() -> Json:
    """Return the examples of the page without a server, by the embedded tokenizer."""
    from constrained.default_model import WIDTH, load_tokenizer

    context = Context(c.Vocabulary.from_tokenizer(load_tokenizer(), size=WIDTH))
    return {"examples": [_example(title, dict(asked), context) for title, asked in EXAMPLES]}


def _example(title: str, asked: Json, context: Context) -> Json:
    """Return the answers for an example, `next` for each place between two of its tokens."""
    if "schema" not in asked:
        call = c.ChatFormat.load(asked["format"]).write_call("get_weather", CALL, TOOLS)
        asked |= {"tools": TOOLS, "text": call.replace(*asked.pop("wrong", ("", "")))}
    found = read(asked, context)
    places, text = {}, ""
    for token in ["", *found["tokens"]]:
        text += token
        places[len(text)] = next_tokens({**asked, "text": text}, context)
    return {"title": title, "asked": asked, "read": found, "next": places, "grammar": grammar(asked, context)}
