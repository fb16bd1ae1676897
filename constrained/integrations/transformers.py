"""transformers: constraints → a `LogitsProcessor`, drafts of what the grammar dictates, observers of a generation.

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

Reading the callers on the stack is the only way to tell one `generate` from the next: it offers no hook, and its
arguments may be equal.  What is not found there is reported as missing, and whoever asked does without.

**Drafts**: one forward pass over tokens that are likely to come, handed out one by one.  transformers' own loop
(`_sample`) draws every token from the logits of its position, one multinomial at a time; all that changes is where the
logits come from.  A pass reads the tokens that are there and a draft of what may follow; as long as the tokens that are
drawn are those of the draft, the next logits are known already.  At the first other token the rest of the draft is cut
from the cache.  So the same random numbers go to the same tokens as without drafts, and what is written is the same.
transformers' assisted decoding was refused: it draws all tokens of a draft at once, which takes other random numbers
from the generator, so that a sampled text depended on the drafts.

**Observers**: a streamer of a chat format's events, and an end at the first whole word.

    streamer = EventStreamer(chat, vocabulary, tools)
    options = {**inputs, **constraint.generation_kwargs(max_new_tokens=200), "streamer": streamer}
    Thread(target=model.generate, kwargs=options).start()
    for event in streamer: ...          # TextDelta, CallStarted, ArgumentDelta, CallFinished, …
    streamer.message                    # the whole turn

Tests: tests/hosts runs every mode of `generate` on the embedded model (test_transformers_*, test_watching);
`python -m constrained.benchmarks.same_output`.
"""

from __future__ import annotations

import inspect
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from queue import SimpleQueue
from types import FrameType
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from transformers import (
    Cache,
    GenerationMixin,
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)
from transformers.generation.streamers import BaseStreamer
from transformers.modeling_outputs import CausalLMOutputWithPast

