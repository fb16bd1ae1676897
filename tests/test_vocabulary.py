"""Tests of the vocabulary: the tables of real and small tokenizers against what their own files and hosts say."""

from __future__ import annotations

import json
import pickle
import shutil
import tomllib
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained import Vocabulary, VocabularyError
from constrained.engine.tokens.tokenizers import BYTE_LEVEL, _read_tokenizers, _Speller, read_tokenizer_json

CASES = tomllib.loads(Path(__file__).with_name("corpus").joinpath("errors_vocabulary.toml").read_text())["case"]


# -- the class ---------------------------------------------------------------------------------------------------------


def small(**options) -> Vocabulary:
    return Vocabulary([b"a", b"ab", b"b", None, b"\xff"], special={"</s>": 3}, stop=[3], **options)


def test_width_is_padded_with_unused_ids():
    vocabulary = small(size=70)
    assert (vocabulary.size, vocabulary.words, len(vocabulary.tokens), vocabulary.longest) == (70, 3, 70, 2)
    assert set(vocabulary.tokens[5:]) == {None}
    assert small().size == 5


def test_special_ids_may_lie_beyond_the_list():
    vocabulary = Vocabulary([b"a"], special={"</s>": 40}, stop=[40])
    assert vocabulary.size == 41
    assert vocabulary.decode([0, 40, 20]) == b"a</s>"


def test_equality_is_by_content():
    assert small() == small()
    assert hash(small()) == hash(small())
    assert small() != small(size=6)
    assert small() != Vocabulary([b"a", b"ab", b"b", None, b"\xff"], special={"<s>": 3}, stop=[3])
    assert small() != Vocabulary([b"a", b"ab", b"b", None, b"\xff"], special={"</s>": 3})
    assert Vocabulary([b"ab", b"c"]) != Vocabulary([b"a", b"bc"])
    assert Vocabulary([b"a", None, b"b"]) != Vocabulary([b"a", b"b", None])
    assert small() != "vocabulary"


def test_fingerprint_is_stable():
    assert small().fingerprint == "083ec5b63bd8c8399f91a196ce899e4d9f6f2d99d8fcefebedbc5403494ddfbc"


def test_frozen():
    with pytest.raises(AttributeError, match="frozen"):
        small().size = 3
    with pytest.raises(TypeError):
        small().special["x"] = 1


def test_pickle():
    vocabulary = pickle.loads(pickle.dumps(small(size=70, dummy_prefix=True, notes=["n"])))
    assert vocabulary == small(size=70, dummy_prefix=True)
    assert (vocabulary.dummy_prefix, vocabulary.notes, vocabulary.stop) == (True, ("n",), (3,))


def test_repr_is_short():
    assert repr(small()) == "<Vocabulary of 4 texts, 1 special tokens, size 5, stop [3]>"


def test_trie_is_built_once_and_holds_texts_only():
    vocabulary = small()
    assert vocabulary.trie is vocabulary.trie
    assert sorted(vocabulary.trie.ids.tolist()) == [0, 1, 2, 4]


@given(
    st.lists(st.binary(min_size=1, max_size=3), min_size=1, max_size=6, unique=True),
    st.lists(st.integers(0, 5), max_size=12),
)
def test_tokenize_spells_whatever_can_be_spelled(texts, picks):
    vocabulary = Vocabulary(texts)
    data = b"".join(texts[pick % len(texts)] for pick in picks)
    assert vocabulary.decode(vocabulary.tokenize(data)) == data


@given(texts=st.lists(st.text("ab", min_size=1, max_size=6), min_size=1, max_size=9, unique=True), data=st.text("ab"))
def test_tokenize_takes_the_first_way_with_the_longest_tokens_everywhere(texts, data):
    vocabulary = Vocabulary([text.encode() for text in texts], size=len(texts))
    longest = sorted(texts, key=len, reverse=True)

    def way(at):
        if at == len(data):
            return []
        rests = ((text, way(at + len(text))) for text in longest if data.startswith(text, at))
        return next(([texts.index(text), *rest] for text, rest in rests if rest is not None), None)

    expected = way(0) if len(data) < 12 else None
    if expected is not None:
        assert vocabulary.tokenize(data.encode()) == expected


