"""A constraint ↔ a file that may come from a stranger.

What is written is not what was computed but what was asked for: the calls that made the grammar (`recipe`), as
JSON.  To load is to make these calls again, each of which checks its arguments as it would those of any caller, and to
compare: the grammar and the vocabulary must have the fingerprints that the file names.  So a file runs no code, opens
no other file and cannot make a mask allow what the grammar does not; the worst it can do is ask for much work, which is
bounded by the loader's bounds and not by the file's.

Refused: to visit them at once, which takes ten times as long as all else; to keep states and masks, which nothing short
of making them again could check.

Left out: grammars whose rules were put together by hand or changed afterwards, formats that were respelled, Lark files
that import others. Tested in tests/test_stored.py.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from typing import Any

from constrained.engine.compiled import CompiledGrammar, CompileOptions, Kind
from constrained.engine.tokens.vocabulary import Vocabulary, replace_file
from constrained.errors import ConstrainedError, GrammarError, VocabularyError, said_by, shown
from constrained.formats import ChatFormat
from constrained.grammar import Grammar
from constrained.integrations.held import vocabulary_of
from constrained.schema.by_content import values_of
from constrained.work import metered, working_on

FORMAT = 1  # of the file; others are refused
MOST_BYTES = 1 << 26
_SMALL = 1 << 16  # bytes of nearly all files
MOST_PARTS = 100_000
_BOUNDS = ("kernel", "cache_bytes", "max_configurations", "max_work", "deadline", "cancelled")
# What `ChatFormat.grammar` names its content by, in this order.
_FORMAT_ARGUMENTS = (
    "tools", "tool_choice", "parallel_tool_calls", "max_calls", "options", "whitespace", "property_order", "closed",
    "unsupported", "formats", "thinking",
)


def save(
    constraint: CompiledGrammar,
    path: str | os.PathLike[str],
    formats: Mapping[str, ChatFormat] | None = None,
) -> None:
    """Write a constraint into a file; see `Constraint.save`."""
    grammar = constraint.grammar
    parts = _parts(grammar)
    _compare(
        grammar, made(parts, formats), "the grammar cannot be saved",
        "it was changed after it was made, or made of files of its own",
    )
    content = {
        "constrained": FORMAT, "grammar": {"fingerprint": grammar.fingerprint, "parts": parts},
        "vocabulary": {"fingerprint": constraint.vocabulary.fingerprint, "size": constraint.vocabulary.size},
        "spell_missing": constraint.options.spell_missing}
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    if len(data := text.encode("utf-8", "surrogatepass")) > MOST_BYTES:
        raise ConstrainedError(
            "the constraint is too large to save", because=f"it takes {len(data):,} bytes, the limit is {MOST_BYTES:,}"
        )
    replace_file(path, [data])


def load(
    path: str | os.PathLike[str],
    vocabulary: Any,
    *,
    formats: Mapping[str, ChatFormat] | None,
    options: Mapping[str, Any],
    kind: type[Kind],
) -> Kind:
    """Return the constraint that a file describes; see `Constraint.load`."""
    unknown = sorted(options.keys() - set(_BOUNDS))
    if unknown:
        raise ConstrainedError(f"load takes no {unknown[0]!r}", instead="one of: " + ", ".join(_BOUNDS))
    data = _read(path)
    content = _content(path, data)
    table = vocabulary if isinstance(vocabulary, Vocabulary) else vocabulary_of(vocabulary)
    fingerprint, wanted = table.fingerprint, content["vocabulary"]["fingerprint"]
    if fingerprint != wanted:
        raise VocabularyError(
            "the file is for another vocabulary",
            where=str(path),
            because=(
                f"its fingerprint is {fingerprint:.12}…, the file's {shown(wanted, 16)}, of size "
                f"{shown(content['vocabulary'].get('size'))}"
            ),
            instead="the vocabulary that it was saved with, or compile again",
        )
    try:
        grammar = made(content["grammar"]["parts"], formats or {})
    except ConstrainedError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError, IndexError, RecursionError) as error:
        raise _damaged(path, f"its grammar cannot be made again ({type(error).__name__})") from error
    if grammar.fingerprint != content["grammar"]["fingerprint"]:
        raise GrammarError(
            "the file's grammar is another one today", where=str(path),
            because="what its calls make has another fingerprint: it was written by another version, or changed",
            instead="compile again, and save")
    return kind(grammar, table, CompileOptions(spell_missing=content["spell_missing"], **options))


def _read(path: str | os.PathLike[str]) -> bytes:
    """Return all bytes of a file, read once, so that what is checked is what is used.

    Raises: ConstrainedError: it cannot be read, or is too large.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(_SMALL)
            if len(data) == _SMALL:  # to ask for 64 MB at once takes as long as to read a small schema
                data += file.read(MOST_BYTES + 1 - _SMALL)
    except (OSError, TypeError, ValueError) as error:
        raise ConstrainedError(
            "cannot read the constraint", where=shown(path, 200), because=said_by(error)
        ) from error
    if len(data) > MOST_BYTES:
        raise ConstrainedError(
            "the file is too large for a constraint", where=shown(path, 200),
            because=f"the limit is {MOST_BYTES:,} bytes",
        )
    return data


