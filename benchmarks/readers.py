"""The published readers of chat formats, typed again from their sources; llama-models and mistral-common as installed.

Each finds the calls in the text of a turn as its original does, where nothing is wrong with the text.  What stands
between tags is a text to `tagged`; the originals make values of it by the types of the tool's schema.  Habits of
theirs that take from strings what templates write there are left out: several read the word null as nothing where a
string is asked for, SGLang's of MiMo ``&lt;`` as ``<``, vLLM's of Seed-OSS and MiniMax M2 no white space at the ends.
`templated` is transformers' ``parse_response``, given what the response templates of its tests say of calls.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

Calls = list[tuple[str, Any]]


def llama_models(text: str) -> Calls:
    """llama-models, ``ChatFormat.decode_assistant_message_from_content``, without its tokenizer."""
    from llama_models.llama3.tool_utils import ToolUtils, is_valid_python_list, parse_python_list_for_function_calls

    body = text.strip(" ")
    python_tag = body.startswith("<|python_tag|>")
    body = body.removeprefix("<|python_tag|>").removesuffix("<|eot_id|>").removesuffix("<|eom_id|>")
    if is_valid_python_list(body):  # of which `maybe_extract_custom_tool_call` returns the first only
        return list(parse_python_list_for_function_calls(body))
    custom = ToolUtils.maybe_extract_custom_tool_call(body)
    if custom is not None:
        return [custom]
    search = ToolUtils.maybe_extract_builtin_tool_call(body)
    if search is not None:
        return [(search[0], {"query": search[1]})]
    return [("code_interpreter", {"code": body})] if python_tag else []


def llama_json(text: str) -> Calls:
    """VLLM's parser for Llama's JSON: an object that begins at any brace outside of another, with a name and its
    arguments.
    """
    calls, at = [], text.find("{")
    while at >= 0:
        try:
            read, end = json.JSONDecoder().raw_decode(text, at)
        except ValueError:
            read, end = None, at + 1
        if isinstance(read, dict) and "name" in read and read.keys() & {"arguments", "parameters"}:
            calls.append((read["name"], read.get("arguments", read.get("parameters"))))
        at = text.find("{", end)
    return calls


def hermes(text: str) -> Calls:
    """The expression of vLLM's parser for Hermes, and `json.loads`."""
    found = re.findall(r"<tool_call>(.*?)</tool_call>|<tool_call>(.*)", text.removesuffix("<|im_end|>"), re.DOTALL)
    read = [json.loads(whole or rest) for whole, rest in found]
    return [(call["name"], call["arguments"]) for call in read]


def internlm2(
    text: str, start: str = "<|action_start|>", end: str = "<|action_end|>", plugin: str = "<|plugin|>"
) -> Calls:
    """The steps of vLLM's and lmdeploy's parsers, for one action or more."""
    calls = []
    for part in text.split(start)[1:]:
        kind, _, action = part.partition(plugin)
        if not kind.strip():
            read = json.loads(action[action.find("{") :].partition(end)[0])
            calls.append((read["name"], read.get("parameters", read.get("arguments"))))
        else:
            code = part.partition(end)[0].partition("\n")[2].strip()
            calls.append(("interpreter", {"code": code.removeprefix("```python\n").removesuffix("\n```")}))
    return calls


def chatglm3(text: str) -> Calls:
    """The official ``process_response``: metadata up to a line break, the lines of the fence; literals in place of its
    `eval`.  The vendor's demo takes what its expression for a fence finds instead, which must be the same.
    """
    calls = []
    for response in re.sub(r"(<\|user\|>|<\|observation\|>|</s>)$", "", text).split("<|assistant|>"):
        metadata, _, content = response.partition("\n")
        if metadata.strip():
            body = "\n".join(content.split("\n")[1:-1])
            assert re.findall(r"```[^\n]*\n(.*?)```", content, re.DOTALL) == [f"{body}\n"]
            if metadata.strip() == "interpreter":
                calls.append(("interpreter", {"code": body}))
            else:
                call = ast.parse(body, mode="eval").body
                assert isinstance(call, ast.Call)
                calls.append(
                    (metadata.strip(), {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords})
                )
    return calls


def openchatml(text: str) -> Calls:
    """No parser is published: what stands behind each token, or between the tags of the prose, as JSON; thoughts are
    cut off.
    """
    calls = []
    text = re.sub(r"<\|start_(reflect|introspect|reason)\|>.*?<\|end_\1\|>", "", text, flags=re.DOTALL)
    for part in re.split(r"<\|function_call\|>|<tool_call>", text)[1:]:
        read, _ = json.JSONDecoder().raw_decode(part.lstrip())
        calls.append((read["name"], read["arguments"]))
    return calls


