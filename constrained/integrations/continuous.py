"""Continuous batching of transformers (`ContinuousBatchingManager`), with a grammar for each request.

    manager = continuous_batching(model, vocabulary=vocabulary)
    manager.start()
    manager.add_request(ids, max_new_tokens=200, grammar=constraint)

A request may also choose its tokens itself, ``choose=function`` of the scores of its row, (width,) 32-bit floats on the
host, called once for each token: so requests have a temperature, a seed and a budget of their own.  It may not raise.

That mode shows a classic processor the last token alone, so `Constraint.logits_processor` is left out there, with a
warning.  Its own kind of processor gets one number for each row; here it is the place of the row's mask.

It has no argument for processors, and finds its own kind by a table from classic ones.  So a model that is a shallow
copy names one more classic processor, and the table leads from that to the one here: private ways, which
`continuous_batching` looks for before it uses them.  The next batch may not be prepared before a token is on the host,
as a mask depends on it: asynchronous batching and CUDA graphs are switched off.

Tested in tests/hosts/test_continuous.py.
"""

from __future__ import annotations

import copy
import importlib
import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from transformers import LogitsProcessor, LogitsProcessorList

from constrained.engine.compiled import CompiledGrammar, compile_grammar
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.errors import ConstrainedError, VocabularyError
from constrained.grammar import Grammar
from constrained.integrations.masks import forbid
from constrained.integrations.servers import Cursor, log_end

_VERSIONS = "transformers 5.23"
_KNOWN = 4_096  # requests
_log = logging.getLogger("constrained.servers")


class _Marker(LogitsProcessor):  # type: ignore[misc]  # a host's class
    """Stands for the processor in the model's list."""

    supports_continuous_batching = True

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary


def _masked(scores: torch.Tensor, masks: Any, places: Sequence[int]) -> torch.Tensor:
    """Return the scores with what the masks forbid at minus infinity.

    masks: (batch, words) int32.  places: for each row 1 + the row of its mask, 0: none.
    """
    rows = [row for row, place in enumerate(places) if place]
    if not rows:
        return scores
    scores, part = scores.clone(), scores[rows]
    forbid(part, torch.from_numpy(masks[[places[row] - 1 for row in rows]]))
    scores[rows] = part
    return scores


class _Requests:
    """The requests under way, by their ids: where each is in its text, and how many of its tokens have been read.

    Bound: `_KNOWN` of them; what was cancelled is never heard of again, and what comes back is read again.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._known: dict[str, tuple[Cursor, int]] = {}

    def cursor(self, state: Any) -> Cursor | None:
        """Return the cursor of a request that has read all of its tokens; None where there is no grammar any more.

        What goes wrong in a request ends that one; the others go on.
        """
        try:
            return self._cursor(state)
        except Exception as error:
            log_end(error)
            return Cursor(compile_grammar(Grammar.choice([""]), self._vocabulary).matcher(), state._eos_token_ids)

    def _cursor(self, state: Any) -> Cursor | None:
        constraint = state.logit_processor_kwargs.get("grammar")
        if constraint is None:
            return None
        if constraint.vocabulary.fingerprint != self._vocabulary.fingerprint:
            raise VocabularyError(
                "a request's grammar is for another vocabulary",
                instead="the one that continuous_batching was given",
            )
        cursor, read = self._known.pop(state.request_id, (None, 0))
        if cursor is None or read > len(state.generated_tokens):
            cursor, read = Cursor(constraint.matcher(), state._eos_token_ids), 0
        new = state.generated_tokens[read:]
        if not cursor.accept(new):
            _log.error("a request has left its grammar, so it goes on without: something else overrules the masks")
            return None
        if not cursor.finished:
            self._known[state.request_id] = cursor, read + len(new)
            if len(self._known) > _KNOWN:
                del self._known[next(iter(self._known))]
        return cursor


def _per_request(base: Any) -> Any:
    """Return the class of processors that the host calls, over its base class."""

    class PerRequest(base):  # type: ignore[misc]
        supported_kwargs = {"grammar": CompiledGrammar, "choose": Callable}  # noqa: RUF012  # the host's name and kind
        ignored_kwargs = ()

        def __init__(self, marker: _Marker) -> None:
            self._words = marker.vocabulary.words
            self._requests = _Requests(marker.vocabulary)
            self._masks = np.zeros((0, self._words), np.int32)
            self._choosing: dict[int, Any] = {}  # row → its request's own function

        def fill_defaults(self, int32_tensor: torch.Tensor) -> None:
            int32_tensor.zero_()

        def prepare_tensor_args(self, requests_with_new_token: Sequence[Any]) -> torch.Tensor:
            """Fill the masks of a batch; return for each row 1 + the place of its mask, 0: none."""
            states = [request.state for request in requests_with_new_token]
            cursors = list(map(self._requests.cursor, states))
            own = [state.logit_processor_kwargs.get("choose") for state in states]
            self._choosing = {row: choose for row, choose in enumerate(own) if choose is not None}
            self._masks = np.zeros((len(states), self._words), np.int32)
            for at, cursor in enumerate(cursors):
                if cursor is not None:
                    cursor.fill(self._masks, at)
            return torch.tensor(
                [0 if cursor is None else at + 1 for at, cursor in enumerate(cursors)], dtype=torch.int32
            )

        def __call__(self, scores: torch.Tensor, tensor_arg: torch.Tensor) -> torch.Tensor:
            places = tensor_arg[: len(self._masks)].tolist()  # rows behind are of no request
            scores = _masked(scores, self._masks, places)
            if self._choosing:
                rows = list(self._choosing)
                own = scores[rows].float().cpu()  # at once: each by itself would wait for the device
                scores = scores.index_fill(0, torch.tensor(rows, device=scores.device), float("-inf"))
                scores[rows, [choose(row) for choose, row in zip(self._choosing.values(), own)]] = 0.0
            return scores

    return PerRequest


def continuous_batching(
    model: Any, *, vocabulary: Vocabulary, generation_config: Any = None, config: Any = None
) -> Any:
    """Return the manager of a model whose requests may have grammars: ``manager.add_request(ids, grammar=constraint)``.

    config: a `ContinuousBatchingConfig`; what a mask cannot be made under is switched off in it.
    Raises: ConstrainedError: the installed transformers does it another way.
    """
    try:
        table = importlib.import_module("transformers.generation.continuous_batching.cb_logits_processors")
        config_class = importlib.import_module("transformers").ContinuousBatchingConfig
        known, base = table.CLASSIC_TO_CB_PROCESSORS_MAP, table.ContinuousBatchingLogitsProcessor
        names = [hasattr(type(model), name) for name in ("_get_logits_processor", "init_continuous_batching")]
    except (ImportError, AttributeError) as error:
        raise _other_version(str(error)) from error
    if not all(names):
        raise _other_version("the model lacks _get_logits_processor or init_continuous_batching")
    if _Marker not in known:
        known[_Marker] = _per_request(base)
    config = copy.copy(config) if config is not None else config_class()
    config.use_async_batching, config.use_cuda_graph, config.per_request_processors = False, False, True
    serving = copy.copy(model)
    serving._get_logits_processor = lambda *given, **more: LogitsProcessorList(
        [*model._get_logits_processor(*given, **more), _Marker(vocabulary)]
    )
    return serving.init_continuous_batching(generation_config=generation_config, continuous_batching_config=config)


def _other_version(because: str) -> ConstrainedError:
    return ConstrainedError(
        "continuous batching with grammars needs another version of transformers", because=because,
        instead=f"{_VERSIONS}, or generate with logits_processor",
    )
