"""vLLM: both interfaces of logits processors and the structured-output objects; against the package where it is
installed, else against its
interface as it is published (`recorded`): then these are contract tests.  Its engine runs in test_vllm_engine.py."""

from __future__ import annotations

import importlib
import importlib.util
import json
import random
import sys
import types

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from . import recorded

REAL = importlib.util.find_spec("vllm") is not None
needs_vllm = pytest.mark.skipif(not REAL, reason="vLLM is not installed")
SCHEMA = json.dumps(
    {"type": "object", "properties": {"n": {"type": "integer"}, "ok": {"type": "boolean"}}, "required": ["n"]}
)
ASKED = {
    "json": {"constrained_json": SCHEMA},
    "regex": {"constrained_regex": "[0-9]{3,9}"},
    "choice": {"constrained_choice": '["red", "green"]'},
    "free": None,
}


def _params(name, **more):
    return types.SimpleNamespace(
        extra_args=ASKED[name] if isinstance(name, str) else name,
        max_tokens=40,
        **{"eos_token_id": 1302, "stop_token_ids": None} | more,
    )


@pytest.fixture(scope="module")
def hosted():
    """The integration, over the real package or over what was recorded of it."""
    before = set(sys.modules)
    if not REAL:
        recorded.record_vllm()
    yield importlib.import_module("constrained.integrations.vllm")
    if not REAL:
        for name in set(sys.modules) - before:
            if name.partition(".")[0] == "vllm" or name == "constrained.integrations.vllm":
                del sys.modules[name]


@pytest.fixture
def config(monkeypatch, hosted, tiny_tokenizer, tiny_vocabulary):
    """A configuration of an engine, as far as it is looked at."""
    monkeypatch.setattr(hosted, "vocabulary_of_engine", lambda _: tiny_vocabulary)
    return types.SimpleNamespace(model_config=types.SimpleNamespace(get_vocab_size=lambda: tiny_vocabulary.size))


def _is_right(name, text):
    if name == "json":
        return isinstance(json.loads(text)["n"], int)
    return {
        "regex": lambda: text.isdigit() and 3 <= len(text) <= 9,
        "choice": lambda: text in ("red", "green"),
        "free": lambda: True,
    }[name]()


def test_one_class_is_both_interfaces(hosted):
    processor = hosted.GrammarProcessor
    assert issubclass(processor, hosted.StepInterface)
    assert issubclass(processor, hosted.SlotInterface)
    assert not processor.__abstractmethods__


def test_a_wrong_request_is_refused_before_it_runs(hosted):
    hosted.GrammarProcessor.validate_params(_params("json"))
    hosted.GrammarProcessor.validate_params(_params("free"))
    for asked, says in (
        ({"constrained_json": "{"}, "json of a request is no JSON"),
        ({"constrained_regex": "a", "constrained_budget": "soon"}, "budget of a request is 'soon'"),
        ({"constrained_regex": "a", "constrained_budget": 0}, "budget of a request is 0"),
        ([1], "the arguments of a request are"),
    ):
        with pytest.raises(ValueError, match=says):
            hosted.GrammarProcessor.validate_params(_params(asked))


def test_the_older_runner_through_a_day_of_requests(hosted, config, tiny_vocabulary):
    """Requests come, go, change places and are preempted, tokens are drawn at random from what is left: every answer is
    a word.
    """
    random_ = random.Random(3)
    processor = hosted.GrammarProcessor(config, torch.device("cpu"), False)
    assert not processor.is_argmax_invariant()
    batch, done, waiting = [], [], [random_.choice(list(ASKED)) for _ in range(24)]
    update = types.SimpleNamespace
    while waiting or batch:
        removed, added, moved = [], [], []
        for at in reversed(range(len(batch))):
            name, output = batch[at]
            if output and (output[-1] in tiny_vocabulary.stop or len(output) >= 60):
                done.append((name, output))
                last = len(batch) - 1
                if at == last:
                    removed.append(at)
                else:
                    moved.append((last, at, hosted.MoveDirectionality.UNIDIRECTIONAL))
                    batch[at] = batch[last]
                batch.pop()
        if batch and len(batch) > 1 and random_.random() < 0.3:
            moved.append((0, len(batch) - 1, hosted.MoveDirectionality.SWAP))
            batch[0], batch[-1] = batch[-1], batch[0]
        processor.update_state(update(removed=removed, added=added, moved=moved) if removed or moved else None)
        if batch and random_.random() < 0.05:  # preempted, and back with what it has written
            name, output = batch[-1]
            processor.update_state(update(removed=[len(batch) - 1], added=[], moved=[]))
            processor.update_state(
                update(removed=[], added=[(len(batch) - 1, _params(name), [1, 2], output)], moved=[])
            )
        while waiting and len(batch) < 4:
            name, output = waiting.pop(), []
            batch.append((name, output))
            processor.update_state(
                update(
                    removed=[],
                    added=[
                        (
                            len(batch) - 1,
                            _params(
                                name,
                            ),
                            [1, 2],
                            output,
                        )
                    ],
                    moved=[],
                )
            )
        if not batch:
            continue
        logits = processor.apply(torch.randn(len(batch), tiny_vocabulary.size))
        for (_, output), row in zip(batch, logits):
            output.append(int(torch.distributions.Categorical(logits=row).sample()))
    assert len(done) == 24
    for name, output in done:
        if output[-1] in tiny_vocabulary.stop:
            assert name == "free" or _is_right(name, tiny_vocabulary.decode(output[:-1]).decode())


