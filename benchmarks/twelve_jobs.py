"""Twelve common jobs beside Outlines, XGrammar, llguidance and instructor: lines, time to a mask, right or wrong.

    python -m constrained.benchmarks.twelve_jobs [--markdown]

Each cell is the code that a user writes, as shown below, from what they hold to the first mask (ready to read it);
setting up the tokenizer is not counted, which each engine does once.  Lines are statements of that code.  Times: the
least of three, each with nothing kept from the last.  "refused" shows the first line of the error.  A cell that fails
or lets something else through says so: `wrong` is a text that must not be allowed, tried token by token.  "no way":
the engine has none of its own, by its documentation.

instructor makes no masks.  It checks what a server has written and asks again; here a server that answers with the text
stands behind it, and a text counts as refused if it is refused once.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from typing import Annotated, Any, Literal

import numpy as np
import torch
from constrained.default_model import WIDTH, load
from pydantic import BaseModel, Field, create_model

import constrained as c

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 14}},
    "required": ["city", "days"],
}
ODD = {
    "type": "object",
    "properties": {"n": {"type": "integer", "multipleOf": 7}},
    "required": ["n"],
    "additionalProperties": False,
}
TOOLS = [{"type": "function", "function": {"name": "forecast", "parameters": SCHEMA}}]
LARK = 'start: "(" start ")" | NUMBER\nNUMBER: /[0-9]+/'
SOURCE = "The sea was calm. The boat was late."
BUDGET = 24  # tokens
CALL = '<tool_call>\n{{"name": "forecast", "arguments": {}}}\n</tool_call>'


class Trip(BaseModel):
    """What task four asks for."""

    city: str
    kind: Literal["work", "leisure"]


class Missing(Exception):
    """An engine has no way to do a job."""


class Ours:
    """constrained."""

    def __init__(self, tokenizer: Any, model: Any) -> None:
        self.v = c.Vocabulary.from_tokenizer(tokenizer, size=WIDTH)

    def fresh(self) -> None:
        self.v.kernels.clear()

    def reads(self, ready: Any, text: str) -> bool:
        try:
            for token in self.v.tokenize(text.encode()):
                ready.advance(token)
        except c.Rejected:
            return False
        return bool(ready.is_accepting())

    def mask(self, ready: Any) -> None:
        ready.fill_mask(np.zeros((1, self.v.words), np.int32))

    def choice(self) -> Any:
        return c.compile(["yes", "no"], self.v).matcher()

    def pattern(self) -> Any:
        return c.compile(c.Grammar.from_regex(r"\d{4}-\d\d"), self.v).matcher()

    def schema(self) -> Any:
        return c.compile(SCHEMA, self.v).matcher()

    def model(self) -> Any:
        return c.compile(Trip, self.v).matcher()

    def grammar(self) -> Any:
        return c.compile(c.Grammar.from_lark(LARK), self.v).matcher()

    def tool(self) -> Any:
        return c.compile(c.ChatFormat.load("hermes").grammar(TOOLS, tool_choice="required"), self.v).matcher()

    def think(self) -> Any:
        return c.compile(c.Grammar.text(until="</think>") + c.Grammar.from_json_schema(SCHEMA), self.v).matcher()

    def odd(self) -> Any:
        return c.compile(ODD, self.v).matcher()

    def date(self) -> Any:
        return c.compile(date, self.v).matcher()

    def quotation(self) -> Any:
        return c.compile(c.Grammar.substring_of(SOURCE), self.v).matcher()

    def budget(self) -> Any:
        return c.compile(SCHEMA, self.v).matcher(budget=BUDGET)

    def either(self) -> Any:
        return c.compile(c.ChatFormat.load("hermes").grammar(TOOLS), self.v).matcher()


class LLGuidance:
    """llguidance."""

    def __init__(self, tokenizer: Any, model: Any) -> None:
        import llguidance
        import llguidance.hf

        self.l, self.t, self.hf = llguidance, llguidance.hf.from_tokenizer(tokenizer, n_vocab=WIDTH), tokenizer

    def fresh(self) -> None:
        """Nothing is kept."""

    def reads(self, ready: Any, text: str) -> bool:
        return all(ready.consume_token(token) for token in self.hf.encode(text, add_special_tokens=False)) and bool(
            ready.is_accepting()
        )

    def mask(self, ready: Any) -> None:
        if ready.is_error():
            raise ValueError(ready.get_error())
        ready.compute_bitmask()

    def choice(self) -> Any:
        return self.l.LLMatcher(self.t, self.l.LLMatcher.grammar_from_regex("yes|no"))

    def pattern(self) -> Any:
        return self.l.LLMatcher(self.t, self.l.LLMatcher.grammar_from_regex(r"\d{4}-\d\d"))

    def schema(self) -> Any:
        return self.l.LLMatcher(self.t, self.l.LLMatcher.grammar_from_json_schema(SCHEMA))

    def model(self) -> Any:
        return self.l.LLMatcher(self.t, self.l.LLMatcher.grammar_from_json_schema(Trip.model_json_schema()))

    def grammar(self) -> Any:
        return self.l.LLMatcher(self.t, self.l.LLMatcher.grammar_from_lark(LARK))

    def tool(self) -> Any:
        call = (
            r'start: <tool_call> "\n{\"name\": \"forecast\", \"arguments\": " args "}\n" </tool_call>'
            + f"\nargs: %json {json.dumps(SCHEMA)}"
        )
        return self.l.LLMatcher(self.t, self.l.LLMatcher.grammar_from_lark(call))

    def think(self) -> Any:
        text = f"start: THOUGHT </think> answer\nTHOUGHT: /(.|\\n)*/\nanswer: %json {json.dumps(SCHEMA)}"
        return self.l.LLMatcher(self.t, self.l.LLMatcher.grammar_from_lark(text))

    def odd(self) -> Any:
        return self.l.LLMatcher(self.t, self.l.LLMatcher.grammar_from_json_schema(ODD))

    def date(self) -> Any:
        schema = {"type": "string", "format": "date"}
        return self.l.LLMatcher(self.t, self.l.LLMatcher.grammar_from_json_schema(schema))

    def quotation(self) -> Any:
        parts = json.dumps([*SOURCE])
        return self.l.LLMatcher(
            self.t, self.l.LLMatcher.grammar_from_lark(f'start: %regex {{"substring_chunks": {parts}}}')
        )

    def budget(self) -> Any:
        raise Missing

    def either(self) -> Any:
        text = (
            r'start: TEXT | <tool_call> "\n{\"name\": \"forecast\", \"arguments\": " args "}\n" </tool_call>'
            + f"\nTEXT: /[^<](.|\\n)*/\nargs: %json {json.dumps(SCHEMA)}"
        )
        return self.l.LLMatcher(self.t, self.l.LLMatcher.grammar_from_lark(text))


class XGrammar:
    """XGrammar."""

    def __init__(self, tokenizer: Any, model: Any) -> None:
        import xgrammar

        self.x, self.hf = xgrammar, tokenizer
        self.info = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=WIDTH)
        self.fresh()

    def fresh(self) -> None:
        self.k = self.x.GrammarCompiler(self.info)

    def reads(self, ready: Any, text: str) -> bool:
        return all(ready.accept_token(token) for token in self.hf.encode(text, add_special_tokens=False)) and bool(
            ready.is_completed()
        )

    def mask(self, ready: Any) -> None:
        ready.fill_next_token_bitmask(self.x.allocate_token_bitmask(1, WIDTH))

    def choice(self) -> Any:
        return self.x.GrammarMatcher(self.k.compile_grammar('root ::= "yes" | "no"'))

    def pattern(self) -> Any:
        return self.x.GrammarMatcher(self.k.compile_regex(r"\d{4}-\d\d"))

    def schema(self) -> Any:
        return self.x.GrammarMatcher(self.k.compile_json_schema(json.dumps(SCHEMA)))

    def model(self) -> Any:
        return self.x.GrammarMatcher(self.k.compile_json_schema(Trip))

    def grammar(self) -> Any:
        return self.x.GrammarMatcher(self.k.compile_grammar(self.x.Grammar.from_lark(LARK)))

    def tool(self) -> Any:
        content = {"type": "json_schema", "json_schema": SCHEMA}
        tag = {
            "type": "tag",
            "begin": '<tool_call>\n{"name": "forecast", "arguments": ',
            "content": content,
            "end": "}\n</tool_call>",
        }
        return self.x.GrammarMatcher(self.k.compile_structural_tag({"type": "structural_tag", "format": tag}))

    def think(self) -> Any:
        thought = {"type": "tag", "begin": "", "content": {"type": "any_text"}, "end": "</think>"}
        parts = {"type": "sequence", "elements": [thought, {"type": "json_schema", "json_schema": SCHEMA}]}
        return self.x.GrammarMatcher(self.k.compile_structural_tag({"type": "structural_tag", "format": parts}))

    def odd(self) -> Any:
        return self.x.GrammarMatcher(self.k.compile_json_schema(json.dumps(ODD)))

    def date(self) -> Any:
        return self.x.GrammarMatcher(self.k.compile_json_schema(json.dumps({"type": "string", "format": "date"})))

    def quotation(self) -> Any:
        raise Missing

    def budget(self) -> Any:
        raise Missing

    def either(self) -> Any:
        begin = '<tool_call>\n{"name": "forecast", "arguments": '
        tag = {"begin": begin, "content": {"type": "json_schema", "json_schema": SCHEMA}, "end": "}\n</tool_call>"}
        found = {"type": "triggered_tags", "triggers": ["<tool_call>"], "tags": [tag]}
        return self.x.GrammarMatcher(self.k.compile_structural_tag({"type": "structural_tag", "format": found}))


class Outlines:
    """Outlines, with the backends that it takes by itself."""

    def __init__(self, tokenizer: Any, model: Any) -> None:
        import outlines
        import outlines.types

        self.o, self.hf, self.m = outlines, tokenizer, outlines.from_transformers(model, tokenizer)

    def spelled(self, task: str, text: str) -> str:
        return text.strip('"') if task == "date" else text  # its dates are texts, not JSON

    def fresh(self) -> None:
        """What it keeps on the disk is keyed by content and stays."""

    def _scores(self, ready: Any, ids: list[int]) -> Any:
        return ready.logits_processor(torch.tensor([ids]), torch.zeros(1, WIDTH))

    def reads(self, ready: Any, text: str) -> bool:
        ids = [0]
        ready.logits_processor.reset()
        for token in self.hf.encode(text, add_special_tokens=False):
            if not torch.isfinite(self._scores(ready, ids)[0, token]):
                return False
            ids.append(token)
        return bool(torch.isfinite(self._scores(ready, ids)[0, self.hf.eos_token_id]))

    def mask(self, ready: Any) -> None:
        ready.logits_processor.reset()
        self._scores(ready, [0])

    def choice(self) -> Any:
        return self.o.Generator(self.m, Literal["yes", "no"])

    def pattern(self) -> Any:
        return self.o.Generator(self.m, self.o.types.Regex(r"\d{4}-\d\d"))

    def schema(self) -> Any:
        return self.o.Generator(self.m, self.o.types.JsonSchema(SCHEMA))

    def model(self) -> Any:
        return self.o.Generator(self.m, Trip)

    def grammar(self) -> Any:
        return self.o.Generator(self.m, self.o.types.CFG(LARK))

    def tool(self) -> Any:
        arguments = self.o.types.JsonSchema(SCHEMA)
        return self.o.Generator(
            self.m, '<tool_call>\n{"name": "forecast", "arguments": ' + arguments + "}\n</tool_call>"
        )

    def think(self) -> Any:
        return self.o.Generator(
            self.m, self.o.types.Regex(r"((?!</think>)[\s\S])*</think>") + self.o.types.JsonSchema(SCHEMA)
        )

    def odd(self) -> Any:
        return self.o.Generator(self.m, self.o.types.JsonSchema(ODD))

    def date(self) -> Any:
        return self.o.Generator(self.m, date)

    def quotation(self) -> Any:
        raise Missing

    def budget(self) -> Any:
        raise Missing

    def either(self) -> Any:
        call = '<tool_call>\n{"name": "forecast", "arguments": ' + self.o.types.JsonSchema(SCHEMA) + "}\n</tool_call>"
        return self.o.Generator(self.m, self.o.types.Regex(r"[^<][\s\S]*") | call)


class Instructor:
    """instructor, in front of a server that answers with the text."""

    def __init__(self, tokenizer: Any, model: Any) -> None:
        import httpx2 as httpx  # what openai 3 speaks with
        import instructor
        import openai

        self.text = ""
        http = httpx.Client(transport=httpx.MockTransport(lambda request: httpx.Response(200, json=self._answer())))
        client = openai.OpenAI(api_key="none", base_url="http://localhost", http_client=http)
        self.client = instructor.from_openai(client, mode=instructor.Mode.JSON)

    def _answer(self) -> dict[str, Any]:
        message = {"role": "assistant", "content": self.text}
        return {"id": "1", "object": "chat.completion", "created": 0, "model": "m",
                "choices": [{"index": 0, "finish_reason": "stop", "message": message}]}  # fmt: skip

    def spelled(self, task: str, text: str) -> str:
        """Return what its server has to write: values that are no objects stand in one, a call is its arguments."""
        if task in ("choice", "pattern", "date"):
            text = json.dumps({"content": text.strip('"')})
        return re.sub(r".*\"arguments\": (.*)}\n</tool_call>", r"\1", text, flags=re.DOTALL)

    def fresh(self) -> None:
        """Nothing is kept."""

    def mask(self, ready: Any) -> None:
        """There are none."""

    def reads(self, ready: Any, text: str) -> bool:
        self.text = text
        try:
            ready()
        except Exception:
            return False
        return True

    def _asked(self, kind: Any) -> Any:
        asked = [{"role": "user", "content": "?"}]
        return lambda: self.client.create(model="m", messages=asked, response_model=kind, max_retries=0)

    def choice(self) -> Any:
        return self._asked(Literal["yes", "no"])

    def pattern(self) -> Any:
        return self._asked(Annotated[str, Field(pattern=r"^\d{4}-\d\d$")])

    def schema(self) -> Any:
        return self._asked(create_model("Days", city=(str, ...), days=(int, Field(ge=1, le=14))))

    def model(self) -> Any:
        return self._asked(Trip)

    tool = schema  # the function is the class

    def odd(self) -> Any:
        return self._asked(create_model("Odd", n=(int, Field(multiple_of=7))))

    def date(self) -> Any:
        return self._asked(create_model("Day", content=(date, ...)))


GOOD = '{"city": "Oslo", "days": 3}'
# task: what it is, a text of it, one that is none
TASKS = {
    "choice": ("one of two texts", "yes", "maybe"),
    "pattern": ("a regular expression", "2026-11", "2026/11"),
    "schema": ("a JSON Schema with bounds", GOOD, '{"city": "Oslo", "days": 30}'),
    "model": ("a pydantic model", '{"city": "Oslo", "kind": "work"}', '{"city": "Oslo", "kind": "play"}'),
    "grammar": ("a Lark grammar that recurs", "((12))", "((12)"),
    "tool": ("a tool call of a chat format", CALL.format(GOOD), CALL.format("{}")),
    "think": ("think, then an answer by schema", "Well.</think>" + GOOD, "Well." + GOOD),
    "odd": ("a keyword that few take: multipleOf 7", '{"n": 21}', '{"n": 22}'),
    "date": ("a date", '"2026-02-28"', '"2026-02-30"'),
    "quotation": ("a quotation, to the letter", "The boat", "The ship"),
    "either": ("an answer or a tool call", CALL.format(GOOD), CALL.format("{}")),
    "budget": (f"JSON by schema in {BUDGET} tokens, never cut", GOOD, GOOD.replace("Oslo", "x" * 99)),
}
ENGINES: tuple[Any, ...] = (Ours, Outlines, XGrammar, LLGuidance, Instructor)


def lines_of(function: Callable[..., Any]) -> int:
    """Return the statements of a cell's code."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return sum(isinstance(node, ast.stmt) for node in ast.walk(tree)) - 1


