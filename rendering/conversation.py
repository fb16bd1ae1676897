"""Messages → the canonical text of a conversation, in pieces: structure or content, learned by a model or not.

The writer searches the format's rule ``conversation`` for a derivation that says all messages in their order and
nothing else.  A piece is structure only if it stands in the grammar, so whatever a message holds can never become a
special token.

A model learns what it would generate: the turn of an assistant behind its header, up to and including the token that
ends it, also where that token begins the next message (`Span`).  A header is the fixed text at the beginning of an
assistant's message.

Tested in tests/test_render.py: what is rendered is read back as the same messages, whatever they hold.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

from constrained.rendering.arguments import write_json
from constrained.rendering.turn import derive, fits, misread, write_call, written_id

from constrained.errors import ConstrainedError
from constrained.formats.binding.rules import Alternatives, fixed, reached
from constrained.formats.definition import ACCEPTED, Definition, Slots
from constrained.formats.message import Message, Piece, ToolCall, Worded
from constrained.formats.tools import Tool
from constrained.grammar import Ref, Symbol

Span = tuple[int, int]  # characters, exclusive end


# slot → what of a message it writes
_TEXTS = {"content": "content", "string_content": "content", "speaker": "speaker", "answered": "answered"}
_LONE = re.compile("[\ud800-\udfff]")
# what callers call them; of a result, the format may leave them out
_GIVEN_AS = {"speaker": "name", "answered": "tool_call_id"}


class _ConversationProgress(NamedTuple):
    """How much has been written: the message, its texts, the number of its calls, and whether its stop token."""

    message: int = -1
    texts: frozenset[str] = frozenset()
    calls: int = 0
    stopped: bool = False


def _written_calls(
    rules: Alternatives, definition: Definition, messages: Sequence[Message], tools: tuple[Tool, ...] | None
) -> list[list[tuple[str, list[Piece]]]]:
    """Return the calls of each message: the rule and the pieces of each."""
    schemas = {tool.name: tool.parameters for tool in tools or ()}
    through = definition.calls is not None and definition.calls.per == "conversation"
    calls: list[list[tuple[str, list[Piece]]]] = []
    written = 0
    for message in messages:
        before = written if through else 0
        written += len(message.tool_calls)
        calls.append(
            [
                write_call(rules, definition, call, schemas.get(call.name), before + at)
                for at, call in enumerate(message.tool_calls)
            ]
        )
    return calls


def write_conversation(
    rules: Alternatives,
    definition: Definition,
    messages: Sequence[Message],
    tools: tuple[Tool, ...] | None,
    answers: Callable[[str], bool],
) -> list[Piece]:
    """Return the pieces of a conversation; answers: as of `write_turn`.  Raises: ConstrainedError: the format has no
    such conversation.
    """
    for message in messages:
        if (many := _too_many_calls(message, definition)) is not None:
            what = f"the format '{definition.title}' has no such conversation"
            raise ConstrainedError(what, because=f"a message {many}", instead="a message for each call")
    if "past_tool_call" in rules:
        rules = {**rules, "tool_call": rules["past_tool_call"]}
    telling = _Telling(_right_recursive(rules), definition, messages, tools, answers)
    begin = _ConversationProgress()
    found = derive(telling.rules, "conversation", begin, telling.leaf, telling.is_complete, moved=telling.begun)
    if found is None:
        raise ConstrainedError(
            f"the format '{definition.title}' has no such conversation",
            because=telling.why_not(),
            instead="'constrained show --format NAME' prints its grammar",
        )
    return [piece for pieces in found for piece in pieces]


_Step = tuple[_ConversationProgress, list[Piece] | None]


class _Telling:
    """What a derivation of a conversation may write next, given what it has said."""

    def __init__(
        self,
        rules: Alternatives,
        definition: Definition,
        messages: Sequence[Message],
        tools: tuple[Tool, ...] | None,
        answers: Callable[[str], bool],
    ) -> None:
        self.rules, self._answers = rules, cache(answers)
        self._definition, self._messages = definition, messages
        self._slots, self._roles = Slots.of(definition), definition.messages
        self._calls = _written_calls(rules, definition, messages, tools)
        self._texts = [_texts(message, definition) for message in answering(messages, definition, rules)]
        self._needed = [
            {part for part, text in texts.items() if (not self._answers_calls(message) if part in _GIVEN_AS else text)}
            for message, texts in zip(messages, self._texts, strict=True)
        ]
        self._call_rules = {"tool_call", *(builtin.rule for builtin in definition.builtins.values())}
        # the last message that was begun, whether all of it could be said, how much, and that
        self._furthest = (-1, True, 0, _ConversationProgress())
        self._refused: dict[tuple[int, str], str] = {}  # of a message and a part of it: why that fits nowhere

    def _answers_calls(self, message: Message) -> bool:
        return message.role in self._definition.results

    def why_not(self) -> str:
        """Return what no derivation could say."""
        for at, message in enumerate(self._messages):
            because = why_no_message(message, self._definition)
            if because is not None:
                return f"{self._named(at)} {because}"
        at, whole, _, said = self._furthest
        if not self._messages:
            return "there are no messages"
        if whole and at + 1 < len(self._messages):
            before = f"behind {self._named(at)}" if at >= 0 else "at the beginning"
            return f"none by {self._messages[at + 1].role!r} stands {before}"
        if not self._needed[at] and not self._calls[at]:
            return f"{self._named(at)} is empty"
        if whole:
            return f"it cannot end with {self._named(at)}"
        missing = [*sorted(self._needed[at] - said.texts), *(["call"] if said.calls < len(self._calls[at]) else [])]
        refused = [(part, because) for (message, part), because in self._refused.items() if message == at]
        for part, because in refused:
            if part in missing or part in _GIVEN_AS:
                return f"the {_GIVEN_AS.get(part, part)} of {self._named(at)} {because}"
        written = [*sorted(said.texts), *(["calls"] if said.calls else [])]
        beside = f" beside its {' and '.join(written)}" if written else ""
        return f"{self._named(at)} has no place for its {' and '.join(missing)}{beside}"

    def _note(self, said: _ConversationProgress) -> None:
        """Remember what has been said, if nothing more has been."""
        rank = said.message, self.is_said(said), len(said.texts) + said.calls
        if rank > self._furthest[:3]:
            self._furthest = (*rank, said)

    def _named(self, at: int) -> str:
        """Return a message in words; those that tell of tools are not the caller's and do not count."""
        role = self._messages[at].role
        places = [place for place, message in enumerate(self._messages) if message.role == role]
        return f"the message by {role!r}" + (f" ({places.index(at) + 1} of {len(places)})" if len(places) > 1 else "")

    def is_said(self, said: _ConversationProgress) -> bool:
        """Say whether the message that is being written has all that it needs."""
        at = said.message
        return at < 0 or self._needed[at] <= said.texts and said.calls == len(self._calls[at])

    def is_complete(self, said: _ConversationProgress) -> bool:
        """Say whether the last message is written."""
        return said.message == len(self._messages) - 1 and self.is_said(said)

    def begun(self, rule: str, said: _ConversationProgress) -> _ConversationProgress | None:
        """Return what has been said where a rule begins, which may be that of the next message; None: it is not."""
        role = self._roles.get(self._slots.meaning(rule))
        if role is None:
            return said
        following = said.message + 1
        self._note(said)
        fit = self.is_said(said) and following < len(self._messages) and self._messages[following].role == role
        return _ConversationProgress(following) if fit else None

    def leaf(self, symbol: Symbol, said: _ConversationProgress) -> Iterable[_Step] | None:
        """Return how a symbol may be written; None: as its alternatives are."""
        self._note(said)
        if not isinstance(symbol, Ref):
            return self._fixed(fixed(symbol), said)
        what = self._slots.meaning(symbol.rule)
        if what in _TEXTS or what in self._slots.thoughts:
            return self._text(symbol.rule, what, said)
        return self._call(what, said) if what in self._call_rules else None

    def _fixed(self, text: str | None, said: _ConversationProgress) -> list[_Step]:
        stop = self._messages[said.message].stop if said.message >= 0 else None
        stops = self._slots.stops
        refused = text is None or not said.stopped and stop in stops and text in stops and text != stop
        return [] if refused else [(said._replace(stopped=True) if text == stop else said, [(str(text), True)])]

    def _text(self, rule: str, what: str, said: _ConversationProgress) -> list[_Step]:
        mine, part = self._texts[said.message] if said.message >= 0 else {}, _TEXTS.get(what, what)
        if part not in mine or part in said.texts and part != "speaker":
            if part in _GIVEN_AS and part not in mine:
                self._refused.setdefault((said.message, part), "is missing, and the format wants it")
            return []
        text = write_json(mine[part])[1:-1] if what == "string_content" else mine[part]
        listed = _listed(self.rules, rule)
        if listed:
            text = _chosen(text, listed, self._messages[said.message], self._definition)
        if text not in listed if listed else not self._fits(rule, text):
            because = f"is none of {', '.join(listed)}" if listed else misread(self.rules, rule, str(text))
            self._refused.setdefault((said.message, part), because)
            return []
        pieces = text.pieces if isinstance(text, Worded) else [(text, bool(listed))]
        return [(said._replace(texts=said.texts | {part}), pieces)]

    def _fits(self, rule: str, text: str) -> bool:
        return fits(self.rules, rule, text) or rule == "content" and self._answers(str(text))

    def _call(self, what: str, said: _ConversationProgress) -> list[_Step]:
        calls = self._calls[said.message] if said.message >= 0 else []
        if said.calls >= len(calls) or calls[said.calls][0] != what:
            return []
        return [(said._replace(calls=said.calls + 1), calls[said.calls][1])]


