"""Readers of other projects, as installed, behind one interface: text of a turn → what it says.

A reader is opened for a format and its tools, and then called as ``read(text, cuts, thinks)``: the text of a turn with
its stop token; the lengths, in tokens, of the pieces in which it comes (none: it comes whole); and whether it has a
thought, as whoever sent the prompt knows.  It returns a `Reading`, or raises whatever its package raises.

This file needs the standard library alone, so that it runs in any interpreter: ``python readers.py`` serves readings
over its standard input and output, one line of JSON each, where a package is installed in an environment of its own.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module, metadata
from typing import Any, NamedTuple

Calls = list[tuple[str, Any]]


class Reading(NamedTuple):
    """What a reader says of a turn; None: it does not tell of these."""

    calls: Calls
    content: str | None = None
    thoughts: str | None = None


class Settings(NamedTuple):
    """What a reader is opened for.

    `format`: its name.  `special`: the special tokens of the model; `markers`: further texts that are one token;
    `stops`: those that end a turn, which servers take away.  `tools`: as OpenAI has them.  `template`: a response
    template, of readers that take one.  `opening`: how a turn with a thought begins that stands in the prompt already,
    so that no server's reader sees it.
    """

    format: str
    special: tuple[str, ...]
    markers: tuple[str, ...]
    stops: tuple[str, ...]
    tools: list[dict[str, Any]]
    template: dict[str, Any] | None = None
    opening: str = ""


Read = Callable[[str, Sequence[int], bool], Reading]


class Unreadable(Exception):
    """A reader cannot be opened; the message says why, and what to do."""


# -- Tokens ------------------------------------------------------------------------------------------------------------


def tokens_of(text: str, settings: Settings) -> list[str]:
    """Return a text as tokens: those of the format, and characters."""
    names = sorted({*settings.special, *settings.markers}, key=len, reverse=True)
    parts = re.split("(" + "|".join(map(re.escape, names)) + ")", text) if names else [text]
    return [token for at, part in enumerate(parts) for token in ([part] if at % 2 else part)]


def pieces_of(text: str, cuts: Sequence[int], settings: Settings) -> Iterator[str]:
    """Yield the pieces in which a text comes: so many tokens each, over and over."""
    if not cuts:
        yield text
        return
    tokens, at, number = tokens_of(text, settings), 0, 0
    while at < len(tokens):
        length = cuts[number % len(cuts)]
        yield "".join(tokens[at : at + length])
        at, number = at + length, number + 1


def _generated(text: str, settings: Settings) -> str:
    """Return what a server's reader sees of a turn: without what the prompt holds, and without its stop."""
    stop = next((stop for stop in sorted(settings.stops, key=len, reverse=True) if text.endswith(stop)), "")
    return text.removeprefix(settings.opening).removesuffix(stop)


def _tokenizer(settings: Settings) -> Any:
    """Return a tokenizer of transformers whose tokens are bytes and those of the format."""
    import tokenizers
    import transformers

    names = [chr(byte) for byte in (*range(33, 127), *range(161, 173), *range(174, 256))]  # GPT-2's letters for bytes
    names += [chr(256 + at) for at in range(256 - len(names))]
    inner = tokenizers.Tokenizer(tokenizers.models.BPE({name: at for at, name in enumerate(names)}, []))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    added = tokenizers.AddedToken
    inner.add_special_tokens([added(text, normalized=False, special=True) for text in settings.special])
    inner.add_tokens([added(text, normalized=False) for text in settings.markers])
    suffix = ":opensource"  # the configuration of Hunyuan 3 says how its tokens end, and its reader asks
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token=settings.stops[0], token_suffix=suffix
    )


def _arguments(text: Any) -> Any:
    """Return arguments, which most readers give as JSON; where it is none, the text."""
    try:
        return json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return text


# -- transformers ------------------------------------------------------------------------------------------------------


def _fields(
    opens: str, close: str, name: str | None, arguments: str, thinking: tuple[str, str] | None = None, **more: Any
) -> dict[str, Any]:
    """Return a response template that finds calls, and what is `thinking`; no name: a call is JSON as OpenAI has it."""
    function = "{content}" if name is None else {"name": name, "arguments": arguments}
    calls = {"open_pattern": opens, "close": close, "content": "json", "repeats": True, **more}
    calls["transform"] = {"type": "function", "function": function}
    fields = {"thinking": {"open": thinking[0], "close": thinking[1]}} if thinking else {}
    return {"start_anchor": "\0", "fields": {**fields, "tool_calls": calls}}


