"""What the research interfaces say of languages and models that are small enough to count by hand, or to enumerate
another way.
"""

from __future__ import annotations

import itertools
import json
import random
import re

import jsonschema
import numpy as np
import pytest
from constrained.default_model.questions import TOOLS
from constrained.research import aligned, exact, rejection
from constrained.research.models import NextTokens, entropy, normalised
from constrained.research.trace import trace

import constrained as c

BYTES = c.Vocabulary([bytes([byte]) for byte in range(256)], special={"<end>": 256}, stop=[256])
NESTED = 'start: "[" [item ("," item)*] "]"\nitem: start | /[01]/'


def constraint_of(grammar, vocabulary=BYTES, **options):
    return c.compile(c.Grammar.from_regex(grammar) if isinstance(grammar, str) else grammar, vocabulary, **options)


# -- words -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pattern", ["(a|b)*abb", "a{2,5}|b", "(aa|aaa)*", "[ab]?[bc]?", "(?:a|ab)(?:c|bcd)?", "(?!ab)[ab]{0,4}"]
)
@pytest.mark.parametrize("kernel", ["compiled", "plain"])
def test_words_are_those_that_re_matches(pattern, kernel):
    if kernel == "compiled":
        pytest.importorskip("constrained.engine.kernel._kernel")
    found = list(constraint_of(pattern, kernel=kernel).enumerate(5))
    expected = [
        word
        for size in range(6)
        for word in map("".join, itertools.product("abcd", repeat=size))
        if re.fullmatch(pattern, word)
    ]
    assert [word.decode() for word in found] == expected
    assert constraint_of(pattern, kernel=kernel).count(5) == len(expected)


def test_words_are_counted_without_being_made():
    assert constraint_of("[a-z]{0,20}").count(20) == sum(26**size for size in range(21))
    assert constraint_of("é{0,3}").count(3) == 2, "é is two bytes"
    assert constraint_of("a").count(0) == 0


def test_words_of_a_schema_are_its_instances():
    schema = {"enum": [1, "a", None, [True]]}
    found = list(constraint_of(c.Grammar.from_json_schema(schema, profile="practical")).enumerate(12))
    assert sorted(map(json.loads, found), key=str) == sorted(schema["enum"], key=str)


def test_a_special_token_is_one_symbol():
    vocabulary = c.Vocabulary([b"a"], special={"<tool>": 1, "<end>": 2}, stop=[2])
    constraint = constraint_of(
        c.Grammar.from_lark('start: "<tool>"? "a" "<end>"', specials=["<tool>", "<end>"]), vocabulary
    )
    assert list(constraint.enumerate(3)) == [b"a<end>", b"<tool>a<end>"]


def test_every_word_is_as_likely_as_the_others():
    constraint, rng = constraint_of(c.Grammar.from_lark(NESTED)), random.Random(0)
    words = list(constraint.enumerate(5))
    drawn = [constraint.sample(rng, 5) for _ in range(200 * len(words))]
    counts = np.array([drawn.count(word) for word in words])
    assert counts.sum() == len(drawn)
    assert ((counts - 200) ** 2 / 200).sum() < 2 * len(words), "chi square; its mean is the number of words less one"


def test_weights_choose_alternatives():
    constraint, rng = constraint_of(c.Grammar.from_lark(NESTED)), random.Random(0)
    flat = [constraint.sample(rng, 40, {"item": [0, 1]}) for _ in range(50)]
    assert all(isinstance(json.loads(word), list) and b"[" not in word[1:] for word in flat)
    assert any(b"[" in constraint.sample(rng, 40, {"item": [5, 1]})[1:] for _ in range(50))


@pytest.mark.parametrize("weights", [{"item": [1]}, {"nothing": [1]}, {"item": [0, 0]}, {"item": [-1, 2]}, {"item": None}, {"item": "ab"}, {"item": [float("nan"), 1]}, {"item": [10**400, 1]}])
def test_weights_that_fit_no_rule_are_refused(weights):
    with pytest.raises(c.GrammarError, match="these are no weights of rule"):
        constraint_of(c.Grammar.from_lark(NESTED)).sample(random.Random(0), 20, weights)