def cell(engine: Any, task: str) -> dict[str, Any]:
    """Return what an engine makes of a task."""
    good, wrong = (getattr(engine, "spelled", lambda task, text: text)(task, text) for text in TASKS[task][1:])
    found: dict[str, Any] = {}
    taken = []
    try:
        for _ in range(3):
            engine.fresh()
            before = time.process_time()
            ready = getattr(engine, task)()
            engine.mask(ready)
            taken.append(time.process_time() - before)
        times = {} if isinstance(engine, Instructor) else {"ms": round(min(taken) * 1e3, 2)}
        found = {"lines": lines_of(getattr(type(engine), task)), **times}
        if not engine.reads(getattr(engine, task)(), good):
            found["says"] = f"does not allow `{good}`"
        elif engine.reads(getattr(engine, task)(), wrong):
            found["says"] = f"allows `{wrong}`"
        else:
            found["says"] = "right"
    except (Missing, AttributeError):
        found["says"] = "no way"
    except Exception as error:
        found["says"] = f"refused: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:110]
    return found


def table() -> Iterator[dict[str, Any]]:
    """Yield the cells."""
    model, tokenizer = load()
    # The markers as text: no engine writes special tokens by the same means, and this is about something else.
    plain = type(tokenizer)(
        tokenizer_object=tokenizer.backend_tokenizer, bos_token=tokenizer.bos_token, eos_token=tokenizer.eos_token
    )
    for kind in ENGINES:
        try:
            engine = kind(plain, model)
        except ImportError:
            yield {"engine": kind.__name__, "task": "all", "says": "not installed"}
            continue
        for task in TASKS:
            yield {"engine": kind.__name__, "task": task, **cell(engine, task)}


