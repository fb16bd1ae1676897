"""Tests of the vocabulary: the tables of real and small tokenizers against what their own files and hosts say."""

from __future__ import annotations

import base64
import json
import pickle
import shutil
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained import Vocabulary, VocabularyError
from constrained.engine.tokens.tokenizer_json import BYTE_LEVEL, read_tokenizer_json

CASES = tomllib.loads(Path(__file__).with_name("corpus").joinpath("errors_vocabulary.toml").read_text())["case"]


# --- the class
# ---------------------------------------------------------------------------------------------------------------


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


def test_tokenize_takes_the_longest_and_steps_back_where_it_must():
    assert Vocabulary([b"a", b"ab", b"abc", b"cd"]).tokenize(b"abcd") == [1, 3]
    assert Vocabulary([b"a", b"b", b"ab"]).tokenize(b"aab") == [0, 2]


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


# --- real tokenizers, from their files
# ---------------------------------------------------------------------------------------


def is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def summary(vocabulary: Vocabulary) -> tuple[int, ...]:
    """Return texts, special tokens, width, texts that are not UTF-8, repeated texts, different single bytes."""
    texts = [text for text in vocabulary.tokens if text is not None]
    single = len({text for text in texts if len(text) == 1})
    broken = sum(not is_utf8(text) for text in texts)
    return len(texts), len(vocabulary.special), vocabulary.size, broken, len(texts) - len(set(texts)), single


def test_llama3_file(llama3_path):
    vocabulary = Vocabulary.from_tokenizer(llama3_path)
    assert summary(vocabulary) == (128_000, 256, 128_256, 1352, 0, 256)
    for line in llama3_path.read_bytes().splitlines():
        text, rank = line.split()
        assert vocabulary.tokens[int(rank)] == base64.b64decode(text)
    named = {
        0: "begin_of_text",
        1: "end_of_text",
        6: "start_header_id",
        7: "end_header_id",
        8: "eom_id",
        9: "eot_id",
        10: "python_tag",
    }
    for offset, name in named.items():
        assert vocabulary.special[f"<|{name}|>"] == 128_000 + offset
    assert vocabulary.special["<|reserved_special_token_245|>"] == 128_255
    assert vocabulary.stop == (128_009, 128_008, 128_001)


def test_llama4_file(llama3_path):
    path = llama3_path.parents[1] / "llama4" / "tokenizer.model"
    if not path.exists():
        pytest.skip("no Llama 4 file in the installed llama-models")
    vocabulary = Vocabulary.from_tokenizer(path)
    assert summary(vocabulary) == (200_000, 2048, 202_048, 1828, 0, 256)
    expected = {
        "<|header_start|>": 200_005,
        "<|eot|>": 200_008,
        "<|python_start|>": 200_016,
        "<|image_start|>": 200_080,
    }
    expected |= {"<|patch|>": 200_092, "<|reasoning_thinking_start|>": 201_142, "<|reserved_special_token_0|>": 201_144}
    assert {name: vocabulary.special[name] for name in expected} == expected
    assert vocabulary.stop == (200_008, 200_007, 200_001)


@pytest.mark.parametrize("name", ["tekken_240718.json", "tekken_240911.json"])
def test_tekken_file(name, mistral_path):
    path = mistral_path.with_name(name)
    vocabulary = Vocabulary.from_tokenizer(path)
    assert summary(vocabulary) == (130_072, 1000, 131_072, 1435, 0, 256)
    for entry in json.loads(path.read_bytes())["vocab"][: 131_072 - 1000]:
        assert vocabulary.tokens[1000 + entry["rank"]] == base64.b64decode(entry["token_bytes"])
    assert {
        name: vocabulary.special[name] for name in ("<unk>", "</s>", "[INST]", "[TOOL_CALLS]", "<SPECIAL_999>")
    } == {
        "<unk>": 0,
        "</s>": 2,
        "[INST]": 3,
        "[TOOL_CALLS]": 9,
        "<SPECIAL_999>": 999,
    }
    assert vocabulary.stop == (2,)


SENTENCEPIECE = {
    "tokenizer.model.v1": (31_997, 3, 32_000, 128, 125, 256),
    "mistral_instruct_tokenizer_240216.model.v2": (31_997, 771, 32_768, 128, 125, 256),
    "mistral_instruct_tokenizer_240323.model.v3": (32_017, 751, 32_768, 128, 125, 256),
    "mistral_instruct_tokenizer_241114.model.v7": (32_019, 749, 32_768, 128, 125, 256),
}


