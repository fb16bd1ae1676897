"""vLLM: a logits processor for both of its interfaces, and its structured-output objects.

**The processor**, named when the engine starts: ``--logits-processors constrained.integrations.vllm:GrammarProcessor``,
or the class in ``LLM(…, logits_processors=[…])``.  Requests then say what they want in
``SamplingParams(extra_args={"constrained_json": schema})``, over HTTP in ``vllm_xargs``; see `servers`.
``constrained_budget: true`` ends every answer as a whole one within its ``max_tokens``; over HTTP it is the text
``"true"``, as the server makes numbers of other values. No entry point registers it:
the engine's present runner refuses to start where an installed package registers one of the older interface.

vLLM has two runners.  The older one tells a processor which requests come, go and change places, and lends it the lists
of their tokens; the newer one keeps tokens on the device, so each step copies those of the constrained requests to the
host.  One class serves both.

**Structured outputs** (`GrammarBackend`): the objects that its manager asks for.  It has no registry of backends, so
`install` puts this one in the place of "guidance", for whoever wants that.

Tested in tests/hosts/test_vllm_engine.py on the engine itself, where the package is installed (`make hosts`), and in
tests/hosts/test_vllm.py, against the package's loaders and manager, or against its published interface.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection
from typing import Any

import torch
from vllm.v1.sample.logits_processor import LogitsProcessor as StepInterface
from vllm.v1.sample.logits_processor import MoveDirectionality
from vllm.v1.structured_output.backend_types import (
    StructuredOutputBackend,
    StructuredOutputGrammar,
    StructuredOutputOptions,
)
from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcessor as SlotInterface

from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.errors import ConstrainedError
from constrained.integrations.masks import constrain
from constrained.integrations.servers import Cursor, Requests, budget_of, grammar_of, log_end, read_arguments

_log = logging.getLogger("constrained.servers")


def vocabulary_of_engine(vllm_config: Any) -> Vocabulary:
    """Return the vocabulary of an engine's tokenizer, as wide as its model's logits."""
    from vllm.tokenizers import cached_tokenizer_from_config

    model = vllm_config.model_config
    return Vocabulary.from_tokenizer(cached_tokenizer_from_config(model_config=model), size=model.get_vocab_size())


class _Request:
    """A constrained request: its cursor, the tokens that the engine has of it, and how many of them were read; None: it
    left the language.
    """

    __slots__ = ("cursor", "output", "read")

    def __init__(self, cursor: Cursor, output: list[int]) -> None:
        self.cursor: Cursor | None = cursor
        self.output, self.read = output, 0

    def catch_up(self, output: list[int]) -> Cursor | None:
        """Read what has come since; fewer tokens than before: some were taken back.  What goes wrong ends this request
        alone.
        """
        if self.cursor is not None:
            try:
                self._read(self.cursor, output)
            except Exception as error:
                log_end(error)
                self.cursor.end()
        return self.cursor

    def _read(self, cursor: Cursor, output: list[int]) -> None:
        known = next((at for at, token in enumerate(output[self.read :], self.read) if token < 0), len(output))
        if known < self.read:
            cursor.rollback(self.read - known)
        elif not cursor.accept(output[self.read : known]):
            _log.error(
                "a request has left its grammar, so it goes on without: another processor or a setting overrules the "
                "masks"
            )
            self.cursor = None
        self.read = known


class GrammarProcessor(StepInterface, SlotInterface):  # type: ignore[misc]  # a host's classes
    """Keeps each request that asks for a grammar inside it; `StepInterface` is that of the older runner,
    `SlotInterface` of the newer.
    """

    def __init__(self, vllm_config: Any, second: Any, is_pin_memory: bool | None = None) -> None:
        self._requests = Requests(vocabulary_of_engine(vllm_config))
        # the newer runner hands over its tables here, the older one a device
        self._slots = None if is_pin_memory is not None else second
        self._running: dict[int, _Request] = {}

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Refuse a request whose arguments cannot be read.

        Raises: ValueError: as the engine asks for; it answers with it.
        """
        try:
            asked = read_arguments(sampling_params.extra_args)
            if asked:
                grammar_of(asked)
        except ConstrainedError as error:
            raise ValueError(str(error)) from error

    def is_argmax_invariant(self) -> bool:
        """No: the likeliest token may be forbidden."""
        return False

    def _cursor(self, sampling_params: Any) -> Cursor | None:
        try:
            asked = read_arguments(sampling_params.extra_args)
            if not asked:
                return None
            budget = budget_of(asked, sampling_params.max_tokens)
            matcher = self._requests.constraint(asked).matcher(budget=budget)
        # it was read when it was admitted; what is missing now is a token, or room: others are served on
        except Exception as error:
            log_end(error)
            matcher = self._requests.constraint({"choice": '[""]'}).matcher()
        return Cursor(matcher, _stops(sampling_params))

    # -- the older runner ----------------------------------------------------------------------------------------------

    def update_state(self, batch_update: Any) -> None:
        """Note which requests came, went and changed places."""
        if batch_update is None:
            return
        running = self._running
        for row in batch_update.removed:
            running.pop(row, None)
        for row, sampling_params, _, output in batch_update.added:
            running.pop(row, None)
            cursor = self._cursor(sampling_params)
            if cursor is not None:
                running[row] = _Request(cursor, output)
        for first, second, direction in batch_update.moved:
            one, other = running.pop(first, None), running.pop(second, None)
            if one is not None:
                running[second] = one
            if other is not None and direction == MoveDirectionality.SWAP:
                running[first] = other

    def apply(self, logits: torch.Tensor, ctx: Any = None) -> torch.Tensor:
        """Return the logits, -inf where a token may not come next; in place."""
        rows = self._by_slots(ctx) if ctx is not None else [
            (row, cursor) for row, request in sorted(self._running.items())
            if row < len(logits) and (cursor := request.catch_up(request.output)) is not None]
        constrain(logits, rows, self._requests.vocabulary.words)
        return logits

    # -- the newer runner ----------------------------------------------------------------------------------------------

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        """Begin a request in a slot, whatever was in it; say whether it is constrained."""
        self._running.pop(req_idx, None)
        cursor = self._cursor(sampling_params)
        if cursor is not None:
            self._running[req_idx] = _Request(cursor, [])
        return cursor is not None

    def _by_slots(self, ctx: Any) -> list[tuple[int, Cursor]]:
        """Return the cursor of each row: after the tokens of its slot, and after the drafts before it."""
        if not self._running.keys() & set(ctx.idx_mapping_np.tolist()):
            return []
        assert self._slots is not None
        slots, offsets, fed, ends = (
            tensor.tolist() for tensor in (ctx.expanded_idx_mapping, ctx.expanded_local_pos, ctx.input_ids, ctx.pos)
        )
        starts, cursors = self._slots.prompt_len.np, []
        cursor: Cursor | None = None
        for row, (slot, offset) in enumerate(zip(slots, offsets)):
            request = self._running.get(slot)
            if request is None:
                continue
            if offset == 0:
                output = self._slots.all_token_ids.gpu[slot, int(starts[slot]) : ends[row] + 1].tolist()
                cursor = request.catch_up(output)
            elif cursor is not None:
                cursor = cursor.copy()
                # the engine drops what follows a draft that it refuses
                cursor = cursor if cursor.accept([fed[row]]) else None
            if cursor is not None:
                cursors.append((row, cursor))
        return cursors


