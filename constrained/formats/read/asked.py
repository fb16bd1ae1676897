"""Entry points of reading: parse a text, validate it, follow it as a stream.

Here the options of a call are sorted: those that say what a text may hold, those of the format, and those of
generating, which only matter to ``strict=True``.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.errors import ConstrainedError, GrammarError, Rejected, VocabularyError, shown
from constrained.formats.binding.request import TurnRequest, make_request, read_options
from constrained.formats.message import Message, Repair
from constrained.formats.read.across import broken_rules, told
from constrained.formats.read.inputs import Turn, certain, split_ids, split_text, unpadded
from constrained.formats.read.question import KINDS, Question, ask, offered
from constrained.formats.read.reading import Reading, Terms, messages_of, read, repairs_behind
from constrained.formats.read.rejections import Wrong, rejected
from constrained.formats.read.strict import deviation, entered
from constrained.schema.by_content import content
from constrained.work import MAX_WORK, Budget, current, metered

if TYPE_CHECKING:
    from constrained.formats.load import ChatFormat

_TOKEN_AT_END = re.compile(r"(<[|｜][^<>\s]{1,40}[|｜]>)\s*$")
TextKind = Literal["assistant_turn", "conversation", "tool_call"]

_PER_CHARACTER = 4  # units of work that a text brings with it: ten times what reading takes

_GENERATING = (
    "property_order",
    "whitespace",
    "unsupported",
    "formats",
    "reasoning",
    "calls_before",
    "marker_safe",
    "preface",
    "response_schema",
)
# options that formats have to be read by, and the value that asks for nothing where a format has none of the kind
_NEUTRAL = {"interpreter": True, "environment": True, "open_ended": False, "flags": None, "construct": None}


class Asked:
    """A format, a kind of text and the options, checked; reads any number of texts."""

    def __init__(
        self,
        chat: ChatFormat,
        kind: str,
        tools: object,
        vocabulary: Vocabulary | None,
        prompt: str,
        options: dict[str, Any],
    ) -> None:
        if not isinstance(prompt, str):
            raise GrammarError(f"prompt is {shown(prompt)}", instead="a text: what the prompt holds of the turn")
        self.chat, self.kind, self._tools, self.vocabulary = chat, kind, tools, vocabulary
        self.prompt = split_text(prompt, chat.definition)
        options = {key: value for key, value in options.items() if key not in _NEUTRAL or self._asks(key, value)}
        generating = {key: options.pop(key) for key in _GENERATING if key in options}
        self.name = options.pop("tool", None)
        builtin_tools = options.pop("builtin_tools", None)
        closed, stop_optional = options.pop("closed", True), options.pop("stop_optional", kind == "assistant_turn")
        choice: dict[str, Any] = {
            key: options.pop(key) for key in ("tool_choice", "parallel_tool_calls", "max_calls") if key in options
        }
        self.request = self._request(choice, options)
        self.question: Question = chat.recent_question(
            content(kind, options), lambda: ask(chat.generic, chat.definition, kind, options)
        )
        own = offered(chat.definition, self.question, self.request.tools, builtin_tools)
        if chat.definition.payload is None and self.request.tools is not None:
            own &= {tool.name for tool in self.request.tools}
        self.terms = Terms(self.request.tools, own, self._most(), self.name, closed, stop_optional)
        self._canonical: dict[str, Any] = {
            **generating,
            **choice,
            **options,
            "closed": closed,
            **({"prompt": prompt} if prompt else {}),
        }

    def _asks(self, option: str, value: object) -> bool:
        """Return whether an option asks for something, or is to be refused by its name."""
        return value is not None if option in self.chat.definition.options else value is not _NEUTRAL[option]

    def _request(self, choice: dict[str, Any], options: Mapping[str, object]) -> TurnRequest:
        definition = self.chat.definition
        most = choice.get("max_calls")
        if definition.repeat is None and isinstance(most, int) and most > 1:
            raise GrammarError(
                f"max_calls is {most}",
                because=f"the format '{definition.title}' has one call in a turn",
                instead="leave it out",
            )
        return make_request(
            definition, self._tools, choice.get("tool_choice", "auto"), choice.get("parallel_tool_calls"), most, options
        )

    def _most(self) -> int | None:
        return None if self.chat.definition.repeat is None else self.request.calls  # (there the grammar says)

    def turn(self, text_or_ids: str | Iterable[int]) -> Turn:
        if isinstance(text_or_ids, str):
            return split_text(text_or_ids, self.chat.definition)
        if not isinstance(text_or_ids, Iterable) or isinstance(text_or_ids, (bytes, bytearray)):
            raise GrammarError(f"not a text: {shown(text_or_ids)}", instead="a str, or ids and their vocabulary")
        if self.vocabulary is None:
            raise VocabularyError("token ids alone have no meaning", instead="parse(ids, tools, vocabulary)")
        definition = self.question.definition
        return split_ids(text_or_ids, self.vocabulary, definition.stop, definition.markers)

    def read(self, text_or_ids: str | Iterable[int], *, strict: bool, partial: bool, all_errors: bool) -> list[Message]:
        """Return the messages of a text.  Raises: Rejected."""
        for name, value in (("strict", strict), ("partial", partial), ("all_errors", all_errors)):
            if not isinstance(value, bool):
                raise GrammarError(f"{name} is {shown(value)}", instead="True or False")
        turn = given = self.turn(text_or_ids)
        if not strict:
            turn = unpadded(given, self.question.definition)
        if partial and isinstance(text_or_ids, str):
            turn = certain(turn, self.chat.definition)
        with metered(self._budget(turn)):
            asking = strict or self._ends_as_others(turn.text)
            terms = replace(self.terms, stop_optional=False) if asking else self.terms
            reading = read(self.question, turn, terms, self.prompt, partial=partial, all_errors=all_errors)
            if strict and not partial and not reading.wrong:
                self._check_strictly(turn, reading)
            self._check_choice(reading, partial=partial)
        if reading.wrong:
            raise self._rejected(reading.wrong, self.prompt.text + turn.text, all_errors=all_errors)
        messages = messages_of(reading.messages, self.question, len(self.prompt.text))
        if self.kind == "assistant_turn" and not strict and not partial and not messages[0].repairs:
            messages[0] = replace(messages[0], told=Unsettled(self, given))
        return messages

    def _ends_as_others(self, text: str) -> bool:
        """Return whether a text ends with what looks like the stop token of another format."""
        found, definition = _TOKEN_AT_END.search(text), self.chat.definition
        return found is not None and found[1] not in (*definition.tokens.values(), *definition.markers)

    @staticmethod
    def _budget(turn: Turn) -> Budget | None:
        """Return the work that a text of this length may take; None where the caller counts already."""
        return None if current() is not None else Budget(MAX_WORK + _PER_CHARACTER * len(turn.text))

    def first_repair(self, turn: Turn) -> tuple[Repair, ...]:
        """Return where a turn that was read first leaves what would be generated; nothing where it does not, or where
        nothing would be generated under these options.
        """
        reading = Reading()
        with contextlib.suppress(ConstrainedError), metered(self._budget(turn)):
            self._check_strictly(turn, reading)
        return repairs_behind([Repair(wrong.place, "spelling") for wrong in reading.wrong], len(self.prompt.text))

    def _check_strictly(self, turn: Turn, reading: Reading) -> None:
        options = self._canonical
        if self.chat.definition.repeat is None:
            options = {key: value for key, value in options.items() if key not in ("max_calls", "parallel_tool_calls")}
        if self.kind == "conversation":
            definition, offered = self.chat.definition, self.terms.tools is not None
            options = {**told(definition, reading.messages), **options}
            reading.wrong += broken_rules(reading.messages, definition, strict=True, offered=offered)
        tools, options = self.request.tools, read_options(self.chat.definition, options)
        if self.name is not None and tools is not None:
            tools = tuple(tool for tool in tools if tool.name == self.name)
        chat = self.chat.entered(self.kind)
        wrong = deviation(turn, chat.grammar(tools, **options), self.chat.definition)
        # what is escaped for the sake of other readers is canonical either way
        if wrong is not None and "marker_safe" not in options:
            plain = deviation(turn, chat.grammar(tools, **options, marker_safe=False), self.chat.definition)
            wrong = plain and max(wrong, plain, key=lambda found: found.place)
        if wrong is not None:
            place = wrong.place + len(self.prompt.text)
            reading.wrong.append(Wrong(place, wrong.layer, wrong.because, wrong.expected))
        reading.wrong.sort(key=lambda found: found.place)

    def _check_choice(self, reading: Reading, *, partial: bool) -> None:
        choice, only = self.request.choice, self.request.only
        if self.kind != "assistant_turn" or reading.wrong or not reading.messages or choice == "auto" and only is None:
            return
        calls = reading.messages[-1].calls
        if choice == "none" and calls:
            reading.wrong.append(Wrong(calls[0].place, "tool", "tool_choice is 'none'", "no call"))
        elif choice == "required" and not calls and not partial:
            reading.wrong.append(Wrong(len(self.prompt.text), "structure", "tool_choice asks for a call", "a call"))
        for call in calls:
            if only is not None and (call.builtin or call.name) not in only and call.complete:
                allowed = " or ".join(map(repr, only))
                reading.wrong.append(Wrong(call.place, "tool", f"tool_choice is {allowed}", allowed))

    def _rejected(self, wrong: list[Wrong], text: str, *, all_errors: bool) -> Rejected:
        listed = wrong if all_errors else wrong[:1]
        first, *others = rejected(listed, text, len(self.prompt.text), self.kind, self.chat.name)
        first.others = tuple(others)
        return first


class Unsettled:
    """The repairs of a turn of which no rule named any, found when they are asked for."""

    def __init__(self, asked: Asked, turn: Turn) -> None:
        self._asked, self._turn = asked, turn

    @cached_property
    def _found(self) -> tuple[Repair, ...]:
        return self._asked.first_repair(self._turn)

    def __iter__(self) -> Iterator[Repair]:
        return iter(self._found)

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (self._found,)


def canonical(chat: ChatFormat, kind: str) -> ChatFormat:
    """Return the format with the canonical text of a kind in place of the turn."""
    return type(chat)(chat.name, chat.definition, entered(chat.generic, chat.definition, kind, KINDS[kind]))