@pytest.mark.parametrize("budget", [True, "true", 40, "40"])
def test_a_budget_ends_every_answer_as_a_whole_one(budget, hosted, config, tiny_vocabulary):
    processor = hosted.GrammarProcessor(config, torch.device("cpu"), False)
    output = []
    params = _params(
        {"constrained_json": json.dumps({"type": "array", "items": {"type": "string"}}), "constrained_budget": budget}
    )
    processor.update_state(types.SimpleNamespace(removed=[], added=[(0, params, [], output)], moved=[]))
    torch.manual_seed(0)
    while not output or output[-1] not in tiny_vocabulary.stop:
        output.append(
            int(
                torch.distributions.Categorical(
                    logits=processor.apply(torch.randn(1, tiny_vocabulary.size))[0]
                ).sample()
            )
        )
    assert len(output) <= 41
    assert isinstance(json.loads(tiny_vocabulary.decode(output[:-1])), list)


def test_what_cannot_be_begun_is_ended_and_the_others_go_on(hosted, config, tiny_vocabulary, caplog):
    processor = hosted.GrammarProcessor(config, torch.device("cpu"), False)
    update = types.SimpleNamespace(
        removed=[],
        added=[
            (0, _params({"constrained_choice": '["abcdef"]', "constrained_budget": 1}), [], []),
            (1, _params("regex"), [], []),
        ],
        moved=[],
    )
    processor.update_state(update)
    finite = torch.isfinite(processor.apply(torch.zeros(2, tiny_vocabulary.size)))
    assert finite[0].nonzero().flatten().tolist() == [tiny_vocabulary.stop[0]]
    assert finite[1].any()
    assert "a request is ended: " in caplog.text


@pytest.mark.parametrize(("said", "ends"), [
    ({}, [0]),  # what the generation configuration says
    ({"stop_token_ids": [1307]}, [0, 2]),
    ({"eos_token_id": None, "stop_token_ids": [1308]}, [1]),  # ignore_eos
    ({"eos_token_id": None}, range(5)),  # nothing ends it, and nothing else may come
])
def test_an_answer_ends_with_what_its_request_ends_with(said, ends, hosted, config, tiny_vocabulary):
    processor, output = hosted.GrammarProcessor(config, torch.device("cpu"), False), tiny_vocabulary.tokenize(b"red")
    added = [(0, _params("choice", **said), [], output)]
    processor.update_state(types.SimpleNamespace(removed=[], added=added, moved=[]))
    finite = torch.isfinite(processor.apply(torch.zeros(1, tiny_vocabulary.size)))[0].nonzero().flatten().tolist()
    assert finite == sorted(tiny_vocabulary.stop[at] for at in ends)


@pytest.mark.parametrize("bad", [[1.5], ["x"], [None], [[1]], [True], [10**30]], ids=str)
def test_tokens_that_are_none_concern_their_row_alone(bad, hosted, config, tiny_vocabulary):
    processor, outputs = hosted.GrammarProcessor(config, torch.device("cpu"), False), ([], [])
    added = [(row, _params("regex"), [], output) for row, output in enumerate(outputs)]
    processor.update_state(types.SimpleNamespace(removed=[], added=added, moved=[]))
    for digit in "123":
        outputs[0].extend(bad)
        outputs[1].append(tiny_vocabulary.by_text[digit.encode()])
        finite = torch.isfinite(processor.apply(torch.zeros(2, tiny_vocabulary.size))[1])
        assert 0 < finite.sum() < tiny_vocabulary.size


