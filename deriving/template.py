"""A chat template as it is given, alone, in a file or with its tokenizer, and the texts that it prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from constrained.deriving.recognise import TemplateRefused, compiled, look

from constrained.errors import ConstrainedError, GrammarError, said_by, shown

Chat = Sequence[Mapping[str, Any]]
NAMED = ("bos_token", "eos_token", "pad_token", "unk_token")
TAKEN = {"bos_token": "<s>", "eos_token": "</s>"}  # where nobody says what they are


class NotPrinted(Exception):
    """A template does not print a conversation: it raised, or what it asks for is not there."""


@dataclass(frozen=True)
class Template:
    """A chat template; `tokens`: those that it may name, `specials`: all special tokens that are known, `told`: whether
    somebody said so.
    """

    source: str
    tokens: Mapping[str, str] = field(default_factory=dict)
    specials: tuple[str, ...] = ()
    told: bool = False
    name: str = "derived"
    always: str = ""  # the generation prompt, where it is printed whether it is asked for or not

    def render(
        self, messages: Chat, tools: Sequence[Any] | None = None, *, opens: bool = False, **switches: Any
    ) -> str:
        """Return the text of a conversation.  Raises: NotPrinted."""
        from jinja2 import TemplateError

        given = {**self.tokens, **switches, "tools": [*tools] if tools else None, "documents": None}
        try:
            text = str(compiled(self.source).render(messages=[*messages], add_generation_prompt=opens, **given))
            return text if opens else text.removesuffix(self.always)
        except (
            TemplateError,
            TemplateRefused,
            ArithmeticError,
            AttributeError,
            LookupError,
            TypeError,
            ValueError,
        ) as error:
            raise NotPrinted(said_by(error)) from error

    @property
    def taken(self) -> dict[str, str]:
        """The tokens that the template names and nobody spelled, as they are taken to be spelled."""
        return {} if self.told else {name: text for name, text in TAKEN.items() if name in self.source}


def template_of(given: Any, special: Any = None) -> Template:
    """Return the template of a tokenizer, of a folder or a file, or a text; special: names of tokens → spellings, or a
    list of these.

    Raises: ConstrainedError: there is none.
    """
    named, listed = _named(special)
    if isinstance(given, (str, Path)) and _is_text(given):
        return _checked(Template(_text_of(given), {**TAKEN, **named}, listed, told=bool(listed), name=_name(given)))
    seen = look(given)
    if seen.template is None:
        because = "the tokenizer has no chat template"
        raise GrammarError("cannot derive a chat format", because=because, instead="ChatFormat.load(name)")
    own = {name: str(text) for name in NAMED if (text := getattr(given, name, None))}
    found = {name: text for name, text in TAKEN.items() if text in seen.tokens}  # where no file names them
    tokens = found | {name: text for name, text in seen.named.items() if name in NAMED} | own | named
    specials = tuple(dict.fromkeys((*listed, *tokens.values(), *sorted(seen.tokens))))
    return _checked(Template(seen.template, tokens, specials, told=True, name=_name(given)))


def _is_text(given: str | Path) -> bool:
    """Return whether a template itself is given, or a file of one."""
    return "{%" in str(given) or "{{" in str(given) or str(given).endswith((".jinja", ".jinja2", ".j2"))


def _text_of(given: str | Path) -> str:
    if "{%" in str(given) or "{{" in str(given):
        return str(given)
    try:
        return Path(given).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConstrainedError(f"cannot read {shown(str(given))}", because=said_by(error)) from error


def _name(given: Any) -> str:
    """Return a name for a format: that of the folder, the file or the tokenizer."""
    if isinstance(given, (str, Path)):
        path = Path(given) if "{%" not in str(given) and "{{" not in str(given) else Path("derived")
        named = path.resolve().parent.name if path.name in ("tokenizer.json", "tokenizer_config.json") else path.stem
        named = path.resolve().name if path.is_dir() else named
    else:
        named = str(getattr(given, "name_or_path", "")).rstrip("/").rpartition("/")[2]
    return "".join(char if char.isalnum() or char in "-._" else "-" for char in named).strip("-.") or "derived"


def _named(special: Any) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return tokens by name, and the spellings of all."""
    if special is None:
        return {}, ()
    if isinstance(special, Mapping) and all(
        isinstance(text, str) and text for pair in special.items() for text in pair
    ):
        return dict(special), tuple(special.values())
    if isinstance(special, (list, tuple)) and all(isinstance(text, str) and text for text in special):
        return {}, tuple(special)
    raise GrammarError(f"special is {shown(special)}", instead='a list of tokens, or {"eos_token": "<|im_end|>"}')


def _checked(template: Template) -> Template:
    compiled(template.source)
    return template
