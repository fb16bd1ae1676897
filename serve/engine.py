"""A model that writes many answers at once, each under its own grammar, sampling, seed and budget.

transformers' continuous batching computes the logits of all answers in one pass; each `Generation` then chooses its
token: mask, sample, advance.  So nothing of an answer is shared but the pass, and what goes wrong in one ends that one.
The thread of the model calls `choose`; everything else happens in the event loop.

Refused: `model.generate` under a lock: one client at a time, and a fifth of the tokens a second at fifty clients.

Tested in tests/hosts/test_serve.py.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import prometheus_client as prometheus
import torch
from transformers import ContinuousBatchingConfig, GenerationConfig

import constrained as c
from constrained.integrations.continuous import continuous_batching
from constrained.integrations.masks import masked

PAGE = 16  # tokens of a page of the cache of keys and values
HOST_TOKENS = 32_768  # room of that cache where nobody says how much memory a host's device has
SHARES = (0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0)
TIMES = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0)


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are chosen; temperature 0 is greedy.  top_logprobs: None, no probabilities are told."""

    temperature: float = 1.0
    top_p: float = 1.0
    seed: int | None = None
    top_logprobs: int | None = None
    bias: Mapping[int, float] = field(default_factory=dict)  # token → what is added to its logit


class Token(NamedTuple):
    """A token of an answer; logarithms of probabilities are among the tokens that were allowed, at temperature 1."""

    id: int
    logprob: float | None = None  # not asked for
    top: tuple[tuple[int, float], ...] = ()  # the likeliest, best first
    is_forced: bool = False  # it ends the answer, and nothing else was allowed


class Metrics:
    """What /metrics tells, in Prometheus' terms; each server has its own."""

    def __init__(self) -> None:
        self.registry = prometheus.CollectorRegistry()
        prometheus.ProcessCollector(registry=self.registry)
        kept: dict[str, Any] = {"registry": self.registry}
        self.requests = prometheus.Counter("constrained_requests", "Requests by HTTP status.", ["status"], **kept)
        self.running = prometheus.Gauge("constrained_running", "Answers under way.", **kept)
        self.tokens = prometheus.Counter("constrained_tokens", "Tokens of prompts and of answers.", ["kind"], **kept)
        self.calls = prometheus.Counter("constrained_tool_calls", "Tool calls that were told.", **kept)
        self.malformed = prometheus.Counter("constrained_malformed", "Answers that could not be read.", **kept)
        self.cancelled = prometheus.Counter("constrained_cancelled", "Answers whose client has left.", **kept)
        self.mask = prometheus.Histogram("constrained_mask_seconds", "One mask of one answer.", buckets=TIMES, **kept)
        self.step = prometheus.Histogram("constrained_step_seconds", "One pass of the model.", buckets=TIMES, **kept)
        self.share = prometheus.Histogram("constrained_mask_share", "Masks' part of a pass.", buckets=SHARES, **kept)


class Generation:
    """One answer under way: iterate over its tokens, the one that ends it included; `cancel` when nobody reads on."""

    def __init__(self, engine: Engine, matcher: c.Matcher, sampling: Sampling) -> None:
        self._engine, self._matcher, self._sampling = engine, matcher, sampling
        self.ends = matcher.constraint.stop
        self._mask: Any = np.zeros((1, matcher.constraint.vocabulary.words), np.int32)
        self._random = torch.Generator()
        _ = self._random.seed() if sampling.seed is None else self._random.manual_seed(sampling.seed % (1 << 63))
        self._loop, self._queue = asyncio.get_running_loop(), asyncio.Queue[Any]()
        self._left = self._over = False

    async def __aiter__(self) -> AsyncIterator[Token]:
        """Yield tokens.  Raises: ConstrainedError: the model or a mask failed."""
        while True:
            token = await self._queue.get()
            if isinstance(token, Exception):
                raise token
            self._over = token.id in self.ends
            yield token
            if self._over:
                return

    def cancel(self) -> None:
        """End the answer at its next token; one that is over stays as it is."""
        if not self._over and not self._left:
            self._left = True
            self._engine.metrics.cancelled.inc()

    def ended(self, result: Any) -> None:
        """Take what the host says of the answer: it is over, or has failed."""
        self._over = True
        self._engine.metrics.running.dec()
        self._queue.put_nowait(c.ConstrainedError("the answer has failed", because=result.error or "it was cut"))

    def choose(self, scores: torch.Tensor) -> int:
        """Return the next token for the scores of a row; called by the thread of the model."""
        if self._left:
            return min(self.ends)
        try:
            token = self._chosen(scores)
        except Exception as error:  # of this answer; the others go on
            self._tell(error)
            self._left = True
            return min(self.ends)
        self._tell(token)
        return token.id

    def _chosen(self, scores: torch.Tensor) -> Token:
        sampling, began = self._sampling, time.perf_counter()
        self._matcher.fill_mask(self._mask)
        self._engine.note_mask(time.perf_counter() - began)
        for token, more in sampling.bias.items():
            scores[token] += more
        logits = masked(scores[None], self._mask)[0][0]
        if sampling.temperature == 0:
            chosen = int(logits.argmax())
        else:
            chosen = self._sampled(torch.softmax(logits / sampling.temperature, -1))
        self._matcher.advance(chosen)
        is_forced = chosen in self.ends and int(np.bitwise_count(self._mask).sum()) == 1
        if sampling.top_logprobs is None:
            return Token(chosen, is_forced=is_forced)
        logprobs = torch.log_softmax(logits, -1)
        best = torch.topk(logprobs, sampling.top_logprobs)
        top = tuple(pair for pair in zip(best.indices.tolist(), best.values.tolist()) if pair[1] != float("-inf"))
        return Token(chosen, float(logprobs[chosen]), top, is_forced)

    def _sampled(self, probabilities: torch.Tensor) -> int:
        if self._sampling.top_p < 1:
            ordered, places = probabilities.sort(descending=True)
            ordered[(ordered.cumsum(-1) - ordered >= self._sampling.top_p)] = 0  # the first stays
            return int(places[torch.multinomial(ordered, 1, generator=self._random)])
        return int(torch.multinomial(probabilities, 1, generator=self._random))

    def _tell(self, what: Token | Exception) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._queue.put_nowait, what)


