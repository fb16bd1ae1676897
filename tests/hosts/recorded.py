"""The interfaces of hosts that are not installed, as their packages publish them: names and signatures alone, written
down from vLLM 0.33.0 and
SGLang 0.5.23, for contract tests that say so."""

from __future__ import annotations

import enum
import sys
import types
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple


def _module(name: str, **names: Any) -> None:
    parent = ""
    for part in name.split("."):
        parent = f"{parent}.{part}" if parent else part
        sys.modules.setdefault(parent, types.ModuleType(parent))
    sys.modules[name].__dict__.update(names)


class MoveDirectionality(enum.Enum):
    UNIDIRECTIONAL = enum.auto()
    SWAP = enum.auto()


class StepLogitsProcessor(ABC):
    @classmethod
    def validate_params(cls, sampling_params):
        return None

    @abstractmethod
    def __init__(self, vllm_config, device, is_pin_memory): ...
    @abstractmethod
    def apply(self, logits): ...
    @abstractmethod
    def is_argmax_invariant(self): ...
    @abstractmethod
    def update_state(self, batch_update): ...


class SlotLogitsProcessor(ABC):
    def __init__(self, vllm_config, req_states):
        self.seen = vllm_config, req_states

    @classmethod
    def validate_params(cls, sampling_params):
        return None

    def add_request(self, req_idx, sampling_params):
        return True

    def apply_staged_writes(self):
        return None

    @abstractmethod
    def apply(self, logits, ctx): ...


StructuredOutputOptions = enum.Enum("StructuredOutputOptions", "JSON JSON_OBJECT REGEX GRAMMAR CHOICE STRUCTURAL_TAG")


class StructuredOutputGrammar(ABC):
    @abstractmethod
    def accept_tokens(self, request_id, tokens): ...
    @abstractmethod
    def validate_tokens(self, tokens): ...
    @abstractmethod
    def rollback(self, num_tokens): ...
    @abstractmethod
    def fill_bitmask(self, bitmask, batch_index): ...
    @abstractmethod
    def is_terminated(self): ...
    @abstractmethod
    def reset(self): ...


@dataclass
class StructuredOutputBackend(ABC):
    vllm_config: Any
    tokenizer: Any
    vocab_size: int

    @abstractmethod
    def compile_grammar(self, request_type, grammar_spec, stop_token_ids=None): ...
    @abstractmethod
    def allocate_token_bitmask(self, max_num_seqs): ...
    @abstractmethod
    def destroy(self): ...


def record_vllm() -> None:
    _module(
        "vllm.v1.sample.logits_processor", LogitsProcessor=StepLogitsProcessor, MoveDirectionality=MoveDirectionality
    )
    _module("vllm.v1.worker.gpu.sample.logits_processor", LogitsProcessor=SlotLogitsProcessor)
    _module(
        "vllm.v1.structured_output.backend_types", StructuredOutputBackend=StructuredOutputBackend,
        StructuredOutputGrammar=StructuredOutputGrammar, StructuredOutputOptions=StructuredOutputOptions)


class GrammarRow(NamedTuple):
    row: int
    grammar: Any


class BaseGrammarObject:
    def __init__(self):
        self._finished, self.grammar_stats, self.current_token = False, None, None

    @property
    def finished(self):
        return self._finished

    @finished.setter
    def finished(self, finished):
        self._finished = finished


class InvalidGrammarObject(BaseGrammarObject):
    def __init__(self, error_message="Unknown grammar error"):
        super().__init__()
        self.error_message = error_message


class BaseGrammarBackend:
    def __init__(self):
        self.cache = {}


def record_sglang() -> None:
    registry: dict[str, Any] = {}
    _module(
        "sglang.srt.constrained.base_grammar_backend",
        BaseGrammarBackend=BaseGrammarBackend,
        BaseGrammarObject=BaseGrammarObject,
        GrammarRow=GrammarRow,
        InvalidGrammarObject=InvalidGrammarObject,
        GRAMMAR_BACKEND_REGISTRY=registry,
        register_grammar_backend=registry.__setitem__,
    )
    choices: list[str] = []
    _module(
        "sglang.srt.arg_groups.choices", GRAMMAR_BACKEND_CHOICES=choices, add_grammar_backend_choices=choices.extend
    )
    sys.modules["sglang.srt.arg_groups"].choices = sys.modules["sglang.srt.arg_groups.choices"]