def _listed(rules: Alternatives, rule: str) -> list[str]:
    """Return the texts that a rule lists, if it is such a list."""
    texts = [fixed(sequence[0]) for sequence in rules.get(rule, ()) if len(sequence) == 1]
    return (
        [text for text in texts if text is not None]
        if len(texts) == len(rules.get(rule, ())) and None not in texts
        else []
    )


def _chosen(text: str, listed: Sequence[str], message: Message, definition: Definition) -> str:
    """Return which of listed speakers a message means: a token, also by its bare name; of a result, the one of the tool
    that was called.
    """
    names = {spelled: re.sub(r"\W", "", name) for name, spelled in definition.tokens.items()}
    for one in listed:
        if text in (one, names.get(one, one)):
            return one
    return listed[0] if message.role in definition.results else text


def _texts(message: Message, definition: Definition) -> dict[str, str]:
    texts = {definition.thoughts.get(kind, kind): text for kind, text in message.thoughts.items()}
    texts |= {"content": message.content} if message.content else {}
    texts |= {"speaker": message.name} if message.name is not None else {}
    return texts | ({"answered": message.call_id} if message.call_id is not None else {})


def why_no_message(message: Message, definition: Definition) -> str | None:
    """Return why a format has no such message, whatever stands around it; None where it may have one."""
    roles = list(dict.fromkeys(definition.messages.values()))
    if message.role not in roles:
        return f"has a role that is none of its own: {', '.join(roles)}"
    for kind in message.thoughts:
        if kind not in definition.thoughts or not definition.generates_thoughts:
            return f"has a thought of the kind {kind!r}, for which it has no place"
    if (because := _too_many_calls(message, definition)) is not None:
        return because
    for text in (message.content, *message.thoughts.values()):
        if lone := _LONE.search(text):
            return f"holds half of a surrogate pair, U+{ord(lone[0]):04X}"
    return None