def tagged(
    text: str, block: str, call: str, argument: str, *, unthink: str | None = "</think>", anywhere: bool = False,
    lines: int = 0,
) -> Calls:
    """The steps of vLLM's and SGLang's parsers for arguments between tags: blocks, calls inside of them, then their
    arguments, each ending at the first text that its expression ends with.

    unthink: what thoughts end with, which are cut off; None: the model has none.  anywhere: calls are looked for in a
    text without a block too.  lines: the line breaks that are taken away at each end of an argument.
    """
    rest = text.partition(unthink)[2] if unthink and unthink in text else text
    blocks = re.findall(block, rest, re.DOTALL) or [rest] * anywhere
    calls = []
    for name, body in [found for part in blocks for found in re.findall(call, part, re.DOTALL)]:
        found = dict(re.findall(argument, body, re.DOTALL))
        if lines:
            found = {key: value.removeprefix("\n").removesuffix("\n") for key, value in found.items()}
        calls.append((name.strip(), found))
    return calls


_QWEN = partial(
    tagged, block="<tool_call>(.*?)(?:</tool_call>|$)", call=r"<function=([^>]*)>(.*?)(?:</function>|$)",
    argument="<parameter=([^>]*)>(.*?)(?:</parameter>|(?=<parameter=)|(?=</function>)|$)", anywhere=True, lines=1,
)  # fmt: skip
_GLM = partial(
    tagged, block="<tool_call>(.*?)</tool_call>", call=r"^([^\n<]*)(.*)$",
    argument=r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>",
)  # fmt: skip


def gemma(text: str) -> Calls:
    """VLLM's parser for Gemma 4: bare keys, strings between tokens, all else up to the next comma outside of them."""
    calls = []
    for name, body in re.findall(r"<\|tool_call>call:([^{]+)\{(.*?)\}<tool_call\|>", text, re.DOTALL):
        parts = re.split(r'(<\|"\|>.*?<\|"\|>)', body, flags=re.DOTALL)
        bare = "".join(f"\0{at}\0" if at % 2 else part for at, part in enumerate(parts))
        pairs = [member.partition(":")[::2] for member in re.split(r",(?![^{\[]*[}\]])", bare) if member]
        calls.append((name, {key: _unquoted(value, parts) for key, value in pairs}))
    return calls


def _unquoted(value: str, parts: list[str]) -> str:
    if (whole := re.fullmatch("\0(\\d+)\0", value)) is not None:
        return parts[int(whole[1])].removeprefix('<|"|>').removesuffix('<|"|>')
    return re.sub("\0(\\d+)\0", lambda at: json.dumps(parts[int(at[1])][5:-5]), value)  # as JSON inside of lists


_M3 = r"\]<\]minimax\[>\["


def _dsml(block: str, space: str = "") -> Callable[[str], Calls]:
    mark = f"｜DSML｜{space}"
    return partial(
        tagged, block=f"<{mark}{block}>(.*?)</{mark}{block}>",
        call=f'<{mark}invoke name="([^"]+)">(.*?)</{mark}invoke>',
        argument=f'<{mark}parameter name="([^"]+)" string="(?:true|false)">(.*?)</{mark}parameter>',
    )  # fmt: skip


def behind_thought(text: str, end: str = "</think>") -> str:
    """Return a turn without its thought, as servers cut it off before they look for calls."""
    return text.rpartition(end)[2]


def matched(text: str, call: str, block: str = "(.*)") -> Calls:
    """The steps of vLLM's and SGLang's parsers for JSON between tokens: the first block, in it what an expression
    finds, with a name and the JSON of its arguments.
    """
    found = re.search(block, text, re.DOTALL)
    calls = re.finditer(call, found[1] if found else "", re.DOTALL)
    return [(call["name"].strip(), json.loads(call["arguments"])) for call in calls]


def listed(text: str, start: str, end: str, name: str = "name", arguments: str = "arguments") -> Calls:
    """Calls in JSON between two tokens, a list or one, as handlers of Cohere's and Microsoft's models read them."""
    read = [json.loads(part.partition(end)[0]) for part in text.split(start)[1:]]
    calls = [call for part in read for call in (part if isinstance(part, list) else [part])]
    return [(call[name], call[arguments]) for call in calls]


def functionary(text: str) -> Calls:
    """Functionary 3.2's recipients: a name on a line of its own behind ">>>"; "all" is whoever reads the answer."""
    parts = [part.partition("\n") for part in text.removesuffix("<|eot_id|>").split(">>>")[1:]]
    return [(name, json.loads(arguments)) for name, _, arguments in parts if name != "all"]


