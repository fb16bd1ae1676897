"""A specification of one's own as a file of examples: what each text is said to be, and what the grammar makes of it.

    grammar = "task.abnf"             # or format = "task.toml"; with start = "task", notation = "abnf"
    document = "protocol.md"          # its code blocks of these languages are texts
    valid = ["task"]
    invalid = ["task wrong"]
    each_line = true                  # each line of a block is a text; default: each block

    [[example]]
    text = "2024-12"
    reading = { year = ["2024"], month = ["12"] }

    [[example]]
    text = "2024/12"
    valid = false

Of a chat format, an example may have `kind`, `tools`, `options`; ``strict = true`` says that the strict reader takes
it, ``strict = false`` that only the tolerant one does; its reading is that of `parse`.  Of a grammar, a reading says
which texts rules derive, signs in their names as in the Lark text or in the notation.  Any other key is an error, as a
typo would change the question.

Tests: tests/test_examples.py.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from constrained.engine.captures import captures
from constrained.errors import ConstrainedError, Rejected, said_by, shown
from constrained.formats import ChatFormat
from constrained.formats.message import Message, ToolCall
from constrained.grammar import Grammar

from .texts import byte_constraint, rejection

_KEYS = {
    "title": str, "grammar": str, "notation": str, "start": str, "specials": list, "format": str, "document": str,
    "valid": list, "invalid": list, "each_line": bool, "kind": str, "tools": list, "options": dict, "example": list,
}  # fmt: skip
_OF_EXAMPLE = {
    "text": str, "valid": bool, "strict": bool, "reading": (dict, list), "kind": str, "tools": list, "options": dict,
}  # fmt: skip
_SAID = {str: "a text", list: "a list", bool: "true or false", dict: "a table"}
_OF_FORMATS = ("strict", "kind", "tools", "options")
_BLOCK = re.compile(
    r"^(?P<fence>`{3,}|~{3,})(?P<info>[^\n]*)\n(?P<text>.*?)^(?P=fence)[`~]*[ \t]*$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Example:
    """A text and what is said of it; `file` and `line` say where that stands, `begins` the line of the text's first."""

    text: str
    valid: bool
    file: str
    line: int
    begins: int
    strict: bool | None = None
    reading: Any = None
    question: Mapping[str, Any] | None = None  # of a chat format: kind, tools, options


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was found of an example, and whether that is what it says."""

    example: Example
    holds: bool
    found: str
    error: Rejected | None = None

    def place(self) -> str:
        """Return where the text was refused in its file; where it stands, if it was not."""
        error, example = self.error, self.example
        if error is None or error.line is None or error.column is None:
            return f"{example.file} line {example.line}"
        return f"{example.file} line {example.begins + error.line - 1} column {error.column}"


@dataclass(frozen=True, slots=True)
class Specification:
    """A file of examples."""

    path: Path
    content: Mapping[str, Any]
    examples: tuple[Example, ...]

    def outcomes(self, read_grammar: Callable[[str, str | None, str | None, list[str]], Grammar]) -> Iterator[Outcome]:
        """Yield what the grammar makes of each example.

        read_grammar: returns the grammar in a file, of a notation (None: as its name ends) and with a start rule.
        """
        content = self.content
        if "format" in content:
            path = self.path.parent / content["format"]
            chat = ChatFormat.load(path if path.suffix in (".toml", ".lark") else content["format"])
            judge = _of_format(chat)
        else:
            file = str(self.path.parent / content["grammar"])
            given = read_grammar(file, content.get("notation"), content.get("start"), content.get("specials", []))
            judge = _of_grammar(given)
        for example in self.examples:
            yield judge(example)


def read_examples(path: str | Path) -> Specification:
    """Return the examples of a file.

    Raises: ConstrainedError: it cannot be read, or has a key that means nothing; with its line.
    """
    path = Path(path)
    text = _text_of(path)
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConstrainedError(f"{path} is no TOML", because=str(error)) from error
    _check(content, _KEYS, str(path))
    if ("grammar" in content) == ("format" in content):
        raise ConstrainedError(f"{path}: of which grammar?", instead='grammar = "file" or format = "name or file"')
    lines = [number for number, line in enumerate(text.split("\n"), 1) if re.match(r"\s*\[\[ *example *\]\]", line)]
    found = [*_listed(content, path, lines), *_in_document(content, path)]
    if not found:
        raise ConstrainedError(f"{path} has no example", instead="[[example]], or document, valid and invalid")
    return Specification(path, content, tuple(found))


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConstrainedError(f"cannot read {path}", because=said_by(error), instead="a UTF-8 file") from error


def _check(given: Mapping[str, Any], keys: Mapping[str, Any], where: str) -> None:
    for key, value in given.items():
        if key not in keys:
            raise ConstrainedError(f"unknown key '{key}'", where=where, instead=f"one of: {', '.join(keys)}")
        if not isinstance(value, keys[key]):
            kinds = keys[key] if isinstance(keys[key], tuple) else (keys[key],)
            instead = " or ".join(_SAID[kind] for kind in kinds)
            raise ConstrainedError(f"{key} is {shown(value)}", where=where, instead=instead)


def _listed(content: Mapping[str, Any], path: Path, lines: list[int]) -> Iterator[Example]:
    shared = {key: content[key] for key in ("kind", "tools", "options") if key in content}
    for at, given in enumerate(content.get("example", [])):
        line = lines[at] if at < len(lines) else 1
        where = f"{path} line {line}"
        _check(given, _OF_EXAMPLE, where)
        if "text" not in given:
            raise ConstrainedError("an example without a text", where=where, instead='text = "…"')
        wrong = [key for key in _OF_FORMATS if key in given and "format" not in content]
        if wrong:
            raise ConstrainedError(f"{wrong[0]} is said of chat formats", where=where, instead="leave it out")
        question = {**shared, **{key: given[key] for key in ("kind", "tools", "options") if key in given}}
        yield Example(
            given["text"], given.get("valid", True), str(path), line, _line_of_text(path, line),
            given.get("strict"), given.get("reading"), question,
        )  # fmt: skip


def _line_of_text(path: Path, line: int) -> int:
    """Return the line in which the first line of an example's text stands."""
    lines = _text_of(path).split("\n")
    for number in range(line, len(lines)):
        found = re.match(r'\s*text\s*=\s*("""|\'\'\')?(.*)', lines[number])
        if found:
            return number + 1 + (found[1] is not None and not found[2])
    return line


