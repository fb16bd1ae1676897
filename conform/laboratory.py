"""Turns of a format → differences between what they say and what a reader finds.

A turn is drawn as a message (texts, thoughts, calls with arguments of every type, hostile strings) and written by the
format, so what it says is known before anybody reads it.  The reader gets the text, whole or in pieces of any lengths,
and each way in which it departs from the message is a kind of its own, of which Hypothesis finds the least text.

Who is wrong is for `verdicts` to say.
"""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from constrained.api import compile
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.errors import ConstrainedError
from constrained.formats import ChatFormat, Message, ToolCall

from .readers import STREAMS, Reading, Unreadable
from .verdicts import departures, ours, shown

READER = Path(__file__).with_name("readers.py")
SLOW = 60  # seconds after which a reading has not come
OPENS = 600  # seconds until a reader must be there: vLLM's takes ten to be imported, on a machine with nothing to do
_EVERY = {
    "s": {"type": "string"}, "i": {"type": "integer"}, "x": {"type": "number"}, "b": {"type": "boolean"},
    "z": {"type": "null"},
    "l": {"type": "array", "items": {"type": "string"}}, "n": {"type": "array", "items": {"type": "number"}},
    "o": {"type": "object"},
    "e": {"enum": ["one", "two words"]}, "u": {"type": ["string", "null"]}, "v": {"type": ["integer", "string"]},
}  # fmt: skip
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {"name": name, "description": "", "parameters": {"type": "object", "properties": properties}},
    }
    for name, properties in (("f", _EVERY), ("get_it", {"s": {"type": "string"}}), ("now", {}))
]
HOSTILE = (
    "123", "-0.5", "1e3", "null", "None", "nil", "true", "False", "{}", "[]", '{"a": 1}', "[1]", '"q"', "'", '"', "\\",
    "\\n", "\n", "\n\n", " ", "\t",
    "{", "}", "[", "]", "(", ")", ",", ":", "=", "<", ">", "/>", "</", "&lt;", "&amp;", "%", "é", "北京", "\U0001f327",
    "\u2028", "\x7f", "<b>", "a", "b c",
    '", "', "', '", "}]", "}}", "<tool_call>", "</tool_call>", "<function=f>", "</function>", "<parameter=s>",
    "</parameter>", "</invoke>", "<think>", "</think>",
    '{"name": "f", "arguments": {}}', "f(s='a')", "[f()]", "```", "name", "arguments", "1,000", "12 ", " a", "a\n",
    "0x1F", "007", "1_000", "NaN",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Difference:
    """A way in which a reader departs from the format, and the least turn that shows it.

    `kind`: what is read as what.  `text`: the turn; `cuts`: the lengths, in tokens, of the pieces in which it came, ()
    where it came whole.  `says`: what is in it; `found`: what the reader finds, or the error that it raises.  `ours`:
    why not the reader but the format is wrong, "" where the readings agree.
    """

    kind: str
    text: str
    cuts: tuple[int, ...]
    says: str
    found: str
    ours: str = ""


@dataclass
class Outcome:
    """What became of one reader and one format: `turns` were read, with `calls`; `unreadable`: why none were."""

    format: str
    reader: str
    turns: int = 0
    calls: int = 0
    differences: list[Difference] = field(default_factory=list)
    unreadable: str = ""


# -- what is drawn -----------------------------------------------------------------------------------------------------

_words = st.sampled_from(HOSTILE) | st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=3)
_texts = st.sampled_from(HOSTILE) | st.lists(_words, max_size=3).map("".join)
_numbers = st.integers(-(2**53), 2**53) | st.sampled_from([0.5, -1.25, 1e-7, 2.5e20]) | st.integers(-5, 5)
_json = st.recursive(
    st.none() | st.booleans() | _numbers | _texts,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["k", "a b", "é", 'q"']), inner, max_size=2)
    ),
    max_leaves=4,
)
_OF = {
    "s": _texts, "i": st.integers(-(2**53), 2**53), "x": _numbers, "b": st.booleans(), "z": st.none(),
    "l": st.lists(_texts, max_size=2),
    "n": st.lists(_numbers, max_size=2), "o": st.dictionaries(st.sampled_from(["k", "a b", "é"]), _json, max_size=2),
    "e": st.sampled_from(["one", "two words"]), "u": st.none() | _texts, "v": st.integers(-9, 9) | _texts,
}  # fmt: skip
# Between tags that do not say a type, a value of several types is whatever a reader takes first: none is wrong.
_TAGGED = {key: drawn for key, drawn in _OF.items() if key != "v"} | {
    "u": st.sampled_from(["a", "So it is", "é"])
}


