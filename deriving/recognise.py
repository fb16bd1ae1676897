"""Chat templates: where a tokenizer has its, what it prints, and which format it is of.

A template comes with a tokenizer, in the folder of a checkpoint, in a file, or as text.  It is somebody else's program:
Jinja2's immutable sandbox renders it, with the filters and functions that transformers gives it; there it neither
reaches Python nor changes what it is given.

Which format a tokenizer's model writes is told by what its template holds, else by its special tokens; what tells
formats apart is data, ``grammars/recognise.toml``.  Where nothing tells, or several formats are left, that is an error
with what was seen and what is left: a wrong format makes wrong masks and nobody notices.  So what a template holds only
proposes formats; what it prints decides (`compared`).  Both write the same few conversations, an answer, a call, a
thought and the header of an answer that the model is to write, and are compared from what a user says on to the end of
the turn: what stands before, the model's name, a date, how tools are listed, is the template's own.  The turn is the
same text, or another that the format generates for the same message, as where a template prints an empty thought.

What a template cannot write is not compared: one that raises where a tool is called, or prints no thoughts of earlier
turns.  Tested in tests/test_recognise.py, with templates that are formats of ours and small changes of them.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from constrained.rendering.render import render

from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.errors import ConstrainedError, GrammarError, Rejected, said_by, shown
from constrained.formats.message import Message
from constrained.formats.pairs import shipped_names
from constrained.grammar.lark import shipped_folder

if TYPE_CHECKING:
    from constrained.formats.load import ChatFormat


# -- the sandbox -------------------------------------------------------------------------------------------------------

class TemplateRefused(Exception):
    """A template raised: it does not print these messages."""


@lru_cache(maxsize=16)
def compiled(source: str) -> Any:
    """Return a template, which has a method `render`.

    Raises: GrammarError: Jinja2 is not installed, or the text is no template.
    """
    try:
        from jinja2 import TemplateError
        from jinja2.ext import Extension, loopcontrols
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError as error:
        raise GrammarError(
            "cannot render a chat template", because="jinja2 is not installed", instead="pip install jinja2"
        ) from error

    class Generation(Extension):  # what a model learns, which transformers marks
        tags = {"generation"}  # noqa: RUF012  (as Extension has it)

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    inside = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Generation])
    inside.filters["tojson"] = _tojson
    inside.globals |= {"raise_exception": _raise, "strftime_now": _now}
    try:
        return inside.from_string(source)
    except TemplateError as error:
        line = getattr(error, "lineno", None)
        where = None if line is None else f"line {line}"
        raise GrammarError("the chat template is no template", where=where, because=said_by(error)) from error


def _tojson(value: Any, ensure_ascii: bool = False, **how: Any) -> str:
    """Return JSON as transformers lets templates write it."""
    return json.dumps(value, ensure_ascii=ensure_ascii, **how)


def _now(form: str) -> str:
    return datetime.now().strftime(form)


def _raise(because: object) -> None:
    raise TemplateRefused(str(because))


# -- recognition -------------------------------------------------------------------------------------------------------

class Seen(NamedTuple):
    """What a tokenizer shows of its format: its chat template, its special and added tokens, mistral-common's
    version of it, and the tokens that its template knows by a name.
    """

    template: str | None
    tokens: frozenset[str]
    version: str | None
    named: Mapping[str, str] = {}
    format: str | None = None  # that its configuration names, as ``chat_format``; its template is told one as `format`


def recognised(tokenizer: Any, load: Callable[[str], ChatFormat]) -> ChatFormat:
    """Return the format of a tokenizer, as `ChatFormat.for_tokenizer` says."""
    seen = look(tokenizer)
    if seen.format in shipped_names():
        return load(seen.format)
    template = printer_of(tokenizer, seen)
    return load(_format_of(seen, lambda name: "" if template is None else compared(load(name), template).differs))


def _format_of(seen: Seen, differs: Callable[[str], str]) -> str:
    """Return the name of the format; differs: where the template and a format of this name differ, "" if nowhere.

    Raises: GrammarError: it cannot be told.
    """
    rows = _rows()
    if seen.version is not None:
        found, by = (
            [name for name, row in rows.items() if seen.version in row.get("versions", ())],
            f"its version {seen.version}",
        )
    elif seen.template:
        proposed = [name for name, row in rows.items() if _holds(seen.template, row, "template", "absent")]
        told = {name: differs(name) for name in proposed}
        if proposed and all(told.values()):
            name, because = next(iter(told.items()))
            raise GrammarError(
                "cannot tell the chat format of the tokenizer",
                because=f"its chat template looks like that of {name!r}, and {because}",
                instead=f"ChatFormat.from_template(tokenizer), or ChatFormat.load({name!r}) if the model writes that",
            )
        found, by = [name for name in proposed if not told[name]], "its chat template"
    else:
        found, by = (
            [name for name, row in rows.items() if _holds(seen.tokens, row, "tokens", "without")],
            "its special tokens",
        )
    if len(found) == 1:
        return found[0]
    if found:
        because = f"{by} could be those of {', '.join(found)}"
        raise GrammarError(
            "cannot tell the chat format of the tokenizer", because=because, instead="ChatFormat.load(name)"
        )
    what = (
        f"none of the known formats is told by {by}"
        if seen.template or seen.version or seen.tokens
        else "it has no chat template and no special tokens"
    )
    raise GrammarError(
        "cannot tell the chat format of the tokenizer",
        because=what,
        instead="ChatFormat.load(name), or ChatFormat.from_template(tokenizer), which derives one",
    )


def _holds(seen: Collection[str] | str, row: Mapping[str, Any], present: str, absent: str) -> bool:
    return (
        present in row
        and all(text in seen for text in row[present])
        and not any(text in seen for text in row.get(absent, ()))
    )


@lru_cache(maxsize=1)
def _rows() -> dict[str, Any]:
    return tomllib.loads((shipped_folder() / "recognise.toml").read_text(encoding="utf-8"))


def look(tokenizer: Any) -> Seen:
    """Return what a tokenizer shows: of transformers, tokenizers, tiktoken or mistral-common, or a folder that holds
    one.

    Raises: ConstrainedError: it is none of these tokenizers.
    """
    if isinstance(tokenizer, (str, Path)):
        return _look_in(Path(tokenizer))
    instruct = getattr(getattr(tokenizer, "instruct_tokenizer", None), "tokenizer", None)
    if instruct is not None:
        version = str(getattr(instruct.version, "value", instruct.version)).partition("m")[0]
        return Seen(
            None, frozenset(), f"{version}-{'tekken' if 'tekken' in type(instruct).__name__.lower() else 'spm'}"
        )
    for name in ("get_added_vocab", "get_added_tokens_decoder", "special_tokens_set"):
        listed = getattr(tokenizer, name, None)
        if listed is not None:
            listed = listed() if callable(listed) else listed
            break
    else:
        raise ConstrainedError(
            f"{type(tokenizer).__name__} is no tokenizer",
            instead="one of transformers, tokenizers, tiktoken or mistral-common",
        )
    tokens = [
        str(getattr(token, "content", token))
        for token in (listed.values() if name == "get_added_tokens_decoder" else listed)
    ]
    template, settings = getattr(tokenizer, "chat_template", None), getattr(tokenizer, "init_kwargs", {})
    return Seen(_template(template), frozenset(tokens), None, format=settings.get("chat_format"))


def _look_in(path: Path) -> Seen:
    """Return what the files of a tokenizer show: its folder, or a file in it."""
    try:
        folder = path if path.is_dir() else path.parent
    except (OSError, ValueError) as error:  # no name of a file: too long
        raise ConstrainedError(f"cannot read {shown(str(path))}", because=said_by(error)) from error
    template, tokens, named, format = None, set[str](), dict[str, str](), None
    for name in ("tokenizer_config.json", "tokenizer.json"):
        if (folder / name).is_file() and (path.is_dir() or path.name == name or name == "tokenizer_config.json"):
            try:
                told = json.loads((folder / name).read_text(encoding="utf-8"))
            except (ValueError, RecursionError) as error:
                raise ConstrainedError(f"cannot read {folder / name}", because=said_by(error)) from error
            told = told if isinstance(told, dict) else {}
            template = template or _template(told.get("chat_template"))
            format = format or told.get("chat_format")
            tokens.update(_contents(told.get("added_tokens_decoder") or told.get("added_tokens")))
            named |= {key: text for key, token in told.items() if key.endswith("_token") for text in _text(token)}
    for name in () if tokens else ("tekken.json", "tokenizer.model"):
        if (folder / name).is_file():
            tokens.update(Vocabulary.from_tokenizer(folder / name).special)
    if (folder / "chat_template.jinja").is_file():
        template = (folder / "chat_template.jinja").read_text(encoding="utf-8")
    if template is None and not tokens:
        raise ConstrainedError(
            f"{shown(str(path))} shows no tokenizer", instead="a folder with tokenizer_config.json or tokenizer.json"
        )
    return Seen(template, frozenset(tokens), None, named, format)


def _text(token: Any) -> list[str]:
    """Return the text of a token that a file names, where it is one, alone or with more about it."""
    return _contents([{"content": token}, token])


def _contents(added: Any) -> list[str]:
    """Return the texts of added tokens, as a file lists them; what is none is left out."""
    entries = added.values() if isinstance(added, dict) else added if isinstance(added, list) else ()
    found = [entry.get("content") for entry in entries if isinstance(entry, dict)]
    return [text for text in found if isinstance(text, str)]


def _template(given: Any) -> str | None:
    """Return a chat template: of several the one for tools."""
    if isinstance(given, list):
        given = {entry.get("name"): entry.get("template") for entry in given if isinstance(entry, Mapping)}
    if isinstance(given, Mapping):
        given = given.get("tool_use") or given.get("default")
    return given if isinstance(given, str) else None


# -- a template against a format ---------------------------------------------------------------------------------------

Printer = Callable[..., str]  # (messages, tools, add_generation_prompt) → text
_ASKED, _SAID, _THOUGHT, _NEXT = "Which way is north?", "Past the old mill.", "Moss grows there.", "And south?"
_TOOL = {"type": "function", "function": {"name": "find_way", "description": "Finds a way.", "parameters": {
    "type": "object", "properties": {"place": {"type": "string"}, "steps": {"type": "integer"}},
    "required": ["place", "steps"]}}}  # fmt: skip
_ARGUMENTS = {"place": "mill", "steps": 7}
_AROUND = 24  # characters shown of a difference


class Comparison(NamedTuple):
    """What a template writes behind the header of an answer, and where it differs from a format, "" if nowhere."""

    prompt: str
    differs: str


def printer_of(tokenizer: Any, seen: Seen) -> Printer | None:
    """Return what renders a tokenizer's chat template: its own code, or else Jinja; None where it has none.

    Raises: GrammarError: jinja2 is not installed, or the template is none.
    """
    if seen.template is None:
        return None
    own = getattr(tokenizer, "apply_chat_template", None)
    if own is not None:
        return lambda messages, tools, opens: str(
            own(messages, tools=tools, add_generation_prompt=opens, tokenize=False)
        )
    template = compiled(seen.template)
    return lambda messages, tools, opens: template.render(
        messages=messages, tools=tools, add_generation_prompt=opens, **seen.named
    )


def compared(chat: ChatFormat, template: Printer) -> Comparison:
    """Return how a template begins an answer, and where it differs from a format."""
    try:
        for what, messages, tools in _conversations(chat):
            expected = _turn(chat, messages, tools)
            found = list(_printed(template, chat, messages, tools))
            said = any(_says(chat, text, expected, messages[1], tools) for text in found)
            if not said and (differs := _difference(expected, found, what)):
                return Comparison("", differs)
        asked = [{"role": "user", "content": _ASKED}]
        header = chat.render_text(asked, add_generation_prompt=True, prompt="").partition(_ASKED)[2]
        begun = next(_texts(template, [asked], opens=True), "")
    except ConstrainedError as error:
        return Comparison("", f"the format cannot write what it is compared by: {said_by(error)}")
    if not begun.startswith(header):
        return Comparison("", _place(header, begun, "the header of an answer"))
    prompt = begun.removeprefix(header)
    try:
        chat.grammar(prompt=prompt)
    except (GrammarError, Rejected):
        return Comparison("", f"no turn of the format begins with {shown(prompt)}, as the template begins an answer")
    return Comparison(prompt, "")


_Messages = list[dict[str, Any]]


def _conversations(chat: ChatFormat) -> Iterator[tuple[str, _Messages, list[Any] | None]]:
    """Yield what is compared: its name, the messages, the tools."""
    asked, further = {"role": "user", "content": _ASKED}, {"role": "user", "content": _NEXT}
    yield "an answer", [asked, {"role": "assistant", "content": _SAID}, further], None
    if chat.definition.generates_thoughts:
        yield "a thought", [asked, {"role": "assistant", "content": _SAID, "reasoning_content": _THOUGHT}], None
    if chat.definition.payload is not None:
        call = {"id": "call00000", "type": "function", "function": {"name": "find_way", "arguments": _ARGUMENTS}}
        result = {"role": "tool", "name": "find_way", "tool_call_id": "call00000", "content": "It is near."}
        yield "a call", [asked, {"role": "assistant", "content": "", "tool_calls": [call]}, result], [_TOOL]


def _turn(chat: ChatFormat, messages: _Messages, tools: list[Any] | None) -> tuple[str, str]:
    """Return what a format writes behind the user's text, up to the turn, and the turn."""
    rendered = render(chat, messages, tools, _told(messages))
    text, (start, end) = rendered.turn.text, rendered.spans[0]
    return text[text.index(_ASKED) + len(_ASKED) : start], text[start:end]


