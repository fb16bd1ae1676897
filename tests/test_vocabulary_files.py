"""Vocabularies from the files of real tokenizers, against what these packages say themselves."""

from __future__ import annotations

import base64
import json
import shutil

import pytest

from constrained import Vocabulary, VocabularyError

# -- real tokenizers, from their files ---------------------------------------------------------------------------------


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


# -- real tokenizers, as objects ---------------------------------------------------------------------------------------


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


def test_a_token_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_bytes(b'{"model": {"type": "BPE", "vocab": {"\\ud800": 0}}, "decoder": {"type": "ByteLevel"}}')
    with pytest.raises(VocabularyError, match="damaged"):
        Vocabulary.from_tokenizer(path)


@pytest.mark.parametrize(("name", "said"), [
    ("generation_config.json", "[" * 100_000), ("generation_config.json", '{"eos_token_id": {"a": 1}}'),
    ("config.json", '{"eos_token_id": [[1]]}'),
])  # fmt: skip
def test_a_damaged_declaration_of_stop_tokens_is_refused(tmp_path, name, said):
    (tmp_path / "tokenizer.json").write_text(_BYTES)
    (tmp_path / name).write_text(said)
    with pytest.raises(VocabularyError, match=f"cannot read {name}"):
        Vocabulary.from_tokenizer(tmp_path)


def test_an_end_that_is_no_name_declares_nothing(tmp_path):
    (tmp_path / "tokenizer.json").write_text(_BYTES)
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": [1]}')
    assert Vocabulary.from_tokenizer(tmp_path).stop == ()


_BYTES = '{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}, "decoder": {"type": "ByteLevel"}}'
