"""A response template of transformers → a chat format: its regions as a pair of files, grammar and definition.

Anchors are taken apart: what a pattern matches at least is generated, what it matches is read.  Names and arguments of
calls stand where named groups and the `transform` say.  A response template does not say how a conversation is written:
a tokenizer's chat template does, and the format is derived from that; the response template is then held against it.

What may be missing is generated where nothing else ends a name, and inside of tags: values end there.

Refused, with the reason: anchors that are more than texts, white space, choices, named groups, any number of characters
(``[^<]*``, ``.*?`` before a text) and look-aheads; parsers of content other than text, JSON and ``xml-inline``.
Source: ``transformers.utils.chat_parsing`` of 5.23; its documentation, chat_response_parsing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from constrained.deriving.pair import Pair
from constrained.deriving.response import pattern_of

from constrained.errors import ConstrainedError, GrammarError, shown
from constrained.formats.message import Message, ToolCall

if TYPE_CHECKING:
    from constrained.formats.load import ChatFormat

_TOKEN = re.compile(
    r"<(?:[|｜][^<>\n]{1,60}?|[^<>\n]{1,60}?[|｜])>|\[\|[^\[\]\n]{1,40}\|\]|\[/?[A-Z][A-Z_]{2,30}\]"
    r"|</s>|<end_of_turn>|<eos>"
)
_TAG = re.compile(r"</?[^<>\s=/]{1,40}>")
_GROUP = re.compile(r"\(\?P<(\w+)>")
_REASONING = ("thinking", "reasoning_content", "reasoning")
_WHERE = "the response template"


class Anchor(NamedTuple):
    """A text that is generated, the symbols of all that is read in its place, and a text with what may be missing."""

    least: str
    read: str
    most: str = ""

    @property
    def full(self) -> Anchor:
        return self._replace(least=self.most)


def _refused(because: str, where: str | None = None) -> GrammarError:
    return GrammarError(
        "cannot make a chat format of a response template",
        where=where,
        because=because,
        instead="ChatFormat.load, of files of yours",
    )


# -- anchors -----------------------------------------------------------------------------------------------------------


class _Pattern:
    """A pattern of texts, white space, choices and what may be missing."""

    def __init__(self, text: str, where: str, literal: Callable[[str], str]) -> None:
        self.text, self.where, self.literal, self.at = text, where, literal, 0

    def anchor(self) -> Anchor:
        found = self.choice()
        if self.at < len(self.text):
            raise _refused(f"{self.text[self.at :]!r} stands in a pattern", self.where)
        return found

    def choice(self) -> Anchor:
        ways = [self.sequence()]
        while self.text[self.at : self.at + 1] == "|":
            self.at += 1
            ways.append(self.sequence())
        if len(ways) == 1:
            return ways[0]
        return ways[0]._replace(read="(" + " | ".join(way.read for way in ways) + ")")

    def sequence(self) -> Anchor:
        parts, texts = list[Anchor](), ""
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            atom, is_text = self.atom()
            often = self.text[self.at : self.at + 1]
            if often and often in "?*+":
                self.at += 1
                self.at += self.text[self.at : self.at + 1] == "?"
                read = self.literal(atom.least) if is_text else atom.read
                read = read if read.endswith("?") else f"({read}){often}"  # white space is read as all that there is
                atom = atom._replace(read=read) if often == "+" else Anchor("", read, atom.most if often == "?" else "")
                is_text = False
            if is_text:
                texts += atom.least
                continue
            parts += [*([Anchor(texts, self.literal(texts), texts)] if texts else []), atom]
            texts = ""
        parts += [Anchor(texts, self.literal(texts), texts)] if texts else []
        least, most = ("".join(getattr(part, each) for part in parts) for each in ("least", "most"))
        return Anchor(least, " ".join(part.read for part in parts if part.read), most)

    def atom(self) -> tuple[Anchor, bool]:
        """Return the next part, and whether it is a character of a text."""
        text, at = self.text, self.at
        if text.startswith(("(?:", "(?="), at):
            self.at += 3
            found = self.choice()
            if text[self.at : self.at + 1] != ")":
                raise _refused("a group of a pattern is not closed", self.where)
            self.at += 1
            if text[at + 2] == "=":  # it reads nothing
                return Anchor("", ""), False
            return found._replace(read=f"({found.read})" if found.read else ""), False
        if text.startswith("\\s", at):
            self.at += 2
            return Anchor(" ", "SPACE_OR_LINE?"), False
        if text[at] in "[.":
            return self.run(), False
        if (
            text[at] == "\\"
            and (text[at + 1 : at + 2] in "nt" or not text[at + 1 : at + 2].isalnum())
            and text[at + 1 :]
        ):
            self.at += 2
            character = {"n": "\n", "t": "\t"}.get(text[at + 1], text[at + 1])
            return Anchor(character, "", character), True
        if text[at] in "^$](){}\\+*?":
            raise _refused(f"{text[at:]!r} stands in a pattern", self.where)
        self.at += 1
        return Anchor(text[at], "", text[at]), True

    def run(self) -> Anchor:
        """Return how any number of characters are read: of a class (`[…]*`), or up to the text behind them (`.*?`)."""
        found = re.compile(r"(\[\^?\]?(?:\\.|[^\]\\])*\])\*\??|\.\*\?").match(self.text, self.at)
        behind, begun, first = "", found.end() if found else self.at, self.at
        self.at = begun
        while found and not found[1] and self.text[self.at : self.at + 1] not in (*"|)[.", ""):
            atom, is_text = self.atom()
            if not is_text or self.text[self.at : self.at + 1] in (*"?*+",):
                break
            behind += atom.least
        if found is None or not (found[1] or behind):
            raise _refused(f"{self.text[first:]!r} stands in a pattern", self.where)
        self.at = begun
        one = found[1].replace("/", "\\/") if found[1] else f"({_without(behind)})"
        return Anchor("", f"/{one}+/?")


def _split(pattern: str, where: str) -> list[str]:
    """Return a pattern cut at its named groups: text, name, what the group matches, text, …"""
    parts, at = [], 0
    for found in _GROUP.finditer(pattern):
        depth, end = 1, found.end()
        while depth and end < len(pattern):
            step = pattern[end]
            end += 2 if step == "\\" else 1
            if step == "[":
                end = pattern.index("]", end + 1) + 1
            depth += (step == "(") - (step == ")")
        if depth or found.start() < at:
            raise _refused("a named group stands in another one", where)
        parts += [pattern[at : found.start()], found[1], pattern[found.end() : end - 1]]
        at = end
    return [*parts, pattern[at:]]


# -- the format --------------------------------------------------------------------------------------------------------


@dataclass
class _Format:
    """The rules of a response template; `doubts`: what it does not say, or reads otherwise."""

    template: Mapping[str, Any]
    name: str
    stop: tuple[str, ...]
    special: tuple[str, ...]

    def __post_init__(self) -> None:
        fields = self.template.get("fields")
        if not isinstance(fields, Mapping) or not fields:
            raise _refused("it has no fields", _WHERE)
        self.fields: Mapping[str, Any] = fields
        self.doubts = {"conversations": "a response template does not say how they are written: they are not rendered"}
        self.stops = self.stop or self.told_stops()
        texts = _GROUP.sub("(", json.dumps(self.template, ensure_ascii=False)).replace("\\\\", "")
        found = dict.fromkeys(
            json.loads(f'["{each}"]')[0] for each in (*_TOKEN.findall(texts), *_TAG.findall(texts)) if '"' not in each
        )
        self.tokens = tuple(dict.fromkeys((*self.stops, *(text for text in self.special if text in texts))))
        self.markers = tuple(text for text in found if text not in self.tokens)
        self.terminals: dict[str, str] = {}

    def told_stops(self) -> tuple[str, ...]:
        """Return the tokens that close what a user sees."""
        field = self.fields.get("content", {})
        closes = field.get("close", ())
        closes = [closes] if isinstance(closes, str) else [*closes]
        closes += re.findall(_TOKEN, field.get("close_pattern", "").replace("\\", ""))
        tokens = tuple(dict.fromkeys(text for text in closes if _TOKEN.fullmatch(text)))
        if field.keys() & {"open", "open_pattern"}:
            tokens = tokens[1:]  # the first closes the region
        if not tokens:
            raise _refused("no token ends a turn: stop=[…] names those that do", f"{_WHERE}, fields.content")
        return tokens

    # -- anchors ---------------------------------------------------------------------------------------------------

    def literal(self, text: str) -> str:
        """Return the symbols of a text, tokens and markers apart."""
        cut = sorted({*self.tokens, *self.markers}, key=len, reverse=True)
        parts = [part for part in re.split("(" + "|".join(map(re.escape, cut)) + ")", text) if part] if cut else [text]
        return " ".join(self.terminal(part) if part in cut else json.dumps(part, ensure_ascii=False) for part in parts)

    def terminal(self, text: str) -> str:
        if text not in self.terminals:
            words = re.sub(r"[^0-9A-Za-z]+", "_", text).strip("_").upper() or "TOKEN"
            name = ("UN" if "/" in text[:3] else "") + f"T_{words}"
            while name in self.terminals.values():
                name += "_"
            self.terminals[text] = name
        return self.terminals[text]

    def pattern(self, text: str, where: str) -> Anchor:
        return _Pattern(text, where, self.literal).anchor()

    def anchor(self, name: str, key: str) -> Anchor:
        """Return what opens or closes a region: nothing, texts or a pattern without groups."""
        field, where = self.fields[name], f"{_WHERE}, fields.{name}.{key}"
        if f"{key}_pattern" in field:
            return self.pattern(field[f"{key}_pattern"], f"{where}_pattern")
        texts = field.get(key, ())
        texts = [texts] if isinstance(texts, str) else [*texts]
        texts = [text for text in texts if text not in self.stops] if key == "close" else texts
        read = " | ".join(map(self.literal, texts))
        return Anchor(texts[0] if texts else "", f"({read})" if len(texts) > 1 else read)

    # -- files -----------------------------------------------------------------------------------------------------

    def pair(self) -> Pair:
        thoughts = [name for name in self.fields if name not in ("content", "tool_calls")]
        thought = next((name for name in _REASONING if name in thoughts), thoughts[0] if thoughts else None)
        if len(thoughts) > 1:
            raise _refused(f"it has the fields {', '.join(thoughts)}; one is a thought", _WHERE)
        if "content" not in self.fields:
            self.doubts["content"] = "it has no region for what a user sees: all that is in no other is read as that"
        calls = _Calls(self) if "tool_calls" in self.fields else None
        rules = [*self.turns(calls), *self.thinking(thought), *(calls.rules() if calls else [])]
        rules += [f"{name}: {json.dumps(text, ensure_ascii=False)}" for text, name in self.terminals.items()]
        head = f"// Made from the response template of {self.name}."
        lark = "\n".join([head, "", *rules, "%import .code.SPACE_OR_LINE", *(calls.imports() if calls else []), ""])
        return Pair(self.name, lark, "\n".join([*self.definition(thought, calls), ""])).with_doubts(self.doubts)

    def turns(self, calls: _Calls | None) -> list[str]:
        stops = " | ".join(map(self.literal, self.stops))
        said = [
            self.anchor("content", key) if "content" in self.fields and self.explicit else Anchor("", "")
            for key in ("open", "close")
        ]
        content = " ".join(
            part
            for part in (
                self.literal(said[0].least) if said[0].least else "",
                "content",
                self.literal(said[1].least) if said[1].least else "",
            )
            if part
        )
        read = " ".join(part for part in (said[0].read, "content", said[1].read) if part)
        rules = [
            "assistant_turn: answer | calling" if calls else "assistant_turn: answer",
            f"answer: thinking {content} end",
        ]
        rules += ["any_assistant_turn: any_answer | any_calling" if calls else "any_assistant_turn: any_answer"]
        rules += [f"any_answer: any_thinking ({read})? SPACE_OR_LINE? end", f"end: {stops}"]
        if calls:
            rules += [f"calling: thinking preface? {calls.listed} end", f"preface: {content}"]
            rules += [f"any_calling: any_thinking ({read})? SPACE_OR_LINE? {calls.any_listed} SPACE_OR_LINE? end"]
        held = "|".join(dict.fromkeys(map(_slashed, (*self.markers, *(calls.begins if calls else ())))))
        return [*rules, "content: TEXT", f"TEXT: /((?!{held})[\\s\\S])+/" if held else "TEXT: /[\\s\\S]+/", ""]

    @property
    def explicit(self) -> bool:
        return bool(self.fields["content"].keys() & {"open", "open_pattern"})

    def thinking(self, name: str | None) -> list[str]:
        if name is None:
            return ["thinking:", "any_thinking: SPACE_OR_LINE?", ""]
        opens, closes = (self.anchor(name, key) for key in ("open", "close"))
        if not opens.least or not closes.least:
            raise _refused("nothing opens or closes a thought", f"{_WHERE}, fields.{name}")
        held = "|".join(dict.fromkeys(map(_slashed, (opens.least, closes.least))))
        return [
            "thinking: thought_block?",
            f"thought_block: {self.literal(opens.least)} thought {self.literal(closes.least)}",
            f"any_thinking: SPACE_OR_LINE? ({opens.read} SPACE_OR_LINE? thought {closes.read} SPACE_OR_LINE?)?",
            "thought: THOUGHT?", f"THOUGHT: /((?!{held})[\\s\\S])+/", "",
        ]  # fmt: skip

    def definition(self, thought: str | None, calls: _Calls | None) -> list[str]:
        lines = [f"title = {json.dumps(self.name, ensure_ascii=False)}", 'specification = "its response template"']
        lines += [
            f"specials = {_list(self.tokens)}",
            f"markers = {_list(text for text in self.markers if text in self.terminals)}",
        ]
        lines += [
            "",
            "[stops]",
            f"answer = {_list(self.stops)}",
            *([f"calling = {_list(self.stops)}"] if calls else []),
        ]
        if calls:
            lines += ["", "[payload]", f'surface = "{calls.surface}"', f'name = "{calls.naming}"', *calls.quote]
            lines += ["", "[notes]", f"transformers = {json.dumps('; '.join(calls.notes))}"]
            lines += ["", "[calls]", 'repeat = "more_calls"', 'next = "next_call"'] if calls.repeats else []
        if thought is not None:
            lines += [
                "",
                "[thoughts]",
                'reasoning = "thought"',
                "",
                "[reasoning]",
                'rule = "thinking"',
                'block = "thought_block"',
            ]
            lines += [f"prompt = {json.dumps(self.anchor(thought, 'open').least, ensure_ascii=False)}"]
        return [*lines, ""]


_QUOTED = r"""
quoted_object: "{" (quoted_member ("," quoted_member)*)? "}"
quoted_member: KEY ":" quoted_value
quoted_value: QUOTE STRING? QUOTE | JSON_NUMBER | "true" | "false" | "null" | quoted_object | quoted_array
quoted_array: "[" (quoted_value ("," quoted_value)*)? "]"
KEY: /[^\s<>"'=\/&,:{}\[\]|\\]+/
"""


class _Calls:
    """How calls are written: what opens and closes one, where its name stands, and how its arguments are spelled."""

    def __init__(self, of: _Format) -> None:
        self.of, self.field = of, of.fields["tool_calls"]
        self.notes = ["it reads a string as a value of another type, where the schema allows that too"]  # transformers
        self.where = f"{_WHERE}, fields.tool_calls"
        self.content, self.given = self.field.get("content", "text"), self.field.get("content_args") or {}
        if self.content not in ("json", "xml-inline"):
            raise _refused(f"its content is {shown(self.content)}", self.where)
        content = of.fields.get("content", {})
        if "$" in content.get("close_pattern", "").replace("\\$", ""):
            self.notes.append("in pieces it loses what stands before a line break in an answer")
        if content and not content.keys() & {"close", "close_pattern"}:
            self.notes.append("it reads the token that ends a turn as part of the answer, or for it")
        self.listed_at_once = bool(self.field.get("transform_each"))
        self.repeats = self.listed_at_once or bool(self.field.get("repeats"))
        self.name, self.arguments = self.places()
        self.delimiters = self.given.get("string_delims") or []
        self.surface = "tagged" if self.content == "xml-inline" else "quoted" if self.delimiters else "json"
        self.naming = "raw" if self.name is None else "json"
        self.opens, self.group, self.behind = self.opening()
        closed = not self.field.get("close_pattern", "").startswith("(?=")
        self.closes = of.anchor("tool_calls", "close") if closed else Anchor("", "")
        self.begins = [self.opens.least.strip()]
        if not self.begins[0]:
            raise _refused("nothing opens a call", self.where)

    def places(self) -> tuple[str | None, str]:
        """Return the keys of a call's name and arguments; None: the name stands before its arguments."""
        transform = self.field.get("transform") or {}
        function = transform.get("function", transform) if isinstance(transform, Mapping) else None
        if function == "{content}" and not self.listed_at_once:
            return "name", "arguments"
        scope = "" if self.listed_at_once else "content."
        said = [function.get(key) for key in ("name", "arguments")] if isinstance(function, Mapping) else []
        keys = [found[1] if (found := re.fullmatch(rf"\{{{scope}(\w+)\}}", text or "")) else None for text in said]
        if said[1:] == ["{content}"] and re.fullmatch(r"\{\w+\}", said[0] or ""):
            return None, ""
        if len(keys) < 2 or not all(keys):
            raise _refused(f"its transform is {shown(transform)}", self.where)
        return keys[0], str(keys[1])

    def opening(self) -> tuple[Anchor, str, Anchor]:
        """Return what stands before a name, the pattern of names, and what stands behind it."""
        if self.name is not None:
            return self.of.anchor("tool_calls", "open"), "", Anchor("", "")
        parts = _split(self.field.get("open_pattern", ""), f"{self.where}.open_pattern")
        if len(parts) != 4:
            raise _refused("no named group has the name of a call", f"{self.where}.open_pattern")
        before, behind = (self.of.pattern(part, f"{self.where}.open_pattern") for part in (parts[0], parts[3]))
        behind = behind if behind.least else behind.full  # it ends the name
        return before, _spelled(parts[2], behind.least), behind

    @property
    def listed(self) -> str:
        if self.listed_at_once:
            return (
                f'{self.of.literal(self.opens.least)} "[" tool_call more_calls "]" {self.of.literal(self.closes.least)}'
            )
        return "tool_call more_calls" if self.repeats else "tool_call"

    @property
    def any_listed(self) -> str:
        if self.listed_at_once:
            between = '(JSON_SPACE? "," JSON_SPACE? any_tool_call)*'
            listed = f'"[" JSON_SPACE? any_tool_call {between} JSON_SPACE? "]"'
            return f"{self.opens.read} JSON_SPACE? {listed} JSON_SPACE? {self.closes.read}"
        return "any_tool_call (SPACE_OR_LINE? any_tool_call)*" if self.repeats else "any_tool_call"

    def rules(self) -> list[str]:
        of, alone = self.of, not self.listed_at_once
        opens, closes = (of.literal(each.least) if alone and each.least else "" for each in (self.opens, self.closes))
        any_opens, any_closes = (f"{each.read} " if alone else "" for each in (self.opens, self.closes))
        rules = (
            [
                "more_calls: (next_call more_calls)?",
                f"next_call: {'tool_call' if alone else chr(34) + ', ' + chr(34) + ' tool_call'}",
            ]
            if self.repeats
            else []
        )
        rules += ["tool_call: call{name, arguments}", "any_tool_call: any_call{any_name, any_arguments}"]
        space = "SPACE_OR_LINE?" if alone else ""
        if self.name is None:
            tool = f"tool {of.literal(self.behind.least) if self.behind.least else ''}"
            any_tool = f"tool {self.behind.read}"
            rules += ["name: NAME", "any_name: NAME", f"NAME: /{self.group}/".replace("\n", "\\n")]
            close = "" if self.surface == "tagged" else closes
            rules += [f"call{{tool, parameters}}: {opens} {tool} parameters {close}"]
            rules += [f"any_call{{tool, parameters}}: {any_opens} {any_tool} {space} parameters {space} {any_closes}"]
        else:
            keys = [json.dumps(json.dumps(key) + ": ") for key in (self.name, self.arguments)]
            first, second = (
                f'{json.dumps(json.dumps(key))} JSON_SPACE? ":" JSON_SPACE?' for key in (self.name, self.arguments)
            )
            one = f'"{{" {keys[0]} "\\"" tool "\\", " {keys[1]} parameters "}}"'
            other = f'"{{" JSON_SPACE? {first} "\\"" tool "\\"" JSON_SPACE? "," JSON_SPACE? {second}'
            rules += ["name: JSON_NAME", "any_name: ANY_JSON_NAME"]
            rules += [f"call{{tool, parameters}}: {opens} {one} {closes}"]
            ends = f'parameters JSON_SPACE? "}}" {space} {any_closes}'
            rules += [f"any_call{{tool, parameters}}: {any_opens} {space} {other} {ends}"]
        return [*rules, *getattr(self, f"_{self.surface}")(closes)]

    def _json(self, closes: str) -> list[str]:
        return ["arguments: json_object", "any_arguments: any_json_object"]

    def _quoted(self, closes: str) -> list[str]:
        ((first, second),) = self.delimiters if len(self.delimiters) == 1 else [("", "")]
        if not first or first != second or not self.given.get("unquoted_keys"):
            raise _refused(f"strings stand between {shown(self.delimiters)}", self.where)
        self.of.tokens = (*self.of.tokens, first)
        self.notes.append("it refuses strings with the control characters 1 and 2")
        rules = ["arguments: quoted_object", "any_arguments: quoted_object", *_QUOTED.strip().split("\n")]
        return [
            *rules,
            f"STRING: /({_without(first)})+/",
            f"QUOTE: {json.dumps(first, ensure_ascii=False)}",
        ]

    def _tagged(self, closes: str) -> list[str]:
        where = f"{self.where}.content_args.tag_pattern"
        parts = _split(self.given.get("tag_pattern", ""), where)
        if parts[1:7:3] != ["key", "value"]:
            raise _refused("a tag has a key and a value, in this order", where)
        before, middle, behind = (self.of.pattern(parts[at], where).full for at in (0, 3, 6))
        if not behind.least:
            raise _refused("nothing ends a value", where)
        parser = (self.given.get("value_parser") or {}).get("name")
        if parser not in (None, "json", "text"):
            raise _refused(f"its values are read by {shown(parser)}", where)
        if parser == "json":
            self.notes.append("it reads a string that is JSON as that value")
        if "function" not in (self.field.get("transform") or {}):
            self.notes.append("it reads every value as a string, as its calls have no function whose schema says more")
        if parser or parts[3].endswith("\\s*") or parts[6].startswith("\\s*"):
            self.notes.append("it takes white space from the ends of a string")
        loose = "SPACE_OR_LINE?"
        lit, spelled = self.of.literal, _spelled(parts[2], middle.least).replace("\n", "\\n")
        return [
            "arguments: member* arguments_close", f"arguments_close: {closes or chr(34) * 2}",
            "any_arguments: (any_member SPACE_OR_LINE?)*",
            f"member: {lit(before.least)} key {lit(middle.least) if middle.least else ''} value {lit(behind.least)}",
            f"any_member: {before.read} key {middle.read.removesuffix(loose)} value {behind.read.removeprefix(loose)}",
            "key: KEY", "value: VALUE?", f"KEY: /{spelled}/", f"VALUE: /({_without(behind.least.strip())})+/",
        ]  # fmt: skip

    @property
    def quote(self) -> list[str]:
        return [f"quote = {json.dumps(self.delimiters[0][0], ensure_ascii=False)}"] if self.surface == "quoted" else []

    def imports(self) -> list[str]:
        names = {"json": ["json_object", "any_json_object"], "quoted": ["JSON_NUMBER"], "tagged": []}[self.surface]
        names = [*names, *(["JSON_NAME", "ANY_JSON_NAME"] if self.name is not None else []), "JSON_SPACE"]
        return [f"%import .json ({', '.join(dict.fromkeys(names))})"]


def _spelled(pattern: str, behind: str) -> str:
    """Return the pattern of a name or a key that is read as shortly as can be, up to the text behind it."""
    found = re.fullmatch(r"(.|\\.|\[.*\])[*+]\?", pattern)
    one = found[1] if found else ""
    return pattern if not one else f"({_without(behind)})+" if one == "." else f"{one}+"


def _without(text: str) -> str:
    """Return the pattern of a character with which a text does not begin."""
    return f"(?!{_slashed(text)})[\\s\\S]"


def _list(texts: Iterable[str]) -> str:
    return json.dumps([*texts], ensure_ascii=False)


def _slashed(text: str) -> str:
    """Return the pattern of a text, as it stands between slashes."""
    return pattern_of(text).replace("/", "\\/").replace("\n", "\\n")


def from_regions(
    given: Any, load: Callable[..., ChatFormat], stop: Sequence[str] | str | None, template: Callable[..., ChatFormat]
) -> ChatFormat:
    """Return the format of a response template, or of a tokenizer that has one; load, template: `ChatFormat`'s own.

    Raises: GrammarError: it has none, or says what no format here has.
    """
    from constrained.deriving.derive import loaded

    stops = (stop,) if isinstance(stop, str) else tuple(stop or ())
    if isinstance(given, Mapping):
        return loaded(_Format(given, "response-template", stops, ()).pair(), load)
    told = getattr(given, "response_template", None)
    if not isinstance(told, Mapping):
        raise _refused(f"{shown(given)} has no response_template", "the tokenizer")
    special = tuple(getattr(given, "all_special_tokens", ()))
    stops = stops or tuple(filter(None, [getattr(given, "eos_token", None)]))
    name = str(getattr(given, "name_or_path", "") or "response-template").rstrip("/").rpartition("/")[2]
    read = _Format(told, name, stops, special)
    if getattr(given, "chat_template", None) is None:
        return loaded(read.pair(), load)
    chat = template(given, stop=stop)
    return held_against(chat, loaded(read.pair(), load), load)


def held_against(chat: ChatFormat, read: ChatFormat, load: Callable[..., ChatFormat]) -> ChatFormat:
    """Return the format of a chat template; its doubts tell which turns a response template reads otherwise."""
    from constrained.deriving.derive import loaded

    doubts = dict(chat.definition.doubts)
    asked = Message("So."), Message("", [ToolCall("f", {"a": "x", "n": 1})]), Message("So.", [ToolCall("f", {})])
    tools = [
        {
            "name": "f",
            "parameters": {"type": "object", "properties": {"a": {"type": "string"}, "n": {"type": "integer"}}},
        }
    ]
    for message in asked:
        try:
            text = chat.write(message, tools)
            found = read.parse(text, tools)
        except ConstrainedError as error:
            doubts[f"the response template, {_told(message)}"] = str(error).split("\n")[0]
            continue
        if (found.content.strip(), [call.arguments for call in found.tool_calls]) != (
            message.content,
            [call.arguments for call in message.tool_calls],
        ):
            doubts[f"the response template, {_told(message)}"] = f"it reads {text!r} as {found}"
    names = {path.rpartition(".")[2]: text for path, text in chat.files.items()}
    pair = Pair(chat.name, names["lark"], names["toml"].partition("\n[doubts]")[0] + "\n")
    return loaded(pair.with_doubts(doubts), load)


def _told(message: Message) -> str:
    return " and ".join([*(["an answer"] if message.content else []), *(["a call"] if message.tool_calls else [])])