def _told(messages: _Messages) -> dict[str, Any]:
    """Return how messages are rendered: without tools, and up to the header of the answer that they wait for."""
    return {"tool_prompt": False, **({"add_generation_prompt": True, "prompt": ""} if _opens(messages) else {})}


def _opens(messages: _Messages) -> bool:
    """Return whether messages wait for an answer, which some formats need behind results."""
    return bool(messages[-1]["role"] != "assistant")


def _says(
    chat: ChatFormat, found: str, expected: tuple[str, str], message: dict[str, Any], tools: list[Any] | None
) -> bool:
    """Return whether a text has the header of a turn, and one that the format generates for the message."""
    header, turn = expected
    if not found.startswith(header):
        return False
    found = found.removeprefix(header)
    if found.startswith(turn):
        return True
    said = found.find(_SAID if message["content"] else "find_way")
    ends = [found.index(stop, said) + len(stop) for stop in chat.stop if said >= 0 and stop in found[said:]]
    if not ends:
        return False
    try:
        read: Message = chat.parse(found[: min(ends)], tools, strict=True, prompt="")
    except Rejected:
        return False
    thoughts = {kind: text for kind, text in read.thoughts.items() if text}
    calls = [(call.name, call.arguments) for call in read.tool_calls]
    thought = [message["reasoning_content"]] if "reasoning_content" in message else []
    called = [("find_way", _ARGUMENTS)] if "tool_calls" in message else []
    return [read.content, [*thoughts.values()], calls] == [message["content"], thought, called]


