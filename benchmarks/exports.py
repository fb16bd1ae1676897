"""Do exported grammars give our verdicts in llguidance and XGrammar?

Every format with a tool, a few schemas: texts from random walks, whole and damaged, are judged by us and by the engine
that loads the export. XGrammar also reads the GBNF; llama.cpp itself is not run.  Texts spell special tokens, which the
engines are given as text.

    python -m constrained.benchmarks.exports [--formats hermes,chatglm3] [--texts 20]
"""

from __future__ import annotations

import argparse
import importlib
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from constrained import ChatFormat, ConstrainedError, Grammar, Rejected, Vocabulary, compile
from constrained.grammar import Literal, Rule, Special, Symbol
from constrained.integrations.exports import export

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
    said, texts, wrong = [f"{name:20}"], texts_of(grammar, count, picks), 0
    ours = [accepts(grammar, text) for text in texts]
    for target, engine in ENGINES.items():
        load = engine()
        try:
            theirs = None if load is None else list(map(load(export(grammar, target)), texts))
        except (ConstrainedError, AssertionError, RuntimeError) as error:
            said.append(f"{target}: refused, {str(error).splitlines()[0][:70]}")
            continue
        differ = 0 if theirs is None else sum(a is not b for a, b in zip(ours, theirs, strict=True))
        wrong += differ
        agree = "not installed" if theirs is None else f"{len(texts) - differ} of {len(texts)} agree"
        said.append(f"{target}: {agree}")
    return "  ".join(said), wrong


def of_format(name: str) -> Grammar:
    """Return a format's grammar in which the tool must be called."""
    chat = ChatFormat.load(name)
    tools, choice = (TOOLS, "required") if chat.definition.payload is not None else (None, "auto")
    return without_specials(chat.grammar(tools, tool_choice=choice))


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
        try:
            line, differ = row(name, make(), options.texts, picks)
        except ConstrainedError as error:
            line, differ = f"{name:20}  not compared: {str(error).splitlines()[0][:90]}", 0
        wrong += differ
        print(line, flush=True)
    print(f"{wrong} verdicts differ")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
