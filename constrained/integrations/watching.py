"""Observers of a generation of transformers: a streamer of a chat format's events, and an end at the first whole word.

    streamer = EventStreamer(chat, vocabulary, tools)
    options = {**inputs, **constraint.generation_kwargs(max_new_tokens=200), "streamer": streamer}
    Thread(target=model.generate, kwargs=options).start()
    for event in streamer: ...          # TextDelta, CallStarted, ArgumentDelta, CallFinished, …
    streamer.message                    # the whole turn

Tested in tests/hosts/test_watching.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import numpy as np
import torch
from transformers import StoppingCriteria
from transformers.generation.streamers import BaseStreamer

from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.errors import ConstrainedError
from constrained.formats import ChatFormat, Message
from constrained.integrations.transformers import GrammarProcessor


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
                "a streamer is for one sequence",
                because=f"the batch has {len(value)}",
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
