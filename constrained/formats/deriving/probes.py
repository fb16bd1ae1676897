"""A chat template → `Shape`: the texts that it prints around and between what messages say.

Each probe is a short conversation of words that no template holds.  Where the words come out again, in their order,
what stands between them is the template's.  Two probes that differ in one thing tell which of it belongs to what: a
text is cut where another probe has it too, and never inside of a tag or a token.

What does not come out, or not in order, has no place in the format: `Unexplained` names the probe.  Nothing is guessed
from how a template is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from constrained.formats.deriving.template import NotPrinted, Template

# Pieces of a text that belong together: tags and tokens, words, and single signs.
_ATOM = re.compile(
    r"\0[a-z]+|<[^<>\s]{1,60}>|<[|｜][^<>]{1,60}[|｜]>|\[\|[^\[\]\n]{1,40}\|\]|\[/?[A-Z_]{2,30}\]|\w+|\s|.", re.DOTALL
)

_CLOSING = re.compile(r"</[^<>\s/'\"]{1,40}>|\[/[A-Z_]{2,30}\]|<\|[^<>|\s]*(?:end|END)[^<>|\s]*\|>")

USER, TEXT, THOUGHT, SYSTEM, RESULT = "wuser", "wtext", "wthink", "wsystem", "wresult"
SWITCHES = ("enable_thinking", "thinking")
THOUGHT_KEYS = ("reasoning_content", "reasoning", "thinking", "thought")
ID, ANSWERED, SPEAKER = "\0id", "\0answered", "\0speaker"  # slots: of a call's id, of that of a result, of its name
IDS = ("abcdefgh1", "abcdefgh2", "abcdefgh3")  # nine letters and digits, as the strictest template asks for


class Unexplained(Exception):
    """A probe does not come out as the others say; `because` in words, with the conversation."""

    def __init__(self, because: str, messages: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(because)
        self.because, self.messages = because, tuple(messages)


@dataclass(frozen=True, slots=True)
class Around:
    """What stands before and behind something."""

    open: str
    close: str


@dataclass(frozen=True, slots=True)
class Thoughts:
    """How a turn thinks: `key` of the messages, what stands `around` a thought before a text, what closes one before a
    call.  `kept`: whether thoughts before the last user are printed.
    """

    key: str  # "": the template takes thoughts out of texts, and prints none
    around: Around
    close_before_call: str
    kept: bool
    before_calls: bool = True


@dataclass(frozen=True, slots=True)
class Calls:
    """How calls are written.

    Turn: `before` (no text) or `between` (behind a text), `open`, calls with `separator` between, `close`.  A call:
    `call.open`, the name, `middle`, the arguments, `call.close`; ids behind `id_open` where `id_place` says.
    `surface`: "json", "python", "tagged"; then `member`, and what opens and closes all of them.
    """

    surface: str
    as_text: bool  # whether the template wants arguments as JSON text
    before: str
    between: str | None
    open: str
    close: str
    call: Around
    middle: str
    separator: str | None  # None: one call a turn
    arguments_first: bool = False
    counted: int | None = None  # where ids are numbers, the first
    per_turn: bool = False  # whether they begin anew in each turn
    prefixed: bool = False  # whether a turn of calls alone begins as an answer without a thought does
    text_prefixed: bool = False  # whether one with a text before calls does
    member: tuple[str, str, str] = ("", "", "")  # before a key, before its value if it is a string, behind it
    openings: tuple[tuple[str, str], ...] = ()  # kind of other values → before it, where that is not as before strings
    arguments_close: str = ""
    no_arguments: str | None = None


@dataclass(frozen=True, slots=True)
class Results:
    """How results stand: all `around` a group, each within `each`, `separator` between; `quoted`: as a JSON string."""

    around: Around
    each: Around
    separator: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Words:
    """What a conversation says of tools, as a `ToolPrompt` has it."""

    role: str
    place: str
    joined: str
    text: str
    otherwise: str
    tool: str | None
    between: str
    enveloped: bool
    indent: int | None


@dataclass(frozen=True, slots=True)
class Shape:
    """All that probes tell of a template.  Texts of a turn: `header`, then what stands before a text without a thought,
    in a turn that users follow (`mid`), in one that results follow (`current`), in the last one (`last`).
    """

    begin: str
    default_system: str
    user: Around
    system: Around | None
    header: str
    mid: str
    current: str
    last: str
    close: str  # of an answer, behind its text
    ends: bool  # whether the last message is closed too
    prompt: str  # what the generation prompt holds behind the header
    closed: str  # what it holds where the model is asked not to think, "" if that is nothing or the same
    thoughts: Thoughts | None
    calls: Calls | None
    calls_end: str = ""
    results: Results | None = None
    goes_on: bool = False  # whether answers behind results have no header
    words: Words | None = None
    doubts: tuple[tuple[str, str], ...] = field(default=())


def user(at: int = 0) -> dict[str, Any]:
    return {"role": "user", "content": f"{USER}{at}"}


def says(
    at: int = 0, text: str | None = None, more: Mapping[str, Any] = MappingProxyType({}), **calls: Any
) -> dict[str, Any]:
    return {"role": "assistant", "content": f"{TEXT}{at}" if text is None else text, **more, **calls}


def call(name: str, arguments: Any, at: int = 0) -> dict[str, Any]:
    return {"id": IDS[at], "type": "function", "function": {"name": name, "arguments": arguments}}


def result(at: int = 0, text: str | None = None) -> dict[str, Any]:
    content = f"{RESULT}{at}" if text is None else text
    return {"role": "tool", "content": content, "tool_call_id": IDS[at], "name": f"wname{at}"}


def tool(name: str) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": {"wkey0": {"type": "string", "description": "wfirst"}},
        "required": ["wkey0"],
    }
    return {"type": "function", "function": {"name": name, "description": f"wtells {name}", "parameters": parameters}}


TOOLS = [tool("wname0"), tool("wname1"), tool("wname2")]


def atoms(text: str) -> list[str]:
    return _ATOM.findall(text)


def common_start(one: str, other: str) -> str:
    found = ""
    for mine, theirs in zip(atoms(one), atoms(other), strict=False):
        if mine != theirs:
            break
        found += mine
    return found


def common_end(one: str, other: str) -> str:
    found = ""
    for mine, theirs in zip(reversed(atoms(one)), reversed(atoms(other)), strict=False):
        if mine != theirs:
            break
        found = mine + found
    return found


def without_start(text: str, start: str, because: str, messages: Any = ()) -> str:
    if not text.startswith(start):
        raise Unexplained(because, messages)
    return text[len(start) :]


def without_end(text: str, end: str, because: str, messages: Any = ()) -> str:
    if not text.endswith(end):
        raise Unexplained(because, messages)
    return text[: len(text) - len(end)]


def gaps(text: str, words: Sequence[str], messages: Any = ()) -> list[str]:
    """Return what stands before, between and behind words.  Raises: Unexplained: one is not there, or not once."""
    found, at = [], 0
    for word in words:
        start = text.find(word, at)
        if start < 0 or text.count(word) != words.count(word):
            raise Unexplained(f"{word!r} is not printed where it should stand", messages)
        found.append(text[at:start])
        at = start + len(word)
    return [*found, text[at:]]


def _with(value: Any, word: str, other: str) -> Any:
    """Return messages with another text in place of a word."""
    if isinstance(value, Mapping):
        return {key: _with(inner, word, other) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with(inner, word, other) for inner in value]
    if isinstance(value, str) and value.startswith("{"):  # arguments as JSON
        return value.replace(word, other.replace("\n", "\\n"))
    return other if value == word else value


def _shortened(shape: Shape, header: str) -> Shape:
    """Return the shape with a shorter header; what it loses stands at the beginning of turns."""
    lost = shape.header[len(header) :]
    return replace(
        shape, header=header, mid=lost + shape.mid, current=lost + shape.current, last=lost + shape.last,
        prompt=lost + shape.prompt,
    )  # fmt: skip


class Probing:
    """The probes of a template, rendered when they are asked for."""

    def __init__(self, template: Template) -> None:
        self.template = template
        self.doubts: dict[str, str] = {}
        self.met: tuple[Mapping[str, Any], ...] = ()  # the conversation of the last doubt
        self.odd: tuple[str, ...] = ()  # kinds of values that calls do not write as the surface does

    def stripped(self, shape: Shape) -> tuple[str, ...]:
        """Return the roles whose texts lose white space at their ends, and note it."""
        words = {
            "user": f"{USER}0",
            "assistant": f"{TEXT}0",
            "system": f"{SYSTEM}0",
            "thought": f"{THOUGHT}0",
            "tool": f"{RESULT}0",
        }
        words["argument"] = "wvalue0"
        talks: list[list[dict[str, Any]]] = [[user(), says(), user(1), says(1)]]
        if shape.system is not None:
            talks.append([{"role": "system", "content": words["system"]}, user()])
        thinks = {shape.thoughts.key: words["thought"]} if shape.thoughts is not None and shape.thoughts.key else {}
        talks += [[user(), says(more=thinks)]] if thinks else []
        if shape.calls is not None:
            arguments = '{"wkey0": "wvalue0"}' if shape.calls.as_text else {"wkey0": "wvalue0"}
            text = "" if shape.calls.between is None else words["assistant"]
            more = thinks if shape.thoughts is not None and shape.thoughts.before_calls else {}
            turn = says(text=text, tool_calls=[call("wname0", arguments)], more=more)
            talks.append([user(), turn, *([result(0)] if shape.results is not None else [])])
        found: dict[str, None] = {}
        for talk in talks:
            plain = self.text(talk, TOOLS)
            for role, word in words.items():
                for padded in (f" \n{word}\n ", f"\n {word} \n"):
                    if word in plain and self.text(_with(talk, word, padded), TOOLS) != plain.replace(
                        word, self._spelled(shape, role, padded)
                    ):
                        found[role] = None
        if found:
            self.doubts["white space at the ends of texts"] = f"the template takes it from those of {', '.join(found)}"
        return tuple(found)

    @staticmethod
    def _spelled(shape: Shape, role: str, text: str) -> str:
        """Return a text as a conversation prints it that does not take white space from its ends."""
        quoted = role == "tool" and shape.results is not None and shape.results.quoted
        quoted = quoted or role == "argument" and shape.calls is not None and shape.calls.surface != "tagged"
        return text.replace("\n", "\\n") if quoted else text

    def text(self, messages: Sequence[Mapping[str, Any]], tools: Any = None, **options: Any) -> str:
        """Return what the template prints.  Raises: Unexplained: it does not."""
        try:
            return self.template.render(messages, tools, **options)
        except NotPrinted as refused:
            raise Unexplained(f"the template refuses it: {refused}", messages) from refused

    def maybe(self, messages: Sequence[Mapping[str, Any]], tools: Any = None, **options: Any) -> str | None:
        try:
            return self.template.render(messages, tools, **options)
        except NotPrinted:
            return None

    def shape(self) -> Shape:
        """Return what probes without calls tell.  Raises: Unexplained: the plainest conversations are not explained."""
        return self._switched(self._thoughts(self._system(self._answers())))

    def _switched(self, shape: Shape) -> Shape:
        """Return the shape with what a template ends in where it is told that the model shall not think."""
        plain = self.text([user()]) + shape.header
        closed = shape.prompt if shape.prompt == shape.last else ""
        for switch in SWITCHES:
            off, on = (self.maybe([user()], opens=True, **{switch: value}) for value in (False, True))
            if off is not None and off.startswith(plain) and off not in (plain, plain + shape.prompt):
                closed = off[len(plain) :]
            if shape.thoughts is None and on is not None and on != plain + shape.prompt:
                self.doubts["thoughts"] = f"the template prints them where {switch} is true; here there are none"
        return replace(shape, closed=closed)

    def optional(self, what: str, shape: Shape, probe: Callable[[Probing, Shape], Shape]) -> Shape:
        """Return what a probe makes of a shape; where it is not explained, the shape, and a doubt."""
        try:
            return probe(self, shape)
        except Unexplained as error:
            self.doubts[what], self.met = error.because, error.messages
            return shape

    # -- Users and answers ------------------------------------------------------------------------------------------

    def _answers(self) -> Shape:
        alone = self._without_prompt(self.text([user()]))
        pre, post = gaps(alone, [f"{USER}0"])
        opened = self.text([user()], opens=True)
        prompt = without_start(opened, alone, "a generation prompt changes what stands before it", [user()])
        asked = [user(0), says(0), user(1), says(1)]
        _, to_answer, to_user, to_last, tail = gaps(self.text(asked), [f"{USER}0", f"{TEXT}0", f"{USER}1", f"{TEXT}1"])
        mid = without_start(to_answer, post, "what closes a user's message depends on what follows", asked)
        last = without_start(to_last, post, "what closes a user's message depends on what follows", asked)
        opening, close = self._opening(pre, post, to_user, tail)
        begin = without_end(pre, opening, "the first user's message begins unlike others", asked)
        ends = tail == close
        if not ends:
            if not close.startswith(tail):
                raise Unexplained("the last answer ends unlike others", asked)
            self.doubts["the end of the last answer"] = "the template leaves it open"
        header = common_start(prompt, mid) if prompt else ""
        header = common_start(header, last) if prompt else ""
        if prompt and not header:
            raise Unexplained("the generation prompt begins unlike an answer", asked)
        return Shape(
            begin, "", Around(opening, post), None, header, mid[len(header) :], last[len(header) :],
            last[len(header) :],
            close, ends, prompt[len(header) :], "", None, None,
        )  # fmt: skip

    def _without_prompt(self, alone: str) -> str:
        """Return what is printed of a user; where templates end in a generation prompt always, they are rendered
        without it from here on.
        """
        answered = self.maybe([user(), says()])
        if answered is None or self.text([user()], opens=True) != alone:
            return alone
        prompt = common_end(alone.partition(f"{USER}0")[2], answered.partition(f"{TEXT}0")[2])
        if not prompt.strip():
            return alone
        self.template = replace(self.template, always=prompt)
        return alone.removesuffix(prompt)

    def _opening(self, pre: str, post: str, to_user: str, tail: str) -> tuple[str, str]:
        """Return what opens a user's message and what closes an answer before it."""
        twice = self.maybe([user(0), user(1)])
        if twice is not None:
            between = gaps(twice, [f"{USER}0", f"{USER}1"])[1]
            opening = between[len(post) :]
            if between.startswith(post) and opening and pre.endswith(opening) and to_user.endswith(opening):
                return opening, to_user[: -len(opening)]
        if tail and to_user.startswith(tail) and pre.endswith(to_user[len(tail) :]):
            return to_user[len(tail) :], tail
        opening = common_end(pre, to_user)
        return opening, to_user[: len(to_user) - len(opening)]

    def _system(self, shape: Shape) -> Shape:
        messages = [{"role": "system", "content": f"{SYSTEM}0"}, user(0), says(0), user(1)]
        try:
            pre, to_user, _, _, _ = gaps(
                self.text(messages), [f"{SYSTEM}0", f"{USER}0", f"{TEXT}0", f"{USER}1"], messages
            )
            close = without_end(
                to_user, shape.user.open, "what the system says stands in the first user's message", messages
            )
        except Unexplained as error:
            self.doubts["messages by the system"] = error.because
            return shape
        begin = common_start(shape.begin, pre)
        first = atoms(shape.user.open)[:1]
        if (
            begin != shape.begin and first and first[0] in atoms(begin)
        ):  # a message by the system that the template has itself
            begin = begin[: begin.index(first[0])]
        default = shape.begin[len(begin) :]
        return replace(shape, begin=begin, default_system=default, system=Around(pre[len(begin) :], close))

    # -- Thoughts ---------------------------------------------------------------------------------------------------

    def _thoughts(self, shape: Shape) -> Shape:
        start = len(self.text([user()]))
        for key in THOUGHT_KEYS:
            thinks = {key: f"{THOUGHT}0"}
            text = self.maybe([user(), says(more=thinks)])
            if text is None or f"{THOUGHT}0" not in text:
                continue
            before, close, end = gaps(text[start:], [f"{THOUGHT}0", f"{TEXT}0"])
            header = common_start(shape.header, before)
            if not header and shape.header:
                raise Unexplained("a turn with a thought begins unlike others", [user(), says(more=thinks)])
            alike = shape.user.open.replace("user", "assistant", 1)
            if header == before and alike != header and alike and header.startswith(alike):
                header = alike  # the thought is opened behind it
            shape = _shortened(shape, header)
            opening = before[len(header) :]
            if end != shape.close and shape.ends:
                raise Unexplained("a turn with a thought ends unlike others", [user(), says(more=thinks)])
            earlier = self.maybe([user(0), says(0, more=thinks), user(1), says(1)])
            kept = earlier is not None and f"{THOUGHT}0" in earlier
            if not kept:
                self.doubts["thoughts of earlier turns"] = "the template drops them; here messages say which they keep"
            return replace(shape, thoughts=Thoughts(key, Around(opening, close), close, kept))
        return self._taken_out(shape)

    def _taken_out(self, shape: Shape) -> Shape:
        """Return the shape with thoughts that the template finds in texts by what closes them, and leaves out."""
        for close in dict.fromkeys(_CLOSING.findall(self.template.source)):
            opening = close.replace("/", "", 1)
            told = [user(0), says(0, f"{THOUGHT}0{close}{TEXT}0"), user(1), says(1)]
            text = self.maybe(told)
            if (
                text is None
                or text != self.text([user(0), says(0), user(1), says(1)])
                or opening not in self.template.source
            ):
                continue
            if opening in shape.header:  # every turn begins with an empty thought
                shape = _shortened(shape, shape.header[: shape.header.index(opening)])
            if not shape.prompt.startswith(opening) and opening in shape.prompt:
                continue
            opening = shape.prompt if shape.prompt.strip() == opening else opening
            self.doubts["thoughts"] = (
                f"the template prints none; it takes out of texts what {close} closes, and here {opening!r} opens it"
            )
            return replace(shape, thoughts=Thoughts("", Around(opening, close), close, kept=False))
        return shape