@pytest.mark.parametrize("name", SENTENCEPIECE)
def test_sentencepiece_file_against_sentencepiece(name, mistral_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    path = mistral_path.with_name(name)
    vocabulary = Vocabulary.from_tokenizer(path)
    assert summary(vocabulary) == SENTENCEPIECE[name]
    assert vocabulary.dummy_prefix
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    for token in range(model.get_piece_size()):
        piece, text = model.id_to_piece(token), vocabulary.tokens[token]
        if model.is_control(token) or model.is_unknown(token):
            assert (text, vocabulary.special[piece]) == (None, token)
        elif model.is_byte(token):
            assert text == bytes([int(piece[3:5], 16)])
        else:
            assert text == piece.replace("▁", " ").encode()
    assert Vocabulary.from_tokenizer(model) == vocabulary
    data = ' {"city": "Zürich 漢", "n": [1, 2]}\n'.encode()
    assert vocabulary.decode(vocabulary.tokenize(data)) == data
    assert model.decode(model.encode("  two  spaces")).encode() == vocabulary.decode(
        model.encode("  two  spaces")
    ).removeprefix(b" ")


# --- real tokenizers, as objects
# ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def llama3(llama3_path) -> Vocabulary:
    return Vocabulary.from_tokenizer(llama3_path)


SPLIT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEXT = '{"name": "get_weather", "arguments": {"city": "Zürich 漢字 🙂", "n": [1, 2.5e-7]}}<|eot_id|>'.encode()


def test_tiktoken_encoding(llama3, llama3_path):
    tiktoken = pytest.importorskip("tiktoken")
    ranks = {text: token for token, text in enumerate(llama3.tokens) if text}
    encoding = tiktoken.Encoding("llama3", pat_str=SPLIT, mergeable_ranks=ranks, special_tokens=dict(llama3.special))
    vocabulary = Vocabulary.from_tokenizer(encoding)
    assert vocabulary == llama3
    assert vocabulary.tokenize(TEXT) == encoding.encode_ordinary(TEXT.decode())
    assert llama3.decode(llama3.tokenize(TEXT)) == TEXT  # without an encoder: longest match


def test_transformers_and_tokenizers_with_llama3(llama3, llama3_path, tmp_path):
    pytest.importorskip("transformers")
    pytest.importorskip("tiktoken")
    from transformers import PreTrainedTokenizerFast
    from transformers.convert_slow_tokenizer import TikTokenConverter

    converted = TikTokenConverter(
        str(llama3_path), pattern=SPLIT, extra_special_tokens=list(llama3.special)
    ).converted()
    assert Vocabulary.from_tokenizer(converted) == llama3
    fast = PreTrainedTokenizerFast(tokenizer_object=converted, eos_token="<|eot_id|>", bos_token="<|begin_of_text|>")
    vocabulary = Vocabulary.from_tokenizer(fast)
    assert vocabulary == llama3
    assert vocabulary.decode(vocabulary.tokenize(TEXT)) == TEXT
    assert vocabulary.tokenize(TEXT[:40]) == fast.encode(TEXT[:40].decode(), add_special_tokens=False)
    fast.save_pretrained(tmp_path)
    assert Vocabulary.from_tokenizer(tmp_path) == Vocabulary.from_tokenizer(str(tmp_path / "tokenizer.json")) == llama3
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [128001, 128008, 128009]}')
    assert Vocabulary.from_tokenizer(tmp_path).stop == (128_001, 128_008, 128_009)
    assert Vocabulary.from_tokenizer(tmp_path, stop=[128_009]).stop == (128_009,)