class _Slots:
    """The tables of the newer runner: tokens by slot, on what stands for the device."""

    def __init__(self, size):
        self.all_token_ids = types.SimpleNamespace(gpu=torch.zeros(size, 200, dtype=torch.int32))
        self.prompt_len = types.SimpleNamespace(np=np.zeros(size, np.int32))


def _context(rows):
    """rows: (slot, offset among the drafts, token that was fed, its position)."""
    slots, offsets, fed, ends = (torch.tensor(column) for column in zip(*rows))
    mapping = torch.tensor(list(dict.fromkeys(slots.tolist())))
    return types.SimpleNamespace(
        expanded_idx_mapping=slots,
        expanded_local_pos=offsets,
        input_ids=fed,
        pos=ends,
        idx_mapping=mapping,
        idx_mapping_np=mapping.numpy(),
    )


def test_the_newer_runner_with_drafts(hosted, config, tiny_vocabulary):
    """Slots are used again, rows are shuffled, drafts are proposed and refused: every answer is a word."""
    random_, slots = random.Random(4), _Slots(3)
    processor = hosted.GrammarProcessor(config, slots)
    tokens, names, done, waiting = {}, {}, [], [random_.choice(list(ASKED)) for _ in range(18)]
    while waiting or tokens:
        for slot in range(3):
            if slot not in tokens and waiting:
                names[slot], tokens[slot] = waiting.pop(), []
                slots.prompt_len.np[slot] = 2
                assert processor.add_request(slot, _params(names[slot])) == (names[slot] != "free")
        rows, order = [], random_.sample(sorted(tokens), len(tokens))
        for slot in order:
            length = 2 + len(tokens[slot])
            slots.all_token_ids.gpu[slot, 2:length] = torch.tensor(tokens[slot], dtype=torch.int32)
            drafts = [random_.randrange(tiny_vocabulary.used) for _ in range(random_.choice([0, 0, 2]))]
            rows += [
                (slot, at, drafts[at - 1] if at else (tokens[slot] or [1])[-1], length - 1 + at)
                for at in range(len(drafts) + 1)
            ]
        logits = processor.apply(torch.randn(len(rows), tiny_vocabulary.size), _context(rows))
        for (slot, offset, fed, _), row in zip(rows, logits):
            if offset and not (tokens.get(slot) and tokens[slot][-1] == fed):
                continue  # the draft before was refused
            if slot in tokens and not (tokens[slot] and tokens[slot][-1] in tiny_vocabulary.stop):
                tokens[slot].append(int(torch.distributions.Categorical(logits=row).sample()))
        for slot in list(tokens):
            if tokens[slot][-1] in tiny_vocabulary.stop or len(tokens[slot]) > 60:
                done.append((names.pop(slot), tokens.pop(slot)))
    assert len(done) == 18
    for name, output in done:
        if output[-1] in tiny_vocabulary.stop:
            assert name == "free" or _is_right(name, tiny_vocabulary.decode(output[:-1]).decode())


def _backend(hosted, tiny_tokenizer, tiny_vocabulary):
    return hosted.GrammarBackend(types.SimpleNamespace(), tiny_tokenizer, tiny_vocabulary.size)


@pytest.mark.parametrize(
    ("kind", "spec", "word"),
    [
        ("JSON", SCHEMA, '{"n": 1}'),
        ("JSON_OBJECT", "", "{}"),
        ("REGEX", "a+", "aa"),
        ("CHOICE", '["x", "y"]', "y"),
        ("GRAMMAR", 'start: "a" "b"?', "ab"),
    ],
)
def test_structured_outputs_through_accept_validate_rollback_and_masks(
    kind, spec, word, hosted, tiny_tokenizer, tiny_vocabulary
):
    backend = _backend(hosted, tiny_tokenizer, tiny_vocabulary)
    grammar = backend.compile_grammar(hosted.StructuredOutputOptions[kind], spec, {tiny_vocabulary.stop[0]})
    tokens = [*tiny_vocabulary.tokenize(word.encode()), tiny_vocabulary.stop[0]]
    assert grammar.validate_tokens([*tokens, -1]) == tokens
    bitmask = backend.allocate_token_bitmask(2)
    for token in tokens:
        grammar.fill_bitmask(bitmask, 1)
        assert int(bitmask[1, token >> 5]) >> (token & 31) & 1
        assert int(bitmask[0].min()) == -1
        assert not grammar.is_terminated()
        assert grammar.accept_tokens("request", [token])
    assert grammar.is_terminated()
    grammar.rollback(len(tokens))
    assert not grammar.is_terminated()
    assert not grammar.accept_tokens("request", [tiny_vocabulary.by_text[b"!"]])
    assert grammar.accept_tokens("request", tokens)
    grammar.reset()
    assert grammar.validate_tokens(tokens) == tokens
    backend.destroy()


