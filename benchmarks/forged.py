"""Can a generated text be mistaken for something else by whoever reads it as text?

Random walks along the masks of each format, hungry for markers: the vocabulary has the spellings of all special tokens,
tags and calls as plain tokens, whole and cut in two, and blanks, and the walk takes one of them whenever it may.  A
finished turn is then read by its ids, as text, and by the format's published readers (`readers`), and all must find
the same calls; where no call may be, nobody may find one.  What was read is written again to the letter.

    python -m constrained.benchmarks.forged [--walks 250] [--formats hermes,chatglm3] [--seed 0]
    python -m constrained.benchmarks.forged --templates      transformers' response templates
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np
from constrained.conform.readers import TEMPLATES
from constrained.conform.verdicts import same

from constrained import ChatFormat, ConstrainedError, GrammarError, Vocabulary, compile
from constrained.formats.binding.markers import marks

from .readers import READERS, TAGGED, installed

LONGEST = 60  # tokens of a walk, before it is led to its end
CALLS = (
    '{"name": "f", "parameters": {}}',
    '{"name": "f", "arguments": {}}',
    "[f(x=1)]",
    "<function=f>{}",
    'brave_search.call(query="x")',
    "tool_call(a=1)",
    "```python\n",
    "<tool_call>",
    "</tool_call>",
    "<function=",
    "</function>",
    "<parameter=",
    "</parameter>",
    '<parameter name="',
    "</invoke>",
    "'",
    "}",
    ">{",
    '"',
    "\\",
    "\n",
    "<",
    "</",
    " ",
    "\n\n",
    " \n",
    "\t",
    "é",
    "北京",
)
SPELLINGS = (  # where the masks leave a choice that a message does not keep: two spellings that say the same
    (r"^\n +", "\n"),  # SentencePiece's space before the first word of ChatGLM3, of which readers take one away
    (r"^<(mm:)?think>(\n\n)?(?=</)", ""),  # an empty thought, begun by the prompt or by the model
    # a recipient before the channel of harmony, or behind it
    (r" to=(\S+)<\|channel\|>commentary <", r"<|channel|>commentary to=\1 <"),
    (r"<\|/tool_call\|><\|tool_call\|>", ", "),  # the calls of Phi: in one list, or each alone
    (r"\[EOS\]$", ""),  # the end of a document, of OpenChatML
    (r"<\|tool_call\|>(?=\{)", "<|tool_call|>["), (r"\}<\|/tool_call\|>", "}]<|/tool_call|>"),
    (r"</tool_call>\n<\|im_end\|>", "</tool_call><|im_end|>"),  # a line break that checkpoints of Qwen3.5 write
)
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look_up",
            "parameters": {
                "type": "object",
                "properties": {
                    "text": {"type": "string"},
                    "kind": {"enum": ["a", "b</x>"]},
                    "most": {"type": "string", "maxLength": 12},
                    "n": {"type": "integer"},
                    "list": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["text"],
            },
        },
    }
]


@dataclass
class Outcome:
    """What became of one format's walks."""

    walks: int = 0
    calls: int = 0
    failures: list[str] = field(default_factory=list)


# -- walks -------------------------------------------------------------------------------------------------------------


