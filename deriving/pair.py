"""`Shape` → the two files of a format, as a person would write them: NAME.lark and NAME.toml.

Rules have the names that the shipped grammars use.  What is generated is what the template prints; what readers take
besides are other spellings of JSON, and white space where the template prints some.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from constrained.deriving.probes import ANSWERED, ID, SPEAKER, Around, Calls, Shape, Unexplained
from constrained.deriving.template import Template

_TOKEN = re.compile(
    r"<[|｜][^<>\n]{1,60}?[|｜]>|\[\|[^\[\]\n]{1,40}\|\]|\[/?[A-Z][A-Z_]{2,30}\]"
)  # as most vocabularies spell special tokens
_TAG = re.compile(r"</?[^<>\s=/][^<>\s=]{0,40}>")
_NAME = r"[\w.-]+"
# What stands for the calls of a template that prints none.
_NONE = Calls("none", False, "", None, "", "", Around("", ""), "", None, prefixed=True, text_prefixed=True)
_ARGUMENTS = {"json": r"\{", "python": r"\(", "tagged": ""}  # how arguments begin


@dataclass(frozen=True, slots=True)
class Pair:
    """The texts of both files."""

    name: str
    lark: str
    toml: str

    @property
    def files(self) -> dict[str, str]:
        """The texts by the names of the files."""
        return {f"{self.name}.lark": self.lark, f"{self.name}.toml": self.toml}

    def with_doubts(self, doubts: Mapping[str, str]) -> Pair:
        """Return the pair, whose definition lists what the template does otherwise or does not say."""
        if not doubts:
            return self
        lines = [f"{_quoted(what)} = {_quoted(why)}" for what, why in doubts.items()]
        return replace(self, toml="\n".join([self.toml, "[doubts]", *lines, ""]))


@dataclass
class _Writer:
    shape: Shape
    calls: Calls
    template: Template
    tokens: tuple[str, ...]
    stops: _Stops
    markers: tuple[str, ...]
    terminals: dict[str, str] = field(default_factory=dict)  # text → name

    # -- Literals ---------------------------------------------------------------------------------------------------

    def literal(self, text: str) -> str:
        """Return the symbols that write a text: tokens and markers by the names of their terminals, slots as rules."""
        cut = sorted({*self.tokens, *self.markers, *_SLOTS}, key=len, reverse=True)
        parts = [part for part in re.split("(" + "|".join(map(re.escape, cut)) + ")", text) if part]
        return " ".join(_SLOTS.get(part) or (self._named(part) if part in cut else _quoted(part)) for part in parts)

    def _named(self, text: str) -> str:
        if text not in self.terminals:
            words = re.sub(r"[^0-9A-Za-z]+", "_", text).strip("_").upper() or "TOKEN"
            name = ("UN" if "/" in text[:3] else "") + (words if words[0].isalpha() else f"T_{words}")
            while name in self.terminals.values() or name in _TAKEN:
                name += "_"
            self.terminals[text] = name
        return self.terminals[text]

    def sequence(self, *parts: str) -> str:
        """Return rules and literals, which begin with ``=``, one behind the other."""
        return " ".join(found for part in parts if (found := self.literal(part[1:]) if part[:1] == "=" else part))


_SLOTS = {ID: "number", ANSWERED: "answered", SPEAKER: "speaker"}
_TAKEN = {"TEXT", "THOUGHT", "NAME", "KEY", "VALUE", "ANYTHING", "RESULT", "ID"}


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def pair_of(shape: Shape, template: Template, stop: Sequence[str]) -> Pair:
    """Return the files.  Raises: Unexplained: no token ends a turn."""
    calls = shape.calls or _NONE
    tokens = _tokens_of(shape, template)
    stops = _stops_of(shape, calls, template, tokens, stop)
    tokens = tuple(dict.fromkeys((*tokens, *stops.all)))
    writer = _Writer(shape, calls, template, tokens, stops, _markers_of(shape, tokens))
    rules = [*_turns(writer), "", *_conversations(writer), "", *_read(writer), ""]
    rules += [f"{name}: {_quoted(text)}" for text, name in writer.terminals.items()]
    imports = _imports(writer)
    lark = "\n".join(
        [f"// Derived from the chat template of {template.name} by `constrained derive`.", "", *rules, *imports, ""]
    )
    return Pair(template.name, lark, _toml(writer))


# -- Tokens --------------------------------------------------------------------------------------------------------


def _literals(shape: Shape) -> list[str]:
    """Return all texts of a shape."""
    system, thoughts, calls, results = shape.system, shape.thoughts, shape.calls, shape.results
    found = [shape.begin, shape.default_system, shape.user.open, shape.user.close, shape.header, shape.mid, shape.last]
    found += [shape.current, shape.close, shape.prompt, shape.calls_end]
    found += [system.open, system.close] if system else []
    found += [thoughts.around.open, thoughts.around.close, thoughts.close_before_call] if thoughts else []
    if calls:
        found += [
            calls.before,
            calls.between or "",
            calls.open,
            calls.close,
            calls.call.open,
            calls.call.close,
            calls.middle,
        ]
        found += [
            calls.separator or "",
            *calls.member,
            *(text for _, text in calls.openings),
            calls.arguments_close,
            calls.no_arguments or "",
        ]
    if results:
        found += [results.around.open, results.around.close, results.each.open, results.each.close, results.separator]
    return found


def _tokens_of(shape: Shape, template: Template) -> tuple[str, ...]:
    """Return the special tokens: those that somebody told and that the format has, and what is spelled like one."""
    texts = _literals(shape)
    spelled = [token for text in texts for token in _TOKEN.findall(text)]
    if not template.told:
        system = shape.system
        outer = [
            shape.begin,
            shape.user.open,
            shape.user.close,
            shape.header,
            shape.close,
            *([system.open, system.close] if system else []),
        ]
        spelled += [tag for text in outer for tag in _TAG.findall(text)]
    known = [
        token
        for token in template.specials
        if any(token in text for text in texts) and (_TOKEN.fullmatch(token) or not _TAG.fullmatch(token))
    ]
    named = [
        text
        for name, text in template.tokens.items()
        if name in ("bos_token", "eos_token") and any(text in held for held in texts)
    ]
    return tuple(dict.fromkeys((*named, *known, *spelled)))


class _Stops(NamedTuple):
    """The tokens that end answers, and those that end turns of calls."""

    answers: tuple[str, ...]
    calls: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.answers, *self.calls)))


def _stops_of(shape: Shape, calls: Calls, template: Template, tokens: tuple[str, ...], stop: Sequence[str]) -> _Stops:
    """Return the tokens that end turns: the last of what closes one, else what begins the next message."""
    if stop:
        return _Stops(tuple(stop), tuple(stop))
    if shape.close:
        answers = [token for token in _split(shape.close, tokens) if token in tokens] or _TAG.findall(shape.close)
        closing = (calls.close + shape.calls_end).rstrip()
        closed = [token for token in tokens if closing.endswith(token)] or answers
        if answers:
            return _Stops((answers[-1],), (closed[-1],))
    else:
        results = shape.results.around.open + shape.results.each.open if shape.results else ""
        users, answered = ([token for token in tokens if text.startswith(token)] for text in (shape.user.open, results))
        eos = [text for name, text in template.tokens.items() if name == "eos_token" and template.told]
        if users:
            return _Stops((*users, *eos), tuple(answered or (*users, *eos)))
    raise Unexplained("no token ends a turn of the assistant: stop=[…] names those that do")


def _split(text: str, cut: Iterable[str]) -> list[str]:
    named = sorted(cut, key=len, reverse=True)
    return re.split("(" + "|".join(map(re.escape, named)) + ")", text) if named else [text]


def _markers_of(shape: Shape, tokens: tuple[str, ...]) -> tuple[str, ...]:
    """Return the tags by which calls and thoughts are found, which some tokenizers have as tokens."""
    texts = [shape.thoughts.around.open, shape.thoughts.around.close] if shape.thoughts else []
    texts += [shape.calls.open, shape.calls.call.open, shape.calls.call.close, shape.calls.close] if shape.calls else []
    texts += [shape.calls.arguments_close] if shape.calls else []
    return tuple(dict.fromkeys(tag for text in texts for tag in _TAG.findall(text) if tag not in tokens))


# -- What is generated ---------------------------------------------------------------------------------------------


def _ending(writer: _Writer, text: str) -> tuple[str, str, str]:
    """Return what closes a turn: before its stop token, that, and what stands behind it."""
    parts = _split(text, writer.stops.all)
    places = [at for at, part in enumerate(parts) if part in writer.stops.all]
    if not places:
        return text, "", ""
    at = places[-1]
    return "".join(parts[:at]), parts[at], "".join(parts[at + 1 :])


def _turns(writer: _Writer) -> list[str]:
    shape, seq = writer.shape, writer.sequence
    calls = writer.calls
    closing, stop, _ = _ending(writer, shape.close)
    rules = [f"assistant_turn: answer{' | calling' if shape.calls else ''}", ""]
    ends = f"={stop}" if stop else "end"
    thinking = "thinking"
    rules.append(f"answer: {seq(thinking, 'content', f'={closing}', ends)}")
    if not shape.calls:
        rules += [f"end: {' | '.join(map(writer.literal, writer.stops.answers))}"] if ends == "end" else []
        return [*rules, "", *_thinking(writer), "", "content: TEXT", *_terminals(writer)]
    calls_closing, calls_stop, _ = _calls_ending(writer)
    alike = writer.stops.calls == writer.stops.answers
    calls_ends = f"={calls_stop}" if calls_stop else "end" if alike else "end_of_calls"
    body = _called(writer, calls_closing, calls_ends)
    rules.append(f"calling: {_calling(writer, _starts(writer, 'thinking'), body)}")
    if calls.between is not None:
        rules.append(f"preface: {seq('content', f'={calls.between}')}")
    for rule, tokens in (("end", writer.stops.answers), ("end_of_calls", writer.stops.calls)):
        if rule in (ends, calls_ends):
            rules.append(f"{rule}: {' | '.join(map(writer.literal, tokens))}")
    rules += _call_rules(writer)
    rules.append("")
    rules += _thinking(writer)
    rules += ["", "content: TEXT", "name: NAME", *_terminals(writer)]
    return rules


def _calls_ending(writer: _Writer) -> tuple[str, str, str]:
    """Return what closes a turn of calls, as `_ending` does."""
    calls = writer.calls
    return _ending(writer, calls.close + writer.shape.calls_end)


def _starts(writer: _Writer, thinking: str) -> tuple[str, str]:
    """Return the rules with which a turn of calls begins, without a text and with one."""
    shape = writer.shape
    calls, thoughts = writer.calls, shape.thoughts
    unlike = thoughts is not None and thoughts.close_before_call != thoughts.around.close
    bare = thinking if (calls.prefixed or not shape.last) and not unlike else f"{thinking}_before_call"
    return bare, thinking if calls.text_prefixed or not shape.last else f"{thinking}_before_text"


def _calling(writer: _Writer, starts: tuple[str, str], body: str) -> str:
    """Return the alternatives of a turn with calls."""
    calls = writer.calls
    before = writer.literal(calls.before)
    bare = " ".join(part for part in (starts[0], before, body) if part)
    if calls.between is None:
        return bare
    if not calls.before and starts[0] == starts[1]:
        return f"{starts[0]} preface? {body}"
    return f"{bare} | {starts[1]} preface {body}"


def _call_rules(writer: _Writer) -> list[str]:
    calls, seq = writer.calls, writer.sequence
    several = calls.separator is not None
    rules = [f"calls: {seq('tool_call', 'more_calls' if several else '')}"]
    if several:
        rules += ["more_calls: (next_call more_calls)?", f"next_call: {seq(f'={calls.separator}', 'tool_call')}"]
    first, second = ("parameters", "tool") if calls.arguments_first else ("tool", "parameters")
    around = seq(f"={calls.call.open}", first, f"={calls.middle}", second, f"={calls.call.close}")
    ids = _has_ids(writer.shape)
    rules += ["", f"tool_call: call{{name, arguments{', call_id' if ids else ''}}}"]
    rules.append(f"call{{tool, parameters{', number' if ids else ''}}}: {around}")
    if calls.surface == "json":
        rules.append("arguments: json_object")
    elif calls.surface == "python":
        rules.append("arguments: python_keywords")
    else:
        key, _, behind = calls.member
        none = calls.no_arguments
        rules.append(
            "arguments: member* arguments_close"
            if none is None
            else "arguments: member+ arguments_close | no_arguments"
        )
        rules.append(f"arguments_close: {writer.literal(calls.arguments_close)}")
        rules += [f"no_arguments: {writer.literal(none)}"] if none is not None else []
        kinds = _values(calls)
        written = [seq(f"={key}", "key", f"={opening}", slot, f"={behind}") for slot, opening in kinds]
        rules += [f"member: {' | '.join(written)}", "key: KEY", *(f"{slot}: VALUE?" for slot, _ in kinds)]
    if ids:
        rules.append("call_id: ID")
    return rules


def _called(writer: _Writer, closing: str, end: str) -> str:
    """Return the symbols of calls, from what opens the first to the end of the turn."""
    calls = writer.calls
    return writer.sequence(f"={calls.open}", "calls", f"={closing}", end)


def _values(calls: Calls) -> list[tuple[str, str]]:
    """Return the slots of values, and what stands before each."""
    opening, others = calls.member[1], dict(calls.openings)
    if not others:
        return [("value", opening)]
    if len(set(others.values())) == 1:
        return [("text_value", opening), ("json_value", next(iter(others.values())))]
    named = {"numbers": "number", "booleans": "boolean", "null": "null", "lists": "array", "objects": "object"}
    return [("text_value", opening), *((f"{named[kind]}_value", text) for kind, text in others.items())]


def _has_ids(shape: Shape) -> bool:
    calls = shape.calls
    return calls is not None and ID in calls.call.open + calls.middle + calls.call.close


def _thinking(writer: _Writer) -> list[str]:
    shape, seq = writer.shape, writer.sequence
    thoughts = shape.thoughts
    nothing = shape.mid if thoughts and shape.last == thoughts.around.open + thoughts.around.close else shape.last
    rules = _begun(writer, "thinking", nothing)
    if thoughts is not None:
        rules.append(f"thought_block: {seq(f'={thoughts.around.open}', 'thought', f'={thoughts.around.close}')}")
        if thoughts.close_before_call != thoughts.around.close:
            rules.append(
                f"thought_before_call: {seq(f'={thoughts.around.open}', 'thought', f'={thoughts.close_before_call}')}"
            )
        rules.append("thought: THOUGHT?")
    return rules


def _begun(writer: _Writer, rule: str, nothing: str) -> list[str]:
    """Return the rules of what a turn may begin with: an answer, calls alone, calls behind a text."""
    shape = writer.shape
    calls, thoughts = writer.calls, shape.thoughts
    starts = _starts(writer, rule)
    unlike = thoughts is not None and thoughts.close_before_call != thoughts.around.close
    thinks = thoughts is not None and thoughts.before_calls
    found = [f"{rule}: {_or_nothing('thought_block' if thoughts else '', writer.literal(nothing))}"]
    if starts[0] != rule:
        block = ("thought_before_call" if unlike else "thought_block") if thinks else ""
        found.append(f"{starts[0]}: {_or_nothing(block, writer.literal(nothing) if calls.prefixed else '')}")
    if starts[1] != rule and calls.between is not None:
        found.append(f"{starts[1]}: {_or_nothing('thought_block' if thinks else '', '')}")
    return found


def _or_nothing(block: str, literal: str) -> str:
    if not block:
        return literal
    return f"{literal} | {block}" if literal else f"{block}?"


def _terminals(writer: _Writer) -> list[str]:
    shape = writer.shape
    calls, thoughts = writer.calls, shape.thoughts
    kept_out = [*writer.markers]
    opening = (calls.open + calls.call.open).lstrip()
    starts = [token for token in (*writer.tokens, *writer.markers) if opening.startswith(token)]
    patterns = [re.escape(tag) for tag in kept_out]
    first = ""
    if not starts and shape.calls:
        begun = (
            _escaped(opening)
            + (_NAME + _escaped(calls.middle) if not calls.arguments_first else "")
            + _ARGUMENTS[calls.surface]
        )
        alike = calls.prefixed or not shape.last  # calls alone begin where texts do
        first = f"(?!{_slashed(_escaped(calls.before.lstrip()) + begun)})" if alike else ""
        patterns += [_escaped(calls.between) + begun] if calls.between is not None else []
    found = [f"TEXT: /{first}{_without(patterns)}+/"]
    if thoughts:
        ends = [
            tag
            for text in (thoughts.around.open, thoughts.around.close)
            for tag in _TAG.findall(text)
            if tag in writer.markers
        ]
        ends = ends or [thoughts.around.close.strip()] * (
            not any(token in thoughts.around.close for token in writer.tokens)
        )
        found.append(f"THOUGHT: /{_without([re.escape(tag) for tag in dict.fromkeys(ends)])}+/")
    if _in_quotes(shape):
        found.append("NAME: JSON_NAME")
    elif shape.calls:
        found.append(f"NAME: /{_NAME}/" if calls.surface != "python" else "NAME: PYTHON_DOTTED_NAME")
    if calls.surface == "tagged":
        found += [r"KEY: /[^\s<>\"'=]+/", f"VALUE: /{_without([_escaped(calls.member[2].strip())])}+/"]
    if _has_ids(shape) or shape.results and ANSWERED in shape.results.each.open + shape.results.each.close:
        found.append("ID: /[0-9]+/" if calls.counted is not None else "ID: /[A-Za-z0-9_.:-]+/")
    return found


def _in_quotes(shape: Shape) -> bool:
    """Return whether names of tools stand between the quotes of a JSON string."""
    calls = shape.calls or _NONE
    before, behind = (calls.middle, calls.call.close) if calls.arguments_first else (calls.call.open, calls.middle)
    return calls.surface == "json" and before.endswith('"') and behind.startswith('"')


def _without(patterns: Sequence[str]) -> str:
    """Return the pattern of a sign at which none of these begins."""
    return f"((?!{'|'.join(map(_slashed, patterns))})[\\s\\S])" if patterns else r"[\s\S]"


def _slashed(pattern: str) -> str:
    return pattern.replace("/", r"\/")


def _escaped(text: str) -> str:
    return re.escape(text).replace("\n", "n").replace("\\n", "\\n")


# -- Conversations -------------------------------------------------------------------------------------------------


def _conversations(writer: _Writer) -> list[str]:
    shape, seq = writer.shape, writer.sequence
    results = shape.results
    rules = [f"conversation: {seq('beginning', _order(shape))}"]
    begins = [writer.literal(shape.begin)]
    begun = "system_message" + ("" if shape.default_system else "?")
    silent = shape.system is not None and shape.system.open + shape.system.close == ""
    default = f"{seq(f'={shape.begin}', f'={shape.default_system}')} | " if shape.default_system else ""
    with_system = " ".join(part for part in (*begins, begun if shape.system else "") if part)
    rules.append(f"beginning: {default if shape.system else ''}{with_system}")
    if not shape.system and shape.default_system:
        rules[-1] += f" {writer.literal(shape.default_system)}"
    spoken = [*(["results"] if results else []), "user_message", "assistant_message"]
    rules.append(f"message: {' | '.join(spoken)}")
    if shape.system:
        said = "spoken_texts" if silent else "spoken_texts?"
        rules.append(f"system_message: {seq(f'={shape.system.open}', said, f'={shape.system.close}')}")
        rules.append("spoken_texts: ANYTHING")
    rules.append(f"user_message: {seq(f'={shape.user.open}', 'texts?', f'={shape.user.close}')}")
    rules += _assistants(writer)
    rules += _further(writer) if shape.goes_on else []
    if results:
        around, each = results.around, results.each
        going_on = "further_message?" if shape.goes_on else ""
        rules.append(f"results: {seq(f'={around.open}', 'tool_message', 'more_results', f'={around.close}', going_on)}")
        rules.append(f"more_results: {'(' + seq(f'={results.separator}', 'tool_message') + ' more_results)?'}")
        rules.append(f"tool_message: {seq(f'={each.open}', 'result?', f'={each.close}')}")
        held = results.around.open + results.each.open + results.each.close + results.separator
        rules += ["answered: ID"] if ANSWERED in held else []
        rules += ["speaker: NAME"] if SPEAKER in held else []
        rules.append("result: RESULT" if not results.quoted else "result: ANY_JSON_NAME")
        if not results.quoted:
            rules.append(f"RESULT: /{_result_text(writer)}+/")
    rules += ["texts: ANYTHING", r"ANYTHING: /[\s\S]+/"]
    return rules


def _result_text(writer: _Writer) -> str:
    results = writer.shape.results
    assert results is not None
    close = results.each.close or results.separator or results.around.close
    tags = _TAG.findall(close)
    if not close.strip() or any(token in close for token in writer.tokens) and not tags:
        return r"[\s\S]"
    return _without([re.escape(tags[0]) if tags else _escaped(close)])


def _order(shape: Shape) -> str:
    """Return the order of messages, by where turns without a thought begin unlike others."""
    if shape.mid == shape.current == shape.last:
        return "message*"
    if shape.current == shape.last:
        return "message* (user_message later_message*)?"
    return "message* last_message?"


def _assistants(writer: _Writer) -> list[str]:
    shape, seq = writer.shape, writer.sequence
    rules = []
    closing, stop, tail = _ending(writer, shape.close)
    calls_closing, calls_stop, calls_tail = _calls_ending(writer)

    def message(name: str, prefix: str, kept: str) -> None:
        starts = f"{kept}_thinking"
        said = f"{kept}_answer{_behind(writer, tail)}"
        said = f"({said} | {kept}_calling{_behind(writer, calls_tail)})" if shape.calls else said
        rules.append(f"{name}: {seq(f'={shape.header}', said)}")
        rules.append(f"{kept}_answer: {seq(starts, 'content', f'={closing}', f'={stop}')}")
        if shape.calls:
            body = _called(writer, calls_closing, f"={calls_stop}")
            rules.append(f"{kept}_calling: {_calling(writer, _starts(writer, starts), body)}")
        rules.extend(_begun(writer, starts, prefix))

    message("assistant_message", shape.mid, "past")
    if shape.mid == shape.current == shape.last:
        return rules
    if shape.current == shape.last:
        rules.append("later_message: results | current_message" if shape.results else "later_message: current_message")
        message("current_message", shape.last, "current")
    else:
        message("last_message", shape.last, "last")
    return rules


def _further(writer: _Writer) -> list[str]:
    """Return the rules of a turn behind results, where it has no header."""
    tail = _ending(writer, writer.shape.close)[2]
    calls_tail = _calls_ending(writer)[2]
    kept = "past" if writer.shape.mid == writer.shape.last else "current"
    return [f"further_message: {kept}_answer{_behind(writer, tail)} | {kept}_calling{_behind(writer, calls_tail)}"]


def _behind(writer: _Writer, text: str) -> str:
    return f" {writer.literal(text)}" if text else ""


# -- What readers take ---------------------------------------------------------------------------------------------


def _read(writer: _Writer) -> list[str]:
    calls = writer.calls
    if calls.surface in ("tagged", "none"):
        return []
    return [f"any_arguments: any_{'json_object' if calls.surface == 'json' else 'python_keywords'}"]


def _imports(writer: _Writer) -> list[str]:
    calls, results = writer.calls, writer.shape.results
    lines = []
    if calls.surface == "json":
        names = ["json_object", "any_json_object", *(["JSON_NAME"] if _in_quotes(writer.shape) else [])]
        names += ["ANY_JSON_NAME"] if results and results.quoted else []
        lines.append(f"%import .json ({', '.join(names)})")
    if calls.surface == "python":
        lines.append("%import .python (python_keywords, any_python_keywords, PYTHON_DOTTED_NAME)")
    if calls.surface != "json" and results and results.quoted:
        lines.append("%import .json (ANY_JSON_NAME)")
    return lines


# -- The definition ------------------------------------------------------------------------------------------------


def _toml(writer: _Writer) -> str:
    shape = writer.shape
    calls, thoughts, results = writer.calls, shape.thoughts, shape.results
    lines = [f"title = {_quoted(writer.template.name)}", 'specification = "its chat template"']
    starts = bool(thoughts) and _starts(writer, "thinking")[0] == "thinking"
    if thoughts and starts and shape.prompt:
        prompts = {thoughts.around.open: "think-open", shape.closed: "think-closed"}
        lines.append(f"prompt = {_quoted(prompts.get(shape.prompt, 'free'))}")
    lines.append("")
    lines += [f"specials = {_texts(writer.tokens)}", f"markers = {_texts(writer.markers)}", ""]
    calls_stop = _calls_ending(writer)[1]
    answer_stop = _ending(writer, shape.close)[1]
    lines += [
        "[stops]",
        f"answer = {_texts([answer_stop] if answer_stop else writer.stops.answers)}",
        *([f"calling = {_texts([calls_stop] if calls_stop else writer.stops.calls)}"] if shape.calls else []),
        "",
    ]
    name = "json" if _in_quotes(shape) else "python" if calls.surface == "python" else "raw"
    if shape.calls:
        lines += ["[payload]", f"surface = {_quoted(calls.surface)}", f"name = {_quoted(name)}", ""]
    if calls.separator is not None:
        lines += ["[calls]", 'repeat = "more_calls"', 'next = "next_call"']
        if _has_ids(shape):
            lines += ['all = "calls"', f"ids = {_quoted('unique' if calls.counted is None else 'counted')}"]
            lines += [f"first = {calls.counted}"] if calls.counted else []
            lines += ['per = "turn"'] if calls.per_turn else []
        lines.append("")
    if thoughts:
        lines += ["[thoughts]", 'reasoning = "thought"', ""]
    if thoughts and starts:
        lines += [
            "[reasoning]",
            'rule = "thinking"',
            'block = "thought_block"',
            f"prompt = {_quoted(thoughts.around.open)}",
            *([f"closed = {_quoted(shape.closed)}"] if shape.closed else []),
            "",
        ]
    lines += ["[messages]", *(['system_message = "system"'] if shape.system else []), 'user_message = "user"']
    lines += ['tool_message = "tool"'] if results else []
    lines.append('assistant_message = "assistant"')
    lines += ['further_message = "assistant"'] if shape.goes_on else []
    lines += ['current_message = "assistant"'] if shape.mid != shape.current == shape.last else []
    lines += ['last_message = "assistant"'] if shape.current == shape.mid != shape.last else []
    lines += ["", "[slots]", 'texts = "content"', *(['spoken_texts = "content"'] if shape.system else [])]
    lines += [f'result = "{"string_content" if results.quoted else "content"}"'] if results else []
    return "\n".join([*lines, *_words(shape), ""])


def _words(shape: Shape) -> list[str]:
    words = shape.words
    if words is None:
        return []
    lines = ["", "[tool_prompt.list]", f"role = {_quoted(words.role)}", f"place = {_quoted(words.place)}"]
    lines += [f"joined = {_quoted(words.joined)}", f"text = {_spoken(words.text)}"]
    lines += [f"otherwise = {_spoken(words.otherwise)}"] if words.otherwise else []
    lines += [f"tool = {_quoted(words.tool)}", f"between = {_quoted(words.between)}"] if words.tool else []
    lines += [f"indent = {words.indent}"] if words.indent is not None else []
    return [*lines, *(["enveloped = true"] if words.enveloped else [])]


def _spoken(text: str) -> str:
    """Return a text over several lines, as TOML writes it."""
    plain = '"""' not in text and not text.endswith('"')
    lines = [_quoted(line)[1:-1].replace('\\"', '"' if plain else '\\"') for line in text.split("\n")]
    return '"""\n' + "\n".join(lines) + '"""' if len(lines) > 1 else _quoted(text)


def _texts(texts: Iterable[str]) -> str:
    return "[" + ", ".join(map(_quoted, texts)) + "]"
