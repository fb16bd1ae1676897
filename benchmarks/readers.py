"""The published readers of chat formats, typed again from their sources; llama-models as installed.

Each finds the calls in the text of a turn as its original does, where nothing is wrong with the text.  What stands
between tags is a text to `tagged`; the originals make values of it by the types of the tool's schema.  Habits of
theirs that take from strings what templates write there are left out: several read the word null as nothing where a
string is asked for, SGLang's of MiMo ``&lt;`` as ``<``, vLLM's of Seed-OSS and MiniMax M2 no white space at the ends.
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


def _dsml(block: str, space: str = "") -> Callable[[str], Calls]:
    mark = f"｜DSML｜{space}"
    return partial(
        tagged, block=f"<{mark}{block}>(.*?)</{mark}{block}>",
        call=f'<{mark}invoke name="([^"]+)">(.*?)</{mark}invoke>',
        argument=f'<{mark}parameter name="([^"]+)" string="(?:true|false)">(.*?)</{mark}parameter>',
    )  # fmt: skip


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
    "internlm2-legacy": lambda text: internlm2(text, "[UNUSED_TOKEN_144]", "[UNUSED_TOKEN_143]", "[UNUSED_TOKEN_141]"),
}
