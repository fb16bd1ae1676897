"""The library's own grammar of Python, whose `_INDENT` and `_DEDENT` are declared for an indenter: here they are given
as texts.

The truth of whole programs is the library's LALR parser with its `PythonIndenter`.  It refuses more than the grammar
says, as its lexer takes keywords out of names; so what is damaged is put to the Earley parser with the complete dynamic
lexer, which means what we mean.
"""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import lark
import numpy as np
from lark.indenter import DedentError, PythonIndenter
from oracles import LarkOracle, mutated

from constrained import Constraint, Grammar, Vocabulary, compile

INDENT, DEDENT = "\x01", "\x02"
TEXT = Path(lark.__file__).with_name("grammars").joinpath("python.lark").read_text(encoding="utf-8")
PROGRAM = Path(__file__).parent.joinpath("corpus", "languages", "python.txt").read_text(encoding="utf-8")
BYTES = [bytes([byte]) for byte in range(256)]
RUNS = [char * size for char in (b"#", b" ", b"\n", b"\\", b'"', b"x", b"0") for size in range(2, 65)]
VOCABULARY = Vocabulary(
    [*BYTES, *RUNS, b"# a\n#b", b"\n    ", b"(x", b"'''\n"], special={"<end>": 2000}, stop=[2000], size=2001
)
SNIPPETS = (
    "x = 1\n", "if a:\n  b()\n", "def f(x, *, y=1): return x\n", "x = [i for i in y if i]\n", "a.b[1:2] += 3 # c\n", "try:\n x\nexcept E as e:\n y\n",
    "class A(B): pass\n", "'a' \"b\"\n", "x = {1: 2, **k}\n", "from a import (b, c)\n", "@d\ndef f(): yield\n", "match x:\n  case 1: pass\n",
    "0x1F + 1_0j - .5e3\n", "not a and b or c\n", "\n# c\n\nx\n", "f(a, b=1, *c)\n", "print(1) ; x\n", "raise E from e\n", "x: int = 3\n", "'''a\nb'''\n", "x \\\n= 1\n",
)  # fmt: skip


class _Marks(PythonIndenter):
    """Notes where the text is indented and dedented, and which line ends stand in brackets."""

    def handle_NL(self, token):  # noqa: N802  # the library's name
        if self.paren_level:
            self.found.append((token.start_pos, token.end_pos, " "))
        for made in super().handle_NL(token):
            if made is not token:
                self.found.append((token.end_pos, token.end_pos, INDENT if made.type == self.INDENT_type else DEDENT))
            yield made


MARKS = _Marks()


@cache
def _library() -> lark.Lark:
    return lark.Lark(TEXT, parser="lalr", postlex=MARKS, start="file_input")


def _marked(program: str) -> tuple[bool, str]:
    """Return whether the library takes a program, and the program with its marks as far as the library came."""
    MARKS.found = []
    try:
        _library().parse(program)
        taken = True
    except (lark.exceptions.LarkError, DedentError):
        taken = False
    text, at = "", 0
    for start, end, mark in MARKS.found:
        text, at = text + program[at:start] + mark, end
    text += program[at:]
    return taken, text + DEDENT * (text.count(INDENT) - text.count(DEDENT))


@cache
def _constraint() -> Constraint:
    return compile(
        Grammar.from_lark(TEXT, start="file_input", declare={"_INDENT": INDENT, "_DEDENT": DEDENT}), VOCABULARY
    )


def _takes(text: str) -> bool:
    matcher = _constraint().matcher()
    for byte in text.encode():
        if not matcher.accepts(byte):
            return False
        matcher.advance(byte)
    return matcher.is_accepting()


def test_a_program_is_taken():
    taken, marked = _marked(PROGRAM)
    assert taken
    assert _takes(marked)


def test_all_masks_along_a_program_are_made_and_true():
    """48 times `#` were 2^48 ways for comments to follow comments; no mask may drain the bound on work."""
    matcher, chance = _constraint().matcher(), random.Random(0)
    bitmask = np.zeros((1, VOCABULARY.words), np.int32)
    for number, byte in enumerate(_marked(PROGRAM)[1].encode()):
        matcher.fill_mask(bitmask)
        bits = np.unpackbits(bitmask.view(np.uint8), bitorder="little")
        asked = chance.sample(range(len(VOCABULARY.tokens)), 20 if number % 50 else len(VOCABULARY.tokens))
        assert [token for token in asked if bits[token] != matcher.accepts(token)] == []
        matcher.advance(byte)


def test_damaged_programs_that_the_library_takes_are_taken():
    chance, taken = random.Random(0), 0
    lines = PROGRAM.splitlines(keepends=True)
    for _ in range(32):
        damaged = lines.copy()
        at = chance.randrange(len(lines))
        damaged[at] = mutated(damaged[at], chance, "ab1=()[]:,.#'\" \n+*")
        found, marked = _marked("".join(damaged))
        taken += found
        assert not found or _takes(marked), damaged[at]
    assert taken > 5


def test_damaged_snippets_are_taken_as_by_the_complete_lexer():
    oracle = LarkOracle(
        TEXT.replace("%declare _INDENT _DEDENT", f'_INDENT: "{INDENT}"\n_DEDENT: "{DEDENT}"'), start="file_input"
    )
    chance = random.Random(3)
    texts = [_marked(snippet)[1] for snippet in SNIPPETS]
    texts += [mutated(chance.choice(texts), chance, f"ab1=()[]:,.#'\"\n \\{INDENT}{DEDENT}+*ifnot_") for _ in range(60)]
    found = [(text, _takes(text)) for text in texts if len(text) < 50]
    assert [(text, taken) for text, taken in found if taken is not oracle.accepts(text)] == []
    assert 20 < sum(taken for _, taken in found) < len(found) - 20
