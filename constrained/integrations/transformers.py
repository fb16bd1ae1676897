"""Constraints → a `transformers.LogitsProcessor`, and drafts of what the grammar dictates.

`generate` calls a processor with whole sequences, in whatever order suits it; `rows` finds the matcher of each by what
it says.  Nothing is changed in place, because hosts reuse the tensors that they pass (prompt lookup did 7 forward
passes instead of 3 over a processor that writes into its argument).

**Where the prompt ends** is never told.  The rule:

1. ``prompt_length=n`` says it, for callers who know.
2. Otherwise: `generate` makes one `LogitsProcessorList` per call, and this list is what calls the processor.  A list
   seen for the first time is a new generation; its prompt is the first call's input.  This is exact for every prompt,
   also one that continues an earlier output, for batches, beams and several threads, and the state dies with the list.
3. A list seen for the first time *inside* another `generate` (an assistant model drafts with the same processor) joins
   the generation that it drafts for, if every row continues one of its rows by at most a token, as drafts do.
4. Called by something other than such a list, the processor goes by content alone, as in 3.  This cannot tell "the same
   prompt and one token more" from a step of the generation: a host with its own loop calls `reset` or gives
   `prompt_length`.

"The shape shrank, so it is new" was refused: with an assistant the lengths go 1, 2, 3, 4, 5, 1, 2, ….

Tests: tests/hosts runs every mode of `generate` on the embedded model.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Collection, Sequence
from types import FrameType
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from transformers import Cache, GenerationMixin, LogitsProcessor, LogitsProcessorList, StoppingCriteriaList

from constrained.engine.compiled import CompiledGrammar
from constrained.engine.matcher import Matcher
from constrained.engine.tokens.bitmask import lacks_memory
from constrained.errors import ConstrainedError, VocabularyError
from constrained.integrations.sequences.calls import (
    appends,
    calling,
    depth,
    generation_config,
    stopping_criteria,
    streamer,
)
from constrained.integrations.sequences.drafts import ModelThatReadsAhead
from constrained.integrations.sequences.generation import Emptiness, Generation, WordEnd, filled
from constrained.integrations.sequences.rows import Ids, Row, budgets_of
from constrained.integrations.servers.masks import masked

_PADDED = 1024  # ids by which models' logits may be wider than their tokenizers, or an eighth
MaxNewTokens: TypeAlias = int | Sequence[int | None] | Literal["generate"] | None


def logits_processor(
    constraints: CompiledGrammar | Sequence[CompiledGrammar | None],
    *,
    prompt_length: int | None = None,
    max_new_tokens: MaxNewTokens = None,
) -> GrammarProcessor:
    """Return the processor that keeps `model.generate(…, logits_processor=[processor])` inside its constraints.

    constraints: one for all rows, or one for each prompt of the batch (None: a row that may say anything); beams and
    repeated samples of a prompt share its constraint.  A row ends with the first stop token that completes a word,
    whatever `generate` takes for its eos; with `Constraint.generation_kwargs` it knows these tokens itself.

    prompt_length: ids before the first generated one, padding included, where the caller knows better than the rule
    above. max_new_tokens: every row ends as a word within so many tokens, see `Constraint.matcher(budget=…)`; one
    number, one for each constraint, or "generate": as many as `generate` was told, which has to be enough for a word.
    Raises: LimitExceeded: so few tokens are not enough.
    """
    return GrammarProcessor(constraints, prompt_length, max_new_tokens)


def generation_kwargs(constraint: CompiledGrammar, max_new_tokens: int | None = None, **own: Any) -> dict[str, Any]:
    """Return the arguments of `generate` for a constraint; see `Constraint.generation_kwargs`."""
    stop = constraint.vocabulary.stop
    ends = {"eos_token_id": sorted(constraint.stop), "pad_token_id": min(stop)} if stop else {}
    most = {} if max_new_tokens is None else {"max_new_tokens": max_new_tokens}
    processor = logits_processor(constraint, max_new_tokens=max_new_tokens)
    return {**ends, **most, **own, "logits_processor": [*own.pop("logits_processor", ()), processor]}


class GrammarProcessor(LogitsProcessor):  # type: ignore[misc]  # a host's class
    """Sets the logits of forbidden tokens to -inf; may be used again, with other prompts, and by several threads.

    Rows whose ids are not in the language (a rejected draft, a beam of score -inf) are returned as they are; rows that
    have ended may only go on with padding and what `generate` stops at.  Put it last among custom processors: what
    another one writes after it is not checked.
    """

    supports_continuous_batching = False  # that mode passes the last token only, without history

    def __init__(
        self,
        constraints: CompiledGrammar | Sequence[CompiledGrammar | None],
        prompt_length: int | None = None,
        max_new_tokens: MaxNewTokens = None,
    ) -> None:
        if prompt_length is not None and (
            isinstance(prompt_length, bool) or not isinstance(prompt_length, int) or prompt_length < 0
        ):
            raise ConstrainedError(
                f"prompt_length is {prompt_length!r:.50}",
                because="it is a number of tokens",
                instead="input_ids.shape[1]",
            )
        self.constraints, self.prompt_length, self.max_new_tokens = _listed(constraints), prompt_length, max_new_tokens
        self._budgets = budgets_of(self.constraints, None if max_new_tokens == "generate" else max_new_tokens)
        self.vocabulary = next(constraint.vocabulary for constraint in self.constraints if constraint is not None)
        size = self.vocabulary.size
        self._widths = range(self.vocabulary.used, size + max(_PADDED, size // 8) + 1)  # of logits that fit
        self._thread = threading.local()  # .latest: the generation that this thread last worked on
        self._warned = False

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return new scores, with -inf for every token that may not come next.

        Shapes: input_ids (rows, length), scores (rows, width) of any floating type, on any device; width may exceed the
        vocabulary.
        Cost: one mask a row, one copy of the ids to the CPU (of the last of each row in the loop of greedy decoding and
        sampling) and one of the packed masks to the device.
        Raises: NothingAllowed: no allowed token has a finite logit in some row (on an accelerator one step later: to
        look at once would make the host wait).  LimitExceeded: see `compile`.
        """
        self._check(input_ids, scores)
        generation, rows = self._step(input_ids, sys._getframe(1))
        found, some = masked(scores, self._allowed(rows, generation.behind))
        free = [at for at, row in enumerate(rows) if row.matcher is None or row.left]
        if free:
            chosen = torch.tensor(free, device=scores.device)
            found[chosen] = scores[chosen]
        emptiness = Emptiness(some, rows)
        if scores.device.type == "cpu":
            emptiness.check()
        else:
            generation.unchecked = emptiness
        return found

    def reset(self) -> None:
        """Forget this thread's generation: the next call starts a new one.  For hosts that call without `generate`."""
        self._thread.latest = None

    def begin(self, input_ids: torch.Tensor, processors: LogitsProcessorList) -> None:
        """Say that `input_ids` is the prompt of the generation that `processors` will be called for."""
        frame = sys._getframe(1)
        generation = self._started(input_ids.detach().cpu().numpy(), processors, frame)
        self._look_at_ends(generation, frame)
        self._register(processors, generation)

    def matcher_of(self, input_ids: torch.Tensor, processors: LogitsProcessorList) -> Matcher | None:
        """Return the matcher after one sequence of the generation of `processors`; None where it is not in the
        language.
        """
        generation: Generation = processors.__dict__[_SLOT][id(self)]
        (row,) = generation.rows(input_ids.detach().cpu().numpy())
        return None if row.left else row.matcher

    def rows_of(self, input_ids: torch.Tensor) -> list[Row]:
        """Return the rows of this thread's generation; empty before its first step."""
        latest: Generation | None = getattr(self._thread, "latest", None)
        return [] if latest is None else latest.rows(input_ids.detach().cpu().numpy())

    def __reduce__(self) -> tuple[Any, ...]:
        return GrammarProcessor, (self.constraints, self.prompt_length, self.max_new_tokens)

    def __repr__(self) -> str:
        of = repr(self.constraints[0]) if len(self.constraints) == 1 else f"{len(self.constraints)} constraints"
        options = {"prompt_length": self.prompt_length, "max_new_tokens": self.max_new_tokens}
        given = "".join(f", {name}={value!r}" for name, value in options.items() if value is not None)
        return f"<GrammarProcessor of {of}{given}>"

    # -- which generation ----------------------------------------------------------------------------------------------

    def _step(self, input_ids: torch.Tensor, frame: FrameType | None) -> tuple[Generation, list[Row]]:
        """Return the generation that a call belongs to, by the rule at the head of this module, and its rows.

        Raises: NothingAllowed: of the step before.
        """
        processors = calling(frame)
        appender = processors if appends(frame) else None
        known: Generation | None = None if processors is None else processors.__dict__.get(_SLOT, {}).get(id(self))
        if known is not None:
            known.check()
            rows = None if appender is None else known.grown(input_ids, appender)
            if rows is not None:
                return known, rows
        ids: Ids = input_ids.detach().cpu().numpy()
        generation = self._joined(ids, processors, frame) if known is None else known
        generation.check()
        return generation, generation.rows(ids, appender)

    def _joined(self, ids: Ids, processors: LogitsProcessorList | None, frame: FrameType | None) -> Generation:
        """Return the generation that a call of an unknown list, or of none, belongs to: this thread's or a new one."""
        latest: Generation | None = getattr(self._thread, "latest", None)
        nested = processors is not None and latest is not None and latest.is_running() and depth(frame) > 1
        joins = latest is not None and (nested or processors is None) and latest.continues(ids)
        generation = latest if joins and latest is not None else self._started(ids, processors, frame)
        self._look_at_ends(generation, frame)
        self._register(processors, generation)
        return generation

    def _started(self, ids: Ids, processors: LogitsProcessorList | None, frame: FrameType | None) -> Generation:
        """Return a new generation, with the tokens that its words may have."""
        length, budgets = ids.shape[1] if self.prompt_length is None else self.prompt_length, self._budgets
        limit = getattr(generation_config(frame), "max_length", None)
        if self.max_new_tokens == "generate" and isinstance(limit, int):
            budgets = budgets_of(self.constraints, max(0, limit - length))
        return Generation(self.constraints, budgets, ids, length, processors)

    def _look_at_ends(self, generation: Generation, frame: FrameType | None) -> None:
        """Note what `generate` writes behind an end; where it does not know all ends, end rows in its place and warn
        once.
        """
        config = generation_config(frame)
        if config is None:
            return
        known = _ids_of(getattr(config, "eos_token_id", None))
        missing = generation.stop - set(known)
        generation.behind = (*known, *_ids_of(getattr(config, "pad_token_id", None))) or generation.behind
        if not missing:
            return
        stops = stopping_criteria(frame)
        if stops is not None:
            stops.append(WordEnd(generation))
        if not self._warned:
            self._warned = True
            names = ", ".join(self.vocabulary.names.get(token, str(token)) for token in sorted(missing))
            what = "the processor ends rows there" if stops is not None else "ended rows are filled up with padding"
            warnings.warn(
                f"the eos_token_id of generate lacks {names}: {what}; call model.generate(…, "
                f"**constraint.generation_kwargs())",
                stacklevel=5,
            )

    def _register(self, processors: LogitsProcessorList | None, generation: Generation) -> None:
        self._thread.latest = generation
        if processors is not None:
            processors.__dict__.setdefault(_SLOT, {})[id(self)] = generation

    def _check(self, input_ids: torch.Tensor, scores: torch.Tensor) -> None:
        """Raise where the shapes are not those of `generate` with a model of this vocabulary."""
        ids, shape = input_ids.shape, scores.shape
        if len(ids) != 2 or len(shape) != 2 or ids[0] != shape[0]:
            raise ConstrainedError(
                f"ids of shape {tuple(ids)}, scores of shape {tuple(shape)}",
                because="a processor takes ids (rows, length) and scores (rows, width)",
                instead="model.generate; continuous batching passes no history, so it cannot be constrained this way",
            )
        if lacks_memory(input_ids) or lacks_memory(scores):
            raise ConstrainedError(
                "ids or scores have no memory",
                because="a tensor lies on meta, or its storage is smaller than its shape",
                instead="tensors that a model has computed",
            )
        width = shape[1]
        if width < self._widths.start:
            raise VocabularyError(
                f"logits of width {width} are too narrow",
                because=f"the vocabulary has ids up to {self.vocabulary.used - 1}",
                instead="the vocabulary of this model's own tokenizer",
            )
        if width >= self._widths.stop:
            raise VocabularyError(
                f"logits of width {width:,} are too wide",
                because=f"the vocabulary has {self.vocabulary.size:,} ids, far fewer than the model",
                instead="the vocabulary of this model's own tokenizer, or Vocabulary(…, size=the model's)",
            )

    # -- masks ---------------------------------------------------------------------------------------------------------

    def _allowed(self, rows: Sequence[Row], behind: Collection[int]) -> npt.NDArray[np.int32]:
        """Return the packed masks of the rows, (rows, words): 16 KB a row for 128,000 tokens."""
        vocabulary = self.vocabulary
        active = [at for at, row in enumerate(rows) if row.reading]
        masks = filled([matcher for at in active if (matcher := rows[at].matcher) is not None], vocabulary.words)
        if len(active) == len(rows):
            return masks
        bitmask = np.zeros((len(rows), vocabulary.words), np.int32)
        bitmask[active] = masks
        for row, bits in zip(rows, bitmask):
            if row.ended:
                _allow(bits, {token for token in behind if token < vocabulary.size})
        return bitmask