def _arguments(keys: Sequence[str], tagged: bool) -> st.SearchStrategy[dict[str, Any]]:
    """Return arguments, in the order of the schema; drawn as pairs, which shrink one by one."""
    of = _TAGGED if tagged else _OF
    pairs = st.one_of([st.tuples(st.just(key), of[key]) for key in keys if key in of]) if keys else st.nothing()
    return st.lists(pairs, max_size=3 if keys else 0, unique_by=lambda pair: pair[0]).map(
        lambda drawn: dict(sorted(drawn, key=lambda pair: [*_OF].index(pair[0])))
    )


def _calls(tagged: bool) -> st.SearchStrategy[ToolCall]:
    """Return calls, of the first tool twice as often: it has a parameter of each type."""
    functions = (TOOLS[0]["function"], *(tool["function"] for tool in TOOLS))
    return st.one_of(
        [
            st.builds(ToolCall, st.just(function["name"]), _arguments([*function["parameters"]["properties"]], tagged))
            for function in functions
        ]
    )


def turns(chat: ChatFormat) -> st.SearchStrategy[Message]:
    """Return messages as a format has them: calls, or an answer, or both; with a thought, where it has one."""
    kind = next(iter(chat.definition.thoughts), None) if chat.definition.generates_thoughts else None
    thoughts = st.just({}) if kind is None else _texts.map(lambda text: {kind: f"Hm{text}"})
    if kind is not None and not _always_thinks(chat):
        thoughts = st.just({}) | thoughts
    repeat = chat.definition.calls
    called = _calls(chat.definition.payload is not None and chat.definition.payload.surface == "tagged")
    calls = st.lists(called, min_size=1, max_size=1 if repeat is None else min(3, repeat.default or 3))
    said = st.just("") | _texts.map(lambda text: f"So{text}")
    return st.builds(Message, content=said, tool_calls=calls | calls | st.just([]), thoughts=thoughts)


def _opening(chat: ChatFormat) -> str:
    """Return how a generation prompt begins a turn with a thought; "": the model begins it.

    Where one without a thought begins with the thought's end alone, the beginning was never the model's to write.
    """
    reasoning, told = chat.definition.reasoning, chat.definition.prompt
    if reasoning is None:
        return ""
    ended = reasoning.closed is not None and not reasoning.closed.startswith(reasoning.prompt)
    return reasoning.prompt if told != "free" or ended else ""


def _always_thinks(chat: ChatFormat) -> bool:
    """Return whether no generation prompt asks for a turn without a thought."""
    reasoning = chat.definition.reasoning
    return chat.definition.prompt == "think-open" and reasoning is not None and reasoning.closed is None


