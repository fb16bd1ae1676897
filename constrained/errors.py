"""Every error of the package, and the form of its message; the words are those of whoever raises it.

    ConstrainedError
    ├── GrammarError          a grammar, regular expression or format file is wrong        (the caller's side)
    ├── SchemaError           a JSON Schema or tool definition is wrong
    │   └── UnsupportedSchema   it is right, but cannot be compiled exactly
    ├── VocabularyError       a tokenizer cannot be read exactly, or lacks what a grammar names
    ├── BitmaskError          an array is no bitmask of this vocabulary
    ├── UnknownRule           no rule of a grammar has this name, where its captures are asked for
    ├── NothingAllowed        every token that the grammar allows was forbidden by something else, or there is none
    ├── LimitExceeded         a bound on work or memory was reached
    └── Rejected              a text or token is not in the language                       (the text's fault)

A message answers four questions: *what* failed, *where*, *because* of what, and what to do *instead*.  Its first line
stands alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def compose(
    what: str,
    where: str | None = None,
    because: str | None = None,
    instead: str | None = None,
    shown: str | None = None,
) -> str:
    """Return the message in the house form; absent parts leave no trace.

    >>> print(compose("unknown format 'foo'", because="no such file", instead="one of: hermes"))
    unknown format 'foo'
      because: no such file
      instead: one of: hermes
    """
    lines = [_cut(what, 700) if where is None else f"{_cut(what, 700)} at {_cut(where, 400)}"]
    lines += [f"  {line}" for line in shown.splitlines()] if shown else []
    if because:
        lines.append(f"  because: {_cut(because, 500)}")
    if instead:
        lines.append(f"  instead: {_cut(instead, 350)}")
    return "\n".join(lines)


def _cut(part: str, most: int) -> str:
    """Return a part of a message in `most` bytes of UTF-8: a message quotes what strangers wrote, and that may be long
    or no text at all.
    """
    if len(part) * 4 <= most and part.isascii():
        return part
    data = (
        part[: most + 1].encode("utf-8", "backslashreplace")
        if len(part) > 2 * most
        else part.encode("utf-8", "backslashreplace")
    )
    if len(data) <= most and len(part) <= 2 * most:
        return data.decode()
    tail = part[-(most // 4) :].encode("utf-8", "backslashreplace")[-(most // 4) :].decode("utf-8", "ignore")
    return f"{data[: most - most // 4 - 5].decode('utf-8', 'ignore')} … {tail}"


def shown(value: object, most: int = 60) -> str:
    """Return how messages show a value that a caller handed over: its `repr`, cut, or its type where it has none that
    is fit to print.

    >>> shown("no"), shown(10**100), shown("x" * 100, 10)
    ("'no'", 'an int of 333 bits', "'xxxxxxxx…")
    """
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an int of {value.bit_length()} bits"
    if type(value).__repr__ is object.__repr__:  # it would show an address
        return f"a {type(value).__name__}"
    try:
        text = repr(value[:most] if isinstance(value, (str, bytes, bytearray, list, tuple)) else value)
    except Exception:
        return f"a {type(value).__name__}"
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= most else text[: most - 1] + "…"


def said_by(error: Exception) -> str:
    """Return what an error of Python or of the system says, without its number and the path that the caller knows.

    >>> said_by(FileNotFoundError(2, "No such file or directory", "tools.json"))
    'no such file or directory'
    """
    return error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)[:200]


class ConstrainedError(Exception):
    """Base of all errors here; the parts of the message are attributes."""

    def __init__(
        self, what: str, *, where: str | None = None, because: str | None = None, instead: str | None = None
    ) -> None:
        super().__init__(compose(what, where, because, instead))
        self.what, self.where, self.because, self.instead = what, where, because, instead

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (type(self), self.__dict__, self.args)


def _restore(kind: type[ConstrainedError], state: dict[str, object], args: tuple[object, ...]) -> ConstrainedError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class GrammarError(ConstrainedError, ValueError):
    """A grammar, regular expression or format file cannot be read or has no meaning."""


class UnsupportedExport(GrammarError):
    """Another notation cannot say what a grammar or a format says."""


class SchemaError(ConstrainedError, ValueError):
    """A JSON Schema or a tool definition is wrong; `where` is a JSON pointer."""


class UnsupportedSchema(SchemaError):
    """A correct schema whose language cannot be compiled exactly."""


class VocabularyError(ConstrainedError, ValueError):
    """A tokenizer cannot be read exactly, or lacks a token that a grammar names."""


class BitmaskError(ConstrainedError, ValueError):
    """An array has the wrong type, shape or layout for a bitmask, or lacks the row."""


class UnknownRule(ConstrainedError, KeyError):
    """No rule has the name by which the captures of a text were asked for."""

    __str__ = Exception.__str__  # that of KeyError shows a name alone


class NothingAllowed(ConstrainedError, RuntimeError):
    """No token is left to generate: the grammar's tokens have no finite logit, or the vocabulary has none for it."""