def _too_many_calls(message: Message, definition: Definition) -> str | None:
    most = 1 if definition.calls is None else definition.calls.default
    if most is None or len(message.tool_calls) <= most:
        return None
    return f"has {len(message.tool_calls)} calls, and its turns have {most if most > 1 else 'one'}"


def speaking_roles(rules: Alternatives, definition: Definition) -> frozenset[str]:
    """Return the roles whose messages may name any speaker."""
    slots, found = Slots.of(definition), set[str]()
    for rule, role in definition.messages.items():
        inner = reached(rules, [rule if rule in rules else ACCEPTED + rule])
        found |= {role for name in inner if slots.meaning(name) == "speaker" and not _listed(rules, name)}
    return frozenset(found)


def answered_by(results: Sequence[Message], calls: Sequence[tuple[ToolCall, str | None]]) -> list[int]:
    """Return the places of the calls that results answer, each another one: by the id of a call, as it is given or
    written; else by the name of its tool; else the first that is left.  Those that answer no call are behind all.
    """
    left, found = [*range(len(calls))], list[int]()
    for result in results:
        by_id = [at for at in left if result.call_id is not None and result.call_id in (calls[at][0].id, calls[at][1])]
        by_name = [at for at in left if result.call_id is None and result.name == calls[at][0].name]
        found.append(next(iter([*by_id, *by_name, *left]), len(calls)))
        left = [at for at in left if at != found[-1]]
    return found


