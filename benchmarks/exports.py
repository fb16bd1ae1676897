"""Do exported grammars give our verdicts in llguidance and XGrammar?

Every format with a tool, a few schemas: texts from random walks, whole and damaged, are judged by us and by the engine
that loads the export. XGrammar also reads the GBNF; llama.cpp itself is not run.  Texts spell special tokens, which the
engines are given as text; structural tags are given the tokens themselves, without those that end a turn.

    python -m constrained.benchmarks.exports [--formats hermes,chatglm3] [--texts 20]
"""

from __future__ import annotations

import argparse
import importlib
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from constrained.export.engines import STRUCTURAL_TAGS, export

from constrained import ChatFormat, ConstrainedError, Constraint, Grammar, Rejected, Vocabulary, compile
from constrained.grammar import Literal, Rule, Special, Symbol

BYTES = Vocabulary([bytes([byte]) for byte in range(256)], special={"<end>": 256}, stop=[256], size=257)
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "maxLength": 8},
                    "days": {"type": "integer", "minimum": 0, "maximum": 9},
                },
                "required": ["city"],
            },
        },
    }
]
SCHEMAS: dict[str, Any] = {
    "object": TOOLS[0]["function"]["parameters"],
    "enum": {"enum": ["a", 1, None]},
    "array": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
}
Judge = Callable[[str], bool]


def accepts(grammar: Grammar, text: str) -> bool:
    """Return our own verdict."""
    matcher = compile(grammar, BYTES, spell_missing=True).matcher()
    try:
        for byte in text.encode():
            matcher.advance(byte)
    except Rejected:
        return False
    return matcher.is_accepting()


def llguidance() -> Callable[[str], Judge] | None:
    """Return what loads a grammar into llguidance, None where it is not installed."""
    try:
        engine = importlib.import_module("llguidance")
    except ImportError:
        return None
    tokenizer = engine.LLTokenizer("byte")

    def load(grammar: str) -> Judge:
        def judge(text: str) -> bool:
            matcher = engine.LLMatcher(tokenizer, grammar)
            assert not matcher.is_error(), matcher.get_error()
            data = list(text.encode())
            return bool(matcher.try_consume_tokens(data) == len(data) and matcher.is_accepting())

        return judge

    return load


def xgrammar() -> Callable[[str], Judge] | None:
    """Return what loads a grammar into XGrammar, None where it is not installed."""
    try:
        engine = importlib.import_module("xgrammar")
    except ImportError:
        return None
    tokens = [bytes([byte]) for byte in range(256)] + [b"</s>"]
    compiler = engine.GrammarCompiler(
        engine.TokenizerInfo(tokens, engine.VocabType.RAW, vocab_size=257, stop_token_ids=[256])
    )

    def load(grammar: str) -> Judge:
        compiled = compiler.compile_grammar(engine.Grammar.from_ebnf(grammar))

        def judge(text: str) -> bool:
            matcher = engine.GrammarMatcher(compiled)
            return all(matcher.accept_token(byte) for byte in text.encode()) and bool(matcher.accept_token(256))

        return judge

    return load


ENGINES: dict[str, Callable[[], Callable[[str], Judge] | None]] = {
    "llguidance": llguidance,
    "xgrammar": xgrammar,
    "gbnf": xgrammar,
}


def judge_of_tags(tag: str, specials: Sequence[str]) -> Callable[[Sequence[int]], bool] | None:
    """Return XGrammar's verdict about bytes and special tokens (256 and on) by a structural tag, None: absent."""
    try:
        engine = importlib.import_module("xgrammar")
    except ImportError:
        return None
    tokens = [bytes([byte]) for byte in range(256)] + [name.encode() for name in (*specials, "</s>")]
    end = len(tokens) - 1
    info = engine.TokenizerInfo(tokens, engine.VocabType.RAW, vocab_size=len(tokens), stop_token_ids=[end])
    compiled = engine.GrammarCompiler(info).compile_structural_tag(tag)

    def judge(ids: Sequence[int]) -> bool:
        matcher = engine.GrammarMatcher(compiled)
        return all(map(matcher.accept_token, ids)) and bool(matcher.accept_token(end))

    return judge


def tags_agree(grammar: Grammar, count: int, picks: random.Random) -> tuple[str, int]:
    """Return what is to be said of a grammar's structural tag, and how many verdicts differ: of words from random
    walks, whole and damaged, without the tokens that end a turn.
    """
    tag, specials = export(grammar, STRUCTURAL_TAGS), sorted(grammar.specials)
    judge = judge_of_tags(tag, specials)
    if judge is None:
        return "not installed", 0
    tokens = [bytes([byte]) for byte in range(256)] + [None] * (len(specials) + 1)
    names = {name: 256 + at for at, name in enumerate((*specials, "<end>"))}
    vocabulary = Vocabulary(tokens, special=names, stop=[len(tokens) - 1], size=len(tokens))
    constraint, stops = compile(grammar, vocabulary), [names[name] for name in grammar.stops]
    wrong, said = 0, bodies_of(constraint, stops, count, picks)
    for body, spelled in said:
        ends = [[], *([stop] for stop in stops)]
        ours = any(_is_word(constraint, [*read, *end]) for read in (body, spelled) for end in ends)
        wrong += ours is not judge(body)
    return f"{len(said) - wrong} of {len(said)} agree", wrong


