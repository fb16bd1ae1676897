"""The language that a command keeps to: exactly one of chat format, schema, pattern, Lark file and list of texts."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Annotated, Any, Self

import typer

from constrained.cli.inputs import as_utf8, read_json, read_tools
from constrained.errors import ConstrainedError
from constrained.formats import ChatFormat
from constrained.grammar import Grammar


class Whitespace(StrEnum):
    """Blanks between the signs of JSON."""

    FLEXIBLE = "flexible"
    CANONICAL = "canonical"
    COMPACT = "compact"


class Order(StrEnum):
    """Where properties stand in an object."""

    ANY = "any"
    SCHEMA = "schema"


class Profile(StrEnum):
    """What a schema is read for; see `schema.profiles`."""

    PRACTICAL = "practical"
    EXACT = "exact"


class Unsupported(StrEnum):
    """What to do about keywords that cannot be compiled exactly."""

    RAISE = "raise"
    WIDEN = "widen"


RegexOption = Annotated[
    str | None, typer.Option("--regex", callback=as_utf8, help="Python regular expression of the whole text.")
]
LarkOption = Annotated[str | None, typer.Option("--lark", help="Lark file.")]
TextsOption = Annotated[
    list[str] | None, typer.Option("--choice", callback=as_utf8, help="A text to choose from; repeatable.")
]
ProfileOption = Annotated[
    Profile, typer.Option("--profile", help="Of a schema: what its readers load, or its whole language.")
]
WhitespaceOption = Annotated[
    Whitespace | None, typer.Option("--whitespace", help="Of a schema's JSON; default: the profile's.")
]
OrderOption = Annotated[
    Order | None, typer.Option("--property-order", help="Of a schema's objects; default: the profile's.")
]
UnsupportedOption = Annotated[
    Unsupported, typer.Option("--unsupported", help="Keywords of a schema that cannot be compiled exactly.")
]
ParallelOption = Annotated[
    bool | None,
    typer.Option("--parallel/--no-parallel", help="Several tool calls in one turn; default: as the format has it."),
]


@dataclass(frozen=True, slots=True)
class LanguageOptions:
    """The options of a command that name a language; the first five: one of them."""

    format: str | None = None
    schema: str | None = None
    regex: str | None = None
    lark: str | None = None
    choice: list[str] | None = None
    tools: str | None = None
    tool_choice: str = "auto"
    parallel: bool | None = None
    profile: str = Profile.PRACTICAL
    whitespace: str | None = None
    property_order: str | None = None
    unsupported: str = Unsupported.RAISE

    @classmethod
    def among(cls, options: Mapping[str, Any]) -> Self:
        """Return the language that the options of a command name; others are left alone.

        >>> LanguageOptions.among({"regex": "a+", "seed": 1}).regex
        'a+'
        """
        return cls(**{field.name: options[field.name] for field in fields(cls) if field.name in options})

    def told(self) -> Grammar:
        """Return the grammar, and warn of what it leaves to be checked afterwards; see `grammar`."""
        grammar = self.grammar()
        for widened in grammar.widened:
            warnings.warn(f"{widened.pointer} is not enforced: {widened.because}", stacklevel=2)
        return grammar

    def grammar(self) -> Grammar:
        """Return the grammar.

        Raises: ConstrainedError: not exactly one language, or options that do not belong to it; what reading it raises.
        """
        given = [name for name in ("format", "schema", "regex", "lark", "choice") if getattr(self, name)]
        if len(given) != 1:
            said = " and ".join(f"--{name}" for name in given) or "none"
            raise ConstrainedError(
                "which language?",
                because=f"exactly one of --format, --schema, --regex, --lark, --choice is needed; given: {said}",
            )
        if self.format is None and self.tools is not None:
            raise ConstrainedError("--tools without --format", because=f"--{given[0]} has no tools")
        return getattr(self, f"_{given[0]}")()  # type: ignore[no-any-return]

    def _format(self) -> Grammar:
        return self.chat().grammar(self.definitions(), tool_choice=self.tool_choice, parallel_tool_calls=self.parallel)

    def _schema(self) -> Grammar:
        assert self.schema is not None
        return Grammar.from_json_schema(
            read_json(self.schema),
            profile=self.profile,
            whitespace=self.whitespace,
            property_order=self.property_order,
            unsupported=self.unsupported,
        )

    def _regex(self) -> Grammar:
        assert self.regex is not None
        return Grammar.from_regex(self.regex)

    def _lark(self) -> Grammar:
        assert self.lark is not None
        if ":" in self.lark and not os.path.exists(self.lark):
            raise ConstrainedError(
                "--lark takes a file",
                because=f"no file is named {self.lark!r:.60}",
                instead="the text in a file of its own, for instance --lark grammar.lark; or --regex, --choice",
            )
        return Grammar.from_lark_file(self.lark)

    def _choice(self) -> Grammar:
        return Grammar.choice(self.choice or [])

    def chat(self) -> ChatFormat:
        """Return the chat format, which was asked for."""
        assert self.format is not None
        return ChatFormat.load(self.format)

    def definitions(self) -> list[dict[str, Any]] | None:
        """Return the tools' definitions."""
        return read_tools(self.tools)
