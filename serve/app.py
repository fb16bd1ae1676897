"""The routes of the server: OpenAI's chat completions, what runs there, and the page.

Errors are OpenAI's error objects.  A client that leaves ends its answers; one that sends too much is told how much.

Tested in tests/hosts/test_serve.py.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import prometheus_client as prometheus
from constrained.serve import playground
from constrained.serve.chat import Answer, Asked, BadRequest, Chat, Json, Limits, Part, folded
from constrained.serve.engine import Engine
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

import constrained as c

WATCH = 0.2  # seconds between two looks whether a client is still there
COMPILING = 2  # requests at once: a mask waits for the interpreter until each of them has had its turn


def create_app(
    model: Any, tokenizer: Any, *, name: str, chat_format: c.ChatFormat | None = None, limits: Limits | None = None,
    own_template: bool = False,
) -> Starlette:
    """Return the server of a transformers model; run it with uvicorn.

    name: what clients call the model.  chat_format: default: what the tokenizer's chat template writes.
    own_template: prompts are written by the tokenizer's chat template, which is not the format's.

    Raises: GrammarError: no format is known for the tokenizer.  ConstrainedError: the model cannot be batched by the
    installed transformers.
    """
    limits = limits or Limits()
    chat_format = chat_format or c.ChatFormat.for_tokenizer(tokenizer)
    vocabulary = c.Vocabulary.from_tokenizer(tokenizer, size=model.config.get_text_config().vocab_size)
    c.compile(chat_format.grammar([]), vocabulary)  # a special token that is missing is told now
    engine = Engine(model, vocabulary, limits.requests)
    server = Server(Chat(engine, chat_format, limits, tokenizer if own_template else None), name)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(engine.close)

    return Starlette(routes=server.routes(), lifespan=lifespan)


class Server:
    """A chat behind HTTP.  `_under_way` counts answers, of all requests."""

    def __init__(self, chat: Chat, name: str) -> None:
        self._chat, self._name, self._under_way, self._since = chat, name, 0, int(time.time())
        self._compiling = asyncio.Semaphore(COMPILING)
        self._page = playground.page({"model": name, "format": chat.format.name})

    def routes(self) -> list[Route]:
        """Return the routes."""
        asked = [
            Route(f"/playground/{name}", self._told(self._question(answer)), methods=["POST"])
            for name, answer in playground.ANSWERS.items()
        ]
        return [
            Route("/v1/chat/completions", self._told(self._completion), methods=["POST"]),
            Route("/v1/models", self._models),
            Route("/health", self._health),
            Route("/metrics", self._metrics),
            Route("/", lambda _: HTMLResponse(self._page)),
            *asked,
        ]

    # -- what runs -----------------------------------------------------------------------------------------------------

    async def _models(self, _: Request) -> Response:
        own = {"id": self._name, "object": "model", "created": self._since, "owned_by": "constrained"}
        return JSONResponse({"object": "list", "data": [own]})

    async def _health(self, _: Request) -> Response:
        fault = self._chat.engine.fault
        return JSONResponse({"status": "ok"} if fault is None else {"status": fault}, 200 if fault is None else 503)

    async def _metrics(self, _: Request) -> Response:
        metrics = prometheus.generate_latest(self._chat.engine.metrics.registry)
        return Response(metrics, media_type=prometheus.CONTENT_TYPE_LATEST)

    # -- requests ------------------------------------------------------------------------------------------------------

    def _told(
        self, answer: Callable[[Request], Coroutine[Any, Any, Response]]
    ) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return a route that tells errors as OpenAI does, and counts."""

        async def route(request: Request) -> Response:
            try:
                found = await answer(request)
            except ClientDisconnect:
                found = Response(status_code=499)
            except BadRequest as error:
                found = JSONResponse(_error(error), error.status)
            except Exception as error:
                found = JSONResponse(_error(error), 500)
            self._chat.engine.metrics.requests.labels(str(found.status_code)).inc()
            return found

        return route

    def _question(self, answer: Callable[[Json, playground.Context], Any]) -> Callable[[Request], Any]:
        """Return the route of a question of the page."""

        async def route(request: Request) -> Response:
            context = playground.Context(self._chat.engine.vocabulary, self._chat.limits.deadline)
            try:
                return JSONResponse(await asyncio.to_thread(answer, await self._body(request), context))
            except c.ConstrainedError as error:
                raise BadRequest(str(error)) from error

        return route

    async def _body(self, request: Request) -> Any:
        """Return the JSON value of a body.  Raises: BadRequest: it is none, or longer than the limit."""
        if not request.headers.get("content-type", "").startswith("application/json"):
            raise BadRequest("the content type is not application/json", status=415)
        data = bytearray()
        async for piece in request.stream():
            data += piece
            if len(data) > self._chat.limits.body:
                raise BadRequest(f"the body is longer than {self._chat.limits.body:,} bytes", status=413)
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            message = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise BadRequest(f"the body is no JSON: {message}") from error

    async def _completion(self, request: Request) -> Response:
        body = await self._body(request)
        model = body.get("model", self._name) if isinstance(body, dict) else None
        if isinstance(model, str) and model != self._name:
            message = f"there is no model {model!r:.100}; this server has {self._name!r}"
            raise BadRequest(message, "model", "model_not_found", 404)
        async with self._compiling:
            asked = await asyncio.to_thread(self._chat.asked, body)
        if self._under_way + len(asked.matchers) > self._chat.limits.requests:
            raise BadRequest(f"{self._under_way} answers are under way", code="rate_limit_exceeded", status=429)
        completion = {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "object": "chat.completion.chunk" if asked.stream else "chat.completion",
            "created": int(time.time()),
            "model": self._name,
        }
        answers = [
            Answer(self._chat, asked, self._chat.engine.begin(asked.ids, matcher, sampling, asked.most))
            for matcher, sampling in zip(asked.matchers, asked.sampling)
        ]
        if asked.stream:
            return _Stream(self._chunks(asked, answers, completion), media_type="text/event-stream")
        return JSONResponse(await _while_connected(request, self._whole(asked, answers, completion)))

    async def _whole(self, asked: Asked, answers: list[Answer], completion: Json) -> Json:
        parts: dict[int, list[Part]] = {}
        async for index, part in self._parts(answers):
            parts.setdefault(index, []).append(part)
        choices = []
        for index, found in sorted(parts.items()):
            message, logprobs, finish = folded(found)
            choices.append(
                {"index": index, "message": message, "logprobs": _logprobs(asked, logprobs), "finish_reason": finish}
            )
        return {**completion, "choices": choices, "usage": self._usage(asked, answers)}

    async def _chunks(self, asked: Asked, answers: list[Answer], completion: Json) -> AsyncIterator[str]:
        try:
            async for index, part in self._parts(answers):
                choice = {
                    "index": index, "delta": part.delta, "logprobs": _logprobs(asked, part.logprobs),
                    "finish_reason": part.finish,
                }  # fmt: skip
                yield _event({**completion, "choices": [choice], **({"usage": None} if asked.tells_usage else {})})
            if asked.tells_usage:
                yield _event({**completion, "choices": [], "usage": self._usage(asked, answers)})
        except (Exception, BadRequest) as error:
            yield _event(_error(error))
        yield "data: [DONE]\n\n"

    async def _parts(self, answers: list[Answer]) -> AsyncIterator[tuple[int, Part]]:
        """Yield the parts of all answers as they come; those of one that nobody waits for any more end.

        Raises: BadRequest: they take too long.  ConstrainedError: one has failed.
        """
        queue: asyncio.Queue[Any] = asyncio.Queue()

        async def pump(index: int, answer: Answer) -> None:
            try:
                async for part in answer:
                    queue.put_nowait((index, part))
                queue.put_nowait(None)
            except Exception as error:
                if isinstance(error, c.Rejected):
                    self._chat.engine.metrics.malformed.inc()
                queue.put_nowait(error)

        tasks = [asyncio.create_task(pump(index, answer)) for index, answer in enumerate(answers)]
        self._under_way += len(answers)
        left = len(answers)
        try:
            async with asyncio.timeout(self._chat.limits.patience):
                while left:
                    found = await queue.get()
                    if isinstance(found, Exception):
                        raise found
                    if found is None:
                        left -= 1
                    else:
                        yield found
        except TimeoutError as error:
            message = f"the answer took longer than {self._chat.limits.patience:g} s"
            raise BadRequest(message, code="timeout", status=504) from error
        finally:
            self._under_way -= len(answers)
            for task in tasks:
                task.cancel()
            self._chat.engine.metrics.tokens.labels("answer").inc(sum(answer.tokens for answer in answers))

    def _usage(self, asked: Asked, answers: list[Answer]) -> Json:
        written = sum(answer.tokens for answer in answers)
        return {
            "prompt_tokens": len(asked.ids),
            "completion_tokens": written,
            "total_tokens": len(asked.ids) + written,
            "completion_tokens_details": {"reasoning_tokens": sum(answer.thoughts for answer in answers)},
        }