class Engine:
    """A model with the vocabulary of its grammars; `begin` an answer, `close` at the end.

    context: the most tokens of a prompt and its answer.
    Raises: ConstrainedError: the model cannot be batched by the installed transformers.
    """

    def __init__(self, model: Any, vocabulary: c.Vocabulary, most_at_once: int) -> None:
        self.vocabulary, self.metrics = vocabulary, Metrics()
        self._masks = self._began = self._ended = 0.0  # seconds of this pass, and when it began and ended
        self._numbers = count()
        on_host = model.device.type == "cpu"
        config = ContinuousBatchingConfig(
            page_size=PAGE, max_batch_tokens=max(256, most_at_once), auto_switch_to_flash=not on_host,
            **({"num_blocks": HOST_TOKENS // PAGE} if on_host else {}),
        )
        context = getattr(model.config.get_text_config(), "max_position_embeddings", HOST_TOKENS)
        self.context: int = min(context, HOST_TOKENS) if on_host else context
        stop = sorted(vocabulary.stop)
        generation = GenerationConfig(do_sample=False, eos_token_id=stop, pad_token_id=min(stop, default=0))
        model.register_forward_pre_hook(lambda *_: self._step_begins())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._manager = continuous_batching(
                model, vocabulary=vocabulary, generation_config=generation, config=config
            )
        self._manager.start()

    def begin(self, ids: list[int], matcher: c.Matcher, sampling: Sampling, most: int) -> Generation:
        """Return the answer to a prompt's ids, of at most `most` tokens and one that ends it.

        Raises: ConstrainedError: the engine has stopped.
        """
        if self.fault is not None:
            raise c.ConstrainedError("the engine has stopped", because=self.fault, instead="start the server again")
        generation = Generation(self, matcher, sampling)
        name = f"answer-{next(self._numbers)}"
        self._manager.register_result_handler(name, generation.ended)
        self.metrics.running.inc()
        self.metrics.tokens.labels("prompt").inc(len(ids))
        self._manager.add_request(
            ids, request_id=name, max_new_tokens=most + 1, eos_token_id=sorted(matcher.constraint.stop),
            choose=generation.choose,
        )
        return generation

    @property
    def fault(self) -> str | None:
        """Why nothing can be generated any more; None: it can."""
        error = self._manager.background_thread_status.fatal_error
        return None if error is None else f"{type(error).__name__}: {error}"

    def close(self) -> None:
        """Stop the thread of the model."""
        self._manager.stop(block=True)

    def note_mask(self, seconds: float) -> None:
        """Count the time of a mask of this pass."""
        self._masks += seconds
        self.metrics.mask.observe(seconds)
        self._ended = time.perf_counter()

    def _step_begins(self) -> None:
        """Note the pass before: from its begin to its last mask."""
        if self._masks:
            whole = self._ended - self._began
            self.metrics.step.observe(whole)
            self.metrics.share.observe(min(1.0, self._masks / whole))
        self._masks, self._began = 0.0, time.perf_counter()