_THINK = ("<think>", "</think>")
_JSON = _fields("<tool_call>", "</tool_call>", None, "")
_COHERE = _fields(
    r"<\|START_ACTION\|>", "<|END_ACTION|>", "{tool_name}", "{parameters}", transform_each=True, repeats=False
)  # fmt: skip
_QWEN = _fields(
    r"<tool_call>\s*<function=(?P<name>\w+)>", "</tool_call>", "{name}", "{content}", _THINK, content="xml-inline",
    content_args={
        "tag_pattern": r"<parameter=(?P<key>\w+)>\s*(?P<value>.*?)\s*</parameter>",
        "value_parser": {"name": "json", "args": {"allow_non_json": True}},
    },
)  # fmt: skip
# What the response templates of transformers' tests say of calls, and the turns that they misread, as the notes of
# the formats say.
TEMPLATES: dict[str, tuple[dict[str, Any], str]] = {
    "hermes": (_JSON, "$^"),
    **dict.fromkeys(("qwen2.5", "qwen3", "qwen3-2507", "qwen3-thinking-2507"),
                    (_fields("<tool_call>", "</tool_call>", None, "", _THINK),
    "$^")),
    **dict.fromkeys(("command-a", "command-r7b"), (_COHERE, "$^")),
    **dict.fromkeys(("qwen3-coder", "qwen3.5"), (_QWEN, r"<parameter=\w+>\n\s|\s\n</parameter>")),
    "gemma-4": (
        _fields(
            r"<\|tool_call>call:(?P<name>\w+)", "<tool_call|>", "{name}", "{content}",
            ("<|channel>thought\n", "<channel|>"),
            content_args={"unquoted_keys": True, "string_delims": [['<|"|>', '<|"|>']]},
        ), "[\x01\x02]"),
    "gpt-oss": (
        _fields(
            r"<\|channel\|>commentary to=functions\.(?P<name>\w+).*?<\|message\|>", "<|call|>", "{name}", "{content}"
        ), r" to=functions[^<]*<\|channel\|>"),
}  # fmt: skip


SERVED = {
    "qwen2.5": "qwen2",
    **dict.fromkeys(("qwen3", "qwen3-2507", "qwen3-thinking-2507"), "qwen3"),
    "qwen3.5": "qwen3_5",
    "gemma-4": "gemma4",
}


def _transformers(settings: Settings) -> Read:
    """`ResponseParser`, with the template that is given, that of ``transformers serve``, or what its tests say."""
    from transformers.utils.chat_parsing import ResponseParser

    template = settings.template or _served(settings.format) or TEMPLATES.get(settings.format, (None,))[0]
    if template is None:
        raise Unreadable(
            f"transformers has no response template for {settings.format!r}\n  instead: --response-template"
        )

    return _by_template(ResponseParser, template, settings)


def _by_template(kind: Any, template: Mapping[str, Any], settings: Settings) -> Read:
    """Return the reading of transformers' parser of response templates, or of SGLang's, which is made of it."""

    def read(text: str, cuts: Sequence[int], thinks: bool) -> Reading:
        parser = kind(template, prefix="", tools=settings.tools)
        for piece in pieces_of(text, cuts, settings):
            parser.feed(piece)
        return of_message(parser.finalize()[0])

    return read


def _served(name: str) -> dict[str, Any] | None:
    """Return the template that ``transformers serve`` falls back on, by the type of the model; None: it has none."""
    try:
        fallbacks = import_module("transformers.cli.serving.utils")._RESPONSE_TEMPLATE_FALLBACKS
    except (ImportError, AttributeError):  # of another version, or without what its server needs
        return None
    return next((template for types, template in fallbacks.items() if SERVED.get(name) in types), None)


def of_message(message: Mapping[str, Any]) -> Reading:
    """Return what a message says, as OpenAI or a response template has it."""
    told = message.get("tool_calls") or ()
    calls = [call.get("function", call) for call in ([told] if isinstance(told, Mapping) else told)]
    thoughts = message.get("thinking", message.get("reasoning_content", message.get("reasoning")))
    return Reading([(call["name"], _arguments(call["arguments"])) for call in calls], message.get("content"), thoughts)


# -- vLLM --------------------------------------------------------------------------------------------------------------