def test_weighted_words_are_words():
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "s": {"type": "string", "maxLength": 3}},
        "required": ["n"],
    }
    grammar = c.Grammar.from_json_schema(schema, profile="practical") | c.Grammar.text(until=";")
    constraint, rng = constraint_of(grammar), random.Random(3)
    for _ in range(20):
        word = constraint.sample(rng, 24, {})
        assert word.endswith(b";") or jsonschema.Draft202012Validator(schema).is_valid(json.loads(word))


@pytest.mark.parametrize("name", ["hermes", "chatglm3", "mistral-v11", "pythonic", "kimi-k2"])
def test_turns_are_drawn_that_nobody_could_count(name, tiny_vocabulary):
    chat = c.ChatFormat.load(name)
    constraint = c.compile(chat.grammar(TOOLS, tool_choice="required"), tiny_vocabulary)
    with pytest.raises(c.LimitExceeded, match=r"weights=\{\}"):
        constraint.sample(random.Random(0), 400)
    drawn = [constraint.sample(random.Random(seed), 400, weights={}) for seed in range(6)]
    for word in drawn:
        assert chat.parse(word.decode(), tools=TOOLS, strict=True).tool_calls
    assert len(set(drawn)) > 3
    assert drawn[3] == c.compile(chat.grammar(TOOLS, tool_choice="required"), tiny_vocabulary).sample(
        random.Random(3), 400, weights={}
    )


def test_no_word_is_as_short():
    with pytest.raises(c.GrammarError, match="no word has at most 2 symbols"):
        constraint_of("aaa").sample(random.Random(0), 2)


@pytest.mark.parametrize("up_to", [-1, True, 2.0, "3"])
def test_a_length_is_a_number(up_to):
    with pytest.raises(c.ConstrainedError, match="it is a number of symbols"):
        constraint_of("a").count(up_to)


@pytest.mark.parametrize(("one", "two", "word"), [
    ("(a|b)*", "[ab]*", None), ("(a|b)*abb", "(a|b)*ab", b"ab"), ("a*", "a+", b""), ("a{3}|b", "a{3}", b"b"), ("(aa)*", "(aaaa)*|(aa)(aaaa)*", None),
    (r"\d{4}", "[0-9]{3,4}", b"000"),
])  # fmt: skip
def test_languages_are_compared(one, two, word):
    for first, second, whose in ((one, two, False), (two, one, True)):
        found = constraint_of(first).language_equal(constraint_of(second))
        assert (bool(found), found.word, found.complete) == (word is None, word, True)
        if word is not None and re.fullmatch(one, word.decode()) is None:
            assert found.first_has_it is whose


def test_nested_languages_are_compared_up_to_a_length():
    one, two = (constraint_of(c.Grammar.from_lark(text)) for text in (NESTED, NESTED.replace("[01]", "[012]")))
    assert one.language_equal(one, 9)
    assert one.language_equal(two, 2) and not one.language_equal(two, 2).complete
    assert one.language_equal(two, 9).word == b"[2]"


LISTS = 'start: "[" start* "]"'


@pytest.mark.parametrize(("one", "two", "word"), [
    (LISTS, LISTS, None), (LISTS, 'start: "[" x "]"\nx: start*', None), (LISTS, 'start: "[" x "]"\nx: | x start', None),
    (LISTS, 'start: "[" x "]"\nx: | start x', None), (NESTED, NESTED, None),
    ('start: "a" start "b" | "c"', 'start: "c" | "a" "c" "b" | "a" "a" start "b" "b"', None),
    (LISTS, 'start: "[" start* "]" | "[[[[[]"', b"[[[[[]"), (LISTS, 'start: "[" start+ "]" | "[" "]" "]"?', b"[]]"),
    ('start: "a" start "b" | "c"', 'start: "a" start "b" | "c" | "aaacbb"', b"aaacbb"),
])  # fmt: skip
def test_recursive_languages_are_compared(one, two, word):
    first, second = (constraint_of(c.Grammar.from_lark(text)) for text in (one, two))
    for found in (first.language_equal(second), second.language_equal(first)):
        assert (found.word, found.complete, bool(found)) == (word, True, word is None)
        assert found.pairs < 200


