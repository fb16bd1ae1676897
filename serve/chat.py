"""The body of a chat completion → what is generated → the parts of the answer.

A body is read strictly: what is unknown or cannot be kept is an error that names the parameter, never passed over.
Streamed or not, an answer is made of the same parts, in the order of the events of the format's stream parser.

Tested in tests/hosts/test_serve.py, by the client that OpenAI publishes.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from constrained.serve.engine import Engine, Generation, Sampling, Token

import constrained as c
from constrained.formats import Message
from constrained.formats.streaming import ArgumentDelta, CallFinished, CallStarted, TextDelta, ThoughtDelta

Json = dict[str, Any]
READ = {
    "model", "messages", "tools", "tool_choice", "parallel_tool_calls", "response_format", "reasoning_effort",
    "reasoning_budget", "stream", "stream_options", "logprobs", "top_logprobs", "max_tokens", "max_completion_tokens",
    "n", "stop", "seed", "temperature", "top_p", "logit_bias",
}  # fmt: skip
ABOUT = {"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"}  # nothing is done of it
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may ask for, and how many may be under way; see docs/security.md."""

    body: int = 2 << 20  # bytes
    tools: int = 128
    choices: int = 16
    tokens: int = 4096  # of an answer, also of one that does not say how many it wants
    requests: int = 256  # under way
    work: int = 1_000_000  # units: of reading a request, and of its constraint
    deadline: float = 10.0  # seconds: of one compilation, of one mask
    patience: float = 600.0  # seconds: of a whole answer