VLLM = {  # its names of the readers of calls and of thoughts; that of OLMo 3's thoughts needs words of its vocabulary
    **dict.fromkeys(("hermes", "hermes-3", "qwen2.5", "qwen3-2507"), ("hermes", "")),
    **dict.fromkeys(("qwen3", "qwen3-thinking-2507"), ("hermes", "qwen3")),
    "qwen3-coder": ("qwen3_coder", ""), "granite-4.0": ("granite4", ""),
    **dict.fromkeys(("qwen3.5", "qwen3.8"), ("qwen3_coder", "qwen3")), "nemotron-3": ("qwen3_coder", "nemotron_v3"),
    "step-3.5": ("step3p5", "step3p5"), "llama-4": ("llama4_pythonic", ""),
    **dict.fromkeys(("lfm2", "lfm2.5"), ("lfm2", "deepseek_r1")),
    "jamba": ("jamba", ""),
    **dict.fromkeys(("xlam", "xlam-llama"), ("xlam", "")), "functiongemma": ("functiongemma", ""),
    "ernie-4.5": ("ernie45", "ernie45"), "ling-3": ("ling3", "ling3"), "hy-3": ("hy_v3", "hy_v3"),
    **dict.fromkeys(("laguna-s", "laguna-xs"), ("poolside_v1", "poolside_v1")),
    **dict.fromkeys(("gigachat-3", "gigachat-3.1"), ("gigachat3", "")),
    "k2-horizon": ("k2_horizon", "k2_horizon"), "muse-glimmer": ("muse_glimmer", "muse_glimmer"),
    "inkling": ("inkling", "inkling"),
    "deepseek-v3": ("deepseek_v3", ""), "deepseek-r1": ("deepseek_v3", "deepseek_r1"),
    "deepseek-v3.1": ("deepseek_v31", "deepseek_v3"),
    "deepseek-v3.2": ("deepseek_v32", "deepseek_v3"), "deepseek-v4": ("deepseek_v4", "deepseek_v4"),
    "deepseek-v4.1": ("deepseek_v41", "deepseek_v41"),
    "glm-4.6": ("glm45", "glm45"), **dict.fromkeys(("glm-4.7", "glm-5.3"), ("glm47", "glm47")),
    "gemma-4": ("gemma4", "gemma4"), "internlm2": ("internlm", ""),
    "kimi-k2": ("kimi_k2", ""), "kimi-k2-thinking": ("kimi_k2", "kimi_k2"), "kimi-k3": ("kimi_k3", "kimi_k3"),
    "mimo": ("mimo", "mimo"),
    **dict.fromkeys(("llama-3.1", "llama-3.2", "llama-3.3", "llama3.1-json"), ("llama3_json", "")),
    "pythonic": ("pythonic", ""),
    "minimax-m2": ("minimax_m2", "minimax_m2"), "minimax-m3": ("minimax_m3", "minimax_m3"),
    "seed-oss": ("seed_oss", "seed_oss"),
    "phi-4-mini": ("phi4_mini_json", ""), **dict.fromkeys(("command-a", "command-r7b"),
    ("cohere_command3", "cohere_command3")),
}  # fmt: skip


# Their answers stand in frames, which the readers of thoughts take away.
FRAMED = ("kimi-k3", "muse-glimmer", "inkling", "ernie-4.5")


def _vllm(settings: Settings) -> Read:
    """The parser that its server makes of a reader of calls and one of thoughts; where a turn has no thought, of the
    former alone.  The text has its special tokens: which of them a tokenizer would leave out is not known here.
    """
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.parser.parser_manager import ParserManager

    names = ("hf", "hf") if settings.template else VLLM.get(settings.format)
    if names is None:
        raise Unreadable(f"no reader of vLLM is known for {settings.format!r}")
    tokenizer = _tokenizer(settings)
    if settings.template:
        tokenizer.response_template = settings.template
    made = {thinks: ParserManager.get_parser(names[0], names[1] if thinks else "", True) for thinks in (True, False)}
    said = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": settings.tools}

    def read(text: str, cuts: Sequence[int], thinks: bool) -> Reading:
        request = ChatCompletionRequest(**said)
        parser: Any = made[thinks or bool(settings.template) or settings.format in FRAMED]
        asked = {"thinking": thinks, "enable_thinking": thinks, "reasoning_effort": "high" if thinks else "no_think",
                 "thinking_mode": "enabled" if thinks else "disabled"}  # fmt: skip
        parser = parser(tokenizer, request.tools, chat_template_kwargs=asked)
        request = parser.adjust_request(request)
        text = _generated(text, settings)
        if not cuts:
            ids = tokenizer.encode(text, add_special_tokens=False)
            thoughts, content, calls = parser.parse(text, request, True, ids)
            return Reading([(call.name, _arguments(call.arguments)) for call in calls or ()], content, thoughts)
        return _streamed(parser, request, tokenizer, [*pieces_of(text, cuts, settings)])

    return read


