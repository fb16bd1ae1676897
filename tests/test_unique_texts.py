"""Texts that must not come twice and have no closing quote, such as the ids of calls: masks as the plain twin's, bit by
bit; and a mask makes no state for each text that a token completes.
"""

from __future__ import annotations

import itertools
import random
from typing import Any, NamedTuple

import pytest
from laws import assert_kernels_agree

from benchmarks.tool_sets import tool_sets
from constrained import ChatFormat, Vocabulary, compile
from constrained.engine.compiled import kernel_class
from constrained.engine.plain import PlainKernel
from constrained.machine import END, Bytes, Dispatch, Edges, Quoting, Text
from constrained.regex import char_class, concat, literal, repeat, union

FORMATS = ("mistral-v3-spm", "mistral-v3-tekken", "mistral-v7-spm", "mistral-v11")
LETTER = char_class(((97, 98), (0xE9, 0xE9)))
TEXTS = {
    "of one length": repeat(LETTER, 2, 2),
    "of many lengths": repeat(LETTER, 1, 3),
    "with more ends than are worth a look": repeat(char_class(((97, 122),)), 2, 4),
    "that end in themselves": concat(repeat(LETTER, 0, None), literal("b")),
    "few": union(literal("a"), literal("ab"), literal("b;b")),
}


class List:
    """Texts of a language with semicolons between them, each once; no others than the named ones, where there are any."""

    def __init__(self, language, used=frozenset(), named=frozenset(), beside=None):
        self.language, self.used, self.named, self.beside = language, used, named, beside

    def key(self):
        return self.language, self.used, self.named, self.beside

    def __eq__(self, other):
        return isinstance(other, List) and self.key() == other.key()

    def __hash__(self):
        return hash(self.key())

    def expand(self):
        text = Text(Quoting.RAW, self.language)
        return Edges(calls=((text, After(self)), *([(text, self.beside)] if self.beside else [])))


class After(Dispatch):
    records = alike = True

    def __init__(self, at):
        self.at, self.special = at, at.used | at.named

    def after_text(self, text):
        if text in self.at.used or self.at.named and text not in self.at.named:
            return None
        used = self.at.used if text is None else self.at.used | {text}
        return Behind(List(self.at.language, used, self.at.named, self.at.beside))


class Behind:
    def __init__(self, at):
        self.at = at

    def __eq__(self, other):
        return isinstance(other, Behind) and self.at == other.at

    def __hash__(self):
        return hash(self.at)

    def expand(self):
        return Edges(ranges=((59, 59, self.at),), accepting=True)


EXCLAIMED = Bytes(b"!", END)


class Echoed(Dispatch):
    """Behind a text of which nothing is refused, and its first letter follows."""

    records, refuses = True, False

    def after_text(self, text):
        return None if text is None else Bytes(text[0].encode() + b"!", END)


def vocabulary_of_pieces(length: int = 5, letters: str = "ab;") -> Vocabulary:
    """Return a vocabulary of all short texts of letters and semicolons: tokens hold whole texts, some of them twice."""
    texts = [bytes([byte]) for byte in range(256)]
    texts += ["".join(parts).encode() for n in range(2, length + 1) for parts in itertools.product(letters, repeat=n)]
    texts += [
        text.encode() for text in ("é;", "é;é", ";é;", "bé", "aé;b", "é!", "ab!", "b;b!", "aba!", "abb!", "a!", "aa!")
    ]
    texts = list(dict.fromkeys(texts))
    return Vocabulary(texts, special={"<eos>": len(texts)}, stop=[len(texts)], size=len(texts) + 1)


PIECES = vocabulary_of_pieces()
WORDS = vocabulary_of_pieces(4, "abc")  # below those of four letters no other token, and nothing leaves a text