def harmony(text: str) -> Calls:
    """The steps of openai-harmony's parser, whose vocabulary is not in its package: messages between tokens; a header's
    channel up to a blank or a token, then a recipient and a type.
    """
    calls = []
    for message in re.split(r"<\|start\|>assistant", text):
        header, _, body = message.partition("<|message|>")
        channel = re.match(r"[^\s<]*", header.partition("<|channel|>")[2])
        assert channel is not None
        words = header.replace(f"<|channel|>{channel[0]}", " ", 1).replace("<|constrain|>", " ").split()
        recipient = next((word.removeprefix("to=") for word in words if word.startswith("to=")), "")
        if recipient.startswith("functions."):
            calls.append((recipient.removeprefix("functions."), json.loads(re.split(r"<\|(?:call|end)\|>", body)[0])))
    return calls


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


def mistral_common(text: str, version: str) -> Calls:
    """mistral-common's ``experimental.tools``, with the special tokens of the text as ids."""
    from mistral_common.experimental import tools
    from mistral_common.tokens.tokenizers.base import TokenizerVersion

    tokens: Any = _Tokens(TokenizerVersion(version))
    ids = tokens.encode(text.removesuffix("</s>"))
    _, calls = tools._split_content_and_tool_calls(ids, tokens.get_special_token("[TOOL_CALLS]"))
    found = tools._decode_tool_calls(calls, tokens)
    return [(call.function.name, json.loads(call.function.arguments)) for call in found]


_KIMI = partial(
    matched, block=r"<\|tool_calls_section_begin\|>(.*)<\|tool_calls_section_end\|>",
    call=r"<\|tool_call_begin\|>\s*(?:functions\.)?(?P<name>[^<]+?):\d+\s*<\|tool_call_argument_begin\|>\s*"
    r"(?P<arguments>(?:(?!<\|tool_call_begin\|>).)*?)\s*<\|tool_call_end\|>",
)  # fmt: skip
_COHERE = partial(
    listed, start="<|START_ACTION|>", end="<|END_ACTION|>", name="tool_name", arguments="parameters"
)  # fmt: skip
_R1 = partial(
    matched, block="<｜tool▁calls▁begin｜>(.*)<｜tool▁calls▁end｜>",
    call="<｜tool▁call▁begin｜>[^<]*<｜tool▁sep｜>(?P<name>[^\n]*)\n```json\n(?P<arguments>.*?)\n```<｜tool▁call▁end｜>",
)  # fmt: skip


def _hermes(text: str) -> Calls:
    return hermes(behind_thought(text))


MARKED: dict[str, Callable[[str], Calls]] = {
    **dict.fromkeys(("qwen2.5", "qwen3", "qwen3-2507", "granite-4.0", "hermes-3", "exaone-4.0"), _hermes),
    "deepseek-r1": _R1,
    "deepseek-v3": _R1,
    "deepseek-v3.1": partial(
        matched, block="<｜tool▁calls▁begin｜>(.*)<｜tool▁calls▁end｜>",
        call="<｜tool▁call▁begin｜>(?P<name>.*?)<｜tool▁sep｜>(?P<arguments>.*?)<｜tool▁call▁end｜>",
    ),
    "kimi-k2": _KIMI,
    "kimi-k2-thinking": _KIMI,
    "command-r7b": _COHERE,
    "command-a": _COHERE,
    "cohere2moe": _COHERE,
    "phi-4-mini": partial(listed, start="<|tool_call|>", end="<|/tool_call|>"),
    "functionary-3.1": partial(matched, call=r"<function=(?P<name>[^>]+)>(?P<arguments>.*?)</function>"),
    "functionary-3.2": functionary,
    "gpt-oss": harmony,
    "mistral-v3-spm": partial(mistral_common, version="v3"),
    "mistral-v3-tekken": partial(mistral_common, version="v3"),
    "mistral-v7-spm": partial(mistral_common, version="v7"),
    "mistral-v11": partial(mistral_common, version="v11"),
    "mistral-v13": partial(mistral_common, version="v13"),
}  # fmt: skip
TAGGED: dict[str, Callable[[str], Calls]] = {
    "qwen3-coder": partial(_QWEN, unthink=None),  # a model that does not think
    "qwen3.5": _QWEN,
    "mimo": partial(_QWEN, argument="<parameter=([^>]+)>(.*?)</parameter>", anywhere=False, lines=0),
    "seed-oss": partial(
        _QWEN, block="<seed:tool_call>(.*?)(?:</seed:tool_call>|$)",
        argument="<parameter=([^>]*)>(.*?)(?:</parameter>|$)", unthink="</seed:think>", lines=0,
    ),
    "minimax-m2": partial(
        tagged, block="<minimax:tool_call>(.*?)</minimax:tool_call>", call='<invoke name="(.*?)">(.*?)(?:</invoke>|$)',
        argument='<parameter name="(.*?)">(.*?)(?:</parameter>|$)',
    ),
    "glm-4.6": _GLM,
    "glm-4.7": _GLM,
    "minimax-m3": partial(
        tagged, block=f"{_M3}<tool_call>(.*?){_M3}</tool_call>",
        call=f'{_M3}<invoke name="([^"]*)">(.*?){_M3}</invoke>', argument=rf"{_M3}<([^>\[]+)>(.*?){_M3}</\1>",
        unthink="</mm:think>",
    ),
    "kimi-k3": partial(
        tagged, block=r"<\|open\|>tools<\|sep\|>(.*)<\|close\|>tools<\|sep\|>",
        call=r'<\|open\|>call tool="([^"]*)" index="\d+"<\|sep\|>(.*?)<\|close\|>call<\|sep\|>',
        argument=r'<\|open\|>argument key="([^"]*)" type="[a-z]+"<\|sep\|>(.*?)<\|close\|>argument<\|sep\|>',
        unthink=None,
    ),
    "gemma-4": gemma,
    "deepseek-v3.2-jinja": _dsml("function_calls"),
    "deepseek-v3.2": _dsml("function_calls"),
    "deepseek-v4": _dsml("tool_calls"),
    "deepseek-v4.1": _dsml("calls", " "),
}  # fmt: skip
READERS: dict[str, Callable[[str], Calls]] = {
    "llama3.1-function": llama_models,
    "llama3.1-json": llama_models,
    "llama3.1-builtin": llama_models,
    "llama3.1-combined": llama_models,
    "llama-3.1": llama_json,
    "llama-3.2": llama_json,
    "llama-3.3": llama_json,
    "pythonic": llama_models,
    "hermes": hermes,
    "internlm2": internlm2,
    "chatglm3": chatglm3,
    "openchatml": openchatml,
    **TAGGED,
    **MARKED,
    "internlm2-legacy": lambda text: internlm2(text, "[UNUSED_TOKEN_144]", "[UNUSED_TOKEN_143]", "[UNUSED_TOKEN_141]"),
}