def _content(path: str | os.PathLike[str], data: bytes) -> dict[str, Any]:
    """Return what the text of a file says, of the right shape.

    Raises: ConstrainedError: it is not what `save` writes.
    """
    try:
        content = _JSON.decode(data.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise _damaged(path, "it is no JSON") from error
    if not isinstance(content, dict) or content.get("constrained") != FORMAT:
        raise _damaged(path, f"it does not begin as one, with \"constrained\": {FORMAT}")
    shapes = {"grammar": dict, "vocabulary": dict, "spell_missing": bool}
    wrong = [name for name, kind in shapes.items() if type(content.get(name)) is not kind]
    texts = [content[part].get("fingerprint") for part in ("grammar", "vocabulary") if not wrong]
    if wrong or set(map(type, texts)) != {str} or type(content["grammar"].get("parts")) is not list:
        raise _damaged(path, f"{wrong[0] if wrong else 'a fingerprint or the list of parts'} is missing")
    return content


def _no_constant(name: str) -> float:
    raise ValueError(name)


_JSON = json.JSONDecoder(parse_constant=_no_constant)


def _damaged(path: object, because: str) -> ConstrainedError:
    return ConstrainedError(
        "not a saved constraint", where=shown(path, 200), because=because,
        instead="a file that Constraint.save has written",
    )


# -- grammars ----------------------------------------------------------------------------------------------------------


def _parts(grammar: Grammar) -> list[list[Any]]:
    """Return the calls that make a grammar, those of its parts before its own; a grammar is named by its place in the
    list.

    Raises: GrammarError: one of them is not known, or has arguments that JSON cannot hold.
    """
    places: dict[int, int] = {}
    parts: list[list[Any]] = []
    todo = [grammar]
    while todo:
        grammar_at = todo[-1]
        missing = [part for part in _inner(grammar_at) if id(part) not in places]
        if missing:
            todo += missing
            continue
        todo.pop()
        if id(grammar_at) not in places:
            places[id(grammar_at)] = len(parts)
            parts.append(_part(grammar_at, places))
    return parts


def _inner(grammar: Grammar) -> list[Grammar]:
    if grammar.recipe is None:
        raise GrammarError(
            "the grammar cannot be saved", because="its rules were put together or changed by hand",
            instead="Grammar.from_lark, from_json_schema, from_regex, ChatFormat.grammar, or what + and | make of such")
    inner = [argument for argument in grammar.recipe[1:] if isinstance(argument, Grammar)]
    return inner + (list(grammar.recipe[5].values()) if grammar.recipe[0] == "lark" and grammar.recipe[5] else [])


def _part(grammar: Grammar, places: Mapping[int, int]) -> list[Any]:
    """Return one call as JSON."""
    recipe = grammar.recipe
    assert recipe is not None
    kind, *arguments = recipe
    if kind == "schema":
        schema, documents = arguments[0].source
        given = arguments[0].options
        options = {name: getattr(given, name) for name in given.__slots__ if name not in ("tags", "quote")}
        arguments = [schema, documents, options]
    elif kind == "format":
        if arguments[1] is None:
            raise GrammarError(
                "the format's grammar cannot be saved", because="its tools are not plain JSON, or too many",
                instead="tools as dicts",
            )
        arguments = [arguments[0], dict(zip(_FORMAT_ARGUMENTS, values_of(arguments[1]), strict=True))]
    elif kind == "lark":
        define = arguments[4]
        arguments = [
            *arguments[:4],
            None if define is None else {name: places[id(part)] for name, part in define.items()},
        ]
    else:
        arguments = [places[id(value)] if isinstance(value, Grammar) else value for value in arguments]
    try:
        return [kind, *_as_json(arguments)]
    except (TypeError, ValueError, RecursionError) as error:
        raise GrammarError(
            "the grammar cannot be saved", because=f"JSON does not hold all of it: {str(error)[:200]}"
        ) from error


def _as_json(value: Any) -> Any:
    """Return a value with lists for tuples.

    Raises: TypeError: JSON would give it back as another one.
    """
    if isinstance(value, Mapping):
        if not all(type(key) is str for key in value):
            raise TypeError("a key that is no text")
        return {key: _as_json(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_json(inner) for inner in value]
    if value is None or type(value) in (bool, int, str) or type(value) is float and math.isfinite(value):
        return value
    raise TypeError(f"a {type(value).__name__}")


def made(parts: list[Any], formats: Mapping[str, ChatFormat] | None = None) -> Grammar:
    """Return the grammar that the calls make, the last of them.

    Raises: GrammarError: a call that nothing makes, or too many.  Whatever the calls raise.
    """
    known: list[Grammar] = []
    if not parts or len(parts) > MOST_PARTS:
        raise GrammarError(f"a grammar of {len(parts)} parts", instead=f"from 1 to {MOST_PARTS:,}")
    with metered():  # the parts have one budget
        for at, part in enumerate(parts):
            kind, *arguments = part
            if not isinstance(kind, str) or kind not in _MAKERS:
                raise GrammarError(f"no grammar is made by {shown(kind)}", instead="one of: " + ", ".join(_MAKERS))
            with working_on(f"part {at} of a saved grammar"):
                if kind == "format":
                    known.append(_format(*arguments, formats=formats or {}))
                else:
                    known.append(_MAKERS[kind](known, *arguments))
    return known[-1]


def _lark(known: list[Grammar], text: str, start: str, specials: Any, declare: Any, define: Any) -> Grammar:
    return Grammar.from_lark(
        text, start, specials, declare,
        None if define is None else {name: _at(known, at) for name, at in define.items()},
    )


def _schema(known: list[Grammar], schema: Any, documents: Any, options: Mapping[str, Any]) -> Grammar:
    from constrained.grammar import Embedded, Rule
    from constrained.schema.embedding import embed

    given = {**options, "avoid": tuple(options["avoid"])}
    machine = embed(schema, documents=documents, **given)
    return Grammar({"start": Rule("start", ((Embedded("value", machine),),))}).made_by("schema", machine)


def _format(name: str, arguments: Mapping[str, Any], *, formats: Mapping[str, ChatFormat]) -> Grammar:
    """Return a format's grammar; by name only: a file cannot make its reader open another one."""
    chat = formats.get(name)
    if chat is None:
        if name not in ChatFormat.names():
            raise GrammarError(
                f"unknown format {shown(name)}", because="the file names a format of the one who wrote it",
                instead='Constraint.load(path, vocabulary, formats={"name": ChatFormat.load("mine.toml")})')
        chat = ChatFormat.load(name)
    given = {key: value for key, value in arguments.items() if key not in ("options", "thinking")}
    return chat.grammar(**given, **arguments["thinking"], **arguments["options"])


def _at(known: list[Grammar], place: Any) -> Grammar:
    if type(place) is not int or not 0 <= place < len(known):
        raise GrammarError(f"no part {shown(place)}", because=f"{len(known)} parts are known here")
    return known[place]


_MAKERS: dict[str, Callable[..., Grammar]] = {
    "lark": _lark, "schema": _schema, "format": _format, "regex": lambda _, pattern: Grammar.from_regex(pattern),
    "notation": lambda _, *asked: Grammar._of_notation(*asked), "choice": lambda _, texts: Grammar.choice(texts),
    "text": lambda _, *asked: Grammar.text(*asked), "quotes": lambda _, source: Grammar.substring_of(source),
    "sequence": lambda known, first, second: _at(known, first) + _at(known, second),
    "either": lambda known, first, second: _at(known, first) | _at(known, second),
    "optional": lambda known, one: _at(known, one).optional(),
    "repeat": lambda known, one, least, most: _at(known, one).repeat(least, most),
}


def _compare(grammar: Grammar, again: Grammar, what: str, because: str) -> None:
    """Refuse a grammar that its own calls do not make again."""
    if again.fingerprint != grammar.fingerprint or (again.widened, again.narrowed) != (
        grammar.widened,
        grammar.narrowed,
    ):
        raise GrammarError(
            what, because=because,
            instead="one Lark text, a schema, a shipped format; formats of your own: see `Constraint.load`",
        )