class LimitExceeded(ConstrainedError, RuntimeError):
    """A bound on work or memory was reached; nothing was lost and the limit can be raised.

    `rows` names the rows of a batch that were concerned, see `fill_masks`.
    """

    rows: tuple[int, ...] = ()


_NEW_FROM: Any = BaseException.args  # what `__new__` was given, until `__init__` puts the message there


class Rejected(ConstrainedError):
    """A text or token is not in the language.

    `position` counts bytes from the start of the text (tokens: of what was generated); `expected` says what could have
    come.  Of a chat format's text, `layer` is "structure" (tokens, roles, stops, order), "syntax" (of arguments),
    "tool" or "schema"; `line` and `column` count from 1; `message` and `call` number them from 1, `pointer` is the JSON
    pointer inside the call's arguments, `rule` the rule of the format that was being read, `keyword` and
    `schema_pointer` the keyword of the tool's schema; `others`: what else is wrong, if asked for.

    To find out what could have come may cost as much as ten masks, and whoever tries tokens reads few of the
    answers; so a rejection that is made by `__new__` of a function and what that is given finds its attributes and
    message when they are first read: the function returns them as the arguments of the class.
    """

    layer: str | None = None
    line: int | None = None
    column: int | None = None
    message: int | None = None
    call: int | None = None
    pointer: str | None = None
    rule: str | None = None
    keyword: str | None = None
    schema_pointer: str | None = None
    shown: str | None = None
    others: tuple[Rejected, ...] = ()

    def __getattr__(self, name: str) -> Any:
        find, *given = _NEW_FROM.__get__(self) or (None,)
        if callable(find) and not name.startswith("_"):  # of two threads, both may find them
            self.__init__(**find(*given))  # type: ignore[misc]
        if name not in self.__dict__:
            raise AttributeError(f"Rejected has no attribute {name!r}", name=name, obj=self)
        return self.__dict__[name]

    @property
    def args(self) -> tuple[Any, ...]:
        return (str(self),)

    @args.setter
    def args(self, value: tuple[Any, ...]) -> None:
        """The message is worded from the attributes."""

    def __str__(self) -> str:
        return compose(self.what, self.where, self.because, self.instead, self.shown)

    def __repr__(self) -> str:
        return f"Rejected({str(self)!r})"

    def __reduce__(self) -> tuple[object, ...]:
        str(self)
        return super().__reduce__()

    def __init__(
        self, what: str, *, where: str | None = None, because: str | None = None, instead: str | None = None,
        position: int | None = None, expected: str | None = None, **details: Any,
    ) -> None:
        super().__init__(what, where=where, because=because, instead=instead)
        self.position, self.expected = position, expected
        self.__dict__.update(details)


@contextmanager
def needing(what: str, extra: str) -> Iterator[None]:
    """Say what to install where an import in the block fails; what: what cannot be done without."""
    try:
        yield
    except ImportError as error:
        because = f"{error.name} is not installed" if isinstance(error, ModuleNotFoundError) else str(error)
        instead = f"pip install 'constrained-generation[{extra}]'"
        raise ConstrainedError(f"cannot {what}", because=because, instead=instead) from error
