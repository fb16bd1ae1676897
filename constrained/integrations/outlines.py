"""Outlines: ``outlines.Generator(model, processor=processor(constraint, model))``, and its output types as grammars.

Its own backends answer one row's question with another row's state where rows change places (version 1.3.3, three
beams: text outside the grammar); the processors here go by what a row says.  `generator` does all at once:
``generator(model, list[int])("Numbers:", max_new_tokens=40)``.

Types mean what they mean there: ``bool`` is True or False, ``int`` digits, classes and ``JsonSchema`` JSON on one line,
``CFG`` a Lark text, terms what they are made of.  Nothing is patched: Outlines has no registry of backends, so
``outlines.Generator(model, int)`` asks its own.

Tested in tests/hosts/test_outlines.py.
"""

from __future__ import annotations

import json
from functools import reduce
from typing import Any

from outlines import Generator
from outlines.types import dsl

from constrained.engine.compiled import CompiledGrammar, compile_grammar
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.errors import ConstrainedError, GrammarError, SchemaError
from constrained.grammar import Grammar
from constrained.integrations.held import vocabulary_of
from constrained.work import metered


def grammar_of(output_type: Any) -> Grammar:
    """Return the grammar of what Outlines would generate for a type or term.

    Raises: GrammarError, SchemaError: it cannot be read.  TypeError: Outlines does not know it.  LimitExceeded: it is
    too large.
    """
    with metered():  # its parts have one budget
        try:
            return _of_term(dsl.python_types_to_terms(output_type))
        except RecursionError as error:
            raise GrammarError("no grammar for a type", because="it is nested too deeply") from error


def _of_term(term: Any) -> Grammar:
    if isinstance(term, dsl.JsonSchema):
        return Grammar.from_json_schema(_schema(term), profile="practical")
    if isinstance(term, dsl.CFG):
        return Grammar.from_lark(term.definition)
    if isinstance(term, dsl.Regex):
        return Grammar.from_regex(term.pattern)
    if isinstance(term, dsl.String):
        return Grammar.choice([term.value])
    if isinstance(term, dsl.Choice):
        return _any_of([_of_term(dsl.python_types_to_terms(item)) for item in term.items])
    if isinstance(term, dsl.Alternatives):
        return _any_of([_of_term(part) for part in term.terms])
    if isinstance(term, dsl.Sequence):
        return reduce(lambda one, two: one + two, map(_of_term, term.terms))
    bounds = _bounds(term)
    if bounds is None:
        raise GrammarError(
            f"no grammar for {type(term).__name__}", because="it is a term of Outlines that is not known here",
            instead="Grammar.from_lark",
        )
    return _of_term(term.term).repeat(*bounds)


def _any_of(grammars: list[Grammar]) -> Grammar:
    if not grammars:
        raise GrammarError("a choice of nothing", instead="one thing at least to choose from")
    return reduce(lambda one, two: one | two, grammars)


def _bounds(term: Any) -> tuple[int, int | None] | None:
    """Return how often a term may come, None where it is no repetition."""
    counts = {dsl.Optional: (0, 1), dsl.KleeneStar: (0, None), dsl.KleenePlus: (1, None)}
    if type(term) in counts:
        return counts[type(term)]
    if isinstance(term, dsl.QuantifyExact):
        return term.count, term.count
    if isinstance(term, dsl.QuantifyMinimum):
        return term.min_count, None
    if isinstance(term, dsl.QuantifyMaximum):
        return 0, term.max_count
    return (term.min_count, term.max_count) if isinstance(term, dsl.QuantifyBetween) else None


def _schema(term: Any) -> Any:
    try:
        return json.loads(term.schema)
    except (TypeError, ValueError, RecursionError) as error:
        raise SchemaError("a JsonSchema of Outlines is no JSON", because=str(error)[:200]) from error


def processor(constraint: CompiledGrammar, model: Any, *, max_new_tokens: int | None = None) -> Any:
    """Return the processor of a constraint for a model of Outlines that runs transformers, llama.cpp or mlx-lm.

    Raises: ConstrainedError: for models behind an interface, which take no processors.
    """
    kind = type(model).__name__
    if kind in ("Transformers", "TransformersMultiModal"):
        from constrained.integrations import transformers

        return transformers.logits_processor(constraint, max_new_tokens=max_new_tokens)
    if kind == "LlamaCpp":
        from constrained.integrations import llama_cpp

        return llama_cpp.logits_processor(constraint, max_new_tokens=max_new_tokens)
    if kind == "MLXLM":
        from constrained.integrations import mlx_lm

        return mlx_lm.logits_processor(constraint, max_new_tokens=max_new_tokens)
    raise ConstrainedError(
        f"no processor for {kind}", because="Outlines hands processors to Transformers, LlamaCpp and MLXLM only"
    )


def vocabulary_of_model(model: Any) -> Vocabulary:
    """Return the vocabulary of a model of Outlines."""
    if type(model).__name__ == "LlamaCpp":
        from constrained.integrations import llama_cpp

        return llama_cpp.vocabulary_of(model.model)
    if type(model).__name__ == "MLXLM":
        from constrained.integrations import mlx_lm

        return mlx_lm.vocabulary_of(model.model, model.mlx_tokenizer)
    return vocabulary_of(model.hf_tokenizer, size=model.model.config.get_text_config().vocab_size)


def generator(model: Any, output_type: Any, *, max_new_tokens: int | None = None) -> Any:
    """Return an `outlines.Generator` that keeps a model inside a type, a `Grammar` or a `Constraint`.

    max_new_tokens: every text ends as a word within so many tokens.
    """
    if isinstance(output_type, CompiledGrammar):
        constraint = output_type
    else:
        constraint = compile_grammar(
            output_type if isinstance(output_type, Grammar) else grammar_of(output_type), vocabulary_of_model(model)
        )
    return Generator(model, processor=processor(constraint, model, max_new_tokens=max_new_tokens))
