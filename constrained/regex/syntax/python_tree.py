r"""The parse tree that Python's `re` makes of a pattern, and the names of the operators in it.

    >>> items, flags = parsed("a+|b")
    >>> [(operator is op.BRANCH, len(argument[1])) for operator, argument in items]
    [(True, 2)]

`re` documents no parse tree, so this is the only module that touches its private parts, and whoever reads patterns
reads trees from here. `tests/test_python_tree.py` holds the shapes of all operators that are relied on; `TESTED` says
up to which Python they were compared.

Refused: a parser of our own, as syntax, flags and error positions would differ from what users of `re` know.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from re import _constants as op
from re import _parser
from typing import Any, TypeAlias

from constrained.work import spend

TESTED = (3, 13)  # the last Python whose trees were compared

Items: TypeAlias = list[tuple[Any, Any]]  # operator, argument

CHARACTERS = (op.LITERAL, op.NOT_LITERAL, op.IN, op.ANY)  # operators of items that match one character
INLINE = re.IGNORECASE | re.DOTALL | re.MULTILINE | re.VERBOSE | re.ASCII | re.UNICODE


def parsed(pattern: str, flags: int = 0) -> tuple[Items, int]:
    """Return the items of a pattern and the flags that hold for all of it.

    What `re` warns of (sets in sets, which it may read otherwise one day) is read as today and not passed on: the
    pattern may be a stranger's, and where warnings are errors the program would end here.
    Raises: re.error, RecursionError, OverflowError: as `re.compile`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = _parser.parse(pattern, flags)
        # the widths of look-behinds are checked here.  PERF: optimising a class beyond U+FFFF costs 1-2 ms
        if "(?<" in pattern:
            spend(20 * len(pattern))
            re.compile(pattern, flags)
    return list(tree), tree.state.flags & INLINE


def flattened(items: Any) -> Iterator[tuple[Any, Any]]:
    """Yield items, those of groups without flags in their place."""
    for operator, argument in items:
        if operator is op.SUBPATTERN and not argument[1] and not argument[2]:
            yield from flattened(argument[3])
        else:
            yield operator, argument


__all__ = ["CHARACTERS", "INLINE", "TESTED", "Items", "flattened", "op", "parsed"]