class Writer:
    """The texts of turns that a format's grammar generates."""

    def __init__(self, chat: ChatFormat) -> None:
        self._chat = chat
        names = [*dict.fromkeys((*chat.tokens.values(), *chat.definition.reserved))]
        vocabulary = Vocabulary(
            [*(bytes([byte]) for byte in range(256)), *[None] * len(names)],
            special={name: 256 + at for at, name in enumerate(names)},
        )
        self._constraint = compile(chat.grammar(TOOLS, prompt=""), vocabulary)
        self._names, self._ids = (
            "(" + "|".join(map(re.escape, sorted(names, key=len, reverse=True))) + ")",
            vocabulary.special,
        )

    def write(self, message: Message) -> str | None:
        """Return the text of a turn; None: the format has none that says this, or generates none with its strings."""
        repeat = self._chat.definition.calls
        ids = repeat is not None and repeat.ids == "unique"
        calls = [
            ToolCall(call.name, call.arguments, f"call{at:05}" if ids else None)
            for at, call in enumerate(message.tool_calls)
        ]
        try:
            said = Message(message.content, calls, thoughts=message.thoughts)
            text = self._chat.write(said, TOOLS, prompt="")
            matcher = self._constraint.matcher()
            for part in re.split(self._names, text):
                for token in [self._ids[part]] if part in self._ids else part.encode():
                    matcher.advance(token)
        except ConstrainedError:
            return None
        return text if matcher.is_accepting() or matcher.is_finished() else None


# -- the reader --------------------------------------------------------------------------------------------------------


class Unread(Exception):
    """A reader has raised."""