class BadRequest(Exception):
    """A request cannot be served as it stands; param, code and status as OpenAI has them."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.param, self.code, self.status = param, code, status


@contextmanager
def blaming(param: str) -> Iterator[None]:
    """Turn errors of the package into those of a request, which blame a parameter."""
    try:
        yield
    except c.LimitExceeded as error:
        raise BadRequest(str(error), param, "limit_exceeded") from error
    except c.ConstrainedError as error:
        raise BadRequest(str(error), param, "invalid_value") from error


@dataclass(slots=True)
class Asked:
    """A request that can be served."""

    ids: list[int]  # of the prompt
    matchers: list[c.Matcher]  # one for each choice
    sampling: list[Sampling]
    most: int  # tokens of each choice
    tools: list[Json]
    begun: str  # what the prompt holds of the answer
    is_json: bool  # the answer fits a schema
    stop: list[str]
    stream: bool
    tells_usage: bool  # at the end of a stream


class Chat:
    """A chat format with the engine of a model, and how prompts are written for it.

    template: a tokenizer whose own chat template writes the prompts, where these are not the format's: the embedded
    model's.  It reads what messages say, special tokens too; prompts of other models are written by the format, where
    text can never become a special token.
    """

    def __init__(self, engine: Engine, chat_format: c.ChatFormat, limits: Limits, template: Any = None) -> None:
        self.engine, self.format, self.limits, self._template = engine, chat_format, limits, template
        self.streams_json = _streams_json(chat_format)

    def asked(self, body: Any) -> Asked:
        """Return what a body asks for.  Raises: BadRequest."""
        read = _Body(body, self.limits)
        tools, schema, thinking = read.tools(), read.schema(), read.thinking()
        parallel = read.flag("parallel_tool_calls")
        if parallel and self.format.definition.calls is None:
            parallel = None  # it may call several tools at once, and the format has room for one
        with c.work.metered(c.work.Budget(self.limits.work, deadline=self.limits.deadline)):
            with blaming("reasoning_effort"):
                begun = self.format.generation_prompt(thinking)
            with blaming("tools"):
                self._compiled(self.format.grammar(tools, prompt=begun))
            with blaming("tool_choice"):
                choice = read.get("tool_choice")
                self.format.grammar(tools, choice, parallel, prompt=begun)
            with blaming("response_format" if schema is not None else "tools"):
                asked = {"prompt": begun, "response_schema": schema}
                constraint = self._compiled(self.format.grammar(tools, choice, parallel, **asked))
            with blaming("reasoning_budget"):
                if (budget := read.get("reasoning_budget")) is not None:
                    asked["reasoning_budget"] = budget
                    constraint = self._compiled(self.format.grammar(tools, choice, parallel, **asked))
            with blaming("messages"):
                ids = self._prompt(read.messages(), tools, thinking, begun)
        room = self.engine.context - len(ids) - 1  # for the token that ends the answer
        if room < 1:
            message = f"the messages are {len(ids):,} tokens long; the model reads {self.engine.context:,}"
            raise BadRequest(message, "messages", "context_length_exceeded")
        most = min(read.max_tokens(), room)
        with blaming(read.name_of_max_tokens):
            matchers = [constraint.matcher(budget=most) for _ in range(read.number("n", 1, 1, self.limits.choices))]
        return Asked(
            ids, matchers, read.sampling(len(matchers), self.engine.vocabulary.size), most, tools, begun,
            schema is not None, read.stop(), bool(read.flag("stream")), read.wants_usage(),
        )  # fmt: skip

    def _compiled(self, grammar: c.Grammar) -> c.Constraint:
        limits = self.limits
        return c.compile(grammar, self.engine.vocabulary, max_work=limits.work, deadline=limits.deadline)

    def _prompt(self, messages: list[Json], tools: list[Json], thinking: bool | None, begun: str) -> list[int]:
        if self._template is None:
            return self.format.render(
                messages, self.engine.vocabulary, tools or None, add_generation_prompt=True, thinking=thinking
            )
        said = [{"role": "user", "content": message.get("content") or ""} for message in messages]
        text = self._template.apply_chat_template(said, tools=tools, format=self.format.name, tokenize=False)
        ids: list[int] = self._template.encode(text + begun, add_special_tokens=False)
        return ids


def _streams_json(chat_format: c.ChatFormat) -> bool:
    """Return whether the format writes arguments as JSON, so that a client can be handed them while they are written;
    else they are told when their call is complete.
    """
    try:
        stream = chat_format.stream_parser()
        events = [*stream.feed(chat_format.write_call("f", {"a": [1, "b"]})), *stream.end()]
        return bool(json.loads("".join(e.text for e in events if isinstance(e, ArgumentDelta))) == {"a": [1, "b"]})
    except (c.ConstrainedError, ValueError):
        return False


# -- the body ----------------------------------------------------------------------------------------------------------


class _Body:
    """A request's body; each method reads some of its parameters.  Raises, everywhere: BadRequest."""

    def __init__(self, body: Any, limits: Limits) -> None:
        if not isinstance(body, dict):
            raise BadRequest("the body is no JSON object")
        given = {name: value for name, value in body.items() if value is not None}
        for name in ("frequency_penalty", "presence_penalty"):
            if given.pop(name, 0) != 0:
                raise BadRequest(f"{name} is not supported", name, "unsupported_parameter")
        unknown = sorted(given.keys() - READ - ABOUT)
        if unknown:
            raise BadRequest(f"unknown parameter {unknown[0]!r:.100}", unknown[0][:100], "unknown_parameter")
        self.get, self._limits = given.get, limits
        self.name_of_max_tokens = "max_tokens" if "max_tokens" in given else "max_completion_tokens"

    def number(self, name: str, default: Any, least: float, most: float, kind: Any = int) -> Any:
        value = self.get(name, default)
        if value is default:
            return default
        if not isinstance(value, kind) or isinstance(value, bool) or not least <= value <= most:
            raise BadRequest(f"{name} is {value!r:.60}; it is a number from {least} to {most}", name, "invalid_value")
        return value

    def flag(self, name: str) -> bool | None:
        value = self.get(name)
        if value is not None and not isinstance(value, bool):
            raise BadRequest(f"{name} is {value!r:.60}; it is true or false", name, "invalid_type")
        return value

    def messages(self) -> list[Json]:
        messages = self.get("messages")
        if not isinstance(messages, list) or not messages:
            raise BadRequest("messages is a list with at least one message", "messages", "invalid_type")
        return [_message(message, f"messages[{at}]") for at, message in enumerate(messages)]

    def tools(self) -> list[Json]:
        tools = self.get("tools", [])
        if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
            raise BadRequest("tools is a list of definitions", "tools", "invalid_type")
        if len(tools) > self._limits.tools:
            raise BadRequest(f"{len(tools)} tools; at most {self._limits.tools} are taken", "tools", "limit_exceeded")
        return tools

    def schema(self) -> Any:
        """Return the schema of the answer; None: any text."""
        asked = self.get("response_format", {"type": "text"})
        kind = asked.get("type") if isinstance(asked, dict) else None
        if kind == "text":
            return None
        if kind == "json_object":
            return {"type": "object"}
        given = asked.get("json_schema") if isinstance(asked, dict) else None
        if kind != "json_schema" or not isinstance(given, dict):
            message = f"response_format is {asked!r:.60}; its type is text, json_object or json_schema"
            raise BadRequest(message, "response_format", "invalid_value")
        if not isinstance(given.get("schema"), (dict, bool)):
            raise BadRequest("a JSON Schema is missing", "response_format.json_schema.schema", "invalid_type")
        return given["schema"]

    def thinking(self) -> bool | None:
        """Return whether the answer begins with a thought; None: as the model likes."""
        effort = self.get("reasoning_effort")
        if effort is not None and effort not in EFFORTS:
            message = f"reasoning_effort is {effort!r:.60}; it is one of {', '.join(EFFORTS)}"
            raise BadRequest(message, "reasoning_effort", "invalid_value")
        return None if effort is None else effort != "none"

    def max_tokens(self) -> int:
        found: int = self.number(self.name_of_max_tokens, self._limits.tokens, 1, self._limits.tokens)
        return found

    def stop(self) -> list[str]:
        given = self.get("stop", [])
        texts = [given] if isinstance(given, str) else given
        if not isinstance(texts, list) or len(texts) > 4 or not all(isinstance(text, str) and text for text in texts):
            raise BadRequest("stop is a text, or at most four", "stop", "invalid_value")
        return texts

    def wants_usage(self) -> bool:
        options = self.get("stream_options", {})
        if not isinstance(options, dict) or not isinstance(options.get("include_usage", False), bool):
            raise BadRequest('stream_options is {"include_usage": true}', "stream_options", "invalid_type")
        return bool(options.get("include_usage", False))

    def sampling(self, choices: int, size: int) -> list[Sampling]:
        """Return how the tokens of each choice are drawn; choices have seeds of their own."""
        temperature = self.number("temperature", 1.0, 0, 2, (int, float))
        top_p = self.number("top_p", 1.0, 0, 1, (int, float))
        seed = self.number("seed", None, -(1 << 63), (1 << 63) - 1)
        wanted = self.flag("logprobs")
        top = self.number("top_logprobs", 0, 0, 20)
        if top and not wanted:
            raise BadRequest("top_logprobs needs logprobs: true", "top_logprobs", "invalid_value")
        bias = self.get("logit_bias", {})
        is_bias = isinstance(bias, dict) and all(token.isdecimal() and len(token) < 9 for token in bias)
        if not is_bias or not all(
            int(token) < size and type(more) in (int, float) and abs(more) <= 100 for token, more in bias.items()
        ):
            raise BadRequest("logit_bias maps ids of tokens to numbers from -100 to 100", "logit_bias", "invalid_value")
        biases = {int(token): float(more) for token, more in bias.items()}
        return [
            Sampling(temperature, top_p, None if seed is None else seed + at, top if wanted else None, biases)
            for at in range(choices)
        ]


