"""The keywords of numbers and strings, and enum, one function each; a function narrows the draft of its schema."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from constrained.schema.drafts.scalars import ALL_SCALARS, ScalarDraft, Scalars
from constrained.schema.numeric import ranges
from constrained.schema.numeric.ranges import exact
from constrained.schema.strings import sets as texts
from constrained.schema.strings.formats import format_expr, format_hull
from constrained.schema.strings.sets import Texts
from constrained.work import spend

if TYPE_CHECKING:
    from constrained.schema.reading.nodes import Node

_OTHERS = frozenset({type(None), bool, str, list, dict})  # kinds of values that are no numbers


def minimum(draft: ScalarDraft, value: Any, node: Node) -> None:
    """SPEC: "valid only if the instance is greater than or exactly equal to"; in draft 4 a boolean sibling makes it
    exclusive.
    """
    _raise_low(draft, exact(value), node.schema.get("exclusiveMinimum") is True)


def exclusive_minimum(draft: ScalarDraft, value: Any, node: Node) -> None:
    if type(value) is not bool:
        _raise_low(draft, exact(value), True)


def maximum(draft: ScalarDraft, value: Any, node: Node) -> None:
    _lower_high(draft, exact(value), node.schema.get("exclusiveMaximum") is True)


def exclusive_maximum(draft: ScalarDraft, value: Any, node: Node) -> None:
    if type(value) is not bool:
        _lower_high(draft, exact(value), True)


def _raise_low(draft: ScalarDraft, low: Fraction, open_: bool) -> None:
    if draft.low is None or (low, open_) > (draft.low, draft.low_open):
        draft.low, draft.low_open = low, open_


def _lower_high(draft: ScalarDraft, high: Fraction, open_: bool) -> None:
    if draft.high is None or (high, not open_) < (draft.high, not draft.high_open):
        draft.high, draft.high_open = high, open_


def multiple_of(draft: ScalarDraft, value: Any, node: Node) -> None:
    draft.multiples.append(exact(value))


def min_length(draft: ScalarDraft, value: Any, node: Node) -> None:
    draft.least = int(value)


def max_length(draft: ScalarDraft, value: Any, node: Node) -> None:
    draft.most = int(value)


def pattern(draft: ScalarDraft, value: str, node: Node) -> None:
    draft.languages.append(texts.of_language(texts.of_pattern(value)))


def format_(draft: ScalarDraft, value: str, node: Node) -> None:
    """SPEC: a format that the dialect does not define is an annotation.

    Whoever writes ``"format": "date"`` under an older ``$schema`` means the date of the later draft, so that is what
    "assert" reads.
    """
    dialect, asserted = node.resource.dialect, node.document.asserted_formats
    if asserted == "assert" or value in dialect.formats and (asserted == "dialect" or dialect.asserts_formats):
        language = format_expr(value)
        if language is not None:
            draft.languages.append(Texts(None, language, hull=format_hull(value)))


def enum(draft: ScalarDraft, values: list[Any], node: Node) -> None:
    """Keep the scalars among the values; arrays and objects are a union of constants, see `keywords.logic`."""
    spend(len(values) // 8 + 24 * sum(map(_is_number, values)))
    found = Scalars(
        None in values, frozenset(value for value in values if type(value) is bool),
        tuple(map(ranges.constant, dict.fromkeys(exact(value) for value in values if _is_number(value)))),
        texts.finite(value for value in values if type(value) is str),
    )
    draft.listed = found if draft.listed is ALL_SCALARS else draft.listed & found


def _is_number(value: object) -> bool:
    return type(value) not in _OTHERS
