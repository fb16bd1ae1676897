"""Grammar + vocabulary → `Constraint`, the frozen thing that requests share; cursors over it are `Matcher`s.

Constraints over a vocabulary share a kernel, the growing cache of states and masks: machine states are compared by
content, so what one grammar has met, such as "an array of strings", or the same tools in yesterday's request, is known
to the next.  When the kernel passes its bound, constraints start a fresh one; matchers notice and replay their tokens,
a fraction of a microsecond each.  So memory is bounded without a single eviction rule, and nothing that a caller holds
is ever invalid.

Tests: laws.py (mask = brute force on real vocabularies, both kernels), test_engine.py (bounds, pickling, threads).
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from constrained.engine.ahead import prepare
from constrained.engine.kernels import Kernel, kernel_class
from constrained.engine.options import CACHE_BYTES, CompileOptions, options_of
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.errors import ConstrainedError, GrammarError, LimitExceeded, VocabularyError, needing
from constrained.once import once
from constrained.tables import table
from constrained.work import MAX_WORK, Preempted, begin, thread

if TYPE_CHECKING:
    import random

    from constrained.engine.budget.completion import Completions
    from constrained.engine.matcher import Matcher
    from constrained.engine.warm import Explorer
    from constrained.formats import ChatFormat
    from constrained.grammar import Grammar
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

    Cost: what the grammar's first state costs, of rules and patterns its first masks, of a large schema twice as much,
    see `ahead`; else all happens when a generation first gets there, but for what looks like too much, see `rehearsal`.
    Threads: a constraint may be shared; a matcher belongs to one thread at a time.
    Raises: GrammarError: no word at all.  VocabularyError: the vocabulary lacks a special token that the grammar names.
    LimitExceeded: too much work, here or in any method of a matcher, which is then unchanged; what has been computed
    stays, and calls may be repeated.  ConstrainedError: an unknown kernel, a bound out of range.
    """
    if not hasattr(grammar, "start_state"):
        grammar = importlib.import_module("constrained.integrations.held").grammar_of(grammar)
    if not isinstance(vocabulary, Vocabulary):
        vocabulary = importlib.import_module("constrained.integrations.held").vocabulary_of(vocabulary)
    options = options_of(kernel, spell_missing, cache_bytes, max_configurations, max_work, deadline, cancelled)
    found = Constraint(grammar, vocabulary, options)
    if getattr(grammar, "heavy", False) or getattr(grammar, "has_own_rules", False):
        importlib.import_module("constrained.engine.rehearsal").rehearse(found)
    prepare(found)
    return found