def _message(message: Any, where: str) -> Json:
    """Return a message whose content is a text, also where it was given in parts."""
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise BadRequest(f"{where} is no message: an object with a role", where, "invalid_type")
    content = message.get("content")
    if isinstance(content, list):
        for at, part in enumerate(content):
            if not isinstance(part, dict) or not isinstance(part.get("text"), str):
                raise BadRequest("the model reads text alone", f"{where}.content[{at}]", "invalid_value")
        content = "".join(part["text"] for part in content)
    elif content is not None and not isinstance(content, str):
        raise BadRequest(f"the content is {type(content).__name__}, not text", f"{where}.content", "invalid_type")
    return {**message, "content": content}


# -- the answer --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Part:
    """What is new in an answer: a delta as OpenAI streams it, and the logarithms of probabilities of its tokens."""

    delta: Json
    logprobs: list[Json] = field(default_factory=list)
    finish: str | None = None


class Answer:
    """One choice of a request, while it is written: iterate over its parts.  `tokens`: how many came so far, without
    the one that ends it.
    """

    def __init__(self, chat: Chat, asked: Asked, generation: Generation) -> None:
        self._chat, self._asked, self._generation = chat, asked, generation
        self.tokens = self.calls = self.thoughts = 0
        self._is_named: set[int] = set()  # calls whose name was told
        self._held, self._is_cut = "", False  # a text that may be the beginning of a stop text
        self._logprobs: list[Json] = []

    async def __aiter__(self) -> AsyncIterator[Part]:
        """Yield parts; the last has the reason of the end.

        Raises: ConstrainedError: generating failed, or what was generated cannot be read.
        """
        vocabulary = self._chat.engine.vocabulary
        parser = self._chat.format.stream_parser(self._asked.tools or None, vocabulary, prompt=self._asked.begun)
        try:
            yield Part({"role": "assistant", "content": ""})
            async for token in self._generation:
                is_end = token.id in self._generation.ends
                self.tokens += not is_end
                if token.logprob is not None:
                    self._logprobs.append(_told(vocabulary, token))
                events = [*parser.feed([token.id]), *(parser.end() if is_end else ())]
                self.thoughts += any(isinstance(event, ThoughtDelta) for event in events)
                for delta in self._deltas(events):
                    yield Part(delta, self._taken())
                if self._is_cut:
                    break
            for delta in self._released():
                yield Part(delta, self._taken())
            is_full = token.is_forced and not self._asked.is_json and not self._is_cut
            yield Part({}, self._taken(), "tool_calls" if self.calls else "length" if is_full else "stop")
        finally:
            self._generation.cancel()

    def _taken(self) -> list[Json]:
        taken, self._logprobs = self._logprobs, []
        return taken

    def _deltas(self, events: list[Any]) -> Iterator[Json]:
        for event in events:
            if isinstance(event, TextDelta):
                yield from self._text(event.text)
            elif isinstance(event, ThoughtDelta):
                yield {"reasoning_content": event.text}
            else:
                yield from self._released()
                yield from self._of_call(event)

    def _of_call(self, event: Any) -> Iterator[Json]:
        streams = self._chat.streams_json
        if isinstance(event, CallStarted) and event.name is not None:
            yield self._named(event.call, event.name)
        elif isinstance(event, ArgumentDelta) and streams and event.call in self._is_named:
            yield {"tool_calls": [{"index": event.call, "function": {"arguments": event.text}}]}
        elif isinstance(event, CallFinished):
            (call,) = Message(tool_calls=[event.value]).to_openai()["tool_calls"]
            whole = {"tool_calls": [{"index": event.call, "function": {"arguments": call["function"]["arguments"]}}]}
            if event.call not in self._is_named:
                yield self._named(event.call, event.value.name)
                yield whole
            elif not streams:
                yield whole

    def _named(self, call: int, name: str) -> Json:
        self.calls += 1
        self._chat.engine.metrics.calls.inc()
        self._is_named.add(call)
        named = {"index": call, "id": f"call_{secrets.token_hex(12)}", "type": "function"}
        return {"tool_calls": [named | {"function": {"name": name, "arguments": ""}}]}

    def _text(self, more: str) -> Iterator[Json]:
        """Tell a text up to where a stop text may have begun; where one stands, the answer ends before it."""
        if self._is_cut:
            return
        text = self._held + more
        stops = self._asked.stop
        found = [at for at in map(text.find, stops) if at >= 0]
        self._is_cut = bool(found)
        begun = (at for at in range(len(text)) if any(stop.startswith(text[at:]) for stop in stops))
        end = min(found) if found else next(begun, len(text)) if stops else len(text)
        self._held = "" if found else text[end:]
        if text[:end]:
            yield {"content": text[:end]}

    def _released(self) -> Iterator[Json]:
        held, self._held = self._held, ""
        if held:
            yield {"content": held}