def _in_document(content: Mapping[str, Any], path: Path) -> Iterator[Example]:
    said = {info.strip(): valid for valid in (True, False) for info in content.get("valid" if valid else "invalid", [])}
    if not said and "document" not in content:
        return
    if "document" not in content or not said:
        raise ConstrainedError(
            f"{path}: which blocks?", because="document, and valid or invalid, belong together",
            instead='document = "protocol.md" and valid = ["task"]')
    document = path.parent / content["document"]
    text, met = _text_of(document), set[str]()
    shared = {key: content[key] for key in ("kind", "tools", "options") if key in content}
    for match in _BLOCK.finditer(text):
        info = match["info"].strip()
        if info not in said:
            continue
        met.add(info)
        first = text.count("\n", 0, match.start("text")) + 1
        body = match["text"].removesuffix("\n")
        for at, line in enumerate(body.split("\n") if content.get("each_line") else [body]):
            yield Example(line, said[info], str(document), first + at, first + at, question=shared)
    if missing := [info for info in said if info not in met]:
        raise ConstrainedError(f"{document} has no code block '{missing[0]}'", where=str(path))


def _of_grammar(grammar: Grammar) -> Callable[[Example], Outcome]:
    constraint = byte_constraint(grammar)

    def judge(example: Example) -> Outcome:
        error = rejection(constraint, example.text)
        if error is not None or not example.valid or example.reading is None:
            return _verdict(example, error)
        read = captures(constraint, example.text)
        for rule, texts in example.reading.items():
            name = rule if rule in read else re.sub("[^a-z0-9]+", "_", rule.lower())
            found = [capture.text for capture in read[name]]
            if found != texts:
                return Outcome(example, False, f"rule {rule} reads {found}, not {texts}")
        return Outcome(example, True, "valid, and read as it says")

    return judge


def _of_format(chat: ChatFormat) -> Callable[[Example], Outcome]:
    def judge(example: Example) -> Outcome:
        question = dict(example.question or {})
        options = question.pop("options", {})
        question.setdefault("kind", "assistant_turn")
        try:
            read = chat.parse(example.text, strict=example.strict is True, **question, **options)
        except Rejected as error:
            return _verdict(example, error)
        if example.valid and example.strict is False:
            try:
                chat.parse(example.text, strict=True, **question, **options)
                return Outcome(example, False, "the strict reader takes it, too")
            except Rejected:
                pass
        if example.valid and example.reading is not None and (found := _plain(read)) != example.reading:
            return Outcome(example, False, f"read as {found}, not {example.reading}")
        return _verdict(example, None)

    return judge


def _verdict(example: Example, error: Rejected | None) -> Outcome:
    found = "valid" if error is None else "refused"
    return Outcome(example, example.valid == (error is None), found, error)


def _plain(read: Any) -> Any:
    """Return what was read as an example says it: a message, a list of them, or a call."""
    if isinstance(read, list):
        return [_plain(one) for one in read]
    if isinstance(read, ToolCall):
        return {"name": read.name, "arguments": read.arguments}
    assert isinstance(read, Message)
    said = {"content": read.content, "thoughts": read.thoughts, "tool_calls": _plain(read.tool_calls)}
    return {key: value for key, value in said.items() if value}
