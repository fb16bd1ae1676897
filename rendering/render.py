"""Messages → text, token ids, and which of them a model learns.

Special tokens come from the structure alone: a message that spells ``<|im_end|>`` is rendered as the ordinary tokens of
these ten characters.  In text the two cannot be told apart, so there such a message is refused.

What is rendered is read back before it is returned; a conversation that a reader would take for another one is
refused.  Tools are listed as the definition says (`tool_prompt`); where it says nothing, they are refused unless
a message of the system's names them.

Tested in tests/test_render.py.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from constrained.rendering.conversation import (
    Span,
    learned,
    speaking_roles,
    write_conversation,
)
from constrained.rendering.given import OPENED, fitted, read_messages, thought_of, ways
from constrained.rendering.tool_prompt import told_of_tools
from constrained.rendering.turn import is_json_answer

from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.errors import ConstrainedError, LimitExceeded, VocabularyError, shown
from constrained.formats.binding.bind import under
from constrained.formats.binding.request import parted
from constrained.formats.binding.rules import Alternatives, alternatives_of, changed
from constrained.formats.definition import Definition
from constrained.formats.message import RESULTS, Message, Piece
from constrained.formats.read.assemble import Assembler
from constrained.formats.read.inputs import Turn, split_text
from constrained.formats.read.question import Question, ask
from constrained.formats.read.reading import Reading, Terms, judged, messages_of, told
from constrained.formats.read.simulation import Simulation, marks_of
from constrained.formats.tools import read_tools
from constrained.schema.by_content import content
from constrained.work import MAX_WORK, metered, spend, working_on

if TYPE_CHECKING:
    from constrained.formats.load import ChatFormat

IGNORED = -100  # the label of a token that is not learned, for transformers and TRL


@dataclass(frozen=True, slots=True)
class Rendered:
    """A conversation: its pieces, the text with its special tokens, what a model learns of it, and the ids of its
    calls, as they are written → as they were given.
    """

    pieces: tuple[Piece, ...]
    turn: Turn
    spans: tuple[Span, ...]
    ids: Mapping[str, str]


def render(
    chat: ChatFormat, given: Iterable[Message | Mapping[str, Any]], tools: object, options: Mapping[str, Any]
) -> Rendered:
    """Return the canonical text of messages.

    Raises: ConstrainedError: the format has no such conversation, or its readers would take it for another.
    """
    with metered(units=MAX_WORK * 4):
        return _rendered(chat, given, tools, dict(options))


def _rendered(
    chat: ChatFormat, given: Iterable[Message | Mapping[str, Any]], tools: object, options: dict[str, Any]
) -> Rendered:
    prompted, opens = _switch(options, "tool_prompt", default=True), _switch(options, "add_generation_prompt")
    begun, thinking = options.pop("prompt", None), options.pop("thinking", None)
    if begun is None:
        begun = chat.generation_prompt(thinking) if opens or thinking is not None else ""
    definition = under(chat.definition, options)

    def speaks(role: str) -> bool:
        return role in (*RESULTS, "function") or role in speaking_roles(_rules(chat, definition, options), definition)

    messages = read_messages(given, thought_of(definition), speaks)
    if begun and not opens:
        raise ConstrainedError("a prompt without an answer to begin", instead="add_generation_prompt=True")
    others, own = parted(definition, tools)
    read = None if tools is None or definition.payload is None else read_tools(others)
    given_ids = [call.id for message in messages for call in message.tool_calls]
    messages = fitted(messages, definition, _rules(chat, definition, options))
    if prompted:
        messages = told_of_tools(messages, others, own, definition)
    if opens:
        messages = [*messages, OPENED]
    names, known = frozenset(definition.tokens.values()), None if read is None else tools

    def answers(text: str) -> bool:
        return is_json_answer(chat, text, known)

    def written(messages: list[Message], options: Mapping[str, Any]) -> list[Piece]:
        rules = _rules(chat, definition, options)
        return _split(write_conversation(rules, definition, messages, read, answers), names)

    pieces, messages, options = _first(messages, definition, options, written)
    turn = Turn.of((text, is_structure and text in names) for text, is_structure in pieces)
    question = _question(chat, definition, options)
    spans, said = _checked(question, Terms(read), turn, messages, _rules(chat, definition, options))
    if opens:  # what stands before that of an answer which the model is to write itself
        *spans, (start, _) = spans
        pieces = _split([*_before(pieces, start), (begun, True)], names)
        turn = Turn.of((text, is_structure and text in names) for text, is_structure in pieces)
    turns = [message for message in messages if message.role == "assistant"]
    spans = [span for span, message in zip(spans, turns, strict=False) if message.weight]
    written_ids = [call.id for message in said for call in message.tool_calls]
    ids = {name: own for name, own in zip(written_ids, given_ids, strict=True) if name is not None and own is not None}
    return Rendered(tuple(pieces), turn, tuple(spans), ids)


def _switch(options: dict[str, Any], name: str, *, default: bool = False) -> bool:
    """Return the value of a switch, which is no option of a format, and take it away."""
    value = options.pop(name, default)
    if not isinstance(value, bool):
        raise ConstrainedError(f"{name} is {shown(value)}", instead="True or False")
    return value


def _question(chat: ChatFormat, definition: Definition, options: Mapping[str, Any]) -> Question:
    """Return what reads a conversation under these options, which remembers what it has read."""
    key = content("conversation", dict(options))
    return chat.recent_question(key, lambda: ask(chat.generic, definition, "conversation", options))


def _rules(chat: ChatFormat, definition: Definition, options: Mapping[str, Any]) -> Alternatives:
    """Return the alternatives of the format's rules under its options.

    Raises: ConstrainedError: it has no conversations.
    """
    rules = changed(alternatives_of(chat.generic.rules), under(definition, options).changes)
    if "conversation" not in rules:
        raise ConstrainedError(
            f"the format '{definition.title}' has no conversations", instead="write(message) writes one turn"
        )
    return rules


def _first(
    messages: list[Message],
    definition: Definition,
    options: dict[str, Any],
    written: Callable[[list[Message], Mapping[str, Any]], list[Piece]],
) -> tuple[list[Piece], list[Message], dict[str, Any]]:
    """Return the pieces of the first of the `ways` of messages that the format has, with the options that they tell of,
    else without.  Raises: ConstrainedError: why it has not the messages as they are.
    """
    refused: ConstrainedError | None = None
    for chosen in ({**told(definition, messages), **options}, options):
        for way in ways(messages, definition):
            try:
                return written(way, chosen), way, chosen
            except LimitExceeded:
                raise
            except ConstrainedError as error:
                refused = refused or error
    assert refused is not None
    raise refused


def _before(pieces: Sequence[Piece], end: int) -> list[Piece]:
    """Return the pieces of the text before a place."""
    found, at = list[Piece](), 0
    for text, is_structure in pieces:
        found += [(text[: end - at], is_structure)] if at < end else []
        at += len(text)
    return found


def text_of(chat: ChatFormat, rendered: Rendered) -> str:
    """Return the text.  Raises: ConstrainedError: a message spells a special token."""
    read = split_text(rendered.turn.text, chat.definition)
    if read.marks != rendered.turn.marks:
        name = next((mark[2] for mark in read.marks if mark not in rendered.turn.marks), "a special token")
        raise ConstrainedError(
            "cannot render the messages as text",
            because=f"one of them spells {name!r}, which every reader takes for the token",
            instead="render(messages, vocabulary), where text stays text",
        )
    return rendered.turn.text


def ids_of(chat: ChatFormat, rendered: Rendered, vocabulary: Vocabulary) -> tuple[list[int], list[bool]]:
    """Return the token ids, and which of them are learned; text is cut where that begins, as it is behind a prompt.

    Raises: VocabularyError: it lacks a special token.
    """
    if not isinstance(vocabulary, Vocabulary):
        raise VocabularyError(f"not a vocabulary: {shown(vocabulary)}", instead="Vocabulary.from_tokenizer(tokenizer)")
    with metered(units=MAX_WORK * 2), working_on("the texts of the messages"):
        ids, places = _tokens(chat, rendered, vocabulary)
        return ids, _in_spans(places, rendered.spans)


def rendered_ids(
    chat: ChatFormat, messages: Iterable[Message | Mapping[str, Any]], vocabulary: Vocabulary, tools: object, begun: str
) -> list[int]:
    """Return the ids of messages and of the header of an answer with what its turn begins with."""
    return ids_of(chat, render(chat, messages, tools, {"add_generation_prompt": True, "prompt": begun}), vocabulary)[0]


def _tokens(chat: ChatFormat, rendered: Rendered, vocabulary: Vocabulary) -> tuple[list[int], list[int]]:
    """Return the token ids, and where each ends in the text."""
    starts = sorted({start for start, _ in rendered.spans})
    cuts = set(starts)
    ids: list[int] = []
    places: list[int] = []
    run, at = "", 0
    for text, is_structure in [
        *_split(rendered.pieces, (*chat.definition.tokens.values(), *chat.definition.markers)),
        ("", True),
    ]:
        is_token = is_structure and text in vocabulary.special
        if is_structure and text in chat.definition.tokens.values() and not is_token:
            raise VocabularyError(
                f"the vocabulary has no special token {text!r}",
                instead="chat.respell({…}), or the model's own tokenizer",
            )
        inside = slice(bisect_right(starts, at), bisect_left(starts, at + len(text)))
        inner = [place - at for place in starts[inside]]
        for start, stop in zip([0, *inner], [*inner, len(text)], strict=True):
            if at + start in cuts or is_token or not text:
                _flush(run, at + start, ids, places, vocabulary)
                run = ""
            run += "" if is_token else text[start:stop]
        at += len(text)
        if is_token:
            ids.append(vocabulary.special[text])
            places.append(at)
    return ids, places


def _flush(run: str, end: int, ids: list[int], places: list[int], vocabulary: Vocabulary) -> None:
    """Add the tokens of a text that ends at a place; places[i]: where, in characters, token i ends."""
    if not run:
        return
    tokens = vocabulary.tokenize(run.encode())
    spend(2 * len(tokens))
    ids += tokens
    place, reader = end - len(run), getincrementaldecoder("utf-8")()
    for token in tokens:
        place += len(reader.decode(vocabulary.tokens[token] or b""))
        places.append(place)


def _in_spans(places: Sequence[int], spans: Sequence[Span]) -> list[bool]:
    """Return which tokens lie in a span; a token that holds a part of a character counts by the characters that it
    completes.
    """
    found, at = [], 0
    for place in places:
        while at < len(spans) and spans[at][1] < place:
            at += 1
        found.append(at < len(spans) and spans[at][0] < place <= spans[at][1])
    return found


def labels(ids: Sequence[int], mask: Sequence[bool]) -> np.ndarray[Any, Any]:
    """Return labels in the convention of transformers and TRL: the id where it is learned, `IGNORED` elsewhere; models
    shift them.
    """
    return np.where(np.asarray(mask, bool), np.asarray(ids, np.int64), IGNORED)


def _split(pieces: Iterable[Piece], names: Iterable[str]) -> list[Piece]:
    """Return the pieces that are not empty, with names that stand in the structure as pieces of their own."""
    spelled = sorted(names, key=len, reverse=True)
    pattern = re.compile("(" + "|".join(map(re.escape, spelled)) + ")") if spelled else None
    found: list[Piece] = []
    for text, is_structure in pieces:
        parts = pattern.split(text) if is_structure and pattern is not None else [text]
        found += [(part, is_structure) for part in parts if part]
    return found


def _checked(
    question: Question, terms: Terms, turn: Turn, messages: Sequence[Message], rules: Alternatives
) -> tuple[list[Span], list[Message]]:
    """Return what is learned of a text that is read as these messages, and what is read.  Raises: ConstrainedError: it
    is not.
    """
    simulation = Simulation(question.network)
    simulation.read(turn.pieces())
    trail = simulation.accepted()
    read: list[Message] = []
    if trail is not False:
        found = Reading(Assembler(question).take(marks_of(trail), turn.text).messages)
        reading = judged(found, question, terms, turn.text)
        read = messages_of(reading.messages, question)
    if trail is False or isinstance(trail, bool) or not _alike(read, messages, question):
        raise ConstrainedError(
            f"the format '{question.definition.title}' cannot carry these messages",
            because="readers would take them for others",
            instead="leave out of the texts what looks like a part of the format",
        )
    marks = [(begins, question.slots.meaning(rule), place) for begins, rule, place, _ in marks_of(trail)]
    return learned(rules, question.definition, marks, turn.marks, turn.text), read


def _alike(read: Sequence[Message], given: Sequence[Message], question: Question) -> bool:
    """Return whether messages say the same; stop tokens count where they are given, ids where the format leaves them to
    the model.
    """
    repeat = question.definition.calls
    ids = repeat is not None and repeat.ids == "unique"
    return len(read) == len(given) and all(
        _plain(mine, theirs, question, ids=ids) == _plain(theirs, theirs, question, ids=ids)
        and _same([call.arguments for call in mine.tool_calls], [call.arguments for call in theirs.tool_calls])
        for mine, theirs in zip(read, given, strict=True)
    )


def _same(one: object, other: object) -> bool:
    """Return whether values are equal, of any depth."""
    work = [(one, other)]
    while work:
        mine, theirs = work.pop()
        if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
            if mine.keys() != theirs.keys():
                return False
            work += [(value, theirs[key]) for key, value in mine.items()]
        elif isinstance(mine, (list, tuple)) and isinstance(theirs, (list, tuple)):
            if len(mine) != len(theirs):
                return False
            work += zip(mine, theirs, strict=True)
        elif mine != theirs:
            return False
    return True


def _plain(message: Message, given: Message, question: Question, *, ids: bool) -> Message:
    """Return what is compared of a message, but for the arguments of its calls."""
    counts = [
        ids and at < len(given.tool_calls) and given.tool_calls[at].id is not None
        for at in range(len(message.tool_calls))
    ]
    calls = [
        replace(call, arguments={}) if counted else replace(call, id=None, arguments={})
        for call, counted in zip(message.tool_calls, counts, strict=True)
    ]
    thoughts = {kind: text for kind, text in message.thoughts.items() if text}
    found = replace(message, tool_calls=calls, thoughts=thoughts, stop=message.stop if given.stop is not None else None)
    # formats write them or not
    results = question.definition.results
    return replace(found, name=given.name, call_id=given.call_id) if given.role in results else found