@pytest.mark.sampled(3)
@pytest.mark.parametrize("named", [frozenset(), frozenset({"ab", "ba", "b"})], ids=["any", "named"])
@pytest.mark.parametrize("beside", [None, EXCLAIMED, Echoed()], ids=["alone", "beside any", "beside recorded ones"])
@pytest.mark.parametrize("texts", TEXTS)
@pytest.mark.parametrize("vocabulary", [PIECES, WORDS], ids=["pieces", "words"])
def test_texts_that_come_once(vocabulary, texts, beside, named):
    compiled = kernel_class("compiled")
    start = List(TEXTS[texts], named=named, beside=beside)
    for seed in range(6):
        kernels = [kind(vocabulary, start, nullable=False, specials=vocabulary.special) for kind in (compiled, PlainKernel)]
        assert_kernels_agree(vocabulary, [(kernel, kernel.start) for kernel in kernels], 8, seed)


class Turn(NamedTuple):
    """The start of a turn up to an id, and what stands between an id and the next one."""

    start: str
    between: str


def turn_of(chat: ChatFormat, tools: Any) -> Turn:
    call = chat.write_call("get_weather", {"city": "Oslo"}, tools).removesuffix("</s>")
    start, after = call.split("call00000")
    return Turn(start, after + start if "[ARGS]" in call else '"}, ' + start[start.index("{") :])


def vocabulary_of_calls(chat: ChatFormat, turn: Turn, ids: int = 0) -> Vocabulary:
    """Return a vocabulary with tokens that complete an id and go on, with the same id again or another one."""
    picks, names = random.Random(1), sorted({*chat.tokens.values()})
    middles = ['"', '"}', turn.between, '"}, {"name": "', turn.start[-9:]]
    ends = ["0", "00", "0000", "00000", "call00000", "all00000", "call0000", "1", "é", ""]
    texts = [bytes([byte]) for byte in range(256)]
    texts += [(end + middle + more).encode() for end in ends for middle in middles for more in ends]
    texts += ["".join(picks.choices("abcdefghijkl0123", k=picks.randint(2, 9))).encode() for _ in range(ids)]
    texts = [part for part in dict.fromkeys(texts) if part]
    special = {name: len(texts) + at for at, name in enumerate(names)}
    return Vocabulary(texts, special=special, stop=[special["</s>"]], size=len(texts) + len(special))


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("written", ["", "call0", "call0000"])
def test_ids_of_calls(name, written):
    """In the second call of a turn, where the id of the first one is offered again."""
    chat, tools = ChatFormat.load(name), tool_sets(name)["one tool"].tools
    turn = turn_of(chat, tools)
    vocabulary = vocabulary_of_calls(chat, turn)
    grammar = chat.grammar(tools, tool_choice="required")
    places = [compile(grammar, vocabulary, kernel=kernel).place() for kernel in ("compiled", "plain")]
    text = f"{turn.start}call00000{turn.between}{written}"
    states = [reached(kernel, state, vocabulary, text) for kernel, state in places]
    assert all(states)
    assert not reached(*(places[0][0], states[0]), vocabulary, "call00000"[len(written) :])
    for seed in range(3):
        assert_kernels_agree(vocabulary, [(kernel, state) for (kernel, _), state in zip(places, states)], 12, seed)


def reached(kernel, state, vocabulary, text):
    """Return the state behind a text in which the names of special tokens stand for these tokens, 0: none."""
    while text and state:
        name = next((name for name in vocabulary.special if text.startswith(name)), None)
        step, read = (kernel.step_token, vocabulary.special[name]) if name else (kernel.step_bytes, text[0].encode())
        state, text = step(state, read), text[len(name or text[0]) :]
    return state


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("written", ["", "call", "call0000"])
def test_ids_have_no_state_each(name, written):
    """3,000 tokens that begin or complete an id, and a mask makes a handful of states."""
    chat, tools = ChatFormat.load(name), tool_sets(name)["one tool"].tools
    turn = turn_of(chat, tools)
    vocabulary = vocabulary_of_calls(chat, turn, 3000)
    kernel, start = compile(chat.grammar(tools, tool_choice="required"), vocabulary, kernel="compiled").place()
    state = reached(kernel, start, vocabulary, turn.start + written)
    before = kernel.count_states()
    kernel.mask(state)
    assert 0 < kernel.count_states() - before < 400