def _streamed(parser: Any, request: Any, tokenizer: Any, pieces: list[str]) -> Reading:
    calls: dict[int, list[str]] = {}
    content = thoughts = ""
    for at, piece in enumerate(pieces):
        ids = tokenizer.encode(piece, add_special_tokens=False)
        delta = parser.parse_delta(piece, ids, request, [], finished=at == len(pieces) - 1)
        content += delta and delta.content or ""
        thoughts += delta and delta.reasoning or ""
        for call in delta.tool_calls if delta else ():
            told = calls.setdefault(call.index, ["", ""])
            if call.function is not None:
                told[0], told[1] = told[0] + (call.function.name or ""), told[1] + (call.function.arguments or "")
    return Reading([(name, _arguments(arguments)) for name, arguments in calls.values()], content, thoughts)


# -- SGLang ------------------------------------------------------------------------------------------------------------

SGLANG = {
    **dict.fromkeys(("hermes", "hermes-3"), ("hermes", "")), **dict.fromkeys(("qwen2.5", "qwen3-2507"), ("qwen25", "")),
    "qwen3": ("qwen25", "qwen3"),
    "qwen3-coder": ("qwen3_coder", ""), "deepseek-v3": ("deepseekv3", ""),
    **dict.fromkeys(("qwen3.5", "qwen3.8"), ("qwen3_coder", "qwen3")), "nemotron-3": ("qwen3_coder", "nemotron_3"),
    "step-3.5": ("step3p5", "step3p5"), **dict.fromkeys(("lfm2", "lfm2.5"), ("lfm2", "deepseek-r1")),
    "ling-3": ("ling3", "ling3"),
    **dict.fromkeys(("laguna-s", "laguna-xs"), ("poolside_v1", "poolside_v1")),
    **dict.fromkeys(("gigachat-3", "gigachat-3.1"), ("gigachat3", "")),
    "gigachat-3.5": ("gigachat35", "gigachat35"), "iquest-q1": ("iquest_q1", "iquest_q1"),
    "k2-horizon": ("k2_horizon", "k2_horizon"), "muse-glimmer": ("muse", "muse"),
    "deepseek-r1": ("deepseekv3", "deepseek-r1"),
    "deepseek-v3.1": ("deepseekv31", "deepseek-v3"), "deepseek-v3.2": ("deepseekv32", "deepseek-v3"),
    "deepseek-v4": ("deepseekv4", "deepseek-v4"),
    "deepseek-v4.1": ("deepseekv41", "deepseek-v41"), "glm-4.6": ("glm45", "glm45"),
    **dict.fromkeys(("glm-4.7", "glm-5.3"), ("glm47", "glm45")),
    "gemma-4": ("gemma4", "gemma4"),
    "kimi-k2": ("kimi_k2", ""), "kimi-k2-thinking": ("kimi_k2", "kimi_k2"),
    "kimi-k3": ("kimi_k3", "kimi_k3"),
    **dict.fromkeys(("llama-3.1", "llama-3.2", "llama-3.3", "llama3.1-json"), ("llama3", "")),
    "pythonic": ("pythonic", ""), "mimo": ("mimo", "mimo"),
    "minimax-m2": ("minimax-m2", "minimax"),
    **dict.fromkeys(("mistral-v3-tekken", "mistral-v11"), ("mistral", "")), "mistral-v13": ("mistral", "mistral"),
}  # fmt: skip


