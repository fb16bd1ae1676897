"""Chat templates, as transformers renders them: Jinja2's immutable sandbox, with the filters and functions that
templates ask for.

A template is somebody else's program.  In the sandbox it neither reaches Python nor changes what it is given.
"""

from __future__ import annotations

import json
from datetime import datetime
from functools import lru_cache
from typing import Any

from constrained.errors import GrammarError, said_by


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