def bodies_of(
    constraint: Constraint, stops: Sequence[int], count: int, picks: random.Random
) -> list[tuple[list[int], list[int]]]:
    """Return words without the tokens that end them, and damaged ones; each also with the special token that was put
    into it as its text, as which XGrammar takes it too.
    """
    names, found = constraint.vocabulary.names, list[tuple[list[int], list[int]]]()
    while len(found) < count:
        matcher = constraint.matcher()
        for _ in range(picks.randint(0, 30)):
            allowed = [token for token in range(constraint.vocabulary.size) if matcher.accepts(token)]
            if not allowed or matcher.is_finished():
                break
            matcher.advance(picks.choice(allowed))
        word = [*matcher.tokens, *matcher.shortest_completion()]
        while word and word[-1] in (*stops, *constraint.vocabulary.stop):
            word.pop()
        try:
            bytes(token for token in word if token < 256).decode()
        except UnicodeDecodeError:
            continue
        at = picks.randrange(len(word) + 1)
        inner = [token for token in names if token not in (*stops, *constraint.vocabulary.stop)]
        other = picks.choice([*b'"}<a ', *inner])
        spelled = [other] if other < 256 else list(names[other].encode())
        shorter, longer = word[:at] + word[at + 1 :], [*word[:at], other, *word[at:]]
        found += [(word, word), (shorter, shorter), (longer, [*word[:at], *spelled, *word[at:]])]
    return found[:count]


def _is_word(constraint: Constraint, ids: Sequence[int]) -> bool:
    matcher = constraint.matcher()
    try:
        for token in ids:
            matcher.advance(token)
    except Rejected:
        return False
    return matcher.is_accepting()


def texts_of(grammar: Grammar, count: int, picks: random.Random) -> list[str]:
    """Return words of a grammar, and damaged ones."""
    constraint, found = compile(grammar, BYTES, spell_missing=True), list[str]()
    while len(found) < count:
        matcher = constraint.matcher()
        for _ in range(picks.randint(0, 30)):
            allowed = [byte for byte in range(256) if matcher.accepts(byte)]
            if not allowed:
                break
            matcher.advance(picks.choice(allowed))
        try:
            text = (bytes(matcher.tokens) + bytes(matcher.shortest_completion())).decode()
        except (UnicodeDecodeError, ConstrainedError):
            continue
        at = picks.randrange(len(text) + 1)
        found += [text, text[:at] + text[at + 1 :], text[:at] + picks.choice('"}<a ') + text[at:]]
    return found[:count]


def without_specials(grammar: Grammar) -> Grammar:
    """Return a grammar with its special tokens as text, those that it only declares too, so that bytes can judge it.

    Raises: GrammarError: an embedded schema writes such a token.
    """
    rules = {
        name: Rule(name, tuple(tuple(map(_spelled, sequence)) for sequence in rule.alternatives))
        for name, rule in grammar.rules.items()
    }
    return replace(grammar, rules=rules).without_specials(sorted(grammar.specials))


def _spelled(symbol: Symbol) -> Symbol:
    return Literal(symbol.name) if isinstance(symbol, Special) else symbol


def row(name: str, grammar: Grammar, count: int, picks: random.Random) -> tuple[str, int]:
    """Return the line of a grammar, and how many verdicts differ."""
    said, wrong = [f"{name:20}"], 0
    for compared in (_texts_agree, lambda *given: [(STRUCTURAL_TAGS, *tags_agree(*given))]):
        try:
            for target, agree, differ in compared(grammar, count, picks):
                said.append(f"{target}: {agree}")
                wrong += differ
        except ConstrainedError as error:
            said.append(f"not compared, {_reason(error)}")
    return "  ".join(said), wrong


def _reason(error: Exception) -> str:
    """Return what a cell says of an error: what is refused and why, on one line."""
    return " ".join(line.strip() for line in str(error).splitlines()[:2])[:200]


def _texts_agree(grammar: Grammar, count: int, picks: random.Random) -> Iterator[tuple[str, str, int]]:
    """Yield for each engine that takes texts what is to be said, and how many verdicts differ."""
    spelled = without_specials(grammar)
    texts = texts_of(spelled, count, picks)
    ours = [accepts(spelled, text) for text in texts]
    for target, engine in ENGINES.items():
        load = engine()
        try:
            theirs = None if load is None else list(map(load(export(spelled, target)), texts))
        except (ConstrainedError, AssertionError, RuntimeError) as error:
            yield target, f"refused, {_reason(error)}", 0
            continue
        differ = 0 if theirs is None else sum(a is not b for a, b in zip(ours, theirs, strict=True))
        yield target, "not installed" if theirs is None else f"{len(texts) - differ} of {len(texts)} agree", differ


def of_format(name: str) -> Grammar:
    """Return a format's grammar in which the tool must be called."""
    chat = ChatFormat.load(name)
    tools, choice = (TOOLS, "required") if chat.definition.payload is not None else (None, "auto")
    return chat.grammar(tools, tool_choice=choice)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--formats", default=",".join(ChatFormat.names()))
    parser.add_argument("--texts", type=int, default=20)
    options = parser.parse_args(arguments)
    made: dict[str, Callable[[], Grammar]] = {
        name: partial(Grammar.from_json_schema, schema, profile="practical") for name, schema in SCHEMAS.items()
    }
    made |= {name: partial(of_format, name) for name in filter(None, options.formats.split(","))}
    wrong, picks = 0, random.Random(0)
    for name, make in made.items():
        line, differ = row(name, make(), options.texts, picks)
        wrong += differ
        print(line, flush=True)
    print(f"{wrong} verdicts differ")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
