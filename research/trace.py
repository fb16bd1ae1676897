"""A constrained generation, step by step: what the mask took away, what was left to choose, what the grammar dictated.

    constraint.trace(model, "Will it rain?", tokenizer=tokenizer) -> Trace

Its own loop instead of a `LogitsProcessor`, because a processor sees neither the choice nor the end.  Time is that of
the mask alone, as a generation meets it: the first visit of a state computes it, later ones copy it.

Tests: tests/test_research.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from constrained.errors import ConstrainedError, NothingAllowed, shown

from .models import Floats, entropy, next_token_of, normalised, prompt_ids

if TYPE_CHECKING:
    from constrained.engine.compiled import CompiledGrammar
    from constrained.engine.matcher import Matcher
    from constrained.engine.tokens.vocabulary import Vocabulary

WORTH_SAYING = 1e-3  # probability from which a forbidden token is noted: to explain one costs some 50 µs
NEARLY = 0.5  # a mask that removes more of the probability nearly forbade what the model wanted


@dataclass(frozen=True, slots=True)
class Forbidden:
    """A token that the model would have liked and the mask did not allow."""

    token: int
    text: str
    probability: float
    why: str


@dataclass(frozen=True, slots=True)
class Step:
    """One token."""

    token: int
    text: str
    allowed: int  # tokens in the mask
    removed: float  # probability of the tokens that are not in it
    entropy_before: float  # bits
    entropy_after: float
    probability: float  # that the model gave the token, before the mask
    seconds: float  # of the mask
    likely: tuple[tuple[str, float], ...]  # the likeliest allowed tokens and their probability after the mask
    forbidden: tuple[Forbidden, ...]  # the likeliest forbidden ones

    @property
    def forced(self) -> bool:
        """Whether the mask left one token."""
        return self.allowed == 1

    @property
    def kind(self) -> str:
        """How the page colours it: forced, nearly (the mask removed most of the probability), or free."""
        return "forced" if self.forced else "nearly" if self.removed > NEARLY else "free"


@dataclass(frozen=True, slots=True)
class Trace:
    """The steps of one generation; `_repr_html_` shows it in notebooks, `html` is a page of its own."""

    prompt: str
    steps: tuple[Step, ...]
    finished: bool
    size: int  # of the vocabulary

    @property
    def tokens(self) -> list[int]:
        return [step.token for step in self.steps]

    @property
    def text(self) -> str:
        return "".join(step.text for step in self.steps)

    @property
    def log_probability_kept(self) -> float:
        """The logarithm of the probability that unmasked sampling would have stayed in the masks all the way."""
        return float(sum(np.log1p(-min(step.removed, 1 - 1e-15)) for step in self.steps))

    def rows(self) -> list[dict[str, Any]]:
        """Return the steps as dictionaries: ``pandas.DataFrame(trace.rows())``."""
        return [{**asdict(step), "forced": step.forced, "kind": step.kind} for step in self.steps]

    def to_json(self) -> str:
        return json.dumps(
            {"prompt": self.prompt, "text": self.text, "finished": self.finished, "steps": self.rows()},
            ensure_ascii=False,
        )

    def html(self) -> str:
        """Return one self-contained page: nothing is loaded, nothing in a token is read as markup."""
        from .page import page

        return page(self)

    def save(self, path: str | Path) -> None:
        """Write `html`."""
        Path(path).write_text(self.html(), encoding="utf-8")

    def _repr_html_(self) -> str:
        from .page import fragment

        return fragment(self)


def trace(
    constraint: CompiledGrammar,
    model: Any,
    prompt: Any = "",
    *,
    tokenizer: Any = None,
    max_new_tokens: int = 200,
    temperature: float = 1.0,
    seed: int = 0,
    budget: int | None = None,
    soft_close: int = 0,
    shown_tokens: int = 8,
) -> Trace:
    """Let a model write under a constraint and note every step.

    model: a causal model of transformers, or a function ids → log-probabilities.  prompt: ids, or a text with its
    tokenizer. temperature: 0 takes the likeliest token.  budget, soft_close: as in `Constraint.matcher`.  shown_tokens:
    kept of each step's likeliest allowed and forbidden tokens.
    Raises: NothingAllowed: no token is left.  LimitExceeded: see `compile`.
    """
    given = (temperature, max_new_tokens, seed)
    if not all(isinstance(value, (int, float)) for value in given) or not min(given) >= 0:
        raise ConstrainedError(
            "temperature, max_new_tokens and seed are numbers, and not negative", because=f"they are {shown(given)}"
        )
    vocabulary, ids = constraint.vocabulary, prompt_ids(prompt, tokenizer)
    start = ids or [min(constraint.stop, default=0)]  # a model needs something to go on from
    shown_prompt = prompt if isinstance(prompt, str) else vocabulary.decode(ids).decode(errors="replace")
    next_token, chance = next_token_of(model, temperature or 1.0), np.random.default_rng(seed)
    matcher = constraint.matcher(budget=budget, soft_close=soft_close)
    every = _steps(matcher, vocabulary, next_token, start, chance, temperature == 0, shown_tokens)
    steps = tuple(islice(every, int(max_new_tokens)))
    return Trace(shown_prompt, steps, matcher.is_finished(), vocabulary.size)


def _steps(
    matcher: Matcher,
    vocabulary: Vocabulary,
    next_token: Any,
    start: list[int],
    chance: np.random.Generator,
    greedy: bool,
    most: int,
) -> Iterator[Step]:
    """Yield steps until the word has ended."""
    bitmask = np.zeros((1, vocabulary.words), np.int32)
    while not matcher.is_finished():
        logs: Floats = next_token([*start, *matcher.tokens])
        started = perf_counter()
        matcher.fill_mask(bitmask)
        seconds = perf_counter() - started
        allowed = unpacked(bitmask, len(logs))
        kept = np.where(allowed, logs, -np.inf)
        if not np.isfinite(kept).any():
            if matcher.is_accepting():  # a vocabulary without a stop token
                return
            raise NothingAllowed(
                "no token is left to generate",
                where=f"after {len(matcher.tokens)} tokens",
                because="all allowed logits are -inf",
            )
        masked = normalised(kept)
        token = int(masked.argmax()) if greedy else int(chance.choice(len(masked), p=probabilities(masked)))
        found = Step(
            token,
            _text(vocabulary, token),
            int(allowed.sum()),
            min(float(np.exp(logs[~allowed]).sum()), 1.0),
            entropy(logs),
            entropy(masked),
            float(np.exp(logs[token])),
            seconds,
            tuple((_text(vocabulary, each), float(np.exp(masked[each]))) for each in likeliest(masked, most)),
            tuple(_forbidden(matcher, vocabulary, np.where(allowed, -np.inf, logs), most)),
        )
        matcher.advance(token)
        yield found


def _forbidden(matcher: Matcher, vocabulary: Vocabulary, logs: Floats, most: int) -> Iterator[Forbidden]:
    """Yield the likeliest forbidden tokens; the first line of an explanation names the token, the others say why
    not.
    """
    for token in likeliest(logs, most):
        if (probability := float(np.exp(logs[token]))) < WORTH_SAYING:
            return
        known = token < vocabulary.size and (
            token in vocabulary.names or token < len(vocabulary.tokens) and vocabulary.tokens[token] is not None
        )
        lines = (
            [line.strip() for line in matcher.explain(token).split("\n")[1:]]
            if known
            else ["no token of the vocabulary"]
        )
        why = "; ".join(line.removeprefix("because: ").removeprefix("instead: ") for line in lines)
        yield Forbidden(token, _text(vocabulary, token) if known else "", probability, why)


def likeliest(logs: Floats, most: int) -> list[int]:
    """Return the tokens of highest probability, -inf left out; equal ones by id."""
    order = np.argsort(-logs, kind="stable")[:most]
    return [int(token) for token in order if np.isfinite(logs[token])]


def probabilities(logs: Floats) -> Floats:
    """Return log-probabilities as probabilities that sum to 1 within numpy's tolerance."""
    found: Floats = np.exp(logs)
    found /= found.sum()
    return found


def unpacked(bitmask: Any, width: int) -> Any:
    """Return the first row of a packed mask as (width,) bool; ids beyond the vocabulary are not allowed."""
    bits = np.unpackbits(bitmask[0].view(np.uint8), bitorder="little").astype(bool)
    return bits[:width] if len(bits) >= width else np.pad(bits, (0, width - len(bits)))


def _text(vocabulary: Vocabulary, token: int) -> str:
    return vocabulary.decode([token]).decode(errors="backslashreplace")
