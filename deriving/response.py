"""A chat format → a response template of transformers, which its parser, vLLM's and SGLang's read turns by; and back.

A response template lists regions of a turn, each between two anchors (texts or patterns): thoughts, content, calls.
The way there writes a few turns with names that stand nowhere else and takes what stands around these for the anchors:
what the format says elsewhere need not be known.  The way back takes anchors apart: what a pattern matches at least is
generated, what it matches is read.

Refused, with the reason: Python's calls, values nested in tags, calls that begin with nothing but their JSON, anchors
that are more than texts, white space, choices and named groups.
Source: ``transformers.utils.chat_parsing`` of 5.23.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from constrained.deriving.probes import common_end, common_start

from constrained.errors import ConstrainedError, UnsupportedExport
from constrained.formats.message import Message, ToolCall

if TYPE_CHECKING:
    from constrained.formats.load import ChatFormat

_NAMES, _KEYS, _VALUES, _IDS = ("zqf", "zqg"), ("zqk", "zql"), ("zqv", "zqw"), ("zqi000001", "zqi000002")
_AGAIN = "\0"  # where a name stands once more
_SAID, _THOUGHT, _ASKED = "zqc", "zqt", "zqu"
_ARGUMENTS = dict(zip(_KEYS, _VALUES, strict=True))
_OTHERS: tuple[tuple[dict[str, Any], Any], ...] = (
    ({"type": "integer"}, 1),
    ({"type": "boolean"}, True),
    ({"type": "null"}, None),
    ({"type": "array"}, []),
    ({"type": "object"}, {}),
)


def exported(chat: ChatFormat) -> dict[str, Any]:
    """Return the response template of a format.

    Raises: UnsupportedExport: a response template cannot say what its turns look like.
    """
    return _Probing(chat).template()


class _Probing:
    """Turns that a format writes, and what stands around names that stand nowhere else."""

    def __init__(self, chat: ChatFormat) -> None:
        self.chat, self.definition = chat, chat.definition
        names = sorted({*chat.tokens.values(), *chat.definition.markers}, key=len, reverse=True)
        self.token = re.compile("|".join([*map(pattern_of, names), r"</?[\w:｜ ]+", r"[\s\S]"]))
        self.end = ""  # what closes all calls of a turn
        self.opens = list[str]()  # what thoughts and calls begin with
        self.several = self.definition.calls is not None
        self.kinds = self.definition.thoughts if self.definition.generates_thoughts else {}

    def template(self) -> dict[str, Any]:
        fields = {("thinking" if kind == "reasoning" else kind): self.thoughts(kind) for kind in self.kinds}
        fields["tool_calls"] = self.calls()  # which tells what stands behind the last call
        return {
            "defaults": {"role": "assistant"}, "start_anchor": self.anchor(),
            "fields": {**fields, "content": self.content()},
        }  # fmt: skip

    # -- turns -----------------------------------------------------------------------------------------------------

    def written(self, message: Message, schemas: Iterable[Mapping[str, Any]] = ()) -> str | None:
        """Return the text of a turn without its stop token; None: the format has no such turn."""
        given = dict(zip(_KEYS, schemas, strict=False))
        properties = {key: given.get(key, {"type": "string"}) for key in _KEYS}
        tools = [{"name": name, "parameters": {"type": "object", "properties": properties}} for name in _NAMES]
        try:
            text = self.chat.write(message, tools, prompt="")
        except ConstrainedError:
            return None
        stop = next((stop for stop in self.chat.stop if text.endswith(stop)), "")
        return text.removesuffix(stop)

    def called(self, arguments: Mapping[str, Any] = _ARGUMENTS, *schemas: Any, said: str = "") -> str | None:
        ids = self.definition.calls is not None and self.definition.calls.ids == "unique"
        count = 2 if self.several else 1
        calls = [
            ToolCall(name, dict(arguments), call_id if ids else None)
            for name, call_id in list(zip(_NAMES, _IDS, strict=True))[:count]
        ]
        return self.written(Message(said, calls), schemas)

    def anchor(self) -> str:
        """Return what a turn begins behind: the header of an answer, or the token before it."""
        asked = [{"role": "user", "content": _ASKED}]
        try:
            told, begun = (self.chat.render_text(asked, add_generation_prompt=on, prompt="") for on in (False, True))
        except ConstrainedError:
            raise self.refused("nothing says where a turn begins") from None
        return begun.removeprefix(common_start(told, begun, self.token)) or self.token.findall(begun)[-1]

    # -- regions ---------------------------------------------------------------------------------------------------

    def thoughts(self, kind: str) -> dict[str, Any]:
        text = self.written(Message(_SAID, thoughts={kind: _THOUGHT})) or ""
        before, found, behind = text.partition(_THOUGHT)
        if not found or not before.strip():
            raise self.refused(f"nothing opens the thought {kind!r}")
        return {"open": self.opened(before), "close": self.first(behind), "content": "text"}

    def content(self) -> dict[str, Any]:
        """Return the region of what a user sees: all that is in no other, or what stands between tokens."""
        texts = [self.written(Message(_SAID)), self.called(said=_SAID)]
        around = [text.partition(_SAID)[::2] for text in texts if text is not None and _SAID in text]
        if not around:
            raise self.refused("its turns say nothing to a user")
        stops = [*self.chat.stop]
        opens = dict.fromkeys(before.lstrip() for before, _ in around)
        if "" in opens:
            said = next((each for each in self.opens if self.written(Message(_SAID + each)) is not None), None)
            if said is not None:
                raise self.refused(f"an answer may hold {said!r}, and would end there")
            ends = "|".join(map(pattern_of, [*([self.end] if self.end else []), *stops]))
            return {"close_pattern": rf"\s*(?:{ends})", "content": "text"}
        closes = dict.fromkeys(self.first(behind) for _, behind in around if behind.strip())
        return {"open": [*opens], "close": [*closes, *stops], "content": "text"}

    def first(self, text: str) -> str:
        """Return the token or the tag with which a text begins."""
        found = self.token.match(text.lstrip())
        if found is None or len(found[0]) == 1:
            raise self.refused("no token ends a text or a thought")
        return found[0]

    def calls(self) -> dict[str, Any]:
        payload = self.definition.payload
        if payload is None:
            raise self.refused("it has no calls of tools that are given")
        if payload.surface == "python":
            raise self.refused("none of its parsers reads Python's calls")
        if payload.elements is not None:
            raise self.refused("none of its parsers reads values that are nested in tags")
        text = self.called()
        if text is None:
            raise self.refused("it writes no call")
        if any(_NAMES[0] in json.dumps(value) for _, value, _ in _decoded(text)):
            return self.in_json(text)
        return self.tagged(text) if payload.surface == "tagged" else self.named(text, payload.quote)

    def in_json(self, text: str) -> dict[str, Any]:
        """Return the region of calls whose names stand in the JSON of the call, or in a list of calls."""
        found = [
            each for each in _decoded(text) if _NAMES[0] in json.dumps(each[1]) or _NAMES[1] in json.dumps(each[1])
        ]
        start, value, end = found[0]
        listed = isinstance(value, list)
        call = value[0] if listed else value
        scope = "" if listed else "content."
        named = {json.dumps(call[key]): f"{{{scope}{key}}}" for key in call}
        function = {"name": named[json.dumps(_NAMES[0])], "arguments": named[json.dumps(_ARGUMENTS)]}
        behind = [(text[end : other[0]], text[other[2] :]) for other in found[1:2]]
        opening, region = self.anchors(text[:start].rstrip(), behind or text[end:])
        return {
            "open_pattern": opening, **region, "content": "json", "repeats": not listed,
            "transform": {"type": "function", "function": function}, **({"transform_each": True} if listed else {}),
        }  # fmt: skip

    def named(self, text: str, quote: str | None) -> dict[str, Any]:
        """Return the region of calls whose names stand before an object of arguments."""
        objects = [found.span() for found in re.finditer(r"\{[^{}]*\}", text)]
        spans = [
            next((start, end) for start, end in objects if start >= text.index(name))
            for name in _NAMES
            if name in text
        ]
        string = [self.chat.tokens[quote]] if quote is not None else []
        dialect = {"content_args": {"unquoted_keys": True, "string_delims": [string * 2]}} if string else {}
        return {**self.around(text, spans, "{"), "content": "json", **dialect}

    def tagged(self, text: str) -> dict[str, Any]:
        """Return the region of calls with arguments between tags, and the pattern of an argument."""
        names = [text.index(name) + len(name) for name in _NAMES if name in text]
        keys, values = ([text.index(each, names[0]) for each in both] for both in (_KEYS, _VALUES))
        between, tail = text[values[0] + 3 : keys[1]], text[values[1] + 3 :]
        opening = self.shared_end(text[names[0] : keys[0]], between)
        closing = common_start(between.removesuffix(opening), tail, self.token)
        middles = [text[keys[0] + 3 : values[0]]]
        for schema, value in _OTHERS:
            other = self.called({_KEYS[0]: value, _KEYS[1]: _VALUES[1]}, schema) or ""
            found = re.search(f"{_KEYS[0]}(.*?){pattern_of(json.dumps(value) + closing)}", other, re.DOTALL)
            middles += [found[1]] if found else []
        spans = [(start, text.index(_VALUES[1], start) + 3 + len(closing)) for start in names]
        spans = [(text.index(_KEYS[0], start) - len(opening), end) for start, end in spans]
        key, middle = f"(?P<key>{_until(middles[0])})", _either(middles)
        pattern = f"{pattern_of(opening.lstrip())}{key}{middle}(?P<value>.*?){pattern_of(closing.rstrip())}"
        return {
            **self.around(text, spans, opening.lstrip()), "content": "xml-inline",
            "content_args": {"tag_pattern": pattern},
        }  # fmt: skip

    def around(self, text: str, spans: list[tuple[int, int]], body: str) -> dict[str, Any]:
        """Return the anchors of calls whose arguments span these and begin with `body`; names stand before them."""
        names = [text.index(name) for name in _NAMES if name in text]
        middles = [
            text[at + 3 : start].replace(text[at : at + 3], _AGAIN) for at, (start, _) in zip(names, spans, strict=True)
        ]
        pairs = [(text[spans[0][1] : names[1]], text[spans[1][1] :])] if len(names) > 1 else text[spans[0][1] :]
        opening, region = self.anchors(text[: names[0]], pairs)
        tagged = body != "{"
        middle = _varying(middles[0].rstrip() if tagged else middles[0], middles[-1]).replace(_AGAIN, "(?P=name)")
        stops = _until(middles[0] if middles[0].strip() else body, blank=not middles[0].strip())
        return {
            "open_pattern": f"{opening}(?P<name>{stops}){middle}", **region, "repeats": True,
            "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
        }  # fmt: skip

    # -- anchors ---------------------------------------------------------------------------------------------------

    def anchors(self, before: str, behind: str | list[tuple[str, str]]) -> tuple[str, dict[str, Any]]:
        """Return the pattern that opens a call, and what closes it.

        behind: what stands behind the only call; or, of two, between them and behind the second.
        """
        if isinstance(behind, str):
            opening, closing, around, end = before, behind, "", ""
        else:
            ((between, tail),) = behind
            opening = self.shared_end(before, between.rstrip() if before == before.rstrip() else between)
            closing = common_start(between.removesuffix(opening), tail, self.token)
            around, end = before.removesuffix(opening), tail.removeprefix(closing)
        if not opening.strip():
            raise self.refused("nothing but its JSON tells a call from an answer")
        self.opened(opening)
        block = rf"(?:{pattern_of(around.strip())}\s*)?" if around.strip() not in ("", *_NAMES) else ""
        pattern = rf"\s*{block}{pattern_of(opening.lstrip())}"
        if not closing.strip():
            ends = [opening.strip(), *self.chat.stop]
            return pattern, {"close_pattern": f"(?={'|'.join(map(pattern_of, ends))})"}
        self.end = end.strip()
        return pattern, {"close": closing.rstrip()}

    def opened(self, text: str) -> str:
        self.opens.append(text.strip())
        return self.opens[-1]

    def shared_end(self, one: str, other: str) -> str:
        """Return the tokens with which two texts end, from the first that opens something."""
        shared = self.token.findall(common_end(one, other, self.token))
        first = next((at for at, token in enumerate(shared) if len(token) > 1), 0)
        return "".join(shared[first:])

    def refused(self, because: str) -> UnsupportedExport:
        return UnsupportedExport(
            f"the format {self.chat.name!r} has no response template", because=because,
            instead="ChatFormat.parse, stream_parser",
        )  # fmt: skip


def _decoded(text: str) -> Iterator[tuple[int, Any, int]]:
    """Yield where JSON objects and lists stand in a text, those in others left out."""
    at = 0
    while at < len(text):
        if text[at] in "{[":
            try:
                value, end = json.JSONDecoder().raw_decode(text, at)
            except ValueError:
                pass
            else:
                yield at, value, end
                at = end
                continue
        at += 1


def pattern_of(text: str) -> str:
    """Return the pattern of a text; white space stands for itself, unlike in `re.escape`."""
    return re.sub(r"([\\.^$*+?{}\[\]|()])", r"\\\1", text)


def _until(text: str, *, blank: bool = False) -> str:
    """Return the pattern of a text that ends before another one, or before white space."""
    space = r"\s" if blank else ""
    return f"[^{pattern_of(text[:1])}{space}]+"


def _either(texts: Iterable[str]) -> str:
    """Return the pattern of one of some texts."""
    listed = list(dict.fromkeys(texts))
    return pattern_of(listed[0]) if len(listed) == 1 else f"(?:{'|'.join(map(pattern_of, listed))})"


def _varying(one: str, other: str) -> str:
    """Return the pattern of a text in which numbers and ids vary, if another one has others."""
    pattern = pattern_of(one)
    if one.rstrip() == other.rstrip():
        return pattern
    return re.sub(r"\d+", lambda _: r"\d+", re.sub("|".join(_IDS), lambda _: r"\w+", pattern))