class _Stream(StreamingResponse):
    """A stream that is closed when its client leaves."""

    async def __call__(self, *given: Any) -> None:
        try:
            await super().__call__(*given)
        finally:
            await self.body_iterator.aclose()  # type: ignore[attr-defined]  # it is a generator


async def _while_connected(request: Request, work: Coroutine[Any, Any, Json]) -> Json:
    """Return what work gives; a client that leaves ends it.  Raises: ClientDisconnect."""
    task = asyncio.create_task(work)
    try:
        while not (await asyncio.wait({task}, timeout=WATCH))[0]:
            if await request.is_disconnected():
                raise ClientDisconnect
        return task.result()
    finally:
        task.cancel()


def _logprobs(asked: Asked, entries: list[Json]) -> Json | None:
    return {"content": entries, "refusal": None} if asked.sampling[0].top_logprobs is not None else None


def _event(value: Json) -> str:
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"


def _error(error: Exception) -> Json:
    """Return an error as OpenAI words it."""
    known = error if isinstance(error, BadRequest) else None
    kind = "invalid_request_error" if known is not None and known.status < 500 else "server_error"
    if known is not None and known.status == 429:
        kind = "rate_limit_error"
    told = {"message": str(error), "type": kind, "param": known and known.param, "code": known and known.code}
    return {"error": told}