STRINGS = r"""
start: "[" (start ("," start)*)? "]" | STRING
STRING: /"[^"\\]*"/
"""
OTHERWISE = r"""
start: "[" "]" | "[" rest "]" | STRING
rest: start | start "," rest
STRING: "\"" CHARACTERS "\"" | "\"\""
CHARACTERS: /[^"\\]+/
"""


def test_characters_of_several_bytes_are_no_states_apart():
    one, two = (constraint_of(c.Grammar.from_lark(text)) for text in (STRINGS, OTHERWISE))
    found = one.language_equal(two)
    assert found and found.complete and found.pairs < 40
    assert one.language_equal(constraint_of(c.Grammar.from_lark(OTHERWISE.replace("]+/", "é]+/")))).word == '"é"'.encode()


def test_what_the_work_does_not_settle_holds_up_to_a_length():
    one, two = (c.compile(c.Grammar.from_lark(text), BYTES, max_work=50_000) for text in (LISTS, LISTS + ' | "[[[]]]"'))
    found = one.language_equal(two)
    assert found and not found.complete and found.up_to > 10


def test_a_special_token_is_told_from_its_spelling():
    vocabulary = c.Vocabulary([b"<t>"], special={"<t>": 1, "<end>": 2}, stop=[2])
    one, two = (c.Grammar.from_lark('start: "<t>"', specials=names) for names in (["<t>"], []))
    found = constraint_of(one, vocabulary).language_equal(constraint_of(two, vocabulary))
    assert not found and found.word == b"<t>"
    assert found.symbols == (("<t>",) if found.first_has_it else tuple(b"<t>"))


# -- models ------------------------------------------------------------------------------------------------------------

SMALL = c.Vocabulary([b"0", b"1", b"00", b"01"], special={"<end>": 4}, stop=[4], size=8)


class Drawn:
    """A model whose next-token distributions are drawn once, by prefix; ids 5 to 7 are padding."""

    def __init__(self, seed: int) -> None:
        self._seed, self._known = seed, {}

    def __call__(self, ids):
        key = tuple(ids)
        if key not in self._known:
            chance = np.random.default_rng([self._seed, *key])
            self._known[key] = normalised(np.where(np.arange(8) < 5, chance.normal(size=8) * 2, -np.inf))
        return self._known[key]


def test_the_exact_distributions_sum_to_one():
    found = exact.distributions(constraint_of("0{1,3}|1[01]{2}1", SMALL), Drawn(0), [], max_new_tokens=6)
    assert sum(found.conditional.values()) == pytest.approx(1) == sum(found.masked.values())
    assert {SMALL.decode(tokens[:-1]) for tokens in found.conditional} == {
        b"0",
        b"00",
        b"000",
        *(b"1" + bytes(pair) + b"1" for pair in itertools.product(b"01", repeat=2)),
    }
    assert exact.divergence(found.conditional, found.conditional) == pytest.approx(0)


@pytest.mark.parametrize("seed", range(3))
def test_asap_comes_to_the_models_own_distribution(seed):
    constraint, model = constraint_of("0{1,3}|1[01]{2}1", SMALL), Drawn(seed)
    found = exact.distributions(constraint, model, [], max_new_tokens=6)
    sampler = aligned.Aligned(constraint, model, [], max_new_tokens=6, seed=seed)
    before = {word: sampler.probability(word) for word in found.conditional}
    assert before == pytest.approx(found.masked), "without a draw it is the hard mask"
    for _ in range(300):
        assert tuple(sampler.draw()) in found.conditional
    after = {word: sampler.probability(word) for word in found.conditional}
    assert exact.divergence(found.conditional, after) < exact.divergence(found.conditional, found.masked) / 5


