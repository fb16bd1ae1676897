"""Tests of the token trie: both builders agree, and the invariants of the class docstring hold."""

from __future__ import annotations

import codecs
import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from constrained import Vocabulary
from constrained.engine.tokens.trie import BITS, INSIDE, LEADS, MALFORMED, Layout, TokenTrie, plain

TEXTS = st.lists(
    st.one_of(st.binary(min_size=1, max_size=4), st.text("ab", min_size=1, max_size=9).map(str.encode)), max_size=40
)


def texts_of(trie: TokenTrie) -> dict[int, bytes]:
    """Read the trie back by recursion over children, as the invariants describe it: token id → text."""
    found: dict[int, bytes] = {}

    def visit(node: int, stop: int, before: bytes) -> None:
        last = -1
        while node < stop:
            assert trie.byte[node] > last, "siblings ascend"
            last = trie.byte[node]
            text = before + bytes([last])
            assert trie.depth[node] == len(text)
            own = trie.ids[trie.first[node] : trie.first[node + 1]].tolist()
            assert own == sorted(own)
            found.update(dict.fromkeys(own, text))
            visit(node + 1, int(trie.end[node]), text)
            below = [i for i, t in found.items() if t.startswith(text)]
            assert sorted(trie.ids[trie.first[node] : trie.first[trie.end[node]]].tolist()) == sorted(below)
            node = int(trie.end[node])

    visit(0, trie.nodes, b"")
    return found


@given(TEXTS)
def test_every_text_is_found_again(texts):
    assert texts_of(TokenTrie.build(texts)) == dict(enumerate(texts))


@given(TEXTS)
def test_both_builders_agree(texts):
    assert_same([None, *texts])


def test_both_builders_agree_on_a_real_vocabulary(llama3_path):
    assert_same(Vocabulary.from_tokenizer(llama3_path).tokens)


def assert_same(tokens):
    """Compare what the compiled builder makes of tokens with its twin, and the trie with the one that is built alone."""
    fast = Layout.of_tokens(tokens)
    slow = plain(fast.starts, fast.data)
    for (name, a), (_, b) in zip(fast.arrays(), slow.arrays(), strict=True):
        assert a.dtype == b.dtype and np.array_equal(a, b), name
    assert np.array_equal(fast.trie.records, TokenTrie.build(tokens).records)
    assert fast.texts() == tuple(tokens)


def test_subtrees_nest(mistral_path):
    trie = Vocabulary.from_tokenizer(mistral_path).trie
    here = np.arange(trie.nodes)
    assert (trie.end > here).all()
    inner = np.flatnonzero(trie.end > here + 1)  # nodes with a child: it is the next node and ends inside
    assert (trie.depth[inner + 1] == trie.depth[inner] + 1).all()
    assert (trie.end[inner + 1] <= trie.end[inner]).all()


def test_equal_texts_share_a_node_and_ids_without_a_text_have_none():
    trie = TokenTrie.build([b"b", None, b"ab", b"a", None, b"b"])
    assert (trie.nodes, trie.ids.tolist()) == (3, [3, 2, 0, 5])


def test_empty_trie_and_empty_text():
    empty = TokenTrie.build([])
    assert empty.nodes == 0
    assert empty.first.tolist() == [0]
    with pytest.raises(ValueError, match="empty text"):
        TokenTrie.build([b""])


def test_arrays_are_frozen():
    for _, array in Layout.of_tokens([b"a"]).arrays():
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@pytest.mark.parametrize("tokens", [[b"x" * 70_000, b"x" * 70_001, b"y"], [b"\0", b"\0\0", b"\0" * 9], [None], [b"ab"] * 3])
def test_both_builders_agree_at_the_edges(tokens):
    assert_same(tokens)


# -- classes of bytes --------------------------------------------------------------------------------------------------

MIXED_TEXTS = st.lists(st.one_of(
    st.binary(min_size=1, max_size=4), st.text('a."é日\u2028🎉', min_size=1, max_size=4).map(str.encode),
    st.tuples(st.sampled_from("é日🎉\ud7ff\U0010ffff"), st.integers(1, 4)).map(lambda cut: cut[0].encode()[: cut[1]]),
), max_size=30)


def well_formed(data: bytes) -> bool:
    """Say whether bytes are UTF-8, but for a last character that may be incomplete.

    Python's decoder waits for the third byte of a surrogate, which no text has.
    """
    if data[-2:-1] == b"\xed" and data[-1] >= 0xA0:
        return False
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode(data)
    except UnicodeDecodeError:
        return False
    return True


@given(MIXED_TEXTS)
def test_classes_below_a_node_are_those_of_all_bytes_below(texts):
    trie = TokenTrie.build(texts)
    for node in range(trie.nodes):
        expected = 0
        for below in trie.byte[node + 1 : trie.end[node]]:
            expected |= int(BITS[below])
        assert int(trie.below[node]) & ~(1 << MALFORMED) == expected & ~(1 << MALFORMED)


@given(MIXED_TEXTS)
@example([b"a" + char.encode() for char in "\x7f\x80\u07ff\u0800\u0fff\u1000\ucfff\ud000\ud7ff\ue000\uffff"])
@example([b"a\xed\xa0"])
@example([b"a" + char.encode() for char in "\U00010000\U0003ffff\U00040000\U000fffff\U00100000\U0010ffff"])
def test_bytes_below_the_end_of_a_character_are_malformed_or_not(texts):
    trie = TokenTrie.build(texts)
    spelled = texts_of(trie)
    for node in range(trie.nodes):
        tokens = [spelled[token] for token in trie.ids[trie.first[node] : trie.first[trie.end[node]]].tolist()]
        depth = int(trie.depth[node])
        if tokens and well_formed(tokens[0][:depth]) and not is_cut(tokens[0][:depth]):  # where walks use the set
            assert bool(int(trie.below[node]) >> MALFORMED) == (not all(well_formed(token[depth:]) for token in tokens))


def is_cut(data: bytes) -> bool:
    """Say whether well-formed bytes end in the middle of a character."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return True
    return False


def test_bytes_of_one_kind_lead_to_the_same_code_points():
    """Every leading byte belongs to one of LEADS, and has the kind of its first character."""
    for low, high in LEADS:
        points = [low, high, *range(low, high, 997)]
        assert len({int(BITS[chr(point).encode()[0]]) for point in points}) == 1
    assert all(
        low == before + 1 or (before, low) == (0xD7FF, 0xE000) for (_, before), (low, _) in itertools.pairwise(LEADS)
    )
    assert (
        all(BITS)
        and set(BITS[0x80:0xC0].tolist()) == {1 << INSIDE}
        and not set(BITS[:0x80].tolist()) & set(BITS[0x80:].tolist())
    )
