"""The published readers of chat formats, typed again from their sources; those of the conformance laboratory as
installed.

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
from functools import cache, partial
from typing import Any

from constrained.conform.readers import Read, Settings, open_reader

Calls = list[tuple[str, Any]]


def installed(text: str, reader: str, name: str, tools: Any = ()) -> Calls:
    """Return the calls that a reader of the laboratory finds, as its package is installed here."""
    return _opened(reader, name, json.dumps(tools))(text, (), "[THINK]" in text).calls


@cache
def _opened(reader: str, name: str, tools: str) -> Read:
    return open_reader(reader, Settings(name, (), (), (), json.loads(tools)))


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
    value = re.sub("([{,])([^\0{},:\\[\\]]+):", r'\1"\2":', value) if value[:1] in "{[" else value
    return re.sub("\0(\\d+)\0", lambda at: json.dumps(parts[int(at[1])][5:-5]), value)  # as JSON inside of others


_M3 = r"\]<\]minimax\[>\["
_M3_ELEMENT = rf"{_M3}<([^>\[]+)>(.*?){_M3}</\1>"


def minimax_m3(text: str) -> Calls:
    """The steps of vLLM's parser for MiniMax M3: elements are arguments, and those inside of them members or items."""
    calls = tagged(
        text, block=f"{_M3}<tool_call>(.*?){_M3}</tool_call>",
        call=f'{_M3}<invoke name="([^"]*)">(.*?){_M3}</invoke>', argument=_M3_ELEMENT, unthink="</mm:think>",
    )  # fmt: skip
    return [(name, {key: _elements(value) for key, value in arguments.items()}) for name, arguments in calls]


def _elements(text: str) -> Any:
    found = re.findall(_M3_ELEMENT, text, re.DOTALL)
    if found and all(name == "item" for name, _ in found):
        return [_elements(inner) for _, inner in found]
    return {name: _elements(inner) for name, inner in found} if found else text


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
        said = re.split(r"<\|(?:call|end)\|>", body)[0]
        if recipient.startswith("functions."):
            calls.append((recipient.removeprefix("functions."), json.loads(said)))
        elif recipient.startswith("browser."):
            calls.append((recipient, json.loads(said)))
        elif recipient == "python":
            calls.append((recipient, {"code": said}))
    return calls


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
    **dict.fromkeys(
        ("qwen2.5", "qwen3", "qwen3-2507", "qwen3-thinking-2507", "granite-4.0", "hermes-3", "exaone-4.0"), _hermes
    ),
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
    "mistral-v3-spm": partial(installed, reader="mistral-common", name="mistral-v3-spm"),
    "mistral-v3-tekken": partial(installed, reader="mistral-common", name="mistral-v3-tekken"),
    "mistral-v7-spm": partial(installed, reader="mistral-common", name="mistral-v7-spm"),
    "mistral-v11": partial(installed, reader="mistral-common", name="mistral-v11"),
    "mistral-v13": partial(installed, reader="mistral-common", name="mistral-v13"),
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
    "dots-3": partial(
        tagged, block="<dots_function_call>(.*?)</dots_function_call>",
        call=r'<invoke\s+name\s*=\s*"([^">]+)">(.*?)</invoke>',
        argument=r'<parameter\s+name\s*=\s*"([^">]+)">(.*?)</parameter>', lines=1,
    ),
    "solar-open-2": partial(
        tagged, block="(.*)", call=r"<\|tool_call:start\|>\n*((?:(?!<\|)[^\n])+?)\n(.*?)<\|tool_call:end\|>",
        argument=r"<\|tool_arg:start\|>(.*?)<\|tool_arg:value\|>(.*?)<\|tool_arg:end\|>", unthink="<|think:end|>",
    ),
    "glm-4.6": _GLM,
    "glm-4.7": _GLM,
    "minimax-m3": minimax_m3,
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
    "llama3.1-function": partial(installed, reader="llama-models", name="llama3.1-function"),
    "llama3.1-json": partial(installed, reader="llama-models", name="llama3.1-json"),
    "llama3.1-builtin": partial(installed, reader="llama-models", name="llama3.1-builtin"),
    "llama3.1-combined": partial(installed, reader="llama-models", name="llama3.1-combined"),
    "llama-3.1": llama_json,
    "llama-3.2": llama_json,
    "llama-3.3": llama_json,
    "pythonic": partial(installed, reader="llama-models", name="pythonic"),
    "hermes": hermes,
    "internlm2": internlm2,
    "chatglm3": chatglm3,
    "openchatml": openchatml,
    **TAGGED,
    **MARKED,
    "internlm2-legacy": lambda text: internlm2(text, "[UNUSED_TOKEN_144]", "[UNUSED_TOKEN_143]", "[UNUSED_TOKEN_141]"),
}