def test_the_estimate_of_the_allowed_probability_is_unbiased():
    chance, logs = np.random.default_rng(0), Drawn(1)([9])
    for allowed in ({1}, {1, 2}, {0, 3, 4}, {0, 1, 2, 3, 4}):
        mass = np.exp(logs)[list(allowed)].sum()
        drawn = [rejection.allowed_draw(logs, allowed.__contains__, chance) for _ in range(3000)]
        estimates = np.array([estimate for _, estimate, _ in drawn])
        assert abs(estimates.mean() - mass) < 5 * estimates.std() / np.sqrt(len(estimates)) + 1e-9
        first = np.mean([token == min(allowed) for token, _, _ in drawn])
        assert first == pytest.approx(np.exp(logs)[min(allowed)] / mass, abs=0.05)


def test_awrs_weighs_words_as_the_model_does():
    constraint, model = constraint_of("0{1,3}|1[01]{2}1", SMALL), Drawn(0)
    found = exact.distributions(constraint, model, [], max_new_tokens=6)
    shares = dict.fromkeys(found.conditional, 0.0)
    for seed in range(40):
        drawn = rejection.particles(constraint, model, [], max_new_tokens=6, count=32, seed=seed)
        for particle, share in zip(drawn, rejection.shares(drawn), strict=True):
            shares[tuple(particle.tokens)] += share / 40
    assert exact.divergence(found.conditional, shares) < exact.divergence(found.conditional, found.masked) / 5


def test_nothing_allowed_is_said():
    with pytest.raises(c.NothingAllowed):
        rejection.allowed_draw(Drawn(0)([]), lambda token: False, np.random.default_rng(0))


def test_corrected_samplers_are_decoding_methods_of_transformers(tiny_model, tiny_tokenizer, tiny_vocabulary):
    import torch
    from constrained.research.samplers import asap, awrs

    constraint = c.compile(c.Grammar.choice(["yes", "no", "perhaps"]), tiny_vocabulary)
    inputs = tiny_tokenizer(["Is it?", "Is it raining?"], return_tensors="pt", padding=True, padding_side="left")
    for method in (asap(constraint, rounds=4), awrs(constraint, particles=4)):
        output = tiny_model.generate(
            **inputs,
            custom_generate=method,
            do_sample=True,
            max_new_tokens=10,
            pad_token_id=tiny_tokenizer.pad_token_id,
            eos_token_id=list(constraint.stop),
        )
        assert torch.equal(output[:, : inputs["input_ids"].shape[1]], inputs["input_ids"])
        for row in output[:, inputs["input_ids"].shape[1] :].tolist():
            assert tiny_tokenizer.decode(row, skip_special_tokens=True) in ("yes", "no", "perhaps")
        with pytest.raises(c.ConstrainedError, match="corrected samplers sample"):
            tiny_model.generate(**inputs, custom_generate=method, do_sample=False, max_new_tokens=10)


class Fed:
    """Counts the ids that a model reads."""

    def __init__(self, model) -> None:
        self._model, self.count, self.device = model, 0, model.device

    def __call__(self, ids, **told):
        self.count += ids.numel()
        return self._model(ids, **told)


