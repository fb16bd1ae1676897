r"""What a terminal demands of the text behind it.

Lark matches a terminal against the text from its place on, so an assertion at the end of a pattern sees what follows, and an ignored
terminal always takes the longest text that it can.  Whether a text t may be a terminal then depends on the rest r of the input.  Such
pairs are described by one regular language, of the texts t·MARK·r, where the mark is a character that no text holds: the pattern is read
as it is up to the mark, and its assertions look through it.

`dynamic_complete` tries the pattern in place and then on ever shorter pieces of what it found, which end at the end of the piece.  So
t is found before r if matching t·r yields t; or if matching it yields more, and t alone is a match (`preferred`).  For an ignored
terminal only the first holds: after ``%ignore /#[^\n]*/`` comes a newline or the end.

An assertion at the beginning that depends on the text *before* the terminal is refused: Lark evaluates it in place for the longest match
and without that text for the shorter ones, and nothing sensible can be meant by that.

Left out: the mark as a character of terminals that have such demands; and that a piece of a longer match, cut off by Lark, may itself
match less than the piece because of an assertion (``/(b(?=.))*/`` finds "b" in "bbba" as the match of "bb").
Tested against lark and `re` (`tests/test_lark.py`).  Source: ours.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from re import _constants as sre
from typing import Any

from ..caches import cached
from ..errors import GrammarError
from ..regex import ANY_TEXT, Expr, char_class, complement, concat, intersect, is_empty, literal, optional, repeat, union
from ..regex.look import Ahead, Alt, Behind, End, Loop, Node, Piece, Seq, alt, build, has_ahead, seq
from ..regex.python_syntax import _Reader as Reader
from .preferred import Guarding, asks_left, chooses, flags_of, preferred

MARK_POINT = 0xFDD0  # a noncharacter, which Unicode reserves for uses like this one
MARK = literal(chr(MARK_POINT))
UNMARKED = char_class([(0, MARK_POINT - 1), (MARK_POINT + 1, 0x10FFFF)])
REST = repeat(UNMARKED, 0, None)  # any rest of the input
_MAYBE_MARK = optional(MARK)
_CHARACTERS = (sre.LITERAL, sre.NOT_LITERAL, sre.IN, sre.ANY)
_ASSERTIONS = re.compile(r"\(\?[=!]|\(\?<[=!]|\\[AbBZ]|[\^$]")


@dataclass(frozen=True, slots=True)
class Demanding:
    """A terminal whose texts depend on the rest of the input: `pairs` holds text·MARK·rest."""

    pairs: Expr
    source: str

    def __repr__(self) -> str:
        return f"Demanding(pairs=<…>, source={self.source!r})"


@cached(1024)
def terminal(pattern: str) -> Expr | Demanding:
    r"""Return the texts of a terminal, with what they demand of the rest where they do.

    Raises: GrammarError: the pattern looks at the text before it, or as `preferred`.

    >>> terminal("a(?!b)")
    Demanding(pairs=<…>, source='a(?!b)')
    >>> terminal("(?!b)[a-c]")
    <[ac]>
    """
    texts = preferred(pattern)
    if not _ASSERTIONS.search(pattern):
        return texts
    flags = flags_of(pattern)
    plain = Reader(pattern, flags).sequence(_parse(pattern), flags)
    if asks_left(plain):
        _check_left(pattern, flags)
    if not has_ahead(plain):
        return texts
    if not chooses(pattern) and _only_forbids(plain):
        pairs = build(seq(_Marked(pattern, flags, through=False).sequence(_parse(pattern), flags), Piece(MARK), Piece(REST)))
    else:
        longer = intersect(_in_stream(pattern, flags, through=True), concat(UNMARKED, REST, MARK, UNMARKED, REST))
        pairs = union(_in_stream(pattern, flags), intersect(_free(texts), longer))
    return texts if _equal(pairs, _free(texts)) else Demanding(pairs, pattern)


@cached(1024)
def ignored(pattern: str) -> Expr | Demanding:
    r"""Return the texts of an ignored terminal: the longest possible at its place.

    >>> ignored(" "), ignored(" +")
    (< >, Demanding(pairs=<…>, source=' +'))
    """
    texts, flags = preferred(pattern), flags_of(pattern)
    pairs = _in_stream(pattern, flags)
    return texts if _equal(pairs, _free(texts)) else Demanding(pairs, pattern)


def _free(texts: Expr) -> Expr:
    """Return the pairs of texts that demand nothing."""
    return concat(intersect(texts, REST), MARK, REST)


def _only_forbids(tree: Node) -> bool:
    """Return whether all assertions about the right are negative look-aheads: then more text behind can only forbid a match.

    If besides the pattern has no choices, a text is found exactly where the assertions allow it, which is quicker to build.
    """
    if isinstance(tree, (Seq, Alt)):
        return all(map(_only_forbids, tree.items))
    if isinstance(tree, Ahead):
        return not tree.positive and not has_ahead(tree.body)
    return not isinstance(tree, End) and (not isinstance(tree, Loop) or _only_forbids(tree.body))


def _in_stream(pattern: str, flags: int, *, through: bool = False) -> Expr:
    """Return text·MARK·rest where matching text·rest in place yields the text; with `through`, where it yields more than the text."""
    seen = _Marked(pattern, flags, through=True)
    main = seen if through else _Marked(pattern, flags, through=False)
    tree = Guarding(Reader(pattern, flags), main, seen, in_stream=True).pattern(flags)
    return build(seq(tree, Piece(REST)) if through else seq(tree, Piece(MARK), Piece(REST)))


def _check_left(pattern: str, flags: int) -> None:
    main = _Marked(pattern, flags, through=False)
    before = build(seq(Piece(REST), Piece(MARK), main.sequence(_parse(pattern), flags)))
    alone = build(main.sequence(_parse(pattern), flags))
    if not _equal(before, concat(REST, MARK, alone)):
        raise GrammarError(
            f"cannot compile regular expression {pattern!r}", because="it begins with an assertion about the text before the terminal",
            instead="say in the rules what may stand before it; assertions about the text behind a terminal are fine",
        )


def _parse(pattern: str) -> list[tuple[Any, Any]]:
    return list(re._parser.parse(pattern))


def _equal(left: Expr, right: Expr) -> bool:
    return left is right or (is_empty(intersect(left, complement(right))) and is_empty(intersect(right, complement(left))))


class _Marked(Reader):
    """Reads patterns over texts that hold a mark: assertions look through it; characters stand behind one only with `through`."""

    def __init__(self, pattern: str, flags: int, *, through: bool) -> None:
        super().__init__(pattern, flags)
        self._through = through

    def item(self, operator: Any, argument: Any, flags: int) -> Node:
        tree = super().item(operator, argument, flags)
        if operator not in _CHARACTERS:
            return tree
        assert isinstance(tree, Piece)
        return _unmarked(tree, through=self._through)

    def anchor(self, code: Any, flags: int) -> Node:
        return _looking_through(super().anchor(code, flags))

    def look(self, argument: Any, flags: int, *, positive: bool) -> Node:
        direction, parsed = argument
        body = _Marked(self.pattern, self.flags, through=True).sequence(parsed, flags)
        return Ahead(body, positive) if direction > 0 else Behind(build(seq(Piece(ANY_TEXT), body, Piece(_MAYBE_MARK))), positive)


def _unmarked(tree: Piece, *, through: bool) -> Piece:
    character = intersect(tree.expr, UNMARKED)
    return Piece(concat(_MAYBE_MARK, character) if through else character)


def _looking_through(tree: Node) -> Node:
    """Return an anchor that takes no notice of a mark."""
    if isinstance(tree, (Seq, Alt)):
        items = [_looking_through(item) for item in tree.items]
        return seq(*items) if isinstance(tree, Seq) else alt(*items)
    if isinstance(tree, Behind):
        return Behind(concat(tree.prefix, _MAYBE_MARK), tree.positive)
    if isinstance(tree, Ahead):
        return Ahead(_looking_through(tree.body), tree.positive)
    if isinstance(tree, End):
        return alt(tree, Ahead(seq(Piece(MARK), tree)))
    assert isinstance(tree, Piece), f"anchors hold no {type(tree).__name__}"
    return tree if tree.expr.long == 0 else _unmarked(tree, through=True)
