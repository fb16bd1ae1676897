"""A chat template → a chat format: probed, written as a pair of files, loaded as any pair is, and proved.

What is not proved is not returned.  What the template does and the format does not, or nobody said, stands in `doubts`.

The proof: random conversations, printed by the template and by the format.  Texts hold what breaks formats: quotes,
backslashes, braces, parts of tags, other scripts, line breaks.  Both must print the same text, to the letter; `render`
reads its own back.  Each turn is what the grammar generates.  Where a text spells a marker of the format, the format
may refuse it, as readers would take it for the marker.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from constrained.deriving.pair import Pair, pair_of
from constrained.deriving.probes import NoCalls, Probing, Shape, Unexplained, calls_of, results_of, words_of
from constrained.deriving.template import NotPrinted, Template, template_of
from constrained.rendering.arguments import write_json

from constrained.errors import ConstrainedError, GrammarError, shown

if TYPE_CHECKING:
    from constrained.formats.load import ChatFormat


# -- the proof ---------------------------------------------------------------------------------------------------------

_WORDS = (
    "rain", "Oslo", "λόγος", "雨が降る", "مطر", "🌧️", "q\"q", "it's", "back\\slash", "\\n", "{", "}", "[1]",
    "{\"a\": 1}", "<b>", "</b", "<", ">", "&amp;", "&", "%d", "{{ x }}", "{% y %}", "#", "```", "null", "True",
    "12", "-0.5", "a=b", "f(x)", "|", "e\u0301", "\u2028", "\ttab", "two\nlines", "blank\n\nline", "name",
    "arguments", "user", "assistant", "tool",
)  # fmt: skip
_ESCAPED = re.compile(r"\\u(003[ce]|2028)")
_KEYS = ("city", "n", "wide", "items", "where", "text", "x_1")
_LONG = 1_000  # characters
ENOUGH = 10  # differences, after which no more are looked for
TURNS = 5  # of so many conversations one has its turns generated
_NAMES = ("get_weather", "search", "f1", "do_it-now")


@dataclass(frozen=True, slots=True)
class Difference:
    """A conversation that the template and the format print differently; `refusal`: why the format does not."""

    messages: tuple[Mapping[str, Any], ...]
    mine: str
    theirs: str
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class Proof:
    """How many conversations came out alike, and turns were generated; how many conversations hold a marker, which the
    format refuses or escapes, and how many the template refuses.  `escaped`: those alike but for an escape in JSON.
    """

    alike: int
    turns: int
    marked: int
    refused: int
    escaped: int
    differences: tuple[Difference, ...]


class _Drawing:
    """Random conversations of the kinds that a shape has."""

    def __init__(
        self, shape: Shape, markers: Sequence[str], odd: Sequence[str], stripped: Sequence[str], seed: int
    ) -> None:
        self.random = random.Random(seed)
        self.shape, self.markers, self.odd, self.stripped = shape, markers, odd, stripped

    def text(self, role: str) -> str:
        words = [self.random.choice(_WORDS) for _ in range(self.random.randint(1, 6))]
        if self.markers and self.random.random() < 0.03:
            words.insert(0, self.random.choice(self.markers))
        text = self.random.choice((" ", "", "\n")).join(words)
        if role == "argument" and any(kind.startswith("strings") for kind in self.odd):
            text = re.sub(r"[^\w ]", "", text)
        if text.strip() and role not in self.stripped and self.random.random() < 0.1:
            return self.random.choice((" ", "\n", "\n\n")) + text + self.random.choice((" ", "\n", ""))
        return text.strip() or "text"  # white space alone is nothing to some templates

    def value(self, depth: int = 0) -> Any:
        kinds: dict[str, Callable[[], Any]] = {
            "": lambda: self.text("argument"), "numbers": lambda: self.random.randint(-5, 1000),
            "decimals": lambda: self.random.choice((0.5, -1.25, 1e-7)), "booleans": lambda: self.random.random() < 0.5,
            "null": lambda: None,
            "lists": lambda: [self.value(depth + 1) for _ in range(self.random.randint(0, 3))],
            "objects": lambda: {
                self.random.choice((*_KEYS, "k\"ey")): self.value(depth + 1) for _ in range(self.random.randint(0, 2))
            },
        }  # fmt: skip
        allowed = [kind for kind in kinds if kind not in self.odd or depth and kind not in ("lists", "objects")]
        kind = self.random.choice([kind for kind in allowed if depth < 3 or kind not in ("lists", "objects")])
        return kinds[kind]()

    def calls(self) -> list[dict[str, Any]]:
        assert self.shape.calls is not None
        count = self.random.choice((1, 1, 2, 3)) if self.shape.calls.separator is not None else 1
        return [self.call() for _ in range(count)]

    def call(self) -> dict[str, Any]:
        keys = self.random.sample(_KEYS, self.random.randint(0, 3))
        name = f"{self.random.choice(_NAMES)}_{self.random.randrange(10**6)}"  # a tool of its own, with its own types
        if self.shape.calls is not None and self.shape.calls.surface == "python":
            name = name.replace("-", ".")
        called = "".join(self.random.choices("abcdefghijkABCDEF0123456789", k=9))
        function = {"name": name, "arguments": {key: self.value() for key in keys}}
        return {"id": called, "type": "function", "function": function}

    def messages(self) -> list[dict[str, Any]]:
        shape, chance = self.shape, self.random.random
        found: list[dict[str, Any]] = []
        often = 0.95 if len(shape.default_system) > _LONG else 0.4  # reading a long text of the template takes long
        if shape.system is not None and chance() < often:
            found.append({"role": "system", "content": self.text("system")})
        rounds = self.random.randint(1, 3)
        for at in range(rounds):
            is_last = at == rounds - 1
            found.append({"role": "user", "content": self.text("user")})
            while shape.calls is not None and shape.results is not None and chance() < 0.4:
                turn = self.turn(thinks=is_last, calls=self.calls())
                results = [
                    {
                        "role": "tool",
                        "tool_call_id": call["id"],
                        "name": call["function"]["name"],
                        "content": self.text("tool"),
                    }
                    for call in turn["tool_calls"]
                ]
                found += [turn, *results]
            if not is_last or chance() < 0.8:
                found.append(self.turn(thinks=is_last))
        if shape.calls is not None and found[-1]["role"] == "user" and chance() < 0.5:
            found.append(self.turn(thinks=True, calls=self.calls()))
        return found if shape.ends or found[-1]["role"] == "user" else self.closed(found)

    def closed(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return messages with a user's at the end, where the template leaves the last turn open."""
        thoughts = self.shape.thoughts
        dropped = thoughts.key if thoughts is not None and not thoughts.kept else None
        kept = [{key: value for key, value in message.items() if key != dropped} for message in messages]
        return [*kept, {"role": "user", "content": self.text("user")}]

    def tools(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return tools whose parameters have the types of the arguments of all calls."""
        found = []
        for message in messages:
            for call in message.get("tool_calls", ()):
                arguments = call["function"]["arguments"]
                properties = {key: {"type": _type(value)} for key, value in arguments.items()}
                parameters = {"type": "object", "properties": properties, "required": [*properties]}
                found.append(
                    {"type": "function", "function": {"name": call["function"]["name"], "parameters": parameters}}
                )
        return found

    def turn(self, *, thinks: bool, calls: list[dict[str, Any]] | None = None) -> dict[str, Any]:
        shape, chance = self.shape, self.random.random
        turn: dict[str, Any] = {"role": "assistant", "content": self.text("assistant")}
        if calls:
            assert shape.calls is not None
            turn["tool_calls"] = calls
            if shape.calls.between is None or chance() < 0.5:
                turn["content"] = ""
        thoughts = shape.thoughts
        if (
            thoughts
            and thoughts.key
            and (thinks or thoughts.kept)
            and (thoughts.before_calls or not calls)
            and chance() < 0.4
        ):
            turn[thoughts.key] = self.text("thought")
        return turn


def _type(value: Any) -> str:
    named = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return named.get(type(value), "null")


def _as_text(messages: Sequence[Mapping[str, Any]], *, as_text: bool) -> list[Mapping[str, Any]]:
    """Return messages with arguments of calls as the template wants them."""
    if not as_text:
        return [*messages]
    return [
        {**message, "tool_calls": [
            {**call, "function": {**call["function"], "arguments": write_json(call["function"]["arguments"])}}
            for call in message["tool_calls"]
        ]} if "tool_calls" in message else message
        for message in messages
    ]  # fmt: skip


class _Proving:
    """What has come out of random conversations so far."""

    def __init__(self, chat: ChatFormat, template: Template, shape: Shape, markers: Sequence[str]) -> None:
        self.chat, self.template, self.shape, self.markers = chat, template, shape, markers
        self.as_text = shape.calls is not None and shape.calls.as_text
        self.alike = self.turns = self.marked = self.refused = self.escaped = 0
        self.differences: list[Difference] = []

    def prove(self, messages: list[dict[str, Any]], tools: list[Any], *, turns: bool) -> None:
        """Print a conversation in both ways; turns: whether its turns are held against the grammar too."""
        opens = messages[-1]["role"] == "user"
        told: dict[str, Any] = {"tool_prompt": False}
        told |= {"add_generation_prompt": True, "prompt": ""} if opens else {}
        try:
            theirs = self.template.render(_as_text(messages, as_text=self.as_text), opens=opens)
        except NotPrinted:
            self.refused += 1
            return
        is_marked = any(marker in _all_texts(messages) for marker in self.markers)
        try:
            mine = self.chat.render_text(messages, tools, **told) + (self.shape.prompt if opens else "")
        except ConstrainedError as error:
            self.marked += is_marked
            self.differences += [] if is_marked else [Difference(tuple(messages), "", theirs, said(error))]
            return
        if mine == theirs or _unescaped(mine) == _unescaped(theirs):
            self.alike += 1
            self.escaped += mine != theirs
        elif is_marked:
            self.marked += 1
        else:
            self.differences.append(Difference(tuple(messages), mine, theirs))
        if turns and not is_marked:  # what spells a marker is not generated
            self.turns += _generated(self.chat, messages, tools, self.differences)
            self.turns += _gone_on(self.chat, self.template, self.shape, messages, tools, theirs, self.differences)
            self.told(messages, tools, theirs, opens=opens)

    def told(self, messages: list[dict[str, Any]], tools: list[Any], theirs: str, *, opens: bool) -> None:
        """Hold against each other what the template prints of a conversation with tools and without: from what the last
        user says on, it is the same.
        """
        if not tools:
            return
        try:
            text = self.template.render(_as_text(messages, as_text=self.as_text), tools, opens=opens)
        except NotPrinted:
            return
        spoken = next(message["content"] for message in reversed(messages) if message["role"] == "user")
        behind = theirs[theirs.rfind(spoken.strip()) :]
        if not text.endswith(behind):
            refusal = "it prints turns in another way where tools are given"
            self.differences.append(Difference(tuple(messages), text, theirs, refusal))


def prove(
    chat: ChatFormat,
    template: Template,
    shape: Shape,
    drawn: tuple[Sequence[str], Sequence[str], Sequence[str]],
    count: int,
    seed: int = 0,
) -> Proof:
    """Return what came out of so many random conversations; drawn: the markers that texts may hold, the kinds of values
    that arguments have not, the roles whose texts neither begin nor end with white space.
    """
    drawing, proving = _Drawing(shape, *drawn, seed), _Proving(chat, template, shape, drawn[0])
    for number in range(count):
        if len(proving.differences) >= ENOUGH:
            break
        messages = drawing.messages()
        proving.prove(messages, drawing.tools(messages), turns=number % TURNS == 0)
    differences = tuple(sorted(proving.differences, key=lambda one: len(one.theirs)))
    return Proof(proving.alike, proving.turns, proving.marked, proving.refused, proving.escaped, differences)


def rare_orders(chat: ChatFormat, template: Template, shape: Shape) -> dict[str, str]:
    """Return the orders of messages that the template refuses or prints unlike the format, and how."""
    asked: dict[str, Any] = {"role": "user", "content": "Rain?"}
    said_so: dict[str, Any] = {"role": "assistant", "content": "Yes."}
    orders = {
        "two messages by the user in a row": [asked, asked, said_so],
        "two answers in a row": [asked, said_so, said_so, asked, said_so],
        "an answer before any user": [said_so, asked, said_so],
    }
    if shape.calls is not None:
        arguments: Any = write_json({"n": 1}) if shape.calls.as_text else {"n": 1}
        called = {"id": "abcdefgh1", "type": "function", "function": {"name": "f", "arguments": arguments}}
        calling = {"role": "assistant", "content": "", "tool_calls": [called]}
        orders["calls without results"] = [asked, calling, asked, said_so]
        if shape.results is not None:
            result = {"role": "tool", "tool_call_id": "abcdefgh1", "name": "f", "content": "7"}
            orders["results without an answer"] = [asked, calling, result, asked, said_so]
    found = {}
    for order, messages in orders.items():
        messages = messages if shape.ends else [*messages, asked]
        try:
            mine = chat.render_text(messages)
        except ConstrainedError:
            continue
        try:
            theirs = template.render(messages)
        except NotPrinted:
            found[order] = "the template refuses this; the format has it"
            continue
        if mine != theirs:
            found[order] = "the template prints this in another way than the format"
    return found


def _tool(name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


_TYPED = {"b": {"type": ["string", "null"], "enum": ["é", None]}, "a": {"type": "array"}}
_TOLD = (
    _tool("f", 'Tells “q"q” <b> {name} of\nrain.', {"type": "object", "properties": _TYPED, "required": ["b"]}),
    _tool("g", "", {"type": "object", "properties": {}}),
    _tool("h", "Tells.", {"properties": {}, "type": "object"}),
)


def tells_alike(chat: ChatFormat, template: Template, shape: Shape) -> bool:
    """Return whether the format and the template tell of one, two and three tools alike, whoever has said something."""
    asked = {"role": "user", "content": "Rain?"}
    spoken = [[{"role": "system", "content": "Be brief."}]] if shape.system is not None else []
    for before in ([], *spoken):
        for count in range(1, len(_TOLD) + 1):
            messages = [*before, asked, {"role": "assistant", "content": "Yes."}, asked]
            try:
                if template.render(messages, _TOLD[:count]) != chat.render_text(messages, _TOLD[:count]):
                    return False
            except (NotPrinted, ConstrainedError):
                return False
    return True


def _unescaped(text: str) -> str:
    """Return a text without the escapes that keep markers out of strings of arguments, and those of signs that do not
    print; they are the same values.
    """
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text.replace("<\\/", "</"))


def _generated(
    chat: ChatFormat, messages: Sequence[Mapping[str, Any]], tools: list[Any], differences: list[Difference]
) -> int:
    """Return how many turns of a conversation the grammar generates."""
    from constrained.rendering.given import read_messages, thought_of

    found = 0
    for message in read_messages(messages, thought_of(chat.definition)):
        if message.role == "assistant" and not message.stop:
            try:
                prompt = "" if message.thoughts and chat.definition.prompt == "think-closed" else None
                text = chat.write(message, tools, prompt=prompt)
                several: dict[str, Any] = {"parallel_tool_calls": True} if chat.definition.calls else {}
                chat.validate(text, "assistant_turn", tools, strict=True, prompt=prompt, **several)
                found += 1
            except ConstrainedError as error:
                differences.append(Difference(tuple(messages), "", "", f"a turn is not generated: {said(error)}"))
    return found


def _gone_on(
    chat: ChatFormat,
    template: Template,
    shape: Shape,
    messages: Sequence[Mapping[str, Any]],
    tools: list[Any],
    theirs: str,
    differences: list[Difference],
) -> int:
    """Return whether the last turn, as the template prints it behind a generation prompt, is one that is generated."""
    if messages[-1]["role"] != "assistant":
        return 0
    as_text = shape.calls is not None and shape.calls.as_text
    try:
        asked = template.render(_as_text(messages[:-1], as_text=as_text), opens=True)
    except NotPrinted:
        return 0
    if not theirs.startswith(asked):  # it ends in a thought that the message has not, or is of a user alone
        return 0
    text = theirs[len(asked) :]
    stops = [text.rfind(one) + len(one) for one in chat.stop if one in text]
    if not stops:  # the template leaves it open
        return 0
    several: dict[str, Any] = {"parallel_tool_calls": True} if chat.definition.calls else {}
    try:
        chat.validate(
            text[: max(stops)],
            "assistant_turn",
            tools,
            strict="<\\/" not in text and "</" not in text,
            prompt=shape.prompt,
            **several,
        )
    except ConstrainedError as error:
        differences.append(
            Difference(tuple(messages), "", text, f"a turn that it prints is not generated: {said(error)}")
        )
    return 1


def said(error: ConstrainedError) -> str:
    """Return an error in a line."""
    return f"{error.what}{f': {error.because}' if error.because else ''}"


def _all_texts(messages: Sequence[Mapping[str, Any]]) -> str:
    return "\0".join(_strings([*messages]))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key)
            yield from _strings(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _strings(inner)


# -- the whole way -----------------------------------------------------------------------------------------------------

Load = Callable[[Path], "ChatFormat"]
CONVERSATIONS = 500
_MOST_SHOWN = 300  # characters of a conversation or a text in an error
_AROUND = 30  # characters shown of a difference
_INSTEAD = "a pair of files of your own, see grammars/README.md, or ChatFormat.for_tokenizer(tokenizer)"


@dataclass(frozen=True, slots=True)
class Derivation:
    """A format, what was proved of it, and what the probes told."""

    format: ChatFormat
    proof: Proof
    shape: Shape


def derive(
    given: Any, load: Load, special: Any = None, stop: Any = None, conversations: int = CONVERSATIONS
) -> Derivation:
    """Return the format of a template, and its proof; load: what reads a format's files; special, stop: as of
    `ChatFormat.from_template`.

    Cost: some 100 probes, and 5 to 20 ms a conversation.
    Raises: GrammarError: a probe is not explained, or a conversation differs; it shows which.
    """
    template = template_of(given, special)
    probing = Probing(template)
    try:
        shape = _calling(probing, probing.shape())
        pair = pair_of(shape, template, _stop_of(stop))
        stripped = probing.stripped(shape)
    except Unexplained as error:
        raise _refused(template, error.because, error.messages) from error
    template = probing.template
    chat = loaded(pair, load)
    kept = replace(shape, words=shape.words if shape.words and tells_alike(chat, template, shape) else None)
    kept = replace(kept, closed=shape.closed if _goes_on(chat, shape.closed) else "")
    if kept != shape:
        if kept.words != shape.words:
            probing.doubts["tools"] = "they are told in words that are not derived; here they are the caller's to say"
        if kept.closed != shape.closed:
            because = f"the template ends its prompt in {shape.closed!r} then, and no turn that it prints begins so"
            probing.doubts["thinking switched off"] = because
        shape = kept
        pair = pair_of(shape, template, _stop_of(stop))
        chat = loaded(pair, load)
    _check_prompt(chat, template, shape)
    markers = (*chat.definition.tokens.values(), *chat.definition.markers)
    proof = prove(chat, template, shape, (markers, probing.odd, stripped), conversations)
    if proof.differences:
        raise _differs(template, proof)
    if proof.alike < conversations // 4:
        raise _refused(template, f"of {conversations} random conversations it prints {conversations - proof.refused}")
    doubts = {**probing.doubts, **rare_orders(chat, template, shape), **_unsaid(template, chat)}
    if proof.refused:
        doubts["conversations"] = f"the template refuses {proof.refused} of {conversations} random ones"
    if proof.escaped:
        doubts["escapes in arguments"] = "here strings escape signs that the template prints, the same values"
    return Derivation(loaded(pair.with_doubts(doubts), load), proof, replace(shape, doubts=tuple(doubts.items())))


def _calling(probing: Probing, shape: Shape) -> Shape:
    """Return the shape with calls, results and what is told of tools, where the template prints calls."""
    try:
        shape = calls_of(probing, shape)
    except NoCalls as error:
        probing.doubts["calls"] = error.because
        return shape
    return probing.optional("tools", probing.optional("results", shape, results_of), words_of)


def _stop_of(stop: Any) -> tuple[str, ...]:
    if stop is None:
        return ()
    listed = (stop,) if isinstance(stop, str) else stop
    if not isinstance(listed, (list, tuple)) or not all(isinstance(text, str) and text for text in listed):
        raise GrammarError(f"stop is {shown(stop)}", instead='a list of tokens: ["<|im_end|>"]')
    return tuple(listed)


def loaded(pair: Pair, load: Load) -> ChatFormat:
    """Return the format of a pair of files."""
    with TemporaryDirectory() as folder:
        for name, text in pair.files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        return load(Path(folder) / f"{pair.name}.toml")


def _goes_on(chat: ChatFormat, prompt: str) -> bool:
    """Return whether a turn goes on from a prompt."""
    try:
        chat.grammar(prompt=prompt)
    except GrammarError:
        return False
    return True


def _check_prompt(chat: ChatFormat, template: Template, shape: Shape) -> None:
    """Raise `GrammarError` where no turn goes on from what the generation prompt holds."""
    for choice, what in (("none", "answer"), ("required", "call"))[: 2 if shape.calls else 1]:
        try:
            chat.grammar(tool_choice=choice, prompt=shape.prompt)
        except GrammarError as error:
            because = f"its generation prompt ends in {shape.prompt!r}, and no {what} that it prints begins so"
            raise _refused(template, because) from error


def _unsaid(template: Template, chat: ChatFormat) -> dict[str, str]:
    """Return what nobody said and is taken for granted."""
    found: dict[str, str] = {}
    if template.taken:
        named = ", ".join(
            f"{name} is {text!r}" for name, text in template.taken.items() if text in chat.tokens.values()
        )
        found |= {"tokens that the template names": f"nobody said what they are; {named}"} if named else {}
    if not template.told:
        found["special tokens"] = (
            f"a template does not say which texts are tokens; taken are {' '.join(chat.tokens.values())}"
        )
    if "strftime_now" in template.source:
        found["the date"] = (
            "the template prints that of the day on which it is rendered; here it is the day of the derivation"
        )
    return found


def _refused(template: Template, because: str, messages: Sequence[Mapping[str, Any]] = ()) -> GrammarError:
    shown_as = json.dumps([*messages], ensure_ascii=False)[:_MOST_SHOWN] if messages else None
    return GrammarError(
        f"cannot derive a chat format from the template {template.name!r}",
        where=None if shown_as is None else f"the probe {shown_as}", because=because, instead=_INSTEAD,
    )  # fmt: skip


def _differs(template: Template, proof: Proof) -> GrammarError:
    """Return the error for a conversation that comes out differently."""
    difference = proof.differences[0]
    mine, theirs = difference.mine, difference.theirs
    at = next((at for at, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), min(len(mine), len(theirs)))
    start = max(at - _AROUND, 0)
    because = f"{len(proof.differences)} random conversations differ"
    if difference.refusal is not None:
        because = f"{because}: {difference.refusal}"
    else:
        because = (
            f"{because}: it prints {theirs[start : at + _AROUND]!r}, and by its probes {mine[start : at + _AROUND]!r}"
        )
    return _refused(template, because, difference.messages)