def _sglang(settings: Settings) -> Read:
    """Its parser of response templates, where one is given; or its readers of thoughts and of calls, one behind the
    other, as its server runs them.
    """
    if settings.template:
        from sglang.srt.parser.chat_parsing import ResponseParser

        return _by_template(ResponseParser, settings.template, settings)
    from sglang.srt.entrypoints.openai.protocol import Tool
    from sglang.srt.function_call.function_call_parser import FunctionCallParser
    from sglang.srt.parser.reasoning_parser import ReasoningParser

    names = SGLANG.get(settings.format)
    if names is None:
        raise Unreadable(f"no reader of SGLang is known for {settings.format!r}")
    tools, framed = [Tool(**tool) for tool in settings.tools], settings.format in FRAMED

    def read(text: str, cuts: Sequence[int], thinks: bool) -> Reading:
        text = _generated(text, settings)
        opened = bool(thinks and settings.opening) or None
        thoughtful = names[1] and (thinks or framed)
        reasons = ReasoningParser(names[1], True, opened, tool_call_parser_active=True) if thoughtful else None
        caller = FunctionCallParser(tools, names[0])
        if not cuts:
            thoughts, text = reasons.parse_non_stream(text) if reasons is not None else (None, text)
            content, found = caller.parse_non_stream(text or "")
            return Reading([(call.name, _arguments(call.parameters)) for call in found], content, thoughts)
        content, thoughts, calls = "", "", dict[int, list[str]]()
        thought: Any
        for piece in [*pieces_of(text, cuts, settings), None]:
            if reasons is not None:
                thought, piece = reasons.parse_stream_chunk(piece) if piece is not None else reasons.parse_stream_end()
                thoughts += thought or ""
            normal, found = caller.parse_stream_chunk(piece) if piece else ("", [])
            content += normal or ""
            _added(calls, found)
        normal, found = caller.parse_stream_end()
        _added(calls, found)
        return Reading([(name, _arguments(said)) for name, said in calls.values()], content + (normal or ""), thoughts)

    return read


def _added(calls: dict[int, list[str]], found: Any) -> None:
    for call in found:
        told = calls.setdefault(call.tool_index, ["", ""])
        told[0], told[1] = told[0] or call.name or "", told[1] + (call.parameters or "")


# -- vendors' packages -------------------------------------------------------------------------------------------------


class _Tokens:
    """A tokenizer for mistral-common's reader: special tokens, then one token a character."""

    def __init__(self, version: Any) -> None:
        self.version = version
        self._names = ["</s>", "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]", "[THINK]", "[/THINK]"]

    def get_special_token(self, name: str) -> int:
        return self._names.index(name)

    def encode(self, text: str) -> list[int]:
        parts = re.split("(" + "|".join(map(re.escape, self._names)) + ")", text)
        return [
            token
            for part in parts
            for token in ([self._names.index(part)] if part in self._names else [100 + ord(char) for char in part])
        ]

    def decode(self, ids: list[int], special_token_policy: Any = None) -> str:
        return "".join(chr(token - 100) for token in ids if token >= 100)


MISTRAL = {
    "mistral-v3-spm": "v3",
    "mistral-v3-tekken": "v3",
    "mistral-v7-spm": "v7",
    "mistral-v11": "v11",
    "mistral-v13": "v13",
}


def _mistral_common(settings: Settings) -> Read:
    """Its ``experimental.tools``, with the special tokens of the text as ids."""
    from mistral_common.experimental import tools
    from mistral_common.tokens.tokenizers.base import TokenizerVersion

    if settings.format not in MISTRAL:
        raise Unreadable(f"mistral-common does not read {settings.format!r}")
    tokens: Any = _Tokens(TokenizerVersion(MISTRAL[settings.format]))

    def read(text: str, cuts: Sequence[int], thinks: bool) -> Reading:
        ids = tokens.encode(text.removesuffix("</s>"))
        content, calls = tools._split_content_and_tool_calls(ids, tokens.get_special_token("[TOOL_CALLS]"))
        found = tools._decode_tool_calls(calls, tokens)
        return Reading(
            [(call.function.name, json.loads(call.function.arguments)) for call in found],
            None if thinks else tokens.decode(content),
        )

    return read


LLAMA = ("llama3.1-function", "llama3.1-json", "llama3.1-builtin", "llama3.1-combined", "pythonic")


def _llama_models(settings: Settings) -> Read:
    """``ChatFormat.decode_assistant_message_from_content``, without its tokenizer."""
    from llama_models.llama3.tool_utils import ToolUtils, is_valid_python_list, parse_python_list_for_function_calls

    if settings.format not in LLAMA:
        raise Unreadable(f"llama-models does not read {settings.format!r}")

    def read(text: str, cuts: Sequence[int], thinks: bool) -> Reading:
        body = text.strip(" ")
        python_tag = body.startswith("<|python_tag|>")
        body = body.removeprefix("<|python_tag|>").removesuffix("<|eot_id|>").removesuffix("<|eom_id|>")
        if is_valid_python_list(body):  # of which `maybe_extract_custom_tool_call` returns the first only
            return Reading(list(parse_python_list_for_function_calls(body)))
        custom = ToolUtils.maybe_extract_custom_tool_call(body)
        if custom is not None:
            return Reading([custom])
        search = ToolUtils.maybe_extract_builtin_tool_call(body)
        if search is not None:
            return Reading([(search[0], {"query": search[1]})])
        return Reading([("code_interpreter", {"code": body})] if python_tag else [])

    return read