def test_tokenize_takes_the_longest_and_steps_back_where_it_must():
    assert Vocabulary([b"a", b"ab", b"abc", b"cd"]).tokenize(b"abcd") == [1, 3]
    assert Vocabulary([b"a", b"b", b"ab"]).tokenize(b"aab") == [0, 2]


def test_a_token_of_more_than_a_megabyte_is_refused():
    with pytest.raises(VocabularyError, match="too long at token 1"):
        Vocabulary([b"a", b"x" * (1 << 20) + b"y"])


def test_tokenize_prefers_pieces_to_byte_tokens():
    assert Vocabulary([b"a", b"b", b"a"]).tokenize(b"ab") == [2, 1]


def test_encoder_is_used_only_where_it_is_right():
    answers = {"ab": [0, 2], "a</s>": [0, 3], "b": [9], "aa": [0]}
    vocabulary = small(encode=answers.__getitem__)
    assert vocabulary.tokenize(b"ab") == [0, 2]
    for text in (b"b", b"aa", b"\xff"):  # out of range; another text; not UTF-8
        assert vocabulary.decode(vocabulary.tokenize(text)) == text
    with pytest.raises(VocabularyError, match="cannot spell"):  # a special token is never the spelling of a text
        vocabulary.tokenize(b"a</s>")


# -- small tokenizers, built here --------------------------------------------------------------------------------------


def byte_level():
    """Return a byte-level BPE with every byte, merges across a character's bytes, and one added token of each kind."""
    tokenizers = pytest.importorskip("tokenizers")
    from tokenizers import decoders, models, pre_tokenizers

    alphabet = {value: char for char, value in BYTE_LEVEL.items()}
    vocab = {alphabet[value]: value for value in range(256)}
    merges = [("Ã", "©"), ("Ġ", "a"), ("Ã", "¼")]
    vocab |= {first + second: 256 + n for n, (first, second) in enumerate(merges)}
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|im_end|>", "<|im_start|>"])
    tokenizer.add_tokens(["<tool>", "é  é"])
    return tokenizer


def test_small_byte_level():
    tokenizer = byte_level()
    vocabulary = Vocabulary.from_tokenizer(tokenizer, size=300)
    assert vocabulary.tokens[:256] == tuple(bytes([value]) for value in range(256))
    assert vocabulary.tokens[256:300] == (
        "é".encode(),
        b" a",
        "ü".encode(),
        None,
        None,
        b"<tool>",
        "é  é".encode(),
        *[None] * 37,
    )
    assert vocabulary.special == {"<|im_end|>": 259, "<|im_start|>": 260}
    assert vocabulary.stop == (259,)
    assert vocabulary.tokenize(" aé".encode()) == [257, 256]
    assert vocabulary.tokenize(b"<|im_end|>") == list(b"<|im_end|>")  # text never becomes a special token
    assert vocabulary.tokenize("é".encode()[:1]) == [0xC3]


def test_small_byte_level_through_transformers():
    transformers = pytest.importorskip("transformers")
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=byte_level(), eos_token="</s>", unk_token="<|im_start|>"
    )
    vocabulary = Vocabulary.from_tokenizer(fast)
    assert vocabulary.special == {"<|im_end|>": 259, "<|im_start|>": 260, "</s>": 263}
    assert vocabulary.stop == (263,)
    assert len(fast.all_special_tokens) < len(vocabulary.special)  # why that list is not used