@pytest.mark.parametrize("method", ["asap", "awrs"])
def test_samplers_obey_their_host(method, tiny_model, tiny_tokenizer, tiny_vocabulary):
    import torch
    from constrained.research import samplers

    constraint = c.compile(c.Grammar.from_regex("[a-z]{3,8}"), tiny_vocabulary)
    inputs = tiny_tokenizer("Is it?", return_tensors="pt", add_special_tokens=False)
    start, few = inputs["input_ids"].shape[1], {"rounds": 3} if method == "asap" else {"particles": 3}

    def written(torch_seed, length=4, **options):
        torch.manual_seed(torch_seed)
        output = tiny_model.generate(
            **inputs, custom_generate=getattr(samplers, method)(constraint, **few, **options), do_sample=True,
            max_new_tokens=length, pad_token_id=tiny_tokenizer.pad_token_id, num_return_sequences=3,
        )  # fmt: skip
        return output[:, start:].tolist()

    assert max(map(len, written(0))) <= 4 and max(map(len, written(0, 3))) <= 3
    assert written(0) == written(0) and len({str(written(seed)) for seed in range(4)}) > 1, "torch's seed is obeyed"
    assert written(0, seed=1) == written(7, seed=1)
    assert not {*map(tuple, written(0, 8, seed=0)[1:])} & {*map(tuple, written(0, 8, seed=1)[:2])}, "no row comes again"


def test_particles_side_by_side_read_no_id_twice(tiny_model, tiny_tokenizer, tiny_vocabulary):
    constraint, prompt = c.compile(c.Grammar.from_regex("[a-z ]{20,40}"), tiny_vocabulary), list(range(50, 90))
    fed = Fed(tiny_model)
    drawn = rejection.particles(constraint, NextTokens(fed, kept=9), prompt, max_new_tokens=30, count=8)
    assert fed.count <= len(prompt) + sum(len(particle.tokens) for particle in drawn) + 8 * 8
    fed = Fed(tiny_model)
    sampler = aligned.Aligned(constraint, NextTokens(fed), prompt, max_new_tokens=30)
    words = [sampler.draw() for _ in range(6)]
    assert fed.count <= len(prompt) + 2 * sum(map(len, words))


def test_caches_say_what_a_fresh_reading_says(tiny_model):
    reader, picks = NextTokens(tiny_model, kept=3), random.Random(0)
    for _ in range(12):
        ids = [picks.choice([40, 41]) for _ in range(picks.randint(1, 6))]
        np.testing.assert_allclose(reader(ids), NextTokens(tiny_model)(ids), atol=1e-4)


def test_a_padding_token_that_is_attended_to_is_part_of_the_prompt(tiny_model, tiny_tokenizer, tiny_vocabulary, monkeypatch):
    import torch
    from constrained.research import samplers

    pad, seen = tiny_tokenizer.pad_token_id, []
    monkeypatch.setattr(samplers, "draw", lambda _, reader, prompt, **told: seen.append(prompt) or [60])
    constraint = c.compile(c.Grammar.choice(["a"]), tiny_vocabulary)
    tiny_model.generate(
        torch.tensor([[pad, pad, 60], [pad, pad, 61]]), attention_mask=torch.tensor([[1, 1, 1], [0, 0, 1]]),
        do_sample=True, max_new_tokens=3, pad_token_id=pad, custom_generate=samplers.awrs(constraint, particles=1),
    )  # fmt: skip
    assert seen == [[pad, pad, 60], [61]]


def test_a_node_of_the_tree_is_small():
    """Of a prefix the tokens that were drawn are kept, not the vocabulary."""
    size = 20_000
    vocabulary = c.Vocabulary([f"{at} ".encode() for at in range(size)], special={"<end>": size}, stop=[size])
    sampler = aligned.Aligned(constraint_of("([0-9]+ ){0,9}", vocabulary), lambda _: np.full(size + 1, -np.log(size + 1)), [], max_new_tokens=9)
    for _ in range(30):
        sampler.draw()
    nodes = [sampler._above]
    for node in nodes:
        nodes += node.after.values()
    assert max(len(node.drawn) for node in nodes) <= 30 < len(nodes)
    assert len(sampler._recent) <= aligned.RECENT


# -- traces ------------------------------------------------------------------------------------------------------------