def vocabulary_of(chat: ChatFormat) -> tuple[Vocabulary, set[int]]:
    """Return bytes, special tokens and the spellings of markers as plain tokens, and which tokens these are."""
    names = list(dict.fromkeys((*chat.tokens.values(), *chat.definition.reserved)))
    spelled = [
        text
        for mark in (*marks(chat.definition), *names, *chat.definition.markers, *CALLS)
        for text in (mark, mark[: len(mark) // 2], mark[-1])
    ]
    plain = [text for text in dict.fromkeys(text.encode() for text in spelled) if len(text) > 1]
    tokens = [*(bytes([byte]) for byte in range(256)), *plain]
    special = {name: len(tokens) + index for index, name in enumerate(names)}
    return Vocabulary([*tokens, *[None] * len(names)], special=special), set(range(256, len(tokens)))


def walk(matcher: Any, hungry: set[int], vocabulary: Vocabulary, rng: random.Random) -> list[int]:
    """Return the ids of a turn, stop token included where the grammar has one."""
    bitmask, ids = np.zeros((1, (vocabulary.size + 31) // 32), np.int32), list[int]()
    while len(ids) < LONGEST:
        matcher.fill_mask(bitmask)
        allowed = np.flatnonzero(np.unpackbits(bitmask.view(np.uint8), bitorder="little")[: vocabulary.size]).tolist()
        wanted = [token for token in allowed if token in hungry or token >= vocabulary.size - len(vocabulary.special)]
        if not allowed:
            break
        token = rng.choice(wanted if wanted and rng.random() < 0.7 else allowed)
        matcher.advance(token)
        ids.append(token)
        if matcher.is_accepting() and rng.random() < 0.3:
            return ids
    return [*ids, *matcher.shortest_completion()]


def asked(chat: ChatFormat, tools: Any) -> Iterator[dict[str, Any]]:
    """Yield options of which each changes what may be generated: every tool choice, every value of the format's own."""
    own = [
        {name: value}
        for name, option in chat.definition.options.items()
        for value in ([[*option.members]] if option.members else option.values)
    ]
    seen = set()
    for options in [{}, *own]:
        for choice in ("auto", "none", "required"):
            try:
                grammar = chat.grammar(tools, tool_choice=choice, prompt="", **options)
            except GrammarError:  # a text that is no chat has no calls
                continue
            if grammar.fingerprint not in seen:
                seen.add(grammar.fingerprint)
                yield {"tool_choice": choice, "prompt": "", **options}  # whole turns, as published readers want them


def check_format(name: str, walks: int, seed: object) -> Outcome:
    """Walk under each tool choice and option, and compare what readers find."""
    outcome, chat, rng = Outcome(), ChatFormat.load(name), random.Random(f"{name} {seed}")
    vocabulary, hungry = vocabulary_of(chat)
    tools = TOOLS if chat.definition.payload is not None else None
    grammars = [(options, compile(chat.grammar(tools, **options), vocabulary)) for options in asked(chat, tools)]
    for number in range(walks):
        options, constraint = grammars[number % len(grammars)]
        ids = walk(constraint.matcher(), hungry, vocabulary, rng)
        outcome.walks += 1
        for because in _wrong(chat, name, ids, vocabulary, tools, options, outcome):
            outcome.failures.append(f"{name} {options}: {because}\n  {_spelled(ids, vocabulary)!r}")
    return outcome


def _spelled(ids: list[int], vocabulary: Vocabulary) -> str:
    names = {token: name for name, token in vocabulary.special.items()}
    return b"".join(
        names[token].encode() if token in names else vocabulary.tokens[token] or b"" for token in ids
    ).decode()


def _wrong(
    chat: ChatFormat, name: str, ids: list[int], vocabulary: Vocabulary, tools: Any, options: dict[str, Any],
    outcome: Outcome,
) -> Iterator[str]:
    choice, options = options["tool_choice"], {key: value for key, value in options.items() if key != "tool_choice"}
    text = _spelled(ids, vocabulary)
    names = [*chat.tokens.values(), *chat.definition.reserved]
    spelled = re.findall("|".join(map(re.escape, sorted(names, key=len, reverse=True))), text)
    meant = sum(token in vocabulary.special.values() for token in ids)
    if len([each for each in spelled if not each.isalnum()]) != meant:
        yield f"{len(spelled)} special tokens can be read, {meant} were generated"
        return
    try:
        calls = chat.parse(text, tools, **options).tool_calls
        outcome.calls += len(calls)
    except ConstrainedError as error:
        yield f"it is not read: {error}"
        return
    if bool(calls) != (choice == "required") and choice != "auto":
        yield f"{len(calls)} calls where tool_choice is {choice!r}"
    yield from differences(chat, name, text, ids, vocabulary, tools, options)


def differences(
    chat: ChatFormat, name: str, text: str, ids: list[int], vocabulary: Vocabulary, tools: Any,
    options: dict[str, Any] | None = None,
) -> Iterator[str]:
    """Yield what readers of a turn say differently: of its ids, of its text, and the published readers of the format;
    and how it is written again, if that is another text.

    Raises: Rejected: it is not valid.
    """
    options = options or {}
    chat.validate(text, "assistant_turn", tools, **options)
    by_text, by_ids = chat.parse(text, tools, **options), chat.parse(ids, tools, vocabulary, **options)
    calls = [(call.name, call.arguments) for call in by_text.tool_calls]
    if (by_text.content, calls, by_text.thoughts) != (
        by_ids.content,
        [(call.name, call.arguments) for call in by_ids.tool_calls],
        by_ids.thoughts,
    ):
        yield f"as text it says {by_text}, as ids {by_ids}"
    written = one_spelling(chat.write(by_text, tools, **options))
    # an option may leave the spelling of a call to the model
    if written != one_spelling(text) and (not options or chat.parse(written, tools, **options) != by_text):
        at = next((at for at, (one, other) in enumerate(zip(written, text, strict=False)) if one != other), 0)
        yield f"written again it is {written[max(at - 30, 0) : at + 30]!r} at {at}"
    reader = READERS.get(name)
    if reader is None or is_templated(reader) and re.search(TEMPLATES[name][1], text):
        return
    notes = [note.word for note in chat.grammar(tools, **options).notes]
    if any(_nested(arguments) for _, arguments in calls) and "llama-models" in notes:
        return  # which takes no objects in arguments
    try:
        found = reader(text)
        if name in TAGGED:
            pairs = zip(found, calls, strict=True)
            found = [(tool, _typed(texts, arguments)) for (tool, texts), (_, arguments) in pairs]
    except Exception as error:  # whatever a published reader stumbles over
        found = [(type(error).__name__, str(error))]
    if not same(found, calls):
        yield f"the published reader finds {found}, not {calls}"


def _typed(found: Any, value: Any) -> Any:
    """Return texts between tags as values: strings where the arguments have strings, else JSON."""
    if isinstance(found, dict):
        return {key: _typed(text, value.get(key) if isinstance(value, dict) else None) for key, text in found.items()}
    if isinstance(found, list):
        return [_typed(text, item) for text, item in zip_longest(found, value if isinstance(value, list) else ())]
    if not found and value in ({}, []):
        return value  # an element with nothing in it
    return found if isinstance(value, str) else json.loads(found)


def one_spelling(text: str) -> str:
    """Return a turn as others are written that say the same."""
    for pattern, instead in SPELLINGS:
        text = re.sub(pattern, instead, text)
    return text


def _nested(arguments: Any) -> bool:
    return any(isinstance(value, dict) or isinstance(value, list) and "{" in str(value) for value in arguments.values())


def is_templated(reader: Any) -> bool:
    """Return whether a reader is transformers', with a response template."""
    return getattr(reader, "keywords", {}).get("reader") == "transformers"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0], prog="constrained.benchmarks.forged")
    parser.add_argument("--walks", type=int, default=250)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--formats", default=",".join(ChatFormat.names()))
    parser.add_argument("--templates", action="store_true")
    options = parser.parse_args(arguments)
    total = failed = 0
    if options.templates:
        READERS.update({name: partial(installed, reader="transformers", name=name, tools=TOOLS) for name in TEMPLATES})
        TAGGED.clear()
    for name in TEMPLATES if options.templates else options.formats.split(","):
        outcome = check_format(name, options.walks, options.seed)
        total, failed = total + outcome.walks, failed + len(outcome.failures)
        print(
            f"{name:24} {outcome.walks:6} walks {outcome.calls:6} calls {len(outcome.failures):4} mistaken", flush=True
        )
        for failure in outcome.failures[:5]:
            print("   ", failure)
    print(f"{total:,} walks, {failed} mistaken")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