class Constraint:
    """A grammar bound to a vocabulary; frozen, shareable between threads and requests, picklable (load only pickles
    that you wrote).
    """

    def __init__(self, grammar: Grammar, vocabulary: Vocabulary, options: CompileOptions) -> None:
        if not isinstance(vocabulary, Vocabulary):
            raise VocabularyError(
                f"not a vocabulary: {type(vocabulary).__name__}", instead="Vocabulary.from_tokenizer(tokenizer)"
            )
        if not hasattr(grammar, "start_state"):
            instead = "Grammar.from_lark, from_json_schema, from_regex, or ChatFormat.grammar"
            raise GrammarError(f"not a grammar: {type(grammar).__name__}", instead=instead)
        self.grammar, self.vocabulary, self.options = grammar, vocabulary, options
        self.budget = options.budget()
        self.budget.whole = _named(grammar)
        self._kernel_class = kernel_class(options.kernel)
        self._completions: Completions | None = None
        self._explorer: Explorer | None = None
        outer = thread.budget
        try:
            begin(self.budget)
            bound = self.bound_grammar
            self._root, self._nullable, self._weight = bound.start_state(), bound.nullable, bound.weight
            self._place = self._entered()
        except LimitExceeded as error:
            raise self.budget.placed(error) from None
        finally:
            thread.budget = outer

    @once
    def bound_grammar(self) -> Grammar:
        """The grammar as it is read: literals that this vocabulary has as special tokens are these."""
        grammar, special = self.grammar, self.vocabulary.special
        missing = sorted([name for name in grammar.specials if name not in special]) if grammar.specials else []
        if missing and not self.options.spell_missing:
            raise VocabularyError(
                f"the vocabulary lacks the special token {missing[0]!r}",
                because=f"the grammar names {len(missing)} special tokens that the tokenizer does not have",
                instead="use the model's own tokenizer, or compile(..., spell_missing=True) to write them as text",
            )
        grammar = grammar.without_specials(missing) if missing else grammar
        return grammar.with_specials(special) if getattr(grammar, "adopts", False) else grammar

    @property
    def widened(self) -> tuple[Any, ...]:
        """What unsupported="widen" left to be checked after generation; empty: the masks are exact."""
        return tuple(self.grammar.widened)

    @property
    def narrowed(self) -> tuple[Any, ...]:
        """Where the masks allow less than the specification, although nobody asked for it; see `Grammar.narrowed`."""
        return tuple(self.grammar.narrowed)

    @property
    def notes(self) -> tuple[Any, ...]:
        """Words of schemas that have no meaning and may be thought to, see `Grammar.notes`; each is warned of once."""
        return tuple(getattr(self.grammar, "notes", ()))

    @once
    def stop(self) -> tuple[int, ...]:
        """The tokens that end a sequence: those that the grammar's turns end with, then the vocabulary's.

        Empty where the vocabulary has none: then the stop token of a turn is a letter of its text, which may be read on
        its own.
        """
        vocabulary = self.vocabulary
        named = sorted(
            vocabulary.special[name] for name in getattr(self.grammar, "stops", ()) if name in vocabulary.special
        )
        return tuple(dict.fromkeys((*named, *vocabulary.stop))) if vocabulary.stop else ()

    def matcher(self, *, budget: int | None = None, soft_close: int = 0) -> Matcher:
        """Return a cursor at the start of a new sequence.

        budget: every word that it finishes has at most so many tokens, and it can always finish.  A token is allowed
        only if a completion within the tokens that remain is known; as long as the longest way out, in bytes, behind
        any token fits, masks are as without.  A stop token counts where the grammar names it.
        soft_close: when the shortest completion known and so many tokens more would use up the budget, no token may
        lead away from the end.
        Cost: 3-8 ms with 128,000 tokens for every state that is met for the first time; 50 µs for one that is known.
        Raises: LimitExceeded: the budget is smaller than the shortest word that is known, see `min_tokens`.
        ConstrainedError: a budget or soft_close that is no number.
        """
        if budget is not None:
            from constrained.engine.budget.matcher import BudgetedMatcher

            return BudgetedMatcher(self, budget, soft_close)
        from constrained.engine.matcher import Matcher

        if soft_close:
            instead = "matcher(budget=…, soft_close=…)"
            raise ConstrainedError("soft_close without a budget", because="nothing ends earlier", instead=instead)
        return Matcher(self)

    @property
    def min_tokens(self) -> int:
        """The tokens of the shortest word known: an upper bound, see `Matcher.shortest_completion`."""
        return len(self.matcher().shortest_completion())

    def completions(self) -> Completions:
        """Return the ways out of the constraint's states, which its matchers share; fresh ones where the last have
        grown too large.
        """
        from constrained.engine.budget.completion import Completions

        known = self._completions
        if known is None or known.is_full():
            bound = self.options.max_configurations
            made = Completions(self.vocabulary, self._root, nullable=self._nullable, max_configurations=bound)
            known = self._completions = made
        return known

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
        stop = self.vocabulary.stop
        ends = {"eos_token_id": sorted(self.stop), "pad_token_id": min(stop)} if stop else {}
        most = {} if max_new_tokens is None else {"max_new_tokens": max_new_tokens}
        processors = [*own.pop("logits_processor", ()), self.logits_processor(max_new_tokens=max_new_tokens)]
        return {**ends, **most, **own, "logits_processor": processors}

    # -- before it is needed, and after the process --------------------------------------------------------------------

    def warm(
        self, seconds: float | None = None, *, states: int | None = None, cancelled: Callable[[], bool] | None = None
    ) -> int:
        """Make what all masks are made of, then visit the states that a generation will likely get to, so that their
        masks are known; return how many were visited.

        It ends after so many seconds or states, when `cancelled()` is true, or when nothing new is found (of most
        schemas with free texts: soon) or would fit into the cache; a further call goes on from there.  For a server: in
        a thread of its own, while the model computes.
        Cost: that of the masks; other threads may run between any two.
        Raises: ConstrainedError: no bound is given, or one that is no number.
        """
        return self._explored().explore(seconds, states, cancelled)

    def visited(self) -> list[tuple[int, int]]:
        """Return the places that `warm` has found, here or before `save`: (number of the one before or -1, token)."""
        return [] if self._explorer is None else self._explorer.visited()

    def remember(self, places: Sequence[Any]) -> None:
        """Note written places, which `warm` visits first.  Raises: ConstrainedError: they are no places."""
        self._explored().remember(places)

    def _explored(self) -> Explorer:
        if self._explorer is None:
            self._explorer = importlib.import_module("constrained.engine.warm").Explorer(self)
        return cast("Explorer", self._explorer)

    def save(
        self, path: str | os.PathLike[str], *,
        formats: Mapping[str, ChatFormat] | None = None,
    ) -> None:
        """Write the constraint into a file: the calls that made its grammar, fingerprints, and the places that `warm`
        has visited.

        formats: formats of one's own that the grammar is of, by name; `load` needs them too.
        Raises: GrammarError: the grammar was made by hand, or of what JSON does not hold.  OSError.
        """
        importlib.import_module("constrained.integrations.stored").save(self, path, formats)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], vocabulary: Any, *,
        formats: Mapping[str, ChatFormat] | None = None, **options: Any,
    ) -> Constraint:
        """Return the constraint that `save` wrote; no code and no masks are read: it may be a stranger's.

        vocabulary: the one that it was saved with, or its tokenizer.  options: the bounds of `compile`; those of the
        file's writer do not count.
        Cost: a compile.  `warm` begins with the places that were saved.
        Raises: VocabularyError: it is for another vocabulary.  GrammarError: its grammar is another one today.
        ConstrainedError: the file holds no constraint.
        """
        stored = importlib.import_module("constrained.integrations.stored")
        return cast("Constraint", stored.load(path, vocabulary, formats=formats, options=options))

    # -- to study it: `constrained.research`, which loads with the first call ------------------------------------------

    def trace(self, model: Any, prompt: Any = "", **options: Any) -> Trace:
        """Let a model write and note every step: mask size, probability removed, entropy, time; see `research.trace`
        for the options.
        """
        return cast("Trace", _research("trace").trace(self, model, prompt, **options))

    def count(self, up_to: int) -> int:
        """Return how many words have at most `up_to` symbols: bytes, and special tokens as one each."""
        return int(_research("words").count(self, up_to))

    def enumerate(self, up_to: int) -> Iterator[bytes]:
        """Yield the words of at most `up_to` symbols, shorter ones first."""
        return cast("Iterator[bytes]", _research("words").enumerate_words(self, up_to))

    def sample(
        self, rng: random.Random, up_to: int = 64, weights: Mapping[str, Sequence[float]] | None = None
    ) -> bytes:
        """Return a random word of at most `up_to` symbols: each equally likely; or by weights, rule → a number for each
        alternative, equal ones for {}: then patterns and schemas are walked through, and a call of a tool takes
        milliseconds.

        Raises: GrammarError: no word is as short; weights that fit no rule.  LimitExceeded: too many states to count
        the words.
        """
        return cast(
            "bytes",
            _research("words").sample(self, rng, up_to)
            if weights is None
            else _research("derive").derive(self, rng, up_to, weights),
        )

    def language_equal(self, other: Constraint, up_to: int | None = None) -> Comparison:
        """Compare two languages up to words of so many symbols; the result is true if they agree, else it has a
        shortest separating word.
        """
        return cast("Comparison", _research("compare").language_equal(self, other, up_to))

    def place(self) -> tuple[Kernel, int]:
        """Return the kernel in use, with room for a text, a fresh one where it is full, and the state before words."""
        kernel = self._place[0]
        kernel.make_room()
        if kernel.is_full() and not self.vocabulary.kernels.may_grow(kernel, self.options.cache_bytes):
            self._place = self._entered()
        return self._place

    def leave(self, kernel: Kernel) -> None:
        """Go on in a kernel of its own: work in one that others wait for was broken off; or anywhere, if the kernel was
        emptied.
        """
        if self._place[0] is kernel:
            self._place = self._entered(own=not kernel.is_gone())

    def _entered(self, *, own: bool = False) -> tuple[Kernel, int]:
        """Return the vocabulary's kernel, or a fresh one where that has grown, and this grammar's start in it."""
        options, vocabulary = self.options, self.vocabulary
        bounds = (self._kernel_class, options.cache_bytes, options.max_configurations, self._root if own else None)
        most = options.max_configurations
        make = partial(self._kernel_class, vocabulary, specials=vocabulary.special, max_configurations=most)
        while True:
            kernel: Kernel = vocabulary.kernels.join(
                bounds, lambda size: make(max_bytes=size), options.cache_bytes, own=own
            )
            self.budget.wanted = None if own else kernel.is_wanted
            try:
                return kernel, kernel.start_at(self._root, self._nullable, self.budget, self._weight)
            except Preempted:  # others wait for the kernel, or it was emptied meanwhile
                if not own and not kernel.is_gone():
                    return self._entered(own=True)

    def __deepcopy__(self, _: Any) -> Constraint:
        return self  # frozen

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.grammar, self.vocabulary, *astuple(self.options))

    def __repr__(self) -> str:
        return f"<Constraint of {self.grammar!r} over {self.vocabulary!r}>"

    def _repr_html_(self) -> str:
        return table({"grammar": self.grammar, "vocabulary": self.vocabulary, "notes": self.notes or None})


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
        integration = importlib.import_module("constrained.integrations.transformers")
    made = integration.logits_processor(constraints, prompt_length=prompt_length, max_new_tokens=max_new_tokens)
    return cast("GrammarProcessor", made)


def _research(module: str) -> Any:
    return importlib.import_module(f"constrained.research.{module}")


def _named(grammar: Grammar) -> str | None:
    """Return what an error names where it knows no smaller place."""
    start = getattr(grammar, "start", None)
    if not isinstance(start, str):
        return None
    first, *others = grammar.rules[start].alternatives or ((),)
    if not others and len(first) == 1 and type(first[0]).__name__ == "Embedded":
        return "#"
    if len(grammar.rules) == 1:
        sources = {source for symbol in grammar.symbols() if isinstance(source := getattr(symbol, "source", None), str)}
        if len(sources) == 1:
            return f"pattern {sources.pop()!r:.200}"
    return f"rule {start}"


def _unpickled(grammar: Grammar, vocabulary: Vocabulary, *options: Any) -> Constraint:
    return Constraint(grammar, vocabulary, CompileOptions(*options))
