"""A sample of what the benchmarks check at length, and probes: a broken law must be noticed."""

from __future__ import annotations

import gc
import json
import random
from functools import cache

import numpy as np
import pytest

pytest.importorskip("transformers")

from constrained.benchmarks import (
    always_valid,
    batches,
    cliffs,
    collection,
    digests,
    exponents,
    laws,
    soak,
    speed,
    vocabularies,
    walks,
)
from constrained.benchmarks.cases import Case, format_cases, schema_cases, text_of
from constrained.benchmarks.engines import Glrmask, Llguidance, Ours, XGrammar
from constrained.benchmarks.tool_sets import tool_sets

from constrained import ChatFormat, Grammar, compile

LIST = '"[" ("1" ("," "1")*)? "]"'


@pytest.fixture(autouse=True)
def what_was_there_before():
    """The garbage that measurements look for is their own."""
    gc.freeze()


@pytest.mark.sampled(9)
@pytest.mark.parametrize("format", ChatFormat.names())
def test_the_law_holds_on_a_sample(format):
    chat, vocabulary = ChatFormat.load(format), vocabularies.embedded()
    for wanted in tool_sets(format).values():
        word = vocabularies.encode(vocabulary, wanted.text(chat))
        tally = laws.check(chat.grammar(wanted.tools), vocabulary, positions=25, word=word)
        assert (tally.positions, tally.mismatches) == (25, 0), tally.example


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize("vocabulary", ["llama3", "mistral"])
def test_the_law_holds_on_real_vocabularies(vocabulary):
    real = laws.VOCABULARIES[vocabulary]()
    if real is None:
        pytest.skip(f"{vocabulary} is not installed")
    chat, wanted = ChatFormat.load("internlm2"), tool_sets("internlm2")["every kind of argument"]
    tally = laws.check(
        chat.grammar(wanted.tools), real, positions=10, word=vocabularies.encode(real, wanted.text(chat))
    )
    assert tally.mismatches == 0, tally.example


@pytest.mark.parametrize("flipped", [0, 41, 1535])
def test_a_flipped_bit_is_noticed(monkeypatch, flipped):
    honest, masks = laws.bits, []

    def flip(matcher):
        masks.append(honest(matcher))
        if len(masks) == 1:  # the first mask asked for is the engine's, the second its twin's
            masks[0][flipped] = not masks[0][flipped]
        return masks[-1]

    monkeypatch.setattr(laws, "bits", flip)
    vocabulary = vocabularies.embedded()
    monkeypatch.setattr(laws, "LEAVE", 0.0)
    tally = laws.check(Grammar.from_lark(f"start: {LIST}"), vocabulary, positions=1, word=vocabulary.tokenize(b"[1]"))
    assert tally.against_accepts == tally.against_twin == 1
    assert tally.example


@pytest.fixture(scope="module")
def writer():
    return always_valid.Writer(seed=1)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("format", ChatFormat.names())
def test_what_a_random_model_finishes_is_valid(format, writer, monkeypatch):
    monkeypatch.setattr(writer, "_random", random.Random(1))  # each format gets the same prompts
    outcome = always_valid.check_format(writer, format, wanted=1)
    assert outcome.failures == []
    if not outcome.finished:  # thoughts that end with a text of many tokens are led to their end
        outcome = always_valid.check_format(always_valid.Dice(1, writer.vocabulary), format, wanted=1)
        assert outcome.failures == []
    assert sum(outcome.finished.values()) >= 1


@cache
def _format_cases():
    return tuple(format_cases())


def test_every_case_has_a_text_that_our_engine_accepts():
    vocabulary = vocabularies.embedded()
    for case in (*schema_cases(), *_format_cases()):
        matcher = Ours(vocabulary).compile(case).matcher()
        for token in vocabularies.encode(vocabulary, text_of(case)):
            matcher.advance(token)
        assert matcher.is_accepting(), case.name


PEERS_SPEAK = dict.fromkeys(
    ["hermes", "internlm2", "internlm2-legacy", "llama3.1-function", "llama3.1-json", "openchatml"]
) | {"pythonic": "cannot be expressed"}


@pytest.mark.parametrize("engine", [Llguidance, XGrammar, Glrmask])
def test_peers_accept_the_same_texts(engine):
    pytest.importorskip(engine.name)
    vocabulary = vocabularies.embedded()
    peer = engine(vocabulary)
    cases = [case for case in _format_cases() if case.format in PEERS_SPEAK and len(case.tools) == 1]
    said = {c.format: speed._run(peer, c, speed._tokens(c, vocabulary), speed.defaultdict(list)) for c in cases}
    assert said == PEERS_SPEAK


def test_speed_writes_a_record(tmp_path):
    vocabulary = vocabularies.embedded()
    cases = [Case("digits", {"enum": [1, 22, 333]}, 22)]
    rows = speed.measure([Ours(vocabulary)], cases, vocabulary, repetitions=2)
    assert rows[0]["warm mask p50"] > 0
    speed.write_record(tmp_path, "speed", {"date": "2030-01-01T00:00:00+00:00"}, rows)
    written = [json.loads(line) for path in tmp_path.iterdir() for line in path.read_text().splitlines()]
    assert [line.get("case") for line in written] == [None, "digits"]