def markdown(cells: Sequence[dict[str, Any]]) -> str:
    """Return the table of all cells, a row a job."""
    engines = list(dict.fromkeys(one["engine"] for one in cells))
    by = {(one["task"], one["engine"]): one for one in cells}
    lines = [f"| job | {' | '.join(engines)} |", f"| --- |{' --- |' * len(engines)}"]
    for task, (what, _, _) in TASKS.items():
        found = [by.get((task, engine), {"says": "not installed"}) for engine in engines]
        parts = [[one["says"], *(f"{one[key]} {key}" for key in ("lines", "ms") if key in one)] for one in found]
        parts = [[re.sub("^1 lines$", "1 line", text).replace("no way", "–") for text in part] for part in parts]
        texts = ["<br>".join(part) for part in parts]
        lines.append(f"| {what} | {' | '.join(text.replace('|', chr(92) + '|') for text in texts)} |")
    return "\n".join(lines)


def main() -> None:
    """Print the cells as they come, or all as a table."""
    warnings.simplefilter("ignore")
    cells = []
    for entry in table():
        cells.append(entry)
        if "--markdown" not in sys.argv:
            print(
                f"{entry['task']:9} {entry['engine']:11} {entry.get('lines', ''):>2} lines {entry.get('ms', ''):>8} ms"
                f"  {entry['says']}",
                flush=True,
            )
    if "--markdown" in sys.argv:
        print(markdown(cells))


if __name__ == "__main__":
    main()