def _printed(template: Printer, chat: ChatFormat, messages: _Messages, tools: list[Any] | None) -> Iterator[str]:
    """Yield what a template prints of messages behind the user's text, in the ways that templates want them."""
    told = _told(messages)
    ids = {own: written for written, own in chat.call_ids(messages, tools, **told).items()}
    ways = []
    for content in ("", None):
        for spelled in (dict, json.dumps):
            way = [dict(message) for message in messages]
            for message in way:
                if "tool_calls" in message:
                    (call,) = message["tool_calls"]
                    function = {**call["function"], "arguments": spelled(_ARGUMENTS)}
                    message["tool_calls"] = [{**call, "id": ids.get(call["id"], call["id"]), "function": function}]
                    message["content"] = content
                elif "tool_call_id" in message:
                    message["tool_call_id"] = ids.get(message["tool_call_id"], message["tool_call_id"])
            ways.append(way)
    return _texts(template, ways if tools else ways[:1], opens=_opens(messages))


def _texts(template: Printer, ways: Sequence[_Messages], *, opens: bool) -> Iterator[str]:
    """Yield the texts of those conversations that a template prints, behind the user's text; some want tools always."""
    for messages, tools in product(ways, ([_TOOL], None)):
        try:
            text = template(messages, tools, opens)
        except Exception:  # whatever a template's own code raises
            continue
        _, asked, behind = text.partition(_ASKED)
        if asked:
            yield behind


def _difference(expected: tuple[str, str], found: Sequence[str], what: str) -> str:
    """Return where the texts differ from what is expected, "" where none says it."""
    whole = "".join(expected)
    if what == "an answer" and not found:
        return "its chat template prints no answer"
    if what != "an answer":
        told = _THOUGHT if what == "a thought" else "find_way"
        found = [text for text in found if told in text]
    return _place(whole, max(found, key=lambda text: _common(whole, text)), what) if found else ""


def _common(one: str, other: str) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _place(expected: str, found: str, what: str) -> str:
    """Say where a text leaves what is expected."""
    at = _common(expected, found)
    begins = max(at - _AROUND // 2, 0)
    return (
        f"{what} differs at {found[begins : at + _AROUND]!r}, where the format has {expected[begins : at + _AROUND]!r}"
    )