def test_structured_outputs_that_cannot_be_read_are_refused(hosted, tiny_tokenizer, tiny_vocabulary):
    backend = _backend(hosted, tiny_tokenizer, tiny_vocabulary)
    for kind, spec in (("JSON", "{"), ("REGEX", "("), ("GRAMMAR", "root ::= 1"), ("STRUCTURAL_TAG", "{}")):
        with pytest.raises(ValueError, match=r"\w"):
            backend.compile_grammar(hosted.StructuredOutputOptions[kind], spec)


@pytest.mark.parametrize(("kind", "spec"), [("JSON", SCHEMA), ("JSON_OBJECT", "")])
def test_structured_outputs_are_read_practically(kind, spec, hosted, tiny_tokenizer, tiny_vocabulary):
    """The engine's own setting allows any blanks, of which a model may make an endless run."""
    backend = _backend(hosted, tiny_tokenizer, tiny_vocabulary)
    grammar = backend.compile_grammar(hosted.StructuredOutputOptions[kind], spec)
    assert grammar.validate_tokens(tiny_vocabulary.tokenize(b'{ "n"')) == tiny_vocabulary.tokenize(b"{")


# -- with the package --------------------------------------------------------------------------------------------------


@needs_vllm
def test_the_packages_own_loaders_take_the_class(hosted):
    from vllm.v1.sample import logits_processor as step
    from vllm.v1.worker.gpu.sample.logits_processor import loader as slot

    path = "constrained.integrations.vllm:GrammarProcessor"
    assert step._load_logitsprocs_by_fqcns([path]) == [hosted.GrammarProcessor]
    load = next(value for name, value in vars(slot).items() if name.startswith("_load_v2_logitsprocs_by"))
    assert load([path]) == [hosted.GrammarProcessor]


@needs_vllm
def test_the_packages_own_manager_runs_the_backend(hosted, monkeypatch, tiny_tokenizer, tiny_vocabulary):
    manager = importlib.import_module("vllm.v1.structured_output")
    monkeypatch.setattr(manager, "GuidanceBackend", manager.GuidanceBackend)
    hosted.install()
    assert manager.GuidanceBackend is hosted.GrammarBackend
    space = types.SimpleNamespace
    config = space(
        parallel_config=space(distributed_executor_backend="external_launcher"),
        scheduler_config=space(max_num_seqs=8),
        speculative_config=None,
        num_speculative_tokens=0,
        model_config=space(skip_tokenizer_init=True, is_diffusion=False, get_vocab_size=lambda: tiny_vocabulary.size),
        structured_outputs_config=space(enable_in_reasoning=False, disable_any_whitespace=False),
    )
    found = manager.StructuredOutputManager(config)
    found.tokenizer = tiny_tokenizer
    request = space(
        request_id="r",
        sampling_params=space(
            structured_outputs=space(_backend="guidance"), all_stop_token_ids=set(tiny_vocabulary.stop)
        ),
        structured_output_request=space(
            structured_output_key=(hosted.StructuredOutputOptions.REGEX, "[0-9]{2}"),
            grammar=None,
            reasoner=None,
            reasoning_ended=True,
        ),
    )
    found.grammar_init(request)
    assert isinstance(request.structured_output_request.grammar, hosted.RequestGrammar)
    bitmask = found.grammar_bitmask({"r": request}, ["r"], {})
    digits = {token for token in range(tiny_vocabulary.size) if bitmask[0, token >> 5] >> (token & 31) & 1}
    assert digits == {
        token for token, text in enumerate(tiny_vocabulary.tokens) if text and text.isdigit() and len(text) <= 2
    }
