"""What people call: `compile`, and the `Constraint` that it returns: a compiled grammar, and what may be asked of one,
such as a processor for a host, a file, a trace, its words.

This lies above the layers.  The engine's `CompiledGrammar` has what matchers, budgets and warming need; hosts and
research take that.  What a method needs loads with its first call, so that importing the package stays cheap.

Tests: test_engine.py, test_stored.py, test_research.py, tests/hosts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from constrained.engine.compiled import CACHE_BYTES, CompiledGrammar, options_of, ready
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.errors import needing
from constrained.work import MAX_WORK

if TYPE_CHECKING:
    import random
    from typing import Self

    from constrained.formats import ChatFormat
    from constrained.integrations.transformers import GrammarProcessor, MaxNewTokens
    from constrained.research.compare import Comparison
    from constrained.research.trace import Trace


def compile(
    grammar: Any,
    vocabulary: Any,
    *,
    kernel: str | None = None,
    spell_missing: bool = False,
    cache_bytes: int = CACHE_BYTES,
    max_configurations: int = 20_000,
    max_work: int | None = MAX_WORK,
    deadline: float | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Constraint:
    """Return the constraint that keeps tokens of `vocabulary` inside the language of `grammar`.

    grammar: a `Grammar`; or a JSON Schema or its text, a Python type or callable, a compiled pattern, a list of texts.
    vocabulary: a `Vocabulary`; or a tokenizer, or a model of transformers, whose own tokenizer is loaded.
    kernel: "compiled" or "plain"; default: the fastest installed.
    spell_missing: special tokens that the vocabulary lacks are spelled as text.
    cache_bytes: bound of the cache, which constraints with the same bounds share; at the bound it starts afresh.
    max_work: units of work, about a microsecond each, for all operations together; each that computes something gets
    max_work / 32 back, so that long generations go on while inputs made to be slow end.  None: no bound.
    deadline: seconds that any one call may take.
    cancelled: asked about every millisecond of work; true ends the call.

    Cost: what the grammar's first state costs, of rules and patterns its first masks; all else happens when a
    generation first gets there, but for what looks like too much, see `engine.prepare`.
    Threads: a constraint may be shared; a matcher belongs to one thread at a time.
    Raises: GrammarError: no word at all.  VocabularyError: the vocabulary lacks a special token that the grammar names.
    LimitExceeded: too much work, here or in any method of a matcher, which is then unchanged; what has been computed
    stays, and calls may be repeated.  ConstrainedError: an unknown kernel, a bound out of range.
    """
    if not hasattr(grammar, "start_state"):
        from constrained.integrations.held import grammar_of

        grammar = grammar_of(grammar)
    if not isinstance(vocabulary, Vocabulary):
        from constrained.integrations.held import vocabulary_of

        vocabulary = vocabulary_of(vocabulary)
    options = options_of(kernel, spell_missing, cache_bytes, max_configurations, max_work, deadline, cancelled)
    return ready(Constraint(grammar, vocabulary, options))


class Constraint(CompiledGrammar):
    """A grammar bound to a vocabulary; frozen, shareable between threads and requests, picklable (load only pickles
    that you wrote).
    """

    def logits_processor(
        self, *, prompt_length: int | None = None, max_new_tokens: MaxNewTokens = None
    ) -> GrammarProcessor:
        """Return a transformers.LogitsProcessor; see `constrained.integrations.transformers`.

        max_new_tokens: every text ends as a word within so many tokens ("generate": as many as `generate` was told),
        see `matcher`.
        """
        return logits_processor(self, prompt_length=prompt_length, max_new_tokens=max_new_tokens)

    def generation_kwargs(self, *, max_new_tokens: int | None = None, **own: Any) -> dict[str, Any]:
        """Return what transformers' `generate` should be given: the processor, the tokens that end a sequence, and
        padding.

        ``model.generate(**inputs, **constraint.generation_kwargs(max_new_tokens=200))``: every text ends as a word
        within 200 tokens.  own: further arguments of `generate`, which count where both say something, as
        ``generation_kwargs(pad_token_id=0)``; processors are run before the constraint's.
        """
        with needing("make a logits processor", "transformers"):
            from constrained.integrations.transformers import generation_kwargs
        return generation_kwargs(self, max_new_tokens, **own)

    # -- after the process --------------------------------------------------------------------------------------------

    def save(
        self, path: str | os.PathLike[str], *,
        formats: Mapping[str, ChatFormat] | None = None,
    ) -> None:
        """Write the constraint into a file: the calls that made its grammar, and fingerprints.

        formats: formats of one's own that the grammar is of, by name; `load` needs them too.
        Raises: GrammarError: the grammar was made by hand, or of what JSON does not hold.  OSError.
        """
        from constrained.integrations import stored

        stored.save(self, path, formats)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], vocabulary: Any, *,
        formats: Mapping[str, ChatFormat] | None = None, **options: Any,
    ) -> Self:
        """Return the constraint that `save` wrote; no code and no masks are read: it may be a stranger's.

        vocabulary: the one that it was saved with, or its tokenizer.  options: the bounds of `compile`; those of the
        file's writer do not count.
        Cost: a compile.
        Raises: VocabularyError: it is for another vocabulary.  GrammarError: its grammar is another one today.
        ConstrainedError: the file holds no constraint.
        """
        from constrained.integrations import stored

        return stored.load(path, vocabulary, formats=formats, options=options, kind=cls)

    # -- to study it: `constrained.research`, which loads with the first call ------------------------------------------

    def trace(self, model: Any, prompt: Any = "", **options: Any) -> Trace:
        """Let a model write and note every step: mask size, probability removed, entropy, time; see `research.trace`
        for the options.
        """
        from constrained.research.trace import trace

        return trace(self, model, prompt, **options)

    def count(self, up_to: int) -> int:
        """Return how many words have at most `up_to` symbols: bytes, and special tokens as one each."""
        from constrained.research.words import count

        return count(self, up_to)

    def enumerate(self, up_to: int) -> Iterator[bytes]:
        """Yield the words of at most `up_to` symbols, shorter ones first."""
        from constrained.research.words import enumerate_words

        return enumerate_words(self, up_to)

    def sample(
        self, rng: random.Random, up_to: int = 64, weights: Mapping[str, Sequence[float]] | None = None
    ) -> bytes:
        """Return a random word of at most `up_to` symbols: each equally likely; or by weights, rule → a number for each
        alternative, equal ones for {}: then patterns and schemas are walked through, and a call of a tool takes
        milliseconds.

        Raises: GrammarError: no word is as short; weights that fit no rule.  LimitExceeded: too many states to count
        the words.
        """
        if weights is None:
            from constrained.research.words import sample

            return sample(self, rng, up_to)
        from constrained.research.derive import derive

        return derive(self, rng, up_to, weights)

    def language_equal(self, other: CompiledGrammar, up_to: int | None = None) -> Comparison:
        """Compare two languages up to words of so many symbols; the result is true if they agree, else it has a
        shortest separating word.
        """
        from constrained.research.compare import language_equal

        return language_equal(self, other, up_to)


def logits_processor(
    constraints: Constraint | Sequence[Constraint | None],
    *,
    prompt_length: int | None = None,
    max_new_tokens: MaxNewTokens = None,
) -> GrammarProcessor:
    """Return a transformers.LogitsProcessor for a constraint, or for one each prompt of a batch (None: a row that may
    say anything).

    See `constrained.integrations.transformers`, which loads with the first call.
    """
    with needing("make a logits processor", "transformers"):
        from constrained.integrations.transformers import GrammarProcessor
    return GrammarProcessor(constraints, prompt_length, max_new_tokens)
