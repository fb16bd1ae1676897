"""One interface for all engines (compile, start, mask, advance); peers are driven as their documentation does.

Every engine fills the same kind of bitmask; `Engine.mask` and `Engine.advance` are what is timed, so they hold nothing
else. llguidance reads schemas with its default options (flexible whitespace), XGrammar with its strict ones, which are
its fast ones.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

import constrained
from constrained import ChatFormat, Grammar, Vocabulary, caches

from .cases import Case
from .peers import Piece, lark, sequences

# the spelling of our formats, for llguidance
_ONE_LINE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


def forget_grammars(vocabulary: Vocabulary) -> None:
    """Leave only what belongs to the vocabulary alone: the masks of text languages, not the states of grammars and
    schemas.
    """
    vocabulary.kernels.clear()
    caches.clear(give_back=False)


class Engine(Protocol):
    """One engine over one vocabulary."""

    name: str

    def version(self) -> str: ...

    def forget(self) -> None:
        """Drop what is kept of earlier grammars; an engine whose `compile` does so anyway has nothing to do."""
        ...

    def compile(self, case: Case) -> Any:
        """Return a compiled grammar, or None where the engine cannot express the case."""
        ...

    def start(self, compiled: Any) -> Any: ...

    def mask(self, matcher: Any) -> None: ...

    def advance(self, matcher: Any, token: int) -> None: ...

    def allows(self, token: int) -> bool:
        """Say whether the last mask allows a token."""
        ...


class _Filled:
    """An engine whose last mask is a bitmask of 32-bit words."""

    name: str
    _words: npt.NDArray[np.uint32]

    def version(self) -> str:
        return version(self.name)

    def forget(self) -> None:
        """Peers keep nothing between compiles, or empty it there."""

    def allows(self, token: int) -> bool:
        return bool(int(self._words[token >> 5]) >> (token & 31) & 1)


class Ours(_Filled):
    """`constrained`, through its public names; a fresh compile shares the vocabulary and what is cached with it."""

    name = "constrained"

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._bitmask = np.zeros((1, vocabulary.words), np.int32)
        self._words = self._bitmask.view(np.uint32)[0]

    def version(self) -> str:
        return constrained.__version__

    def forget(self) -> None:
        forget_grammars(self._vocabulary)

    def compile(self, case: Case) -> Any:
        if case.format is None:
            grammar = Grammar.from_json_schema(case.schema)
        else:
            grammar = ChatFormat.load(case.format).grammar(list(case.tools) or None, tool_choice="required")
        return constrained.compile(grammar, self._vocabulary)

    def warmed(self, case: Case, seconds: float) -> Any:
        """Return a constraint that has been told to work ahead, on a vocabulary that has forgotten everything else."""
        self.forget()
        compiled = self.compile(case)
        compiled.warm(seconds=seconds)
        return compiled

    def saved(self, case: Case, path: Path, seconds: float) -> None:
        """Write a warmed constraint, and forget it."""
        self.warmed(case, seconds).save(path)
        self.forget()

    def load(self, path: Path) -> Any:
        return constrained.Constraint.load(path, self._vocabulary)

    def start(self, compiled: Any) -> Any:
        return compiled.matcher()

    def mask(self, matcher: Any) -> None:
        matcher.fill_mask(self._bitmask)

    def advance(self, matcher: Any, token: int) -> None:
        matcher.advance(token)


class Llguidance(_Filled):
    """llguidance's matcher with its default slices; matchers of one grammar are deep copies."""

    name = "llguidance"

    def __init__(self, vocabulary: Vocabulary) -> None:
        import llguidance
        from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask

        self._package, self._fill, self._special = llguidance, fill_next_token_bitmask, vocabulary.special
        self._tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Table(vocabulary)))
        self._bitmask = allocate_token_bitmask(1, vocabulary.size)
        self._words = self._bitmask.view(np.uint32)[0]

    def compile(self, case: Case) -> Any:
        if case.format is None:
            source: str | None = json.dumps({"grammars": [{"json_schema": case.schema}]})
        else:
            source = lark(case.format, case.tools, self._special, _ONE_LINE)
        if source is None:
            return None
        matcher = self._package.LLMatcher(self._tokenizer, source, log_level=0)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def start(self, compiled: Any) -> Any:
        return compiled.deep_copy()

    def mask(self, matcher: Any) -> None:
        self._fill(matcher, self._bitmask, 0)

    def advance(self, matcher: Any, token: int) -> None:
        matcher.consume_token(token)