def _allow(bits: npt.NDArray[np.int32], tokens: Collection[int]) -> None:
    """Set the bits of some tokens in a row, (words,) int32."""
    unsigned = bits.view(np.uint32)
    for token in tokens:
        unsigned[token >> 5] |= np.uint32(1 << (token & 31))


def _listed(constraints: CompiledGrammar | Sequence[CompiledGrammar | None]) -> tuple[CompiledGrammar | None, ...]:
    """Return the constraints of the rows.

    Raises: ConstrainedError: there are none at all.  VocabularyError: they are for different vocabularies.
    """
    listed = (
        (constraints,)
        if isinstance(constraints, CompiledGrammar)
        else tuple(constraints)
        if isinstance(constraints, Sequence)
        else ()
    )
    given = [constraint for constraint in listed if constraint is not None]
    if not given or not all(isinstance(constraint, CompiledGrammar) for constraint in given):
        raise ConstrainedError(
            f"not constraints: {type(constraints).__name__}",
            instead="compile(grammar, vocabulary), or a list of such",
        )
    if len({(constraint.vocabulary.size, constraint.vocabulary.fingerprint) for constraint in given}) > 1:
        raise VocabularyError(
            "the constraints are for different vocabularies", instead="the vocabulary of the model for all of them"
        )
    return listed


