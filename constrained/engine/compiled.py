"""Grammar + vocabulary → `CompiledGrammar`, the frozen thing that requests share; cursors over it are `Matcher`s.

They share a kernel over a vocabulary, the growing cache of states and masks: machine states are compared by
content, so what one grammar has met, such as "an array of strings", or the same tools in yesterday's request, is known
to the next.  When the kernel passes its bound, they start a fresh one; matchers notice and replay their tokens,
a fraction of a microsecond each.  So memory is bounded without a single eviction rule, and nothing that a caller holds
is ever invalid.

Tests: laws.py (mask = brute force on real vocabularies, both kernels), test_engine.py (bounds, pickling, threads),
test_work.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import astuple, dataclass
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from constrained.engine.tokens.bitmask import number
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.errors import ConstrainedError, GrammarError, LimitExceeded, VocabularyError, shown
from constrained.once import once
from constrained.tables import table
from constrained.work import MAX_WORK, Budget, Preempted, begin, thread

AHEAD = 4  # looking ahead in a generation may do one part in so many of what its masks may

if TYPE_CHECKING:
    from constrained.budget.completion import Completions
    from constrained.engine.matcher import Matcher
    from constrained.engine.plain import PlainKernel
    from constrained.engine.prepare import Warming
    from constrained.grammar import Grammar


# -- the options of `compile`: kernel, bounds of memory and of work, deadline and cancellation -------------------------

# Default bound of the states and masks of a vocabulary's constraints: with what one operation adds and the heap rounds
# up, a process that strangers fill stays within 300 MB.
CACHE_BYTES = 160 << 20
_MOST = 1 << 62
_BOUNDS = (("cache_bytes", 0), ("max_configurations", 1), ("max_work", 0))  # and the least that each may be
SHARE = 32  # an operation that computes, one for each token, gets one part in so many of the units of work back


def _bound(value: object, name: str, least: int) -> int:
    """Return a bound that a caller gave; one that nothing reaches counts as the largest that fits."""
    if (bound := number(value)) < least:
        raise ConstrainedError(
            f"{name} is no bound", because=f"it is {shown(value)}", instead=f"an int, {least} or more"
        )
    return min(bound, _MOST)


def options_of(*given: Any) -> CompileOptions:
    """Return the options of a call.  Most come with the same ones, and without a callback."""
    try:
        return _known_options(*given) if given[-1] is None else CompileOptions(*given)
    except TypeError:  # one of them cannot be looked up, and is refused
        return CompileOptions(*given)


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """How a constraint is compiled; the parameters of `compile`."""

    kernel: str | None = None
    spell_missing: bool = False
    cache_bytes: int = CACHE_BYTES
    max_configurations: int = 20_000
    max_work: int | None = MAX_WORK
    deadline: float | None = None
    cancelled: Callable[[], bool] | None = None

    def __post_init__(self) -> None:
        for name, least in _BOUNDS:
            value = getattr(self, name)
            if (value is not None or name != "max_work") and not (type(value) is int and least <= value <= _MOST):
                object.__setattr__(self, name, _bound(value, name, least))
        seconds = self.deadline
        if seconds is not None and (
            isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or seconds != seconds
        ):
            raise ConstrainedError(
                f"deadline is {shown(self.deadline)}",
                because="it is a number of seconds",
                instead="for instance 0.5, or None",
            )
        if self.cancelled is not None and not callable(self.cancelled):
            raise ConstrainedError(
                f"cancelled is {shown(self.cancelled)}",
                because="it is a function without arguments",
                instead="threading.Event().is_set",
            )

    def budget(self, part: int = 1) -> Budget:
        """Return what a constraint may do, or one part in so many of it."""
        share = 0 if self.max_work is None else self.max_work // SHARE
        most = None if self.max_work is None else self.max_work // part
        remedy = "compile(…, max_work=…) with more units"
        return Budget(most, deadline=self.deadline, cancelled=self.cancelled, share=share, remedy=remedy)


_known_options = lru_cache(maxsize=64, typed=True)(CompileOptions)


# -- the choice of a kernel, compiled or plain -------------------------------------------------------------------------

def kernel_class(name: str | None = None) -> Any:
    """Return the class of kernel to use: "compiled", "plain", or the fastest there is.

    Raises: ConstrainedError: no such kernel, or it was asked for by name and does not load.
    """
    if name is not None and (type(name) is not str or name not in ("compiled", "plain")):
        raise ConstrainedError(
            f"unknown kernel {shown(name)}", instead='"compiled", "plain", or None for the fastest that is installed'
        )
    if name != "plain":
        try:
            return _compiled()
        except Exception as error:  # a numpy of another binary interface raises ValueError, for instance
            because = _why_not_compiled(error)
            if name == "compiled":
                raise ConstrainedError(
                    "the compiled kernel does not load", because=because, instead="install again, with a C compiler"
                ) from error
            warnings.warn(f"constrained runs its plain Python engine, 100 times slower: {because}", stacklevel=4)
    from constrained.engine.plain import PlainKernel

    return PlainKernel


@cache
def _compiled() -> Any:
    """Return the compiled kernel.  Every compile asks; where it does not load, it is tried again."""
    from constrained.engine.kernel._kernel import Kernel as CompiledKernel

    return CompiledKernel


def _why_not_compiled(error: Exception) -> str:
    """Say whether the compiled kernel is missing, or there and broken."""
    if isinstance(error, ModuleNotFoundError) and str(error.name).startswith("constrained."):
        return f"it was installed without a C compiler ({error.name} is missing)"
    return f"its compiled kernel is there but does not load, {type(error).__name__}: {shown(str(error), 300)}"


# -- compiled grammars ------------------------------------------------------------------------------------------------

class CompiledGrammar:
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
        self._warmed: Warming | None = None
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
        """Where the masks allow less than the specification, though nobody asked for it; see `Productions.narrowed`."""
        return tuple(self.grammar.narrowed)

    @property
    def notes(self) -> tuple[Any, ...]:
        """Words of schemas that have no meaning and may be thought to, see `Productions.notes`; each is warned of
        once.
        """
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
        Cost: 1-5 ms with 128,000 tokens for a state that is met for the first time; 50 µs for one that is known.
        Raises: LimitExceeded: the budget is smaller than the shortest word that is known, see `min_tokens`.
        ConstrainedError: a budget or soft_close that is no number.
        """
        if soft_close and budget is None:
            instead = "matcher(budget=…, soft_close=…)"
            raise ConstrainedError("soft_close without a budget", because="nothing ends earlier", instead=instead)
        if budget is not None or self.grammar.limit is not None:
            from constrained.budget.matcher import UNLIMITED, BudgetedMatcher

            cursor: Matcher = BudgetedMatcher(self, UNLIMITED if budget is None else budget, soft_close)
            return cursor
        from constrained.engine.matcher import Matcher

        return Matcher(self)

    @property
    def min_tokens(self) -> int:
        """The tokens of the shortest word known: an upper bound, see `Matcher.shortest_completion`."""
        return len(self.matcher().shortest_completion())

    def completions(self) -> Completions:
        """Return the ways out of states, which all matchers over the vocabulary share; fresh ones where the last have
        grown too large.
        """
        from constrained.budget.completion import Completions

        known: Completions | None = self.vocabulary.kernels.completions
        if known is None or known.is_full():
            known = self.vocabulary.kernels.completions = Completions(self.vocabulary)
        return known

    def begun(self, tracker: PlainKernel) -> int:
        """Return the state of a plain kernel before words."""
        return tracker.start_at(self._root, self._nullable)

    @once
    def ahead(self) -> Budget:
        """What looking ahead in generations may do, beside the constraint's own budget, which the masks need."""
        return self.options.budget(AHEAD)

    # -- before it is needed, and after the process --------------------------------------------------------------------

    def warm(
        self, seconds: float | None = None, *, states: int | None = None, cancelled: Callable[[], bool] | None = None
    ) -> int:
        """Make the masks along a shortest word, then what all masks are made of; return how many states were visited.

        It ends after so many seconds or states, when `cancelled()` is true, or when nothing is left or would fit into
        the cache; a further call goes on from there.  For a server: in a thread of its own, while the model computes.
        Cost: that of the masks; other threads may run between any two.
        Raises: ConstrainedError: no bound is given, or one that is no number.
        """
        return self._warming().go_on(seconds, states, cancelled)

    def _warming(self) -> Warming:
        if self._warmed is None:
            from constrained.engine.prepare import Warming

            self._warmed = Warming(self)
        return self._warmed

    def place(self) -> tuple[PlainKernel, int]:
        """Return the kernel in use, a fresh one where it is full, and the state before words."""
        kernel = self._place[0]
        if kernel.is_full() and not self.vocabulary.kernels.may_grow(kernel, self.options.cache_bytes):
            self._place = self._entered()
        return self._place

    def leave(self, kernel: PlainKernel) -> None:
        """Go on in a kernel of its own: work in one that others wait for was broken off; or anywhere, if the kernel was
        emptied.
        """
        if self._place[0] is kernel:
            self._place = self._entered(own=not kernel.is_gone())

    def _entered(self, *, own: bool = False) -> tuple[PlainKernel, int]:
        """Return the vocabulary's kernel, or a fresh one where that has grown, and this grammar's start in it."""
        options, vocabulary = self.options, self.vocabulary
        bounds = (self._kernel_class, options.cache_bytes, options.max_configurations, self._root if own else None)
        most = options.max_configurations
        make = partial(self._kernel_class, vocabulary, specials=vocabulary.special, max_configurations=most)
        while True:
            kernel: PlainKernel = vocabulary.kernels.join(
                bounds, self._root, lambda size: make(max_bytes=size), options.cache_bytes, own=own
            )
            self.budget.wanted = None if own else kernel.is_wanted
            try:
                return kernel, kernel.start_at(self._root, self._nullable, self.budget, self._weight)
            except Preempted:  # others wait for the kernel, or it was emptied meanwhile
                if not own and not kernel.is_gone():
                    return self._entered(own=True)

    def __deepcopy__(self, _: Any) -> CompiledGrammar:
        return self  # frozen

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (type(self), self.grammar, self.vocabulary, *astuple(self.options))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.grammar!r} over {self.vocabulary!r}>"

    def _repr_html_(self) -> str:
        return table({"grammar": self.grammar, "vocabulary": self.vocabulary, "notes": self.notes or None})


Kind = TypeVar("Kind", bound=CompiledGrammar)


def compile_grammar(
    grammar: Grammar, vocabulary: Vocabulary, options: CompileOptions | None = None
) -> CompiledGrammar:
    """Return a grammar bound to a vocabulary; see `constrained.compile`, which is for people.

    Raises: GrammarError: no word at all.  VocabularyError: the vocabulary lacks a special token that the grammar names.
    LimitExceeded: too much work.
    """
    return ready(CompiledGrammar(grammar, vocabulary, CompileOptions() if options is None else options))


def ready(found: Kind) -> Kind:
    """Return what was compiled, after a probe of its cost where it may be large.

    Raises: LimitExceeded: too much work.
    """
    if getattr(found.grammar, "heavy", False) or getattr(found.grammar, "has_own_rules", False):
        from constrained.engine.prepare import probe_cost

        probe_cost(found)
    return found


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


def _unpickled(kind: type[Kind], grammar: Grammar, vocabulary: Vocabulary, *options: Any) -> Kind:
    return kind(grammar, vocabulary, CompileOptions(*options))