def _openai_harmony(settings: Settings) -> Read:
    """`StreamableParser`, token by token."""
    from openai_harmony import HarmonyError, Role, StreamableParser, load_harmony_encoding

    if settings.format != "gpt-oss":
        raise Unreadable(f"openai-harmony does not read {settings.format!r}")
    try:
        encoding = load_harmony_encoding("HarmonyGptOss")
    except HarmonyError as error:
        instead = "TIKTOKEN_ENCODINGS_BASE, a folder with o200k_base.tiktoken"
        raise Unreadable(f"openai-harmony has no vocabulary: {error}\n  instead: {instead}") from error

    def read(text: str, cuts: Sequence[int], thinks: bool) -> Reading:
        parser = StreamableParser(encoding, Role.ASSISTANT)
        for token in encoding.encode(text, allowed_special="all"):
            parser.process(token)
        calls, content, thoughts = [], "", ""
        for message in parser.messages:
            said = "".join(part.text for part in message.content)
            if (message.recipient or "").startswith("functions."):
                calls.append((message.recipient.removeprefix("functions."), json.loads(said)))
            elif message.channel == "analysis":
                thoughts += said
            else:
                content += said
        return Reading(calls, content, thoughts)

    return read


# -- by name -----------------------------------------------------------------------------------------------------------

READERS: dict[str, tuple[Callable[[Settings], Read], str, Sequence[str]]] = {  # how it is opened, its package, formats
    "transformers": (_transformers, "transformers", tuple(TEMPLATES)),
    "vllm": (_vllm, "vllm", tuple(VLLM)),
    "sglang": (_sglang, "sglang", tuple(SGLANG)),
    "mistral-common": (_mistral_common, "mistral-common", tuple(MISTRAL)),
    "llama-models": (_llama_models, "llama-models", tuple(name for name in LLAMA if name != "llama3.1-builtin")),
    "openai-harmony": (_openai_harmony, "openai-harmony", ("gpt-oss",)),
}
STREAMS = ("transformers", "vllm", "sglang")  # those that read a text as it comes


def open_reader(name: str, settings: Settings) -> Read:
    """Return a reader: one of `READERS`, or ``python:module:function``, which takes a text and returns pairs of names
    and arguments, or a message as OpenAI has it.

    Raises: Unreadable: it is not known, not installed, or does not read the format.
    """
    if name.startswith("python:"):
        module, _, function = name.removeprefix("python:").partition(":")
        try:
            own = getattr(import_module(module), function)
        except (ImportError, AttributeError, ValueError) as error:
            raise Unreadable(f"cannot import {name!r}: {error}\n  instead: python:module:function") from error
        return lambda text, cuts, thinks: _of_own(own(text))
    if name not in READERS:
        raise Unreadable(f"no reader {name!r}\n  instead: {', '.join(READERS)}, python:module:function")
    opens, package, _ = READERS[name]
    try:
        return opens(settings)
    except ImportError as error:
        instead = f"pip install {package}, or {name}@PYTHON, an interpreter that has it"
        raise Unreadable(f"cannot import {package} in {sys.executable}: {error}\n  instead: {instead}") from error


def _of_own(found: Any) -> Reading:
    if isinstance(found, Mapping):
        return of_message(found)
    return Reading([(name, _arguments(arguments)) for name, arguments in found])


def version(name: str) -> str:
    """Return a reader's name with the version of its package."""
    package = READERS[name][1] if name in READERS else ""
    for distribution in (package, f"{package}-cpu"):
        try:
            return f"{package} {metadata.version(distribution)}"
        except (metadata.PackageNotFoundError, ValueError):
            continue
    return name


def serve() -> None:
    """Answer lines of JSON: ``{"reader", …settings}`` opens a reader, ``[text, cuts, thinks]`` is for it to read."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what packages print is no answer
    read: Read | None = None
    name = ""
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            if isinstance(asked, dict):
                name = asked.pop("reader")
                read = open_reader(name, Settings(**asked))
                told: dict[str, Any] = {"version": version(name)}
            else:
                assert read is not None
                told = {"reading": read(*asked)}
        except Unreadable as error:
            told = {"unreadable": str(error), "version": version(name)}
        except (Exception, SystemExit) as error:
            told = {"error": [type(error).__name__, str(error)]}
        print(json.dumps(told), file=answers, flush=True)


if __name__ == "__main__":
    serve()