from constrained.engine.compiled import CompiledGrammar
from constrained.engine.matcher import Matcher, fill_masks
from constrained.engine.tokens.bitmask import lacks_memory
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.errors import ConstrainedError, NothingAllowed, VocabularyError
from constrained.formats import ChatFormat, Message
from constrained.integrations.masks import masked
from constrained.integrations.rows import Ids, Row, Rows, budgets_of
from constrained.integrations.servers import allow

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
                f"prompt_length is {prompt_length!r:.50}", because="it is a number of tokens",
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
        Cost: one mask a row, one copy of the ids to the CPU and one of the packed masks to the device.
        Raises: NothingAllowed: no allowed token has a finite logit in some row (on an accelerator one step later: to
        look at once would make the host wait).  LimitExceeded: see `compile`.
        """
        self._check(input_ids, scores)
        generation, rows = self._step(input_ids, sys._getframe(1))
        new_scores, some = masked(scores, self._allowed(rows, generation.behind))
        free = [at for at, row in enumerate(rows) if row.matcher is None or row.left]
        if free:
            chosen = torch.tensor(free, device=scores.device)
            new_scores[chosen] = scores[chosen]
        emptiness = Emptiness(some, rows)
        if scores.device.type == "cpu":
            emptiness.check()
        else:
            generation.unchecked = emptiness
        return new_scores

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
        known: Generation | None = None if processors is None else processors.__dict__.get(_SLOT, {}).get(id(self))
        if known is not None:
            known.check()
        ids: Ids = input_ids.detach().cpu().numpy()
        generation = self._joined(ids, processors, frame) if known is None else known
        generation.check()
        return generation, generation.rows(ids)

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
        limit = getattr(argument(frame, "generation_config"), "max_length", None)
        if self.max_new_tokens == "generate" and isinstance(limit, int):
            budgets = budgets_of(self.constraints, max(0, limit - length))
        return Generation(self.constraints, budgets, ids, length, processors)

    def _look_at_ends(self, generation: Generation, frame: FrameType | None) -> None:
        """Note what `generate` writes behind an end; where it does not know all ends, end rows in its place and warn
        once.
        """
        config = argument(frame, "generation_config")
        if config is None:
            return
        known = _ids_of(getattr(config, "eos_token_id", None))
        missing = generation.stop - set(known)
        generation.behind = (*known, *_ids_of(getattr(config, "pad_token_id", None))) or generation.behind
        if not missing:
            return
        stops = criteria_of(frame)
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
                allow(bits.view(np.uint32), behind)
        return bitmask


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
    The text is the same as without, greedy or sampled: every token is drawn by itself, in order; a
    tool call of 15 tokens took 6 passes instead of 15.  One sequence at a time, with a cache that can be cut.  Where
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
    output = GenerationMixin._sample(
        ahead,
        input_ids,
        logits_processor=logits_processor,
        stopping_criteria=stopping_criteria,
        generation_config=generation_config,
        streamer=argument(sys._getframe(1), "streamer"),  # which `generate` does not hand on
        **options,
    )
    ahead.finish(getattr(output, "sequences", output).shape[1])
    return output


def _drafting(input_ids: torch.Tensor, logits_processor: LogitsProcessorList, cache: Any) -> GrammarProcessor:
    """Return the processor whose grammar dictates; raises as `grammar_candidates`."""
    processor = next((each for each in logits_processor if isinstance(each, GrammarProcessor)), None)
    if processor is None:
        raise ConstrainedError(
            "no grammar to draft from", instead="generate(…, logits_processor=[constraint.logits_processor()])"
        )
    if len(input_ids) != 1:
        raise ConstrainedError(
            "drafts are for one sequence", because=f"the batch has {len(input_ids)}",
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
            "drafts need a cache from which tokens can be cut", because=f"it is {type(cache).__name__}",
            instead="a dynamic cache, or generate without custom_generate",
        )
    return processor


# -- one call of generate ----------------------------------------------------------------------------------------------


class Generation:
    """What is known about one call of `generate`: where the prompts end, and the matchers of its rows."""

    def __init__(
        self, constraints: Sequence[CompiledGrammar | None], budgets: Sequence[int | None], prompts: Ids, length: int,
        processors: LogitsProcessorList | None,
    ) -> None:
        self.length = length
        self.prompts = {row.tobytes() for row in prompts[:, : self.length]}
        self.stop = frozenset(
            token for constraint in constraints if constraint is not None for token in constraint.stop
        )
        self.behind: Collection[int] = self.stop  # ids that may come behind the end
        self.unchecked: Emptiness | None = None
        self._list = None if processors is None else weakref.ref(processors)
        self._rows = Rows(constraints, budgets)

    def is_running(self) -> bool:
        """Say whether the list of processors that started this generation still exists."""
        return self._list is not None and self._list() is not None

    def continues(self, ids: Ids) -> bool:
        """Say whether every row is a prompt of this generation with what its rows said last, or with one token more."""
        if ids.shape[1] < self.length or any(row[: self.length].tobytes() not in self.prompts for row in ids):
            return False
        return self._rows.continues(ids[:, self.length :])

    def check(self) -> None:
        """Raise NothingAllowed where the step before left a row without a token, if nobody has looked yet."""
        if self.unchecked is not None:
            left, self.unchecked = self.unchecked, None
            left.check()

    def rows(self, ids: Ids) -> list[Row]:
        """Return the state of every row."""
        if ids.shape[1] < self.length:
            raise ConstrainedError(
                f"a sequence of {ids.shape[1]} tokens is shorter than its prompt",
                because=f"prompt_length is {self.length}",
                instead="count padding, leave out what comes after the prompt",
            )
        return self._rows.see(ids[:, self.length :])


class WordEnd(StoppingCriteria):  # type: ignore[misc]  # a host's class
    """Says which rows have ended, for a `generate` that does not know all stop tokens of a vocabulary and a grammar."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        ids: Ids = input_ids.detach().cpu().numpy()
        ended = np.zeros(len(ids), np.bool_)
        if np.isin(ids[:, -1], [*self._generation.stop, *self._generation.behind]).any():
            ended[:] = [row.ended for row in self._generation.rows(ids)]
        return torch.from_numpy(ended).to(input_ids.device)


class Emptiness:
    """Which rows have no token left, looked at when it costs nothing."""

    def __init__(self, some: Sequence[bool] | torch.Tensor, rows: list[Row]) -> None:
        self._some = some  # for each row whether a token is left
        self._seen = [(None if row.left else row.matcher, row.read) for row in rows]

    def check(self) -> None:
        """Raise NothingAllowed for the first row that has none, unless it is one that the grammar does not rule."""
        some = self._some.tolist() if isinstance(self._some, torch.Tensor) else self._some
        for at, (matcher, read) in enumerate(self._seen):
            if not some[at] and matcher is not None and not matcher.is_finished():
                raise _nothing_allowed(at, matcher, read)


def _nothing_allowed(row: int, matcher: Matcher, read: int) -> NothingAllowed:
    matcher = matcher.copy()
    matcher.rollback(len(matcher.tokens) - read)
    count = int(np.bitwise_count(filled([matcher], matcher.constraint.vocabulary.words).view(np.uint32)).sum())
    if count:
        because = f"the grammar allows {count} tokens here, and the logits of all of them are -inf"
        instead = (
            "look for what forbids them: bad_words_ids, suppress_tokens, min_length, forced tokens, another processor"
        )
    elif matcher.is_accepting():
        because, instead = (
            "the text is complete, and the vocabulary has no stop token",
            "Vocabulary.from_tokenizer(…, stop=[…])",
        )
    else:
        because = "no token of the vocabulary spells what the grammar wants here"
        instead = "a tokenizer with a token for every byte and for the grammar's special tokens"
    where = f"row {row}, after {read} generated tokens"
    return NothingAllowed("no token is left to generate", where=where, because=because, instead=instead)