def answering(messages: Sequence[Message], definition: Definition, rules: Alternatives) -> list[Message]:
    """Return the messages in which results name their calls (`answered_by`).

    Raises: ConstrainedError: they are told apart by their order alone, and one is missing.
    """
    found, waiting, written = [], list[tuple[ToolCall, str]](), 0
    for message in messages:
        if message.role in definition.results and waiting:
            (at,) = answered_by([message], waiting)
            if at > 0 and not {"answered", "speaker"} & {*definition.slots.values()}:
                raise ConstrainedError(
                    f"the result of {waiting[at][0].name!r} cannot stand without that of {waiting[0][0].name!r}",
                    because=f"the format '{definition.title}' tells results apart by their order alone",
                    instead="the results of all calls before it",
                )
            chosen = waiting.pop(at)
            message = replace(message, name=message.name or chosen[0].name, call_id=chosen[1])
        elif message.role not in definition.results:
            before = written if definition.calls is not None and definition.calls.per == "conversation" else 0
            waiting = [
                (call, written_id(rules, definition, call, before + at)) for at, call in enumerate(message.tool_calls)
            ]
            written += len(message.tool_calls)
        found.append(message)
    return found


def learned(
    rules: Alternatives,
    definition: Definition,
    marks: Sequence[tuple[bool, str, int]],
    tokens: Sequence[tuple[int, int, str]],
    text: str,
) -> list[Span]:
    """Return what a model learns of a text; marks: (whether it begins, rule, place), tokens: as in `Turn.marks`."""
    slots = Slots.of(definition)
    stops = slots.stops
    mine = [rule for rule, role in definition.messages.items() if role == "assistant"]
    headers = {rule: _headers(rules, rule if rule in rules else ACCEPTED + rule) for rule in mine}
    openings = {rule for rule in mine if _is_opening(rules, rule if rule in rules else ACCEPTED + rule, slots)}
    events = [(place, begins, rule) for begins, rule, place in marks if rule in definition.messages]
    ends = [token for token in tokens if token[2] in stops]
    spans: list[Span] = []
    for index, (place, begins, rule) in enumerate(events):
        if not begins or rule not in headers:
            continue
        header = next((text for text in sorted(headers[rule], key=len, reverse=True) if text), "")
        header = next(
            (one for one in sorted(headers[rule], key=len, reverse=True) if text.startswith(one, place)), header
        )
        start = place + len(header)
        end = next(at for at, opens, other in islice(events, index, None) if not opens and other == rule)
        if rule in openings:
            start = end
            end = next((at for at, opens, _ in islice(events, index + 1, None) if opens), len(text))
        first_behind = bisect_left(ends, end, key=itemgetter(0))
        inside = ends[first_behind - 1] if first_behind and ends[first_behind - 1][0] >= start else None
        if first_behind < len(ends) and ends[first_behind][0] == end and (inside is None or inside[1] != end):
            end = ends[first_behind][1]
        elif inside is not None:
            end = inside[1]
        spans.append((start, end))
    return spans


def _is_opening(rules: Alternatives, rule: str, slots: Slots) -> bool:
    """Return whether a rule of a message is its header alone, without what the message says."""
    said = {"content", "string_content", "tool_call", *slots.thoughts, *slots.builtins}
    return said.isdisjoint(slots.meaning(name) for name in reached(rules, [rule]))


def _headers(rules: Alternatives, rule: str) -> set[str]:
    """Return the fixed texts that alternatives of a rule begin with."""
    found = set()
    for sequence in rules.get(rule, ()):
        text = ""
        for symbol in sequence:
            part = _only(symbol, rules, 8)
            if part is None:
                break
            text += part
        found.add(text)
    return found


def _only(symbol: Symbol, rules: Alternatives, depth: int) -> str | None:
    """Return the one text that a symbol derives, None if there is none or several."""
    if (own := fixed(symbol)) is not None:
        return own
    if not isinstance(symbol, Ref) or not depth or len(rules.get(symbol.rule, ())) != 1:
        return None
    parts = [_only(part, rules, depth - 1) for part in rules[symbol.rule][0]]
    return None if None in parts else "".join(part for part in parts if part is not None)


def _right_recursive(rules: Alternatives) -> Alternatives:
    """Return rules of the same language in which no rule begins with itself, as Lark's repeats do."""
    turned: Alternatives = {}
    for name, sequences in rules.items():
        again = [sequence[1:] for sequence in sequences if sequence[:1] == (Ref(name),) and len(sequence) > 1]
        if not again:
            turned[name] = sequences
            continue
        more = f"{name}, again"
        turned[name] = tuple((*sequence, Ref(more)) for sequence in sequences if sequence[:1] != (Ref(name),))
        turned[more] = ((), *((*rest, Ref(more)) for rest in again))
    return turned
