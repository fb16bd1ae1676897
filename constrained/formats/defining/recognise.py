"""A tokenizer → the name of its chat format, by the chat template that it carries, else by its special tokens.

What tells formats apart is data, ``grammars/recognise.toml``.  Where nothing tells, or several formats are left, that
is an error with what was seen and what is left: a wrong format makes wrong masks and nobody notices.  So what a
template holds only proposes formats; what it prints decides, see `writing.template`.

Tested in tests/test_recognise.py.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from constrained.errors import ConstrainedError, GrammarError, said_by, shown


class Seen(NamedTuple):
    """What a tokenizer shows of its format: its chat template, its special and added tokens, mistral-common's
    version of it, and the tokens that its template knows by a name.
    """

    template: str | None
    tokens: frozenset[str]
    version: str | None
    named: Mapping[str, str] = {}


def format_of(seen: Seen, folder: Path, differs: Callable[[str], str]) -> str:
    """Return the name of the format; differs: where the template and a format of this name differ, "" if nowhere.

    Raises: GrammarError: it cannot be told.
    """
    rows = _rows(folder)
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


@lru_cache(maxsize=4)
def _rows(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "recognise.toml").read_text(encoding="utf-8"))


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
    return Seen(_template(getattr(tokenizer, "chat_template", None)), frozenset(tokens), None)


def _look_in(path: Path) -> Seen:
    """Return what the files of a tokenizer show: its folder, or a file in it."""
    try:
        folder = path if path.is_dir() else path.parent
    except (OSError, ValueError) as error:  # no name of a file: too long
        raise ConstrainedError(f"cannot read {shown(str(path))}", because=said_by(error)) from error
    template, tokens, named = None, set[str](), dict[str, str]()
    for name in ("tokenizer_config.json", "tokenizer.json"):
        if (folder / name).is_file() and (path.is_dir() or path.name == name or name == "tokenizer_config.json"):
            try:
                told = json.loads((folder / name).read_text(encoding="utf-8"))
            except (ValueError, RecursionError) as error:
                raise ConstrainedError(f"cannot read {folder / name}", because=said_by(error)) from error
            told = told if isinstance(told, dict) else {}
            template = template or _template(told.get("chat_template"))
            tokens.update(_contents(told.get("added_tokens_decoder") or told.get("added_tokens")))
            named |= {key: text for key, token in told.items() if key.endswith("_token") for text in _text(token)}
    if (folder / "chat_template.jinja").is_file():
        template = (folder / "chat_template.jinja").read_text(encoding="utf-8")
    if template is None and not tokens:
        raise ConstrainedError(
            f"{path} shows no tokenizer", instead="a folder with tokenizer_config.json or tokenizer.json"
        )
    return Seen(template, frozenset(tokens), None, named)


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