def filled(matchers: list[Matcher], words: int) -> npt.NDArray[np.int32]:
    """Return the masks of some matchers, (matchers, words) int32."""
    bitmask = np.zeros((len(matchers), words), np.int32)
    if matchers:
        fill_masks(matchers, bitmask)
    return bitmask


# -- the stack above a call of a processor -----------------------------------------------------------------------------


_GENERATE = inspect.unwrap(GenerationMixin.generate).__code__
_CALL = LogitsProcessorList.__call__.__code__


def calling(frame: FrameType | None) -> LogitsProcessorList | None:
    """Return the list of processors that is calling, inside the innermost `generate` that is running if one is."""
    while frame is not None and frame.f_code is not _GENERATE:
        if frame.f_code is _CALL:
            caller = frame.f_locals.get("self")
            return caller if isinstance(caller, LogitsProcessorList) else None
        frame = frame.f_back
    return None


def depth(frame: FrameType | None) -> int:
    """Return how many `generate` calls are running."""
    count = 0
    while frame is not None:
        count += frame.f_code is _GENERATE
        frame = frame.f_back
    return count


def argument(frame: FrameType | None, name: str) -> Any:
    """Return an argument of the innermost `generate` that is running, None outside of any."""
    while frame is not None and frame.f_code is not _GENERATE:
        frame = frame.f_back
    return None if frame is None else frame.f_locals.get(name)


def criteria_of(frame: FrameType | None) -> StoppingCriteriaList | None:
    """Return what decides when the innermost `generate` that is running stops; None where that cannot be found.

    It makes the list anew for each call, so nobody else sees what is added.
    """
    while frame is not None and frame.f_code is not _GENERATE:
        criteria = frame.f_locals.get("stopping_criteria")
        if isinstance(criteria, StoppingCriteriaList):
            return criteria
        frame = frame.f_back
    return None


# -- drafts in the decoding loop ---------------------------------------------------------------------------------------


class ModelThatReadsAhead:
    """Stands for a model in `GenerationMixin._sample`: whatever it does not answer itself is asked of the model.

    Invariant: `_fed` are the ids that the cache holds, drafts included; `_known` are the logits behind the last of
    them, (1, n, width).
    """

    def __init__(self, model: Any, draft: Callable[[torch.Tensor], Sequence[int]], cache: Any, longest: int) -> None:
        self._model, self._draft, self._cache, self._longest = model, draft, cache, longest
        self._fed: torch.Tensor | None = None
        self._drafted = 0
        self._outputs: Any = None
        self._known: torch.Tensor | None = None
        self._asked = 0  # which of the known logits is the next answer
        cache.activate_past_recording()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def _prefill(self, input_ids: torch.Tensor, generation_config: Any, *rest: Any, **options: Any) -> Any:
        """Read the prompt, and the first draft with it, unless the prompt is read in parts."""
        reader = self if generation_config.prefill_chunk_size is None else self._model
        return GenerationMixin._prefill(reader, input_ids, generation_config, *rest, **options)

    def prepare_inputs_for_generation(
        self, input_ids: torch.Tensor, next_sequence_length: int | None = None, **options: Any
    ) -> dict[str, Any]:
        """Return what a pass reads: the ids that are not read yet and a draft; nothing where the logits are known."""
        length = input_ids.shape[1]
        if self._fed is not None:
            ahead = self._fed.shape[1] - length
            if ahead >= 0 and self._fed[0, length - 1] == input_ids[0, -1]:
                self._asked = -1 - ahead
                return {}
            self._cache.crop(-ahead - 1)
        elif not options.get("is_first_iteration"):
            self._cache.crop(0)
        draft = [] if options.get("inputs_embeds") is not None else self._draft(input_ids)[: self._longest - length - 1]
        self._fed, self._drafted = torch.cat([input_ids, input_ids.new_tensor([draft])], dim=1), len(draft)
        if not draft:
            return self._prepared(input_ids, next_sequence_length, options)
        if next_sequence_length is not None:
            next_sequence_length += len(draft)
        options = self._model._update_model_kwargs_for_generation(
            {}, options, is_encoder_decoder=self._model.config.is_encoder_decoder, num_new_tokens=len(draft)
        )
        if "logits_to_keep" in options:
            options["logits_to_keep"] += len(draft)
        return self._prepared(self._fed, next_sequence_length, options)

    def _prepared(self, ids: torch.Tensor, length: int | None, options: dict[str, Any]) -> dict[str, Any]:
        inputs: dict[str, Any] = self._model.prepare_inputs_for_generation(ids, next_sequence_length=length, **options)
        return inputs

    def __call__(self, *, return_dict: bool = True, **inputs: Any) -> Any:
        """Return the model's outputs for the position that was prepared; the logits are all that a draft leaves."""
        if inputs:
            self._outputs = self._model(**inputs, return_dict=return_dict)
            if not self._drafted:
                return self._outputs
            self._known, self._asked = self._outputs.logits[:, -1 - self._drafted :], -1 - self._drafted
        assert self._known is not None
        at = self._known.shape[1] + self._asked
        return CausalLMOutputWithPast(
            logits=self._known[:, at : at + 1], past_key_values=self._outputs.past_key_values
        )

    def finish(self, length: int) -> None:
        """Cut from the cache what the decoder never drew; `length` ids are there, the last of them not read."""
        if self._fed is not None and self._fed.shape[1] >= length:
            self._cache.crop(length - 1 - self._fed.shape[1])