def _ids_of(value: object) -> tuple[int, ...]:
    """Return ids that a generation configuration gives as a number, a list, a tensor or None."""
    if isinstance(value, torch.Tensor):
        value = value.flatten().tolist()
    return tuple(value) if isinstance(value, (list, tuple)) else (value,) if isinstance(value, int) else ()


# attribute of a LogitsProcessorList: identity of a processor → the generation that the list is for
_SLOT = "_constrained"


# -- drafts ------------------------------------------------------------------------------------------------------------


def grammar_candidates(
    model: Any,
    input_ids: torch.Tensor,
    logits_processor: LogitsProcessorList,
    stopping_criteria: StoppingCriteriaList,
    generation_config: Any,
    **options: Any,
) -> Any:
    """Generate with the tokens that the grammar dictates as drafts: ``model.generate(…,
    custom_generate=grammar_candidates)``.

    What has to come (`Matcher.forced_tokens`) is read by the model in one forward pass, beside the token before it.
    The text is the same as without, greedy or sampled: every token is drawn by itself, in order (`sequences.drafts`);
    a tool call of 15 tokens took 6 passes instead of 15.  One sequence at a time, with a cache that can be cut.  Where
    hidden states or attentions are asked for, nothing is drafted.

    Raises: ConstrainedError: no grammar among the processors; a batch; a cache that cannot be cut; a version of
    transformers without the private methods that this needs.
    """
    cache = options.get("past_key_values")
    processor = _drafting(input_ids, logits_processor, cache)
    processor.begin(input_ids, logits_processor)

    def dictated(ids: torch.Tensor) -> list[int]:
        matcher = processor.matcher_of(ids, logits_processor)
        return [] if matcher is None else matcher.forced_tokens()

    whole = generation_config.output_hidden_states or generation_config.output_attentions
    ahead = ModelThatReadsAhead(model, (lambda _: []) if whole else dictated, cache, generation_config.max_length)
    found = GenerationMixin._sample(
        ahead,
        input_ids,
        logits_processor=logits_processor,
        stopping_criteria=stopping_criteria,
        generation_config=generation_config,
        streamer=streamer(sys._getframe(1)),
        **options,
    )
    ahead.finish(getattr(found, "sequences", found).shape[1])
    return found


def _drafting(input_ids: torch.Tensor, logits_processor: LogitsProcessorList, cache: Any) -> GrammarProcessor:
    """Return the processor whose grammar dictates; raises as `grammar_candidates`."""
    processor = next((each for each in logits_processor if isinstance(each, GrammarProcessor)), None)
    if processor is None:
        raise ConstrainedError(
            "no grammar to draft from", instead="generate(…, logits_processor=[constraint.logits_processor()])"
        )
    if len(input_ids) != 1:
        raise ConstrainedError(
            "drafts are for one sequence",
            because=f"the batch has {len(input_ids)}",
            instead="generate without custom_generate",
        )
    needed = (GenerationMixin, "_sample"), (GenerationMixin, "_prefill"), (Cache, "is_croppable")
    if not all(hasattr(owner, name) for owner, name in needed):
        raise ConstrainedError(
            "drafts need another version of transformers",
            because="decoding is organised differently in the installed one",
            instead="generate without custom_generate, or transformers 5.23",
        )
    if not getattr(cache, "is_croppable", False):
        raise ConstrainedError(
            "drafts need a cache from which tokens can be cut",
            because=f"it is {type(cache).__name__}",
            instead="a dynamic cache, or generate without custom_generate",
        )
    return processor