@pytest.mark.parametrize("name", SENTENCEPIECE)
def test_transformers_with_sentencepiece(name, mistral_path, tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("google.protobuf")
    shutil.copy(mistral_path.with_name(name), tmp_path / "tokenizer.model")
    tokenizer = transformers.LlamaTokenizer.from_pretrained(tmp_path)
    vocabulary, expected = Vocabulary.from_tokenizer(tokenizer), Vocabulary.from_tokenizer(tmp_path / "tokenizer.model")
    assert vocabulary.tokens == expected.tokens
    assert vocabulary.special == expected.special
    assert vocabulary.dummy_prefix
    data = '{"a": "Zürich 漢"}'.encode()
    assert vocabulary.decode(vocabulary.tokenize(data)) == data


def test_slow_transformers_tokenizer(mistral_path):
    pytest.importorskip("sentencepiece")
    backend = pytest.importorskip("transformers.tokenization_utils_sentencepiece").SentencePieceBackend
    slow = backend(vocab_file=str(mistral_path), bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    slow.add_tokens(["<tool>"])
    slow.add_special_tokens({"additional_special_tokens": ["<|im_end|>"]})
    vocabulary, expected = Vocabulary.from_tokenizer(slow), Vocabulary.from_tokenizer(mistral_path)
    assert vocabulary.tokens == (*expected.tokens, b"<tool>", None)
    assert vocabulary.special == {**expected.special, "<|im_end|>": 32_769}
    assert vocabulary.stop == (2,)
    assert vocabulary.tokenize(b'{"a": 1}') == slow.encode('.{"a": 1}', add_special_tokens=False)[1:]


def test_slow_tokenizer_with_a_model_inside(mistral_path):
    """ChatGLM's own class: SentencePiece in `tokenizer.sp_model`, special tokens in a dictionary beside it."""
    sentencepiece = pytest.importorskip("sentencepiece")
    transformers = pytest.importorskip("transformers")

    class Inner:
        def __init__(self) -> None:
            self.sp_model = sentencepiece.SentencePieceProcessor(model_file=str(mistral_path))
            self.special_tokens = {"[gMASK]": 32_768, "<|user|>": 32_769}

    class Chat(transformers.PreTrainedTokenizer):
        def __init__(self) -> None:
            self.tokenizer = Inner()
            super().__init__()

        @property
        def vocab_size(self) -> int:
            return 32_770

        def get_vocab(self) -> dict[str, int]:
            return {self._convert_id_to_token(token): token for token in range(self.vocab_size)}

        def _convert_id_to_token(self, token: int) -> str:
            names = {value: name for name, value in self.tokenizer.special_tokens.items()}
            return names.get(token) or self.tokenizer.sp_model.id_to_piece(token)

    vocabulary = Vocabulary.from_tokenizer(Chat(), stop=[2])
    expected = Vocabulary.from_tokenizer(mistral_path)
    assert vocabulary.tokens == (*expected.tokens, None, None)
    assert vocabulary.special == {**expected.special, "[gMASK]": 32_768, "<|user|>": 32_769}


def test_mistral_common_backend_of_transformers(mistral_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("mistral_common")
    for path in (mistral_path, mistral_path.with_name("tekken_240911.json")):
        assert Vocabulary.from_tokenizer(
            transformers.MistralCommonBackend(tokenizer_path=str(path))
        ) == Vocabulary.from_tokenizer(path)


def test_mistral_common_objects(mistral_path):
    pytest.importorskip("mistral_common")
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

    for path in (mistral_path, mistral_path.with_name("tekken_240911.json")):
        tokenizer = MistralTokenizer.from_file(str(path))
        expected = Vocabulary.from_tokenizer(path)
        inner = tokenizer.instruct_tokenizer.tokenizer
        for each in (tokenizer, tokenizer.instruct_tokenizer, inner):
            assert Vocabulary.from_tokenizer(each) == expected
        data = b'{"city": "Oslo"}'
        vocabulary = Vocabulary.from_tokenizer(tokenizer)
        assert vocabulary.decode(vocabulary.tokenize(data)) == data


# --- small tokenizers, built here
# --------------------------------------------------------------------------------------------


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


# --- cross-checks
# ------------------------------------------------------------------------------------------------------------


def test_xgrammar_has_the_same_table(tiny_tokenizer, tiny_vocabulary):
    xgrammar = pytest.importorskip("xgrammar")
    theirs = xgrammar.TokenizerInfo.from_huggingface(tiny_tokenizer, vocab_size=tiny_vocabulary.size).decoded_vocab
    differing = [
        token for token, text in enumerate(tiny_vocabulary.tokens) if text is not None and text != theirs[token]
    ]
    assert differing == []


# --- wrong uses
# --------------------------------------------------------------------------------------------------------------


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
