"""The texts that the parts of Python's string literals mean, whole ones and such as were cut."""

from __future__ import annotations

import ast
import warnings


def decoded(prefix: str, quote: str, body: str) -> str:
    """Return the text of a literal, by its parts.  Raises: SyntaxError, ValueError: it has an escape that is none."""
    if prefix in ("r", "R") or "\\" not in body:
        return body
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes that mean themselves
        return str(ast.literal_eval(quote + body + quote))


def unfinished(prefix: str, quote: str, body: str) -> str:
    """Return what is known of a string that was cut; an escape at its end may be incomplete."""
    for end in range(len(body), max(len(body) - 12, -1), -1):
        try:
            string = decoded(prefix, quote, body[:end])
            string.encode()
        except (SyntaxError, ValueError):
            continue
        return string
    return ""