def test_a_collection_of_schemas_is_measured_and_recorded(tmp_path, capsys, monkeypatch):
    tests = [{"data": 22, "valid": True}, {"data": "x", "valid": False}, {"data": 333, "valid": True}]
    rows = [
        {"id": "digits", "schema": {"enum": [1, 22, 333]}, "tests": tests},
        {"id": "wrong", "schema": {"type": "string"}, "tests": [{"data": 1, "valid": True}]},
        {"id": "refused", "schema": {"type": "strin"}, "tests": [{"data": 1, "valid": True}]},
        {"id": "untested", "schema": {}, "tests": []},
    ]
    path = tmp_path / "schemas.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    monkeypatch.setattr(vocabularies, "llama3", lambda: None)
    monkeypatch.setattr(collection, "installed", lambda vocabulary: [Ours(vocabulary)])
    collection.main(path, None, record=tmp_path / "record", repetitions=2)
    meta, found = (json.loads(line) for line in next((tmp_path / "record").iterdir()).read_text().splitlines())
    assert (meta["schemas"], found["taken"], found["wrong"], found["refused"], found["common"]) == (3, 1, 1, 1, 1)
    assert found["first test p50"] > 0 and found["after load p99"] > 0 and found["load max"] > 0
    assert "later tests p99.9" in capsys.readouterr().out


def test_an_engine_that_forbids_the_text_is_reported():
    vocabulary = vocabularies.embedded()
    rows = speed.measure([Ours(vocabulary)], [Case("wrong", {"enum": [1]}, 2)], vocabulary, repetitions=1)
    assert "the mask forbids token 0" in rows[0]["error"]


def test_llama3_with_the_formats_tokens_keeps_its_width():
    vocabulary = vocabularies.llama3()
    if vocabulary is None:
        pytest.skip("llama-models is not installed")
    assert vocabulary.size == 128_256
    assert vocabulary.special["<|eot_id|>"] == 128_009
    for name in ChatFormat.names():
        compile(ChatFormat.load(name).grammar(), vocabulary)


def test_cliffs_are_measured_against_the_smallest_case():
    family = cliffs.Family("enum", (2, 20), lambda n: {"enum": list(range(n))}, lambda n: str(n - 1), linear=True)
    rows = list(cliffs.measure([family], vocabularies.embedded(), repetitions=1))
    assert [row["size"] for row in rows] == [2, 20]
    assert set(rows[0]["ratios"].values()) == {1.0}
    cliffs.print_table(rows, "two cases")


@pytest.mark.parametrize("growth", exponents.GROWTHS, ids=lambda growth: growth.name)
def test_work_of_each_size_is_timed(growth):
    times, slope = exponents.measure(growth._replace(sizes=(2, 3, 4)), vocabularies.embedded(), repetitions=1)
    assert len(times) == 3 and slope == slope


def test_walks_end_and_are_valid(tmp_path, capsys):
    schemas = [
        {
            "type": "object",
            "properties": {"a": {"pattern": "^x{3}y*$"}, "b": {"type": "integer", "multipleOf": 7}},
            "required": ["a", "b"],
        },
        {
            "$ref": "#/$defs/tree",
            "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 3}},
        },
    ]
    path = tmp_path / "schemas.jsonl"
    path.write_text(
        "".join(json.dumps({"id": f"schema {n}", "schema": schema}) + "\n" for n, schema in enumerate(schemas))
    )
    assert walks.main([str(path), "--vocabulary", "embedded", "--walks", "4", "--tokens", "20"]) == 0
    assert "walks: {'finished': 8}" in capsys.readouterr().out


def test_a_histogram_of_times_tells_percentiles_within_two_per_cent():
    times, seconds = soak.Times(), np.random.default_rng(3).lognormal(-12, 2, 20_000)
    assert times.percentiles() == [0.0, 0.0, 0.0]
    for value in seconds:
        times.add(float(value))
    np.testing.assert_allclose(times.percentiles(), 1e6 * np.percentile(seconds, (50, 99, 99.9)), rtol=0.03, atol=0.1)


@pytest.mark.parametrize("key", ["qwen_3", "harmony", "deepseek_v4", "cohere", "kimi_k3"])
def test_calls_are_those_of_xgrammars_tags(key, capsys):
    pytest.importorskip("xgrammar")
    from constrained.benchmarks import model_tags

    assert model_tags.main([key, "--calls", "15", "--seed", "1"]) == 0
    told = capsys.readouterr().out
    assert "both accept" in told
    assert "both refuse 5" in told


def test_versions_are_compared_position_by_position(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(digests.vocabularies, "llama3", lambda formats: None)
    path = tmp_path / "walks.jsonl"
    assert digests.main(["--out", str(path), "--positions", "130"]) == 0
    assert digests.main(["--against", str(path), "--positions", "130"]) == 0
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[1]["positions"][3][0] = "0" * 16
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    capsys.readouterr()
    assert digests.main(["--against", str(path), "--positions", "130"]) == 1
    assert f"{rows[1]['case']}, walk 0: position 3 of" in capsys.readouterr().out


def test_batches_are_the_same_sequences_for_every_way():
    vocabulary = vocabularies.embedded()
    cases = batches.cases_of(None, 3)
    assert len({json.dumps(case.schema) for case in cases}) == 3
    rows = np.zeros((7, vocabulary.words), np.int32)
    matchers = batches.sequences(Ours(vocabulary), cases, 3, 7, lambda text: vocabularies.encode(vocabulary, text))
    assert [len(matcher.tokens) for matcher in matchers] == [3, 3, 3, 10, 10, 10, 17]
    ways, filled = batches.fills(Ours(vocabulary), matchers, rows), []
    for fill in ways.values():
        rows[:] = 0
        fill()
        filled.append(rows.copy())
    assert filled[0].any(axis=1).all() and (filled[0] == filled[1]).all()
    assert {name: len(times) for name, times in batches.measure(ways, 2, 1e-6).items()} == dict.fromkeys(ways, 2)