class XGrammar(_Filled):
    """XGrammar with one thread and its caches on; the caches over grammars are emptied before every compile."""

    name = "xgrammar"

    def __init__(self, vocabulary: Vocabulary) -> None:
        import xgrammar

        self._package, self._special = xgrammar, vocabulary.special
        table = _Table(vocabulary)
        self._info = xgrammar.TokenizerInfo(
            table.tokens,
            xgrammar.VocabType.RAW,
            vocab_size=vocabulary.size,
            stop_token_ids=[table.eos_token_id],
            add_prefix_space=False,
        )
        self._compiler = xgrammar.GrammarCompiler(self._info, max_threads=1)
        self._bitmask = xgrammar.allocate_token_bitmask(1, vocabulary.size)
        self._words = self._bitmask.numpy().view(np.uint32)[0]

    def compile(self, case: Case) -> Any:
        self._compiler.clear_cache()
        if case.format is None:
            return self._compiler.compile_json_schema(json.dumps(case.schema), any_whitespace=False, strict_mode=True)
        source = lark(case.format, case.tools, self._special)
        if source is None:
            return None
        return self._compiler.compile_grammar(self._package.Grammar.from_lark(source, tokenizer_info=self._info))

    def start(self, compiled: Any) -> Any:
        return self._package.GrammarMatcher(compiled)

    def mask(self, matcher: Any) -> None:
        matcher.fill_next_token_bitmask(self._bitmask)

    def advance(self, matcher: Any, token: int) -> None:
        matcher.accept_token(token)


class Glrmask(_Filled):
    """glrmask with one thread and its default strategy: tables of a parser, or a trie where they would be too large.

    A grammar is followed by the token that ends the text, its documented way to have it in the mask.
    """

    name = "glrmask"

    def __init__(self, vocabulary: Vocabulary) -> None:
        os.environ.setdefault("RAYON_NUM_THREADS", "1")
        os.environ.setdefault("GLRMASK_COMPILE_THREADS", "1")
        import glrmask

        self._package, self._special = glrmask, vocabulary.special
        texts = {i: text for i, text in enumerate(vocabulary.tokens) if text is not None}
        self._vocabulary = glrmask.Vocab.from_id_to_bytes(texts)
        self._end = glrmask.TokenSet([vocabulary.stop[0]])
        self._bitmask = np.zeros(vocabulary.words, np.int32)
        self._words = self._bitmask.view(np.uint32)

    def compile(self, case: Case) -> Any:
        if case.format is None:
            grammar = self._package.Grammar.from_json_schema(json.dumps(case.schema))
        else:
            calls = sequences(case.format, case.tools, self._special)
            if calls is None:
                return None
            make = self._package.Expr
            grammar = make.choice(*(make.sequence(*map(self._piece, pieces)) for pieces in calls))
        ended = self._package.Expr.sequence(grammar, self._end)
        return self._package.Grammar.from_expr(ended).compile(self._vocabulary)

    def _piece(self, piece: Piece) -> Any:
        if isinstance(piece, str):
            return self._package.Expr.literal(piece)
        if isinstance(piece, int):
            return self._package.TokenSet([piece])
        if isinstance(piece, re.Pattern):
            return self._package.Grammar.from_lark(f"start: /{piece.pattern}/")
        return self._package.Grammar.from_json_schema(json.dumps(piece))

    def start(self, compiled: Any) -> Any:
        return compiled.start()

    def mask(self, matcher: Any) -> None:
        matcher.fill_mask(self._bitmask)

    def advance(self, matcher: Any, token: int) -> None:
        matcher.commit_token(token)


class _Table:
    """A vocabulary as the peers want it: every id has bytes, special tokens those of their name."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.tokens = [
            text if text is not None else vocabulary.names.get(i, f"<|unused_{i}|>").encode()
            for i, text in enumerate(vocabulary.tokens)
        ]
        self.special_token_ids = [i for i, text in enumerate(vocabulary.tokens) if text is None]
        self.eos_token_id = vocabulary.stop[0]
        self.bos_token_id = None

    def __call__(self, text: bytes | str) -> list[int]:
        return self._vocabulary.tokenize(text if isinstance(text, bytes) else text.encode())


def installed(vocabulary: Vocabulary) -> list[Engine]:
    """Return our engine and those peers that are installed."""
    engines: list[Engine] = [Ours(vocabulary)]
    for package, kind in (("llguidance", Llguidance), ("xgrammar", XGrammar), ("glrmask", Glrmask)):
        if importlib.util.find_spec(package):
            engines.append(kind(vocabulary))
    return engines
