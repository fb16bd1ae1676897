"""`Vocabulary.save` and `load`: what is loaded is what was saved, and nothing in a file is believed."""

from __future__ import annotations

import multiprocessing

import numpy as np
import pytest
from fuzz.vocabularies import Files, check, vocabulary

import constrained as c
from constrained.engine.tokens import trie as layout

SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 3}, "é": {"enum": ["ab", 1]}}}
SMALL = {
    "one text": c.Vocabulary([b"a"]),
    "no text": c.Vocabulary([None], {"</s>": 0}, [0]),
    "padded": c.Vocabulary([b"a", None, b"b"], size=70, dummy_prefix=True, notes=["spaces"]),
    "many": vocabulary(),
    "names": c.Vocabulary([b"a"], {"<é\u2028\x00>": 3, "日": 2}, [2, 3, 5], size=99),
}


@pytest.fixture(params=["compiled", "plain"])
def builder(request, monkeypatch):
    if request.param == "plain":
        monkeypatch.setattr(layout, "_compiled", lambda: None)
    return request.param


def reloaded(whole, folder):
    whole.save(folder / "v")
    return c.Vocabulary.load(folder / "v")


@pytest.mark.parametrize("name", SMALL)
def test_what_is_loaded_is_what_was_saved(name, tmp_path, builder):
    whole = SMALL[name]
    found = reloaded(whole, tmp_path)
    check(found)
    for field in ("tokens", "special", "names", "stop", "size", "used", "words", "longest", "dummy_prefix", "notes"):
        assert getattr(found, field) == getattr(whole, field), field
    assert list(found.special) == list(whole.special)
    found.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "v").read_bytes()


def masks(whole):
    """Return the masks along a text."""
    matcher, row, found = c.compile(c.Grammar.from_json_schema(SCHEMA), whole).matcher(), np.zeros((1, whole.words), np.int32), []
    for token in whole.tokenize('{"a":"é日本","é":"ab"}'.encode()):
        matcher.fill_mask(row)
        found.append(row.tobytes())
        matcher.advance(token)
    return found


def test_masks_are_those_of_the_vocabulary_that_was_saved(tmp_path):
    assert masks(reloaded(vocabulary(), tmp_path)) == masks(vocabulary())


def test_a_real_vocabulary(llama3_path, tmp_path):
    whole = c.Vocabulary.from_tokenizer(llama3_path)
    found = reloaded(whole, tmp_path)
    assert found.tokens == whole.tokens and masks(found) == masks(whole)


def test_the_encoder_is_handed_over(tmp_path):
    vocabulary().save(tmp_path / "v")
    assert c.Vocabulary.load(tmp_path / "v").tokenize(b"abc") == [2]
    assert c.Vocabulary.load(tmp_path / "v", encode=lambda _: [0, 32 + 66 - 22, 1]).tokenize(b"abc") == [2]
    assert c.Vocabulary.load(tmp_path / "v", encode=lambda _: [1, 10 + ord("c") - 32]).tokenize(b"abc") == [1, 77]


def test_what_is_mapped_outlives_the_file(tmp_path):
    """A file is replaced, never written to: whoever has mapped the old one keeps it."""
    found = reloaded(SMALL["many"], tmp_path)
    SMALL["one text"].save(tmp_path / "v")
    check(found)
    assert c.Vocabulary.load(tmp_path / "v") == SMALL["one text"]
    (tmp_path / "v").unlink()
    assert masks(found) == masks(vocabulary())


def test_a_worker_that_is_handed_one_has_it(tmp_path):
    found = reloaded(vocabulary(), tmp_path)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(masks, [found]) == masks(vocabulary())


def test_damaged_files_are_refused_or_what_they_say(tmp_path, builder):
    """A seeded slice of tests.fuzz.vocabularies."""
    files = Files(tmp_path, seed=5)
    files.run(300)
    assert files.found["loaded"] > 10 and len(files.found) > 10


def test_what_is_no_saved_vocabulary_is_said(tmp_path):
    (tmp_path / "text").write_text("a tokenizer?")
    for path, message in {
        "none": "cannot read the vocabulary", "text": "not a saved vocabulary", ".": "cannot read the vocabulary",
    }.items():  # fmt: skip
        with pytest.raises(c.VocabularyError, match=message):
            c.Vocabulary.load(tmp_path / path)
    with pytest.raises(c.VocabularyError, match="encode is an int"):
        c.Vocabulary.load(tmp_path / "none", encode=1)
    with pytest.raises(c.VocabularyError, match="cannot read the vocabulary"):
        c.Vocabulary.load(None)


def test_texts_of_two_gigabytes_are_refused():
    with pytest.raises(c.VocabularyError, match="the texts are too long"):
        c.Vocabulary([b"x" * (1 << 20)] * 2048)