def _fields(opens: str, close: str, name: str | None, arguments: str, **more: Any) -> dict[str, Any]:
    """Return a response template that finds calls; None: a call is JSON as OpenAI has it."""
    function = "{content}" if name is None else {"name": name, "arguments": arguments}
    calls = {"open_pattern": opens, "close": close, "content": "json", "repeats": True, **more}
    calls["transform"] = {"type": "function", "function": function}
    return {"start_anchor": "\0", "fields": {"thinking": {"open": "<think>", "close": "</think>"}, "tool_calls": calls}}


_JSON_TEMPLATE = _fields("<tool_call>", "</tool_call>", None, "")
_COHERE_TEMPLATE = _fields(
    r"<\|START_ACTION\|>", "<|END_ACTION|>", "{tool_name}", "{parameters}", transform_each=True, repeats=False
)
_QWEN_TEMPLATE = _fields(
    r"<tool_call>\s*<function=(?P<name>\w+)>", "</tool_call>", "{name}", "{content}", content="xml-inline",
    content_args={
        "tag_pattern": r"<parameter=(?P<key>\w+)>\s*(?P<value>.*?)\s*</parameter>",
        "value_parser": {"name": "json", "args": {"allow_non_json": True}},
    },
)  # fmt: skip
TEMPLATES: dict[str, tuple[dict[str, Any], str]] = {  # and the turns that they misread, as the notes of the format say
    **dict.fromkeys(("hermes", "qwen2.5", "qwen3", "qwen3-2507"), (_JSON_TEMPLATE, "$^")),
    **dict.fromkeys(("command-a", "command-r7b"), (_COHERE_TEMPLATE, "$^")),
    **dict.fromkeys(("qwen3-coder", "qwen3.5"), (_QWEN_TEMPLATE, r"<parameter=\w+>\n\s|\s\n</parameter>")),
    "gemma-4": (
        _fields(
            r"<\|tool_call>call:(?P<name>\w+)", "<tool_call|>", "{name}", "{content}",
            content_args={"unquoted_keys": True, "string_delims": [['<|"|>', '<|"|>']]},
        ), "[\x01\x02]"),
    "gpt-oss": (
        _fields(
            r"<\|channel\|>commentary to=functions\.(?P<name>\w+).*?<\|message\|>", "<|call|>", "{name}", "{content}"
        ), r" to=functions[^<]*<\|channel\|>"),
}  # fmt: skip


def templated(name: str, text: str, tools: Any) -> Calls:
    """Return the calls that transformers' ``parse_response`` finds in a turn of a format."""
    from transformers.utils.chat_parsing import parse_response

    found = parse_response(text, TEMPLATES[name][0], prefix="", tools=tools).get("tool_calls", ())
    return [(call["function"]["name"], call["function"]["arguments"]) for call in found]