# -- observers ---------------------------------------------------------------------------------------------------------


class EventStreamer(BaseStreamer):  # type: ignore[misc]  # a host's class
    """Tells a turn of a chat format in events, to whoever iterates or to `on_event`; one sequence at a time, no beams.

    on_event: called with each event, in the thread that generates; then there is nothing to iterate over.
    prompt, options: as `ChatFormat.stream_parser` takes them.  `message`: the turn, as far as it came, once the
    generation has ended.
    """

    def __init__(
        self,
        chat_format: ChatFormat,
        vocabulary: Vocabulary,
        tools: Any = None,
        *,
        on_event: Callable[[Any], Any] | None = None,
        prompt: str | None = None,
        **options: Any,
    ) -> None:
        self._make: Callable[[], Any] = lambda: chat_format.stream_parser(tools, vocabulary, prompt=prompt, **options)
        self._stop = frozenset(vocabulary.stop)
        self._events: SimpleQueue[Any] = SimpleQueue()
        self._tell = on_event or self._events.put
        self._parser: Any = None
        self.message: Message | None = None
        self.error: Exception | None = None

    def put(self, value: torch.Tensor) -> None:
        """Read what `generate` hands over: first the prompt, which is passed over, then new ids, one or several.

        Raises: ConstrainedError: of more than one sequence.
        """
        if value.dim() > 1 and len(value) > 1:
            raise ConstrainedError(
                "a streamer is for one sequence", because=f"the batch has {len(value)}",
                instead="one generation for each prompt",
            )
        if self._parser is None:
            self._parser, self.message, self.error = self._make(), None, None
            return
        if self.error is not None:
            return
        try:
            for event in self._parser.feed(value.flatten().tolist()):
                self._tell(event)
        except ConstrainedError as error:  # a text without a constraint may be anything; the generation goes on
            self.error = error

    def end(self) -> None:
        """Close the turn; one that was cut has what came of it."""
        parser, self._parser = self._parser, None
        try:
            for event in parser.end() if self.error is None else ():
                self._tell(event)
            self.message = parser.close()
        except ConstrainedError as error:
            self.error = self.error or error
            self.message = parser.so_far()
        self._events.put(None)

    def __iter__(self) -> Iterator[Any]:
        """Yield events until the turn has ended."""
        while (event := self._events.get()) is not None:
            yield event


class IdStreamer(BaseStreamer):  # type: ignore[misc]  # a host's class
    """Hands on new ids, as lists; the prompt is passed over."""

    def __init__(self, tell: Callable[[list[int]], Any]) -> None:
        self._tell, self._begun = tell, False

    def put(self, value: torch.Tensor) -> None:
        """Read what `generate` hands over."""
        if self._begun:
            self._tell(value.flatten().tolist())
        self._begun = True

    def end(self) -> None:
        """Nothing to close."""


class WholeWord(StoppingCriteria):  # type: ignore[misc]  # a host's class
    """Ends a row as soon as its text is a word of its grammar; for models whose stop token should not be waited for.

    ``model.generate(…, logits_processor=[processor], stopping_criteria=[WholeWord(processor)])``.
    first: at the first word; else where nothing could follow it.
    """

    def __init__(self, processor: GrammarProcessor, *, first: bool = False) -> None:
        self._processor, self._first = processor, first

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        """Return which rows have ended, (rows,) bool."""
        rows = self._processor.rows_of(input_ids)
        ended = np.zeros(len(input_ids), np.bool_)
        for at, row in enumerate(rows):
            matcher = row.matcher
            if matcher is not None and not row.left:
                ended[at] = row.ended or matcher.is_accepting() and (self._first or matcher.is_exhausted())
        return torch.from_numpy(ended).to(input_ids.device)