def test_a_trace_says_what_the_mask_did():
    model = Drawn(4)
    found = trace(constraint_of("0{1,3}|1[01]{2}1", SMALL), model, [], temperature=0, max_new_tokens=20)
    assert found.finished and found.tokens[-1] == 4
    ids = [4]  # an empty prompt: the stop token stands for it
    matcher = constraint_of("0{1,3}|1[01]{2}1", SMALL).matcher()
    for step in found.steps:
        logs, allowed = model(ids), [token for token in range(5) if matcher.accepts(token)]
        assert step.allowed == len(allowed) and step.forced == (len(allowed) == 1)
        assert step.removed == pytest.approx(1 - np.exp(logs[allowed]).sum())
        assert step.token == max(allowed, key=lambda token: logs[token])
        assert (step.entropy_before, step.entropy_after) == (
            pytest.approx(entropy(logs)),
            pytest.approx(entropy(normalised(logs[allowed]))),
        )
        assert not {each.token for each in step.forbidden} & set(allowed) and all(each.why for each in step.forbidden)
        matcher.advance(step.token)
        ids.append(step.token)
    assert found.log_probability_kept == pytest.approx(sum(np.log(1 - step.removed) for step in found.steps))


def test_a_trace_of_the_embedded_model_is_its_generation(tiny_model, tiny_tokenizer, tiny_vocabulary):
    constraint = c.compile(c.Grammar.from_regex("[ab]{3,6}"), tiny_vocabulary)
    found = constraint.trace(tiny_model, "Say ab.", tokenizer=tiny_tokenizer, temperature=0, max_new_tokens=20)
    inputs = tiny_tokenizer("Say ab.", return_tensors="pt", add_special_tokens=False)
    output = tiny_model.generate(**inputs, do_sample=False, **constraint.generation_kwargs(), max_new_tokens=20)
    assert output[0, inputs["input_ids"].shape[1] :].tolist() == found.tokens


def test_a_trace_within_a_budget_ends():
    found = trace(constraint_of("0+1", SMALL), Drawn(2), [], budget=5, max_new_tokens=50)
    assert found.finished and len(found.tokens) <= 6


def test_a_trace_of_no_tokens_asks_nobody():
    found = trace(constraint_of("0", SMALL), lambda _: pytest.fail("asked"), [], max_new_tokens=0)
    assert found.steps == () and not found.finished


def test_a_prompt_in_words_needs_a_tokenizer():
    with pytest.raises(c.ConstrainedError, match="a prompt in words needs its tokenizer"):
        trace(constraint_of("0", SMALL), Drawn(0), "Hi")


@pytest.mark.parametrize("prompt", [[1, "a"], [[1], [2, 3]], [0.5], object(), [2**70, None]])
def test_a_prompt_that_is_no_ids_is_refused(prompt):
    with pytest.raises(c.ConstrainedError, match=r"the prompt is (.|\n)*instead: a text, or ids"):
        trace(constraint_of("0", SMALL), Drawn(0), prompt)


@pytest.mark.parametrize("options", [{"temperature": "x"}, {"temperature": float("nan")}, {"seed": "x"}, {"max_new_tokens": -1}])
def test_numbers_of_a_trace_are_numbers(options):
    constraint = c.compile(c.Grammar.from_regex("a+"), BYTES)
    with pytest.raises(c.ConstrainedError, match="numbers, and not negative"):
        constraint.trace(lambda ids: [0.0] * BYTES.size, [97], **options)


@pytest.mark.parametrize("schema", [{}, {"type": "array", "uniqueItems": True}])
def test_languages_of_endless_states_are_compared(schema):
    one, two = (c.compile(c.Grammar.from_json_schema(schema), BYTES) for _ in range(2))
    assert one.language_equal(two).complete


def test_languages_beyond_the_work_meet_a_limit_where_a_length_is_asked_for():
    schema = {"type": "array", "uniqueItems": True}
    one, two = (
        c.compile(c.Grammar.from_json_schema(schema | more), BYTES, max_work=100_000) for more in ({}, {"maxItems": 3})
    )
    assert not one.language_equal(two).complete
    with pytest.raises(c.LimitExceeded, match="pairs of states that are compared"):
        one.language_equal(two, 9)