def folded(parts: list[Part]) -> tuple[Json, list[Json], str | None]:
    """Return the message that parts add up to, its logarithms, and the reason of its end."""
    message: Json = {"role": "assistant", "content": "", "refusal": None}
    calls: dict[int, Json] = {}
    for part in parts:
        for name in ("content", "reasoning_content"):
            if part.delta.get(name):
                message[name] = message.get(name, "") + part.delta[name]
        for more in part.delta.get("tool_calls", ()):
            if "id" in more:
                calls[more["index"]] = {"id": more["id"], "type": "function", "function": dict(more["function"])}
            else:
                calls[more["index"]]["function"]["arguments"] += more["function"]["arguments"]
    if calls:
        message |= {"content": message["content"] or None, "tool_calls": [calls[at] for at in sorted(calls)]}
    return message, [entry for part in parts for entry in part.logprobs], parts[-1].finish


def _told(vocabulary: c.Vocabulary, token: Token) -> Json:
    """Return a token with its logarithm as OpenAI has it."""
    own = _spelled(vocabulary, token.id, token.logprob)
    return own | {"top_logprobs": [_spelled(vocabulary, other, logprob) for other, logprob in token.top]}


def _spelled(vocabulary: c.Vocabulary, token: int, logprob: float | None) -> Json:
    data = vocabulary.decode([token])
    return {"token": data.decode(errors="replace"), "logprob": logprob, "bytes": list(data)}