def sentencepiece_like(decoder: str):
    tokenizers = pytest.importorskip("tokenizers")
    from tokenizers import decoders, models, normalizers, pre_tokenizers

    pieces = [
        "<unk>",
        "<s>",
        "</s>",
        *[f"<0x{value:02X}>" for value in range(256)],
        "▁",
        "a",
        "b",
        "▁a",
        "ab",
        "é",
        "▁▁",
    ]
    vocab = {piece: token for token, piece in enumerate(pieces)}
    merges = [("▁", "a"), ("a", "b"), ("▁", "▁")]
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", byte_fallback=True))
    if decoder == "llama":
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        tokenizer.decoder = decoders.Sequence(steps)
    elif decoder == "gemma":
        tokenizer.normalizer = normalizers.Replace(" ", "▁")
        tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    elif decoder == "of the model":
        tokenizer.decoder = decoders.Replace("▁", " ")
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
        tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="first")])
    tokenizer.add_special_tokens(["<s>", "</s>", "[INST]"])
    tokenizer.add_tokens(["\n\n"])
    return tokenizer


@pytest.mark.parametrize(("decoder", "dummy_prefix"), [("llama", True), ("gemma", False), ("metaspace", True)])
def test_small_sentencepiece_style(decoder, dummy_prefix):
    tokenizer = sentencepiece_like(decoder)
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    assert vocabulary.special == {"<unk>": 0, "<s>": 1, "</s>": 2, "[INST]": 266}
    assert vocabulary.tokens[3:259] == tuple(bytes([value]) for value in range(256))
    assert vocabulary.tokens[259:266] == (b" ", b"a", b"b", b" a", b"ab", "é".encode(), b"  ")
    assert vocabulary.tokens[266:] == (None, b"\n\n")
    assert vocabulary.stop == (2,)
    assert vocabulary.dummy_prefix is dummy_prefix
    assert vocabulary.tokenize("ab é漢".encode()) == [263, 259, 264, *(3 + value for value in "漢".encode())]
    ids = [262, 263, 264]  # " a", "ab", "é"
    assert vocabulary.decode(ids).decode() in (tokenizer.decode(ids), " " + tokenizer.decode(ids))


def test_normaliser_is_noted():
    from tokenizers import normalizers

    tokenizer = byte_level()
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    assert [note.partition(":")[0] for note in vocabulary.notes] == [
        "the encoder normalises text (Lowercase)", "the encoder normalises text (NFC)",
    ]
    assert vocabulary.tokenize(b"AB") == [0x41, 0x42]  # the encoder would write "ab"


def test_eos_that_is_text_becomes_a_stop_token():
    """A tokenizer that calls a plain piece its end of sequence: the piece is no text any more."""
    transformers = pytest.importorskip("transformers")
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=byte_level(), eos_token="</s>")
    fast.add_tokens(["<end>"])
    fast._special_tokens_map["eos_token"] = "<end>"
    vocabulary = Vocabulary.from_tokenizer(fast)
    assert vocabulary.stop == (vocabulary.special["<end>"],)


def test_file_without_decoder_is_read_by_its_pre_tokenizer():
    data = {
        "model": {"type": "BPE", "vocab": {"Ġa": 0, "Ġ": 1}, "merges": []},
        "pre_tokenizer": {"type": "ByteLevel"},
        "decoder": None,
    }
    assert read_tokenizer_json(data).tokens == [b" a", b" "]


def test_special_of_the_caller_takes_the_place_of_text(mistral_path):
    vocabulary = Vocabulary.from_tokenizer(mistral_path, special={"<|tool|>": 40, "<|more|>": 33_000}, stop=[33_000])
    assert vocabulary.tokens[40] is None
    assert (vocabulary.size, vocabulary.special["<|tool|>"], vocabulary.stop) == (33_001, 40, (33_000,))


def test_tiktoken_file_with_named_specials(tmp_path):
    path = tmp_path / "ranks.tiktoken"
    path.write_bytes(b"YQ== 0\nYg== 1\n/w== 2\n")
    vocabulary = Vocabulary.from_tokenizer(path, special={"<|endoftext|>": 5})
    assert vocabulary.tokens == (b"a", b"b", b"\xff", None, None, None)
    assert vocabulary.stop == (5,)


