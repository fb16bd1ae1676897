"""A chat template → `Shape`: the texts that it prints around and between what messages say.

Each probe is a short conversation of words that no template holds.  Where the words come out again, in their order,
what stands between them is the template's.  Two probes that differ in one thing tell which of it belongs to what: a
text is cut where another probe has it too, and never inside of a tag or a token.  Two calls and three tell what stands
between calls.  Tools are looked for as JSON, in the few ways that `ToolPrompt` can write; what stands around them is
the words.

What does not come out, or not in order, has no place in the format: `Unexplained` names the probe.  Nothing is guessed
from how a template is written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from types import MappingProxyType
from typing import Any, NamedTuple

from constrained.deriving.template import NotPrinted, Template
from constrained.rendering.arguments import write_json, write_keywords

# -- answers -----------------------------------------------------------------------------------------------------------

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


class NoCalls(Unexplained):
    """The template leaves calls out."""


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
    `call.open`, the name, `middle`, the arguments, `call.close`; ids are `ID` in these texts.
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


def _shared(one: Iterable[str], other: Iterable[str]) -> list[str]:
    pairs = zip(one, other, strict=False)
    return [mine for mine, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]


def common_start(one: str, other: str, atom: re.Pattern[str] = _ATOM) -> str:
    """Return the pieces with which two texts begin."""
    return "".join(_shared(atom.findall(one), atom.findall(other)))


def common_end(one: str, other: str, atom: re.Pattern[str] = _ATOM) -> str:
    """Return the pieces with which two texts end."""
    return "".join(_shared(reversed(atom.findall(one)), reversed(atom.findall(other)))[::-1])


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


# -- calls and results -------------------------------------------------------------------------------------------------

ARGUMENTS = {"wkey0": "wvalue0", "wkey1": "wvalue1"}
VALUES: dict[str, Any] = {
    "numbers": 5, "decimals": 1.5, "booleans": True, "null": None, "lists": [1, "x", None],
    "objects": {"a": True, "b": "ü<'"},
}  # fmt: skip
_RAW = "q\"x'\\y é<b"  # a string that JSON and Python escape


class _Cut(NamedTuple):
    """A turn of calls at its names and arguments: what stands before the first, in the calls, between, and behind."""

    before: str
    middles: list[str]
    between: list[str]
    after: str
    arguments_first: bool


class _Turns:
    """Turns of calls as the template prints them, behind the header; ids are `ID`."""

    def __init__(self, probing: Probing, shape: Shape) -> None:
        self.probing, self.shape = probing, shape
        self.asked = probing.text([user()], TOOLS)
        self.as_text, self.surface = False, ""
        self.counted: int | None = None  # where calls are numbered, the first

    def print(
        self,
        *arguments: Any,
        text: str = "",
        behind: Any = (),
        slots: bool = True,
        more: Mapping[str, Any] = MappingProxyType({}),
    ) -> str:
        """Return a turn with a call for each of the arguments; slots: whether ids in it are `ID`."""
        given = [write_json(one) if self.as_text and isinstance(one, dict) else one for one in arguments]
        calls = [call(f"wname{at}", one, at) for at, one in enumerate(given)]
        messages = [user(), says(text=text, tool_calls=calls, more=more), *behind]
        whole = self.probing.text(messages, TOOLS)
        body = without_start(whole, self.asked, "what stands before a call depends on it", messages)
        body = without_start(body, self.shape.header, "a turn with a call begins unlike others", messages)
        for one in IDS if slots else ():
            body = body.replace(one, ID)
        return body

    def numbered(self, text: str) -> str:
        """Return a text with `ID` in place of the number of the first call, where calls are numbered."""
        return text if self.counted is None else re.sub(_number_of(self.counted), ID, text)

    def spelled(self, arguments: Any) -> str:
        """Return arguments as the surface writes them."""
        return write_keywords(arguments) if self.surface == "python" else write_json(arguments)

    def find_surface(self) -> None:
        """Find out how arguments are written.  Raises: Unexplained: in none of the known ways."""
        for self.as_text in (False, True):
            try:
                body = self.print(ARGUMENTS)
            except Unexplained:
                if self.as_text:
                    raise
                continue  # it wants JSON text
            if "wname0" not in body:
                raise NoCalls("the template prints none; here there are none")
            for self.surface in ("json", "python"):
                if body.count(self.spelled(ARGUMENTS)) == 1:
                    return
            if str(ARGUMENTS) not in body:
                break
        self.surface = "tagged"
        words = [word for pair in ARGUMENTS.items() for word in pair]
        gaps(self.print(ARGUMENTS), words)
        if self.print({"wkey0": _RAW}).count(_RAW) != 1:
            raise Unexplained("the template spells arguments neither as JSON, nor as Python, nor as they are")

    def cut(self, body: str, count: int) -> _Cut:
        """Return a turn of so many calls with `ARGUMENTS` at names and arguments."""
        if self.surface == "tagged":
            text = body
            first, last = "wkey0", "wvalue1"
        else:
            first = last = "\0arguments"
            text = body.replace(self.spelled(ARGUMENTS), first)
        places = [(at, at + len(last) if last != first else at + len(first)) for at in _all(text, first)]
        if self.surface == "tagged":
            places = [(start, end + len(last)) for (start, _), end in zip(places, _all(text, last), strict=False)]
        names = [(text.find(f"wname{at}"), text.find(f"wname{at}") + 6) for at in range(count)]
        if len(places) != count or any(text.count(f"wname{at}") != 1 for at in range(count)):
            raise Unexplained(
                "a call is not printed once" if count == 1 else "several calls of a turn are not all printed"
            )
        arguments_first = places[0] < names[0]
        flat = [place for pair in zip(names, places, strict=True) for place in sorted(pair)]
        if flat != sorted(flat):
            raise Unexplained("names and arguments of calls stand in no order")
        ends = [0, *(end for _, end in flat)]
        starts = [*(start for start, _ in flat), len(text)]
        parts = [text[end:start] for end, start in zip(ends, starts, strict=True)]
        return _Cut(parts[0], parts[1::2], parts[2:-1:2], parts[-1], arguments_first)


def _all(text: str, word: str) -> list[int]:
    return [found.start() for found in re.finditer(re.escape(word), text)]


def calls_of(probing: Probing, shape: Shape) -> Shape:
    """Return the shape with its calls.  Raises: Unexplained."""
    turns = _Turns(probing, shape)
    turns.find_surface()
    one = turns.cut(turns.print(ARGUMENTS), 1)
    prefix = shape.last if shape.last and one.before.startswith(shape.last) else ""
    one = one._replace(before=one.before[len(prefix) :])
    several = _several(turns)
    counted = None
    if several is not None and ID not in one.before + one.middles[0] + one.after:
        counted, one, several = _counted(one, several)
        turns.counted = counted
    call_open, call_close, separator = one.before, one.after, None
    if several is not None:
        gap = several.between[0]
        call_open = common_end(one.before, gap)
        call_close = common_start(gap[: len(gap) - len(call_open)], one.after)
        separator = gap[len(call_close) : len(gap) - len(call_open)]
    opening = _text_before(turns, one.before)
    if several is not None and not opening.endswith(call_open):
        raise Unexplained("what stands before the first call depends on the text before it")
    if several is None:
        call_open, call_close = opening, ""
    before = without_end(one.before, opening, "what stands before a call depends on the text before it")
    texted, between = _between(turns, opening)
    calls = Calls(
        turns.surface, turns.as_text, before, between, opening[: len(opening) - len(call_open)],
        one.after[len(call_close) :], Around(call_open, call_close), one.middles[0], separator,
        arguments_first=one.arguments_first, counted=counted, prefixed=bool(prefix), text_prefixed=texted,
    )  # fmt: skip
    if turns.surface == "tagged":
        calls = _kinds(turns, _members(turns, calls))
    else:
        _check_values(turns)
    shape = _ended(turns, replace(shape, calls=calls))
    return _thinking(turns, shape, opening)


def _several(turns: _Turns) -> _Cut | None:
    """Return a turn of two calls; None: the template has one a turn."""
    try:
        found = turns.cut(turns.print(ARGUMENTS, ARGUMENTS), 2)
    except Unexplained as error:
        turns.probing.doubts["several calls in a turn"] = error.because
        return None
    try:
        three = turns.cut(turns.print(ARGUMENTS, ARGUMENTS, ARGUMENTS), 3)
    except Unexplained as error:
        raise Unexplained(f"three calls are printed unlike two: {error.because}") from error
    if [_number(gap, at) for at, gap in enumerate(three.between)] != [_number(found.between[0], 0)] * 2:
        raise Unexplained("three calls are printed unlike two")
    return found


def _number(text: str, at: int) -> str:
    return re.sub(rf"\b({at + 1}|{at + 2})\b", "#", text)


def _number_of(value: int) -> str:
    return rf"(?<![\w.]){value}(?![\w.])"


def _counted(one: _Cut, several: _Cut) -> tuple[int | None, _Cut, _Cut]:
    """Return from where on calls are numbered, None if they are not, and the turns with `ID` in place of numbers."""
    for first in (0, 1):
        mine, theirs = (re.compile(_number_of(first + at)) for at in (0, 1))
        before = mine.sub(ID, one.before)
        gap = theirs.sub(ID, several.between[0])
        if ID in common_end(before, gap):
            return first, one._replace(before=before), several._replace(before=before, between=[gap])
        if mine.search(one.middles[0]) and mine.sub(ID, one.middles[0]) == theirs.sub(ID, several.middles[1]):
            middles = [mine.sub(ID, one.middles[0])]
            return first, one._replace(middles=middles), several
    if one.middles[0] != several.middles[1]:
        raise Unexplained("the second call of a turn is printed unlike the first")
    return None, one, several


def _text_before(turns: _Turns, before: str) -> str:
    """Return what opens the first call whether or not a text stands before it."""
    try:
        gap = turns.numbered(gaps(turns.print(ARGUMENTS, text=f"{TEXT}0"), [f"{TEXT}0", "wname0"])[1])
    except Unexplained:
        gap = None
    if gap is None:
        turns.probing.doubts["text beside calls"] = (
            "the template does not print it before them; here it is a turn of its own"
        )
        return before
    return common_end(before, gap)


def _between(turns: _Turns, opening: str) -> tuple[bool, str | None]:
    """Return whether a text before calls begins as an answer does, and what stands between it and calls, None where
    there is none.
    """
    if "text beside calls" in turns.probing.doubts:
        return False, None
    before, gap = gaps(turns.print(ARGUMENTS, text=f"{TEXT}0"), [f"{TEXT}0", "wname0"])[:2]
    gap = turns.numbered(gap)
    if before not in ("", turns.shape.last):
        raise Unexplained("a text before calls begins unlike others")
    return bool(before), without_end(gap, opening, "what stands before a call depends on the text before it")


def _members(turns: _Turns, calls: Calls) -> Calls:
    """Return calls with what stands around keys and values."""
    two = gaps(turns.print(ARGUMENTS), ["wname0", *(word for pair in ARGUMENTS.items() for word in pair)])
    _, to_key, to_value, to_next, to_second, behind = two
    if to_value != to_second:
        raise Unexplained("the second argument of a call is printed unlike the first")
    key_open = common_end(to_key, to_next)
    value_close = common_start(to_next[: len(to_next) - len(key_open)], behind)
    if value_close + key_open != to_next or not value_close or not key_open:
        raise Unexplained("what stands between two arguments is neither behind the first nor before the second")
    middle = without_end(calls.middle, key_open, "the first argument of a call begins unlike the second")
    closing = without_start(calls.call.close or calls.close, value_close, "the last argument ends unlike others")
    if not calls.call.close:  # one call a turn
        calls = replace(calls, close="")
    while key_open[0] in "\n " and value_close and closing.startswith(key_open[0]):  # a line break belongs to the line
        mark = key_open[0]
        key_open, middle, value_close, closing = key_open[1:], middle + mark, value_close + mark, closing[1:]
    none = gaps(turns.print({}), ["wname0"])[1]
    none = turns.numbered(none)
    behind = closing + calls.close
    no_arguments = None
    if none != middle + behind:
        rest = common_end(none, calls.close)
        if rest != calls.close:
            raise Unexplained("a call without arguments ends unlike others")
        inner = none[: len(none) - len(calls.close)]
        no_arguments = without_start(inner, middle, "a call without arguments is printed unlike others")
    return replace(
        calls, middle=middle, member=(key_open, to_value, value_close), arguments_close=closing,
        no_arguments=no_arguments,
        call=Around(calls.call.open, ""),
    )  # fmt: skip


def _kinds(turns: _Turns, calls: Calls) -> Calls:
    """Return calls with what stands before values of each kind that are no strings."""
    before, odd = dict[str, str](), list[str]()
    for kind, value in VALUES.items():
        behind = turns.print({"wkey0": value}).partition("wkey0")[2]
        for spelled in (write_json(value), str(value)):
            at = behind.find(spelled + calls.member[2])
            if at >= 0:
                before[kind] = behind[:at]
                odd += [] if spelled == write_json(value) else [kind]
                break
        else:
            before[kind] = calls.member[1]
            odd.append(kind)
    _note(turns, odd)
    known = [kind for kind in VALUES if kind not in odd]
    if before["numbers"] != before["decimals"] or any(not text for text in before.values()):
        raise Unexplained("arguments of several kinds are printed in ways that no member has")
    if all(before[kind] == calls.member[1] for kind in known):
        return calls
    return replace(calls, openings=tuple((kind, text) for kind, text in before.items() if kind != "decimals"))


def _check_values(turns: _Turns) -> None:
    """Note which kinds of values the template does not write as the surface does."""
    printed = turns.print({"wkey0": _RAW})
    unescaped = turns.surface == "python" and printed.count(f"'{_RAW}'") == 1
    if printed.count(turns.spelled({"wkey0": _RAW})) != 1 and not unescaped:
        raise Unexplained("the template spells strings of arguments in a way of its own")
    strings = ["strings that Python escapes"] if unescaped else []
    values = [(kind, {"wkey0": value}) for kind, value in VALUES.items()]
    odd = [kind for kind, given in values if turns.print(given).count(turns.spelled(given)) != 1]
    _note(turns, strings + odd)


def _note(turns: _Turns, odd: list[str]) -> None:
    turns.probing.odd = tuple(odd)
    if odd:
        written = "Python" if turns.surface == "python" else "JSON"
        turns.probing.doubts["values of arguments"] = f"{', '.join(odd)} are not printed as {written}; here they are"


def _ended(turns: _Turns, shape: Shape) -> Shape:
    """Return the shape with what ends a turn of calls cut from the calls."""
    assert shape.calls is not None
    close = shape.calls.close
    if shape.close and close.endswith(shape.close):
        return replace(shape, calls=replace(shape.calls, close=close[: -len(shape.close)]), calls_end=shape.close)
    if not shape.ends:
        return replace(shape, calls_end=shape.close)
    return shape


def _thinking(turns: _Turns, shape: Shape, opening: str) -> Shape:
    """Return the shape with how a thought ends before a call."""
    thoughts = shape.thoughts
    if thoughts is None or not thoughts.key:
        return shape
    try:
        _, gap = gaps(turns.print(ARGUMENTS, more={thoughts.key: f"{THOUGHT}0"}), [f"{THOUGHT}0", "wname0"])[:2]
        gap = turns.numbered(gap)
    except Unexplained:
        turns.probing.doubts["thoughts beside calls"] = "the template does not print them"
        return replace(shape, thoughts=replace(thoughts, before_calls=False))
    close = without_end(gap, opening, "what stands before a call depends on the thought before it")
    return replace(shape, thoughts=replace(thoughts, close_before_call=close))


def results_of(probing: Probing, shape: Shape) -> Shape:
    """Return the shape with how results stand.  Raises: Unexplained."""
    calls = shape.calls
    assert calls is not None
    turns = _Turns(probing, shape)
    turns.as_text, turns.surface = calls.as_text, calls.surface

    behind = partial(_behind, turns, shape)
    one = behind(result(0), says(1))
    before, to_answer, _ = gaps(one, [f"{RESULT}0", f"{TEXT}1"])
    alone = gaps(behind(result(0)), [f"{RESULT}0"])[1]
    header, opening = _answer_opening(shape, to_answer, alone)
    close = to_answer[: len(to_answer) - len(header + opening)]
    current = _current(turns, shape) if calls.prefixed or calls.text_prefixed != bool(shape.last) else shape.last
    shape = replace(shape, current=current, goes_on=header != shape.header)
    separator, group = "", Around("", "")
    each = Around(before, close)
    if calls.separator is not None:
        two = behind(result(0), result(1), says(1), count=2)
        first, gap, last, _ = gaps(two, [f"{RESULT}0", f"{RESULT}1", f"{TEXT}1"])
        if first != before or last != to_answer:
            raise Unexplained("the first of two results is printed unlike a single one")
        before, gap = _answering(before, gap)
        each = replace(each, open=before)
        opening = common_end(before, gap)
        ending = common_start(gap[: len(gap) - len(opening)], close)
        separator = gap[len(ending) : len(gap) - len(opening)]
        group = Around(before[: len(before) - len(opening)], close[len(ending) :])
        each = Around(opening, ending)
    quoted = _quoted(behind)
    if calls.counted is not None:
        shape = replace(shape, calls=replace(calls, per_turn=_per_turn(turns, calls)))
    return replace(shape, results=Results(group, each, separator, quoted))


def _answering(before: str, gap: str) -> tuple[str, str]:
    """Return what stands before the first result and the second; the number of the call that each answers is a slot."""
    for first in (0, 1):
        mine, theirs = (re.compile(_number_of(first + at)) for at in (0, 1))
        if (
            ANSWERED not in before
            and mine.search(before)
            and ANSWERED in common_end(mine.sub(ANSWERED, before), theirs.sub(ANSWERED, gap))
        ):
            return mine.sub(ANSWERED, before), theirs.sub(ANSWERED, gap)
    return before, gap


def _behind(turns: _Turns, shape: Shape, *results: Any, count: int = 1) -> str:
    """Return what stands behind a turn of so many calls; ids and names in it are slots."""
    calls = shape.calls
    assert calls is not None
    body = turns.print(*[ARGUMENTS] * count, behind=results, slots=False)
    last = "wvalue1" if turns.surface == "tagged" else turns.spelled(ARGUMENTS)
    places = _all(body, last)[:count]
    if len(places) != count:
        raise Unexplained("calls are printed in another way before results")
    ending = calls.member[2] + calls.arguments_close + calls.call.close + calls.close + shape.calls_end
    for one in IDS:
        ending = ending.replace(ID, one) if one == IDS[count - 1] else ending
    rest = without_start(body[places[-1] + len(last) :], ending, "a turn of calls ends unlike others, before results")
    for at, one in enumerate(IDS):
        rest = rest.replace(one, ANSWERED).replace(f"wname{at}", SPEAKER)
    return rest


def _current(turns: _Turns, shape: Shape) -> str:
    """Return what a turn of calls begins with that results follow, without a thought."""
    assert shape.calls is not None
    before = turns.print(ARGUMENTS, behind=[result(0), says(1)])
    opening = shape.calls.before + shape.calls.open + shape.calls.call.open
    for prefix in sorted({shape.mid, shape.last, ""}, key=len, reverse=True):
        if before.startswith(prefix + opening):
            return prefix
    raise Unexplained("a turn of calls begins unlike others, before results")


def _answer_opening(shape: Shape, gap: str, alone: str) -> tuple[str, str]:
    """Return the header of an answer behind results, which may lack it, and what stands before its text."""
    for opening in sorted({shape.last, shape.mid}, key=len, reverse=True):
        if shape.header and gap.endswith(shape.header + opening):
            return shape.header, opening
    if gap == alone + shape.last:
        return "", shape.last
    raise Unexplained("an answer begins unlike others, behind results")


def _per_turn(turns: _Turns, calls: Calls) -> bool:
    """Return whether calls of a later turn are numbered anew."""
    later = says(text="", tool_calls=[call("wname1", write_json(ARGUMENTS) if calls.as_text else ARGUMENTS, 1)])
    body = turns.print(ARGUMENTS, behind=[result(0), later])
    around = (calls.call.open + "wname1" + calls.middle).replace("\0first", "")
    for number, anew in ((calls.counted, True), ((calls.counted or 0) + 1, False)):
        if around.replace(ID, str(number)) in body:
            return anew
    raise Unexplained("calls of a later turn are numbered in another way")


def _quoted(behind: Any) -> bool:
    """Return whether results are JSON strings; else they are printed as they are."""
    plain = 'a"b\\c <é'
    text = behind(result(0, plain))
    if text.count(plain) == 1:
        return False
    if text.count(write_json(plain)) == 1:
        return True
    raise Unexplained("results are printed neither as they are nor as JSON")


# -- tools -------------------------------------------------------------------------------------------------------------

_TOOLS = "\0tools"
_SLOT = re.compile(r"\{(tools|json|parameters|declaration|name|description)\}")


class _Spelling(NamedTuple):
    """A way to write tools: as OpenAI has them or the functions alone, indented or not, as a list or one by one."""

    enveloped: bool
    indent: int | None
    is_list: bool


def words_of(probing: Probing, shape: Shape) -> Shape:
    """Return the shape with what is told of tools.  Raises: Unexplained: they are not told as JSON, or elsewhere."""
    asked = [user()]
    if "wname0" not in probing.text(asked, TOOLS[:2]):
        raise Unexplained("the template does not list them; here they are the caller's to say", asked)
    spelling, between, alone = _found(probing, asked)
    pre, post = gaps(alone, [f"{USER}0"])
    if post != shape.user.close:
        raise Unexplained("what closes a user's message depends on tools", asked)
    told: dict[str, Any] = {"enveloped": spelling.enveloped, "indent": spelling.indent, "between": between}
    tool = None if spelling.is_list else "{json}"
    if shape.system is None:
        text = without_start(
            pre, shape.begin + shape.default_system + shape.user.open, "tools are told before all messages"
        )
        return replace(shape, words=Words("user", "before", "", _template(text), "", tool=tool, **told))
    system = shape.system
    spoken = [{"role": "system", "content": f"{SYSTEM}0"}, user()]
    before, behind, _ = gaps(_slotted(probing.text(spoken, TOOLS[:2]), spelling, between), [f"{SYSTEM}0", f"{USER}0"])
    opening = shape.begin + system.open
    inner = without_end(behind, system.close + shape.user.open, "tools are told in the user's message", spoken)
    ahead = without_start(before, opening, "tools are told before all messages", spoken)
    otherwise = without_start(pre, opening, "tools are told elsewhere where nobody says anything", asked)
    otherwise = without_end(
        otherwise, system.close + shape.user.open, "tools are told elsewhere where nobody says anything"
    )
    if bool(ahead) == bool(inner):
        raise Unexplained("tools are told around what the system says", spoken)
    text = ahead or inner
    place = "before" if ahead else "behind"
    bare = text.rstrip("\n") if ahead else text.lstrip("\n")
    joined = text[len(bare) :] if ahead else text[: len(text) - len(bare)]
    alike = "" if otherwise == bare else _template(otherwise)
    return replace(shape, words=Words("system", place, joined, _template(bare), alike, tool=tool, **told))


def _found(probing: Probing, asked: list[Any]) -> tuple[_Spelling, str, str]:
    """Return how tools are spelled, what stands between two, and a conversation with a slot in their place."""
    text = probing.text(asked, TOOLS[:2])
    for spelling in _spellings():
        first, second = (_spelled(tool, spelling) for tool in TOOLS[:2])
        if spelling.is_list:
            if text.count(_listed(spelling)) == 1:
                return spelling, "", text.replace(_listed(spelling), _TOOLS)
        elif text.count(first) == text.count(second) == 1 and text.index(first) < text.index(second):
            between = text[text.index(first) + len(first) : text.index(second)]
            return spelling, between, text.replace(first + between + second, _TOOLS)
    raise Unexplained("they are told in words that are not derived; here they are the caller's to say", asked)


def _spellings() -> Iterator[_Spelling]:
    for is_list in (False, True):
        for enveloped in (True, False):
            for indent in (None, 4, 2):
                yield _Spelling(enveloped, indent, is_list)


def _listed(spelling: _Spelling) -> str:
    tools = [tool if spelling.enveloped else tool["function"] for tool in TOOLS[:2]]
    return json.dumps(tools, ensure_ascii=False, indent=spelling.indent)


def _spelled(tool: Any, spelling: _Spelling) -> str:
    return json.dumps(tool if spelling.enveloped else tool["function"], ensure_ascii=False, indent=spelling.indent)


def _slotted(text: str, spelling: _Spelling, between: str) -> str:
    pieces = [_spelled(tool, spelling) for tool in TOOLS[:2]]
    return text.replace(_listed(spelling) if spelling.is_list else between.join(pieces), _TOOLS)


def _template(text: str) -> str:
    """Return words with the slot of tools, as a definition has them."""
    if re.search(r"\{\{\w+\}\}", text):
        raise Unexplained("the words about tools hold a word in two pairs of braces")
    return _SLOT.sub(lambda found: "{" + found[0] + "}", text).replace(_TOOLS, "{tools}")