class Host:
    """Readers in an interpreter of their own, which may be another one; one at a time."""

    def __init__(self, python: str = sys.executable) -> None:
        path = os.pathsep.join([os.getcwd(), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.stopped, self.version = "", ""  # why it has stopped; the reader's name and version
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115, closed with the process
        self._process = subprocess.Popen(
            [python, str(READER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
            text=True, encoding="utf-8", bufsize=1, env=os.environ | {"PYTHONPATH": path},
        )  # fmt: skip

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._log.close()

    def open(self, reader: str, chat: ChatFormat, template: Mapping[str, Any] | None = None) -> None:
        """Make a reader that which `read` asks; `version` is its name and version.  Raises: Unreadable: it cannot."""
        definition = chat.definition
        special = [*dict.fromkeys((*definition.tokens.values(), *definition.reserved))]
        told = self._told({
            "reader": reader, "format": chat.name, "special": special, "markers": [*definition.markers],
            "stops": [*chat.stop], "tools": TOOLS, "template": template, "opening": _opening(chat),
        }, OPENS)  # fmt: skip
        self.version = told["version"]
        if "unreadable" in told:
            raise Unreadable(told["unreadable"])

    def read(self, text: str, cuts: Sequence[int], thinks: bool) -> Reading:
        """Return what the reader finds.  Raises: Unread: it raises, or says nothing for a minute."""
        told = self._told([text, cuts, thinks], SLOW)
        if "error" in told:
            raise Unread(": ".join(told["error"]))
        calls, content, thoughts = told["reading"]
        return Reading([(name, arguments) for name, arguments in calls], content, thoughts)

    def _told(self, asked: object, seconds: float) -> dict[str, Any]:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            if not self.stopped:
                process.stdin.write(json.dumps(asked) + "\n")
                process.stdin.flush()
            ready = not self.stopped and select.select([process.stdout], [], [], seconds)[0]
            line = process.stdout.readline() if ready else ""
        except BrokenPipeError:
            line = ""
        if not line:
            self._log.seek(0)
            said = self._log.read()[-500:].strip()
            self.stopped = self.stopped or f"the reader has stopped: {said or f'nothing for {seconds} seconds'}"
            raise Unreadable(self.stopped)
        found: dict[str, Any] = json.loads(line)
        return found


# -- the search --------------------------------------------------------------------------------------------------------


def examine(
    name: str,
    reader: str,
    *,
    examples: int = 300,
    template: Mapping[str, Any] | None = None,
    start: int = 0,
    host: Host | None = None,
) -> Outcome:
    """Return how a reader departs from a format, over so many turns and what they are shrunk to.

    name: a format, or the path of its .toml.  reader: see `readers.open_reader`.  template: the response template of
    readers that take one.  start: what the drawing begins with; the same finds the same.  host: where the reader runs;
    by default in a new process of this interpreter.
    """
    if host is None:
        with Host() as host:
            return examine(name, reader, examples=examples, template=template, start=start, host=host)
    chat = ChatFormat.load(name)
    outcome = Outcome(chat.name, reader)
    if chat.definition.payload is None:
        outcome.unreadable = f"the format {chat.name!r} has no calls of tools that are given"
        return outcome
    try:
        host.open(reader, chat, template)
    except Unreadable as error:
        outcome.unreadable = str(error)
        return outcome
    finally:
        outcome.reader = host.version or reader
    search = Search(chat, host, outcome, reader in STREAMS)
    while search.run(examples, start + len(search.raised)):
        pass
    outcome.unreadable = outcome.unreadable or host.stopped
    outcome.differences = [difference for _, difference in sorted(search.least.items())]
    return outcome


class Search:
    """The least turn of each kind of difference; `raised`: the kinds that were shrunk."""

    def __init__(self, chat: ChatFormat, host: Host, outcome: Outcome, streams: bool) -> None:
        self.chat, self.host, self.outcome, self.writer = chat, host, outcome, Writer(chat)
        self.least: dict[str, Difference] = {}
        self.raised: dict[str, type[Exception]] = {}
        pieces = st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple)
        self.cuts = st.just(()) | pieces if streams else st.just(())

    def run(self, examples: int, start: int) -> bool:
        """Draw turns until kinds come that earlier runs have not found, and shrink these; return whether any came."""
        known = {*self.raised}

        @seed(start)
        @settings(
            max_examples=examples,
            database=None,
            deadline=None,
            report_multiple_bugs=True,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
            print_blob=False,
        )
        @given(turns(self.chat), self.cuts)
        def compare(message: Message, cuts: tuple[int, ...]) -> None:
            new = [kind for kind in self.kinds(message, cuts) if kind not in known]
            if new:
                raise self.raised.setdefault(new[0], type(new[0], (Exception,), {}))

        try:
            compare()
        except Unsatisfiable:
            self.outcome.unreadable = "the grammar of the format generates no turn that the format writes"
        except Exception as error:  # the kinds, of each of which the least was kept
            if not _of_kinds(error, (Unreadable, *self.raised.values())):
                raise
        return self.raised.keys() != known and not self.host.stopped

    def kinds(self, message: Message, cuts: tuple[int, ...]) -> list[str]:
        """Return the kinds of differences of a turn, and keep those that are the least so far."""
        text = self.writer.write(message)
        assume(text is not None)
        assert text is not None
        self.outcome.turns, self.outcome.calls = self.outcome.turns + 1, self.outcome.calls + len(message.tool_calls)
        found = self.differences(message, text, ()) or (self.differences(message, text, cuts) if cuts else [])
        for difference in found:
            known = self.least.get(difference.kind)
            if known is None or _size(difference) < _size(known):
                self.least[difference.kind] = difference
        return [difference.kind for difference in found]

    def differences(self, message: Message, text: str, cuts: tuple[int, ...]) -> list[Difference]:
        behind, because = ", in pieces" if cuts else "", partial(ours, self.chat, text, message, TOOLS)
        try:
            found = [*departures(message, self.host.read(text, cuts, bool(message.thoughts)))]
        except Unread as error:
            says = shown([[call.name, call.arguments] for call in message.tool_calls])
            found = [(f"it raises {str(error).partition(':')[0]}", says, str(error))]
        return [Difference(kind + behind, text, cuts, says, other, because()) for kind, says, other in found]


def _of_kinds(error: BaseException, kinds: tuple[type[Exception], ...]) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(_of_kinds(inner, kinds) for inner in error.exceptions)
    return isinstance(error, kinds)


def _size(difference: Difference) -> tuple[int, int, str]:
    return len(difference.text), len(difference.cuts), difference.text
