"""What people do with grammars: read them from Lark, patterns, schemas and texts; combine, lower and print them.

This lies above `ir`, whose `Productions` are the grammar itself, and above all that reads and writes these.  What only
some grammars need (lark, the printer, JSON Schema) loads when it is first asked for.

Tested by `tests/test_compose.py`, `tests/test_lark.py` and every test that compiles a grammar.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import constrained.grammar.compose as compose
from constrained.caches import cached
from constrained.errors import GrammarError, UnsupportedExport, shown
from constrained.grammar.ir import Pattern, Productions, Rule
from constrained.grammar.lower import Alone, Lowering, lowered
from constrained.machine import State
from constrained.once import once
from constrained.regex import parse_python

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from constrained.export.lark import PrintedLark


class Grammar(Productions):
    """A context-free language of bytes and special tokens, and all that makes one, combines and asks it; its fields are
    those of `Productions`.
    """

    @classmethod
    def of(cls, productions: Productions) -> Self:
        """Return productions as a grammar; what has been computed of them stays."""
        grammar = object.__new__(cls)
        grammar.__dict__.update(productions.__dict__)
        return grammar

    @classmethod
    def from_lark(
        cls, text: str, start: str = "start", specials: Collection[str] | Mapping[str, str] = (),
        declare: Mapping[str, str] | None = None, define: Mapping[str, Grammar] | None = None,
    ) -> Self:
        """Return the grammar of a Lark text, which opens no file; what it means is said in `lark.reader`.

        specials: texts of literals that are special tokens, or names of declared terminals → these; all else is text.
        declare: names of declared terminals → texts.  define: grammars of rules that the text uses and does not define.
        A text that was read shortly before is the same grammar, with all that was computed of it.

        >>> Grammar.from_lark('start: "a" start "b" |').nullable
        True
        """
        if type(text) is type(start) is str and (specials, declare, define) == ((), None, None):
            return _of_text(cls, text, start)
        from constrained.grammar.lark.reader import read

        grammar = cls.of(read(text, start, specials, declare, define))
        return grammar.made_by("lark", text, start, _plain(specials), declare, define)

    @classmethod
    def from_lark_file(
        cls, path: str | os.PathLike[str], start: str | None = None, specials: Collection[str] | Mapping[str, str] = (),
        declare: Mapping[str, str] | None = None, import_paths: Collection[str | os.PathLike[str]] = (),
        define: Mapping[str, Grammar] | None = None,
    ) -> Self:
        """Read a Lark file, which may import files below its own folder, the `import_paths` and the folder of the
        grammars that come with the package (``%import json.json_object``); else as `from_lark`.

        start: None: the rule `start`, or the first one where no rule is called so.
        """
        from constrained.grammar.lark.reader import read_file

        grammar = cls.of(read_file(path, start, specials, declare, import_paths, define))
        if grammar.source is None:
            return grammar
        return grammar.made_by("lark", grammar.source, grammar.start, _plain(specials), declare, define)

    @classmethod
    def from_gbnf(cls, text: str, start: str = "root", specials: Collection[str] = ()) -> Self:
        """Return the grammar of a text in llama.cpp's GBNF; `specials`: special tokens that it may name, "<think>".

        Raises: GrammarError: at its place in the text, for what is wrong or cannot be said; so do the other notations.

        >>> Grammar.from_gbnf('root ::= "a" root "b" | ""').nullable
        True
        """
        return cls._of_notation(text, "gbnf", start, specials)

    @classmethod
    def from_ebnf(cls, text: str, start: str = "root") -> Self:
        """Return the grammar of a text in XGrammar's EBNF."""
        return cls._of_notation(text, "ebnf", start)

    @classmethod
    def from_llguidance(
        cls, text: str, specials: Collection[str] = (), define: Mapping[str, Grammar] | None = None
    ) -> Self:
        """Return the grammar of a text in llguidance's Lark; `define`: the grammars that it names with an @."""
        return cls._of_notation(text, "llguidance", None, specials, define)

    @classmethod
    def from_abnf(cls, text: str, start: str | None = None) -> Self:
        """Return the grammar of a text in ABNF, RFC 5234 and 7405; `start`: the first rule, if no other is named."""
        return cls._of_notation(text, "abnf", start)

    @classmethod
    def from_iso_ebnf(cls, text: str, start: str | None = None) -> Self:
        """Return the grammar of a text in EBNF as ISO/IEC 14977 has it; `start`: as of `from_abnf`."""
        return cls._of_notation(text, "iso-ebnf", start)

    @classmethod
    def _of_notation(
        cls, text: str, notation: str, start: str | None, specials: Collection[str] = (),
        define: Mapping[str, Grammar] | None = None,
    ) -> Self:
        from constrained.notations import translated

        grammar = cls.of(translated(text, notation, start, specials, define=define).grammar())
        return grammar if define else grammar.made_by("notation", text, notation, start, _plain(specials))

    @classmethod
    def from_regex(cls, pattern: str) -> Self:
        """Return the grammar of the texts that a Python regular expression matches in full."""
        if not isinstance(pattern, str):
            raise GrammarError(f"a pattern is {shown(pattern)}", instead="a text in the syntax of Python's re module")
        rules = {"start": Rule("start", ((Pattern(parse_python(pattern), pattern),),))}
        return cls(rules, source=pattern).made_by("regex", pattern)

    @classmethod
    def from_json_schema(
        cls,
        schema: Any,
        *,
        profile: str | None = None,
        surface: str = "json",
        whitespace: str | None = None,
        spelling: str | None = None,
        property_order: str | None = None,
        closed: bool | None = None,
        unsupported: str = "raise",
        formats: str | None = None,
        numbers: str | None = None,
        max_whitespace: int | None = None,
        separators: tuple[str, str] | None = None,
        indent: int | None = None,
        around: str = "nothing",
        strict: bool = False,
        documents: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return the grammar of the instances of a JSON Schema, written as JSON or as Python literals; see
        `schema.embed` for the switches.

        around: "nothing" stands before and behind the value; or "whitespace" may, as RFC 8259 allows of a JSON text.

        schema: also a Python type (a pydantic model, dataclass, ``TypedDict``, ``list[int]``, …), or a callable: its
        keyword arguments. profile: "exact", the specification's whole language; or "practical", what its readers load:
        properties in their order, objects closed, one spelling, numbers of machine size; see `schema.profiles`.
        Default: practical for types, exact for schemas.
        """
        switches = {
            "whitespace": whitespace, "spelling": spelling, "property_order": property_order, "closed": closed,
            "formats": formats, "numbers": numbers, "max_whitespace": max_whitespace,
            "separators": separators, "indent": indent,
        }  # fmt: skip
        given = {"surface": surface, "unsupported": unsupported, "strict": strict, "documents": documents}
        for name, value in switches.items():
            if value is not None:
                given[name] = value
        if around not in ("nothing", "whitespace"):
            raise GrammarError(f"unknown around {shown(around)}", instead="one of: 'nothing', 'whitespace'")
        from constrained.schema.embedding import machine_of

        grammar = compose.of_machine(machine_of(schema, profile, given), cls)
        if around == "nothing":
            return grammar
        blanks = cls.from_regex(r"[ \t\n\r]{0,1024}")  # as many as between values
        return blanks + grammar + blanks

    @classmethod
    def choice(cls, texts: Iterable[str]) -> Self:
        """Return the grammar of some texts: ``Grammar.choice(["yes", "no"])``."""
        texts = list(texts) if isinstance(texts, Iterable) and not isinstance(texts, (str, bytes)) else texts
        return cls.of(compose.choice(texts)).made_by("choice", texts)

    @classmethod
    def text(cls, until: str | None = None, max_tokens: int | None = None) -> Self:
        """Return the grammar of any text; with `until`, of text up to and with the first place where that stands.

        max_tokens: generations end the text, `until` included, within so many tokens, and can always do so; whatever
        budget the whole has, what follows is not counted here.  Such a text leads: ``thought + answer``.  It is no part
        of the language: texts are read without it.
        """
        call = (until,) if max_tokens is None else (until, max_tokens)
        return cls.of(compose.text(until, max_tokens)).made_by("text", *call)

    @classmethod
    def substring_of(cls, source: str) -> Self:
        """Return the grammar of the non-empty texts that stand in `source` in one piece: verbatim quotes."""
        return cls.of(compose.substring_of(source)).made_by("quotes", source)

    def __add__(self, other: Grammar) -> Self:
        """Return the words of this grammar, each followed by a word of the other."""
        return self.of(compose.sequence(self, other)).made_by("sequence", self, other)

    def __radd__(self, other: object) -> Self:
        """Refuse what is no grammar in front as behind, by an error that says what to write instead."""
        return self.of(compose.sequence(other, self))  # type: ignore[arg-type]

    def __or__(self, other: Grammar) -> Self:
        """Return the words of both grammars."""
        return self.of(compose.either(self, other)).made_by("either", self, other)

    __ror__ = __radd__

    def optional(self) -> Self:
        """Return the words of this grammar, and the empty one."""
        return self.of(compose.optional(self)).made_by("optional", self)

    def repeat(self, least: int, most: int | None) -> Self:
        """Return from `least` to `most` (None: any number) words of this grammar in a row."""
        return self.of(compose.repeated(self, least, most)).made_by("repeat", self, least, most)

    @once
    def _lowering(self) -> Alone | Lowering:
        return lowered(self)

    @property
    def nullable(self) -> bool:
        """Whether the empty text is a word."""
        return self._lowering.nullable

    def start_state(self) -> State:
        """Return the machine state of the whole grammar; it accepts at once if the grammar is `nullable`.

        Raises: GrammarError: when no word exists.
        """
        return self._lowering.start

    def to_lark(self, *, exact: bool = False) -> PrintedLark:
        """Return the grammar as one Lark file, which the `lark` library reads with the same meaning.

        What a Lark file cannot say stands in its comments, in `widened` and `narrowed` of the text, and in those of the
        grammar that is read from this text; with `exact` it is an error.
        """
        from constrained.export.lark import write

        return write(self, exact=exact)

    def to_response_template(self) -> dict[str, Any]:
        """Return the response template of transformers, vLLM and SGLang by which their parsers read what this grammar
        of a chat format generates.

        Raises: UnsupportedExport: it is not of a chat format, or a response template cannot say it.
        """
        template: Callable[[], dict[str, Any]] | None = self.__dict__.get("response_template")
        if template is None:
            because = "it is no grammar that ChatFormat.grammar returns"
            raise UnsupportedExport("the grammar has no response template", because=because)
        return template()


Kind = TypeVar("Kind", bound=Grammar)


@cached(32, 200_000)
def _of_text(kind: type[Kind], text: str, start: str) -> Kind:
    """Return the grammar of a Lark text that is given nothing else."""
    from constrained.grammar.lark.reader import read

    return kind.of(read(text, start)).made_by("lark", text, start, [], None, None)


def _plain(names: Collection[str] | Mapping[str, str]) -> list[str] | dict[str, str]:
    """Return a copy of names that the caller may change."""
    return dict(names) if isinstance(names, Mapping) else list(names)