def _stops(sampling_params: Any) -> Collection[int]:
    """Return the ids at which the engine ends a request; `all_stop_token_ids` are more with ``ignore_eos``."""
    eos = sampling_params.eos_token_id
    return {*(sampling_params.stop_token_ids or ()), *(() if eos is None else (eos,))}


class RequestGrammar(StructuredOutputGrammar):  # type: ignore[misc]  # a host's class
    """The grammar of one request, as the manager of structured outputs asks for it."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """Read tokens; say whether they were allowed, else none is read."""
        return self._cursor.accept(tokens)

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """Return the tokens that may come, up to the first that may not; nothing is read."""
        return self._cursor.validate(tokens)

    def rollback(self, num_tokens: int) -> None:
        """Take back tokens, the end included."""
        self._cursor.rollback(num_tokens)

    def fill_bitmask(self, bitmask: torch.Tensor, batch_index: int) -> None:
        """Write the mask of the next token."""
        self._cursor.fill(bitmask, batch_index)

    def is_terminated(self) -> bool:
        """Say whether a stop token has been read."""
        return self._cursor.finished

    def reset(self) -> None:
        """Go back to the start."""
        self._cursor.reset()


class GrammarBackend(StructuredOutputBackend):  # type: ignore[misc]  # a host's class
    """Makes the grammars of an engine's requests: JSON Schemas, patterns, choices and Lark texts."""

    def __init__(self, vllm_config: Any, tokenizer: Any, vocab_size: int) -> None:
        super().__init__(vllm_config, tokenizer, vocab_size)
        self._requests = Requests(Vocabulary.from_tokenizer(tokenizer, size=vocab_size))

    def compile_grammar(
        self, request_type: Any, grammar_spec: str, stop_token_ids: set[int] | None = None
    ) -> RequestGrammar:
        """Return the grammar of a request.

        Raises: ValueError: it cannot be read, as the engine asks for.
        """
        try:
            constraint = self._requests.constraint(self._asked(request_type, grammar_spec))
        except (ConstrainedError, TypeError, RecursionError) as error:  # the last two: no JSON
            raise ValueError(str(error)) from error
        return RequestGrammar(Cursor(constraint.matcher(), stop_token_ids))

    def _asked(self, request_type: Any, spec: str) -> dict[str, Any]:
        options = StructuredOutputOptions
        if request_type == options.JSON:
            return {"json": spec if isinstance(spec, str) else json.dumps(spec)}
        if request_type == options.JSON_OBJECT:
            return {"json": '{"type": "object"}'}
        kinds = {options.REGEX: "regex", options.CHOICE: "choice", options.GRAMMAR: "lark"}
        if request_type not in kinds:
            raise ConstrainedError(
                f"cannot enforce {request_type}", because="it is XGrammar's own notation",
                instead="the grammar as Lark, or a chat format",
            )
        return {kinds[request_type]: spec}

    def allocate_token_bitmask(self, max_num_seqs: int) -> torch.Tensor:
        """Return room for masks, all of whose tokens are allowed."""
        return torch.full((max_num_seqs, self._requests.vocabulary.words), -1, dtype=torch.int32)

    def destroy(self) -> None:
        """Nothing to let go of."""


def install() -> None:
    """Serve what the engine sends to its "guidance" backend: ``structured_outputs_config={"backend": "guidance"}``.

    Call it in every process of the engine, from an entry point of your own in the group ``vllm.general_plugins``.
    """
    import vllm.v1.structured_output as manager

    manager.GuidanceBackend = GrammarBackend