def test_directory_with_sentencepiece_model_and_added_tokens(mistral_path, tmp_path):
    shutil.copy(mistral_path, tmp_path / "tokenizer.model")
    added = {"32767": {"content": "<|im_end|>", "special": True}, "32768": {"content": "<tool>", "special": False}}
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"added_tokens_decoder": added, "eos_token": {"content": "<|im_end|>"}})
    )
    vocabulary = Vocabulary.from_tokenizer(tmp_path)
    assert (vocabulary.special["<|im_end|>"], vocabulary.tokens[32_767], vocabulary.tokens[32_768]) == (
        32_767,
        None,
        b"<tool>",
    )
    assert vocabulary.stop == (32_767,)


def unigram():
    from tokenizers import Tokenizer, decoders, models

    pieces = [("<unk>", 0.0), *[(f"<0x{value:02X}>", -9.0) for value in range(256)], ("▁a", -1.0), ("é", -2.0)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=True))
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    return tokenizer


def foreign():
    """Byte-level, with pieces that its table does not spell, by which the decoder means their text."""
    from tokenizers import Tokenizer, decoders, models

    vocab = {"Ġa": 4, "漢": 1, "a": 0, "b漢": 2, "": 5, "\x00": 7, "é": 6, "ÿĀ": 3}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def undecoded():
    """Byte-level by its pre-tokenizer alone."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.BPE(vocab={"Ġa": 0, "Ġ": 1}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    return tokenizer


@pytest.mark.parametrize(
    "tokenizer",
    [byte_level, foreign, undecoded, unigram]
    + [partial(sentencepiece_like, name) for name in ("llama", "gemma", "metaspace", "of the model")],
)
def test_parts_say_what_the_whole_says(tokenizer):
    """Fast paths: a tokenizer's parts in place of its JSON, all pieces at once in place of one by one."""
    pytest.importorskip("tokenizers")
    made = tokenizer()
    data = json.loads(made.to_str())
    table = _read_tokenizers(made)
    assert replace(table, encode=None) == read_tokenizer_json(data)
    spell = _Speller(data, "")
    pieces = data["model"]["vocab"]
    for piece, token in pieces.items() if isinstance(pieces, dict) else [(p[0], i) for i, p in enumerate(pieces)]:
        assert table.tokens[token] == (spell(piece) or None) or piece in table.special


@pytest.mark.parametrize("mark", ["continuing_subword_prefix", "end_of_word_suffix"])
def test_marks_of_words_are_refused_in_parts_too(mark):
    pytest.importorskip("tokenizers")
    from tokenizers import Tokenizer, decoders, models

    made = Tokenizer(models.BPE(vocab={"a": 0}, merges=[], **{mark: "##"}))
    made.decoder = decoders.ByteLevel()
    with pytest.raises(VocabularyError, match=mark):
        Vocabulary.from_tokenizer(made)


def test_a_version_without_parts_is_read_as_a_whole():
    pytest.importorskip("tokenizers")
    made = byte_level()
    old = SimpleNamespace(to_str=made.to_str)
    assert replace(_read_tokenizers(old), encode=None) == replace(_read_tokenizers(made), encode=None)


# -- cross-checks ------------------------------------------------------------------------------------------------------


def test_xgrammar_has_the_same_table(tiny_tokenizer, tiny_vocabulary):
    xgrammar = pytest.importorskip("xgrammar")
    theirs = xgrammar.TokenizerInfo.from_huggingface(tiny_tokenizer, vocab_size=tiny_vocabulary.size).decoded_vocab
    differing = [
        token for token, text in enumerate(tiny_vocabulary.tokens) if text is not None and text != theirs[token]
    ]
    assert differing == []


# -- wrong uses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_wrong_use(case, tmp_path):
    def file(name: str, data: bytes) -> Path:
        (tmp_path / name).write_bytes(data)
        return tmp_path / name

    def directory(files: dict[str, bytes]) -> Path:
        for name, data in files.items():
            file(name, data)
        return tmp_path

    needed = {name: pytest.importorskip(name) for name in case.get("needs", "").split()}
    with pytest.raises(VocabularyError) as caught:
        eval(case["call"], {"Vocabulary": Vocabulary, "file": file, "directory": directory} | needed)
    assert str(caught.value).replace(str(tmp_path), "DIRECTORY") == case["message"].strip("\n")
