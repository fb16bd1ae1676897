"""Arguments of `ChatFormat.grammar`, checked against the format → `TurnRequest`.

Tool choice and parallel calls have the words of OpenAI's interface; their meaning here is what a turn may contain, not
advice.  Other interfaces write `tool_choice` as:

    "auto" | "required" | "none" | None | a name            OpenAI, Chat Completions; vLLM
    {"type": "function", "function": {"name": …}}           OpenAI, Chat Completions
    {"type": "function", "name": …}                         OpenAI, Responses
    {"type": "allowed_tools", …}                            OpenAI: mode "auto" or "required", and which tools
    "any" | {"type": "any" | "auto" | "none" | "tool", …}   Anthropic, Mistral; "disable_parallel_tool_use": one call
    {"function_calling_config": {"mode": "ANY", …}}         Gemini, also in camel case
    {"auto": {}} | {"any": {}} | {"tool": {"name": …}}      Bedrock

Tested in tests/test_choices.py, a row for each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from constrained.errors import GrammarError, SchemaError, shown
from constrained.formats.definition import Definition
from constrained.formats.tools import Tool, read_tools

# -- the request -------------------------------------------------------------------------------------------------------

REASONING = ("none", "optional", "required", "prefilled")
INTERPRETERS = ("interpreter", "code_interpreter")  # what interfaces and formats call one


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """What a turn may hold.

    `tools`: None = any name with any arguments.  `choice`: one of `CHOICES`; `only`: the names of the tools that may be
    called, None: all.  `calls`: the most calls, None = no bound.  `options`: values of the format's options.
    `reasoning`: one of `REASONING`, or "empty" where the prompt opens a thought and none may follow.  `prompt`: what
    the prompt holds of the turn.  `calls_before`: the calls of earlier turns, None = unknown.  `marker_safe`: no text
    spells what readers search for.  `preface`: text may stand before calls; None: where no call is asked for.
    `response`: a JSON Schema that answers fit, None: any text.
    """

    tools: tuple[Tool, ...] | None
    choice: str
    only: tuple[str, ...] | None
    calls: int | None
    options: Mapping[str, object]
    reasoning: str = "optional"
    prompt: str = ""
    calls_before: int | None = None
    marker_safe: bool = True
    preface: bool | None = None
    response: Any = None


def make_request(
    definition: Definition,
    tools: object,
    *,
    tool_choice: object = "auto",
    parallel_tool_calls: bool | None = None,
    max_calls: int | None = None,
    reasoning: str | None = None,
    prompt: str | None = None,
    calls_before: int | None = None,
    marker_safe: bool = True,
    preface: bool | None = None,
    response_schema: Any = None,
    **options: object,
) -> TurnRequest:
    """Return what a call of `grammar` with these arguments asks for, defaults filled in.

    Raises: SchemaError: a tool is wrong.  GrammarError: the choice or the number of calls is.
    """
    tools, _ = parted(definition, tools)
    read = None if tools is None else read_tools(tools) if definition.payload else _own_tools(tools, definition)
    word, only, single, named = read_choice(tool_choice, [*(tool.name for tool in read or ()), *definition.builtins])
    if word == "required" and only is None and read == () and not definition.builtins:
        raise GrammarError(
            "tool_choice is 'required'", because="the list of tools is empty", instead="tool_choice 'auto' or 'none'"
        )
    reasoning, prompt = _thinking(definition, reasoning, prompt)
    if preface is not None and not isinstance(preface, bool):
        raise GrammarError(f"preface is {shown(preface)}", instead="True, False or None")
    if not isinstance(marker_safe, bool):
        raise GrammarError(f"marker_safe is {shown(marker_safe)}", instead="True or False")
    if calls_before is not None and (
        isinstance(calls_before, bool) or not isinstance(calls_before, int) or calls_before < 0
    ):
        raise GrammarError(f"calls_before is {shown(calls_before)}", instead="a number from 0, or None")
    if single or named and parallel_tool_calls is None and max_calls is None:
        parallel_tool_calls = False
    return TurnRequest(
        read, word, only, _calls(definition, parallel_tool_calls, max_calls), options, reasoning, prompt,
        calls_before, marker_safe, preface, response_schema)


def parted(definition: Definition, tools: object) -> tuple[object, tuple[str, ...]]:
    """Return the tools without the format's own among them, and the names of these.

    One of its own stands there by its name or as ``{"type": name}``; its interpreter by either of `INTERPRETERS`; all
    of a namespace by what stands before the dot.  A format that has no others keeps them, by name.

    >>> from constrained.formats import ChatFormat
    >>> parted(ChatFormat.load("chatglm3").definition, [{"type": "code_interpreter"}, {"name": "f"}])
    ([{'name': 'f'}], ('interpreter',))
    """
    if not definition.builtins or not isinstance(tools, (list, tuple)):
        return tools, ()
    words: dict[object, list[str]] = {}
    for name in definition.builtins:
        for word in {name, name.partition(".")[0], *(INTERPRETERS if name in INTERPRETERS else ())}:
            words.setdefault(word, []).append(name)
    meant = [tool.get("type") if isinstance(tool, Mapping) else tool for tool in tools]
    named = [words.get(word, []) if isinstance(word, str) else [] for word in meant]
    own = tuple(dict.fromkeys(chain.from_iterable(named)))
    if definition.payload is None:
        return [name for tool, names in zip(tools, named, strict=True) for name in names or [tool]], own
    return [tool for tool, names in zip(tools, named, strict=True) if not names], own


def resolve_builtin_tools(
    definition: Definition, tools: object, choice: object, options: Mapping[str, object]
) -> tuple[object, dict[str, Any]]:
    """Return the tools without those that an option offers, and the options of a turn to be generated, defaults filled
    in: a tool of the format's own is offered among the tools, by the tool choice or by its option.
    """
    tools, own = parted(definition, tools)
    offered = {*own, *([choice] if isinstance(choice, str) else [])}
    rules = {builtin.rule for name, builtin in definition.builtins.items() if name in offered}
    defaults = {
        name: option.generated if rules.isdisjoint(option.values[False].drop) else True
        for name, option in definition.options.items()
        if option.generated != option.default
    }
    return tools, {**defaults, **options}


def read_options(definition: Definition, options: Mapping[str, object]) -> dict[str, Any]:
    """Return the options under which what may be generated is what may be read."""
    return {
        **{name: option.default for name, option in definition.options.items() if option.generated != option.default},
        **options,
    }


def _thinking(definition: Definition, reasoning: object, prompt: object) -> tuple[str, str]:
    """Return whether a turn thinks, and how its prompt ends."""
    if reasoning is not None and (not isinstance(reasoning, str) or reasoning not in REASONING):
        raise GrammarError(f"unknown reasoning {shown(reasoning)}", instead="one of: " + ", ".join(REASONING))
    if prompt is None:
        prompt = definition.start(reasoning)
    if not isinstance(prompt, str):
        raise GrammarError(f"the prompt is {shown(prompt)}", instead="the text behind the assistant's header, or None")
    if definition.reasoning is None or not definition.generates_thoughts:
        if reasoning in ("required", "prefilled"):
            raise GrammarError(
                f"reasoning is {reasoning!r}", because=f"the format '{definition.title}' has no thoughts",
                instead="'none', or leave it out",
            )
        return "none", prompt
    if reasoning == "prefilled":
        return "required", prompt or definition.reasoning.prompt
    if reasoning == "none" and prompt in (definition.reasoning.prompt, definition.reasoning.closed):
        return "empty" if prompt == definition.reasoning.prompt else "optional", prompt
    return reasoning or "optional", prompt


def _own_tools(tools: object, definition: Definition) -> tuple[Tool, ...]:
    """Return the tools of a format that knows only its own; they may be given by name."""
    if isinstance(tools, (list, tuple, set, frozenset)):
        tools = [{"name": tool} if isinstance(tool, str) else tool for tool in tools]
    read = read_tools(tools)
    for tool in read:
        if tool.name not in definition.builtins:
            raise SchemaError(
                f"tool {tool.name!r} cannot be called in the format '{definition.title}'",
                because="it has tools of its own only" if definition.builtins else "it has no calls",
                instead=f"some of: {', '.join(definition.builtins)}" if definition.builtins else "no tools",
            )
    return read


def _calls(definition: Definition, parallel: bool | None, max_calls: int | None) -> int | None:
    """Return the most calls of a turn, None for no bound."""
    is_number = isinstance(max_calls, int) and not isinstance(max_calls, bool)
    if max_calls is not None and not (is_number and 0 < max_calls < 1 << 63):
        raise GrammarError(f"max_calls is {shown(max_calls)}", instead="a number from 1, or None")
    if parallel is not None and not isinstance(parallel, bool):
        raise GrammarError(f"parallel_tool_calls is {shown(parallel)}", instead="True, False or None")
    repeat = definition.calls
    if repeat is None:
        if parallel or (max_calls or 1) > 1:
            raise GrammarError(
                f"the format '{definition.title}' cannot carry several calls in a turn",
                because="its specification allows one", instead="leave parallel_tool_calls and max_calls out",
            )
        return None
    if parallel is False:
        return 1
    return max_calls if max_calls is not None or parallel else repeat.default


# -- tool_choice -------------------------------------------------------------------------------------------------------

CHOICES = ("auto", "required", "none")
_WORDS = {
    "auto": "auto", "required": "required", "none": "none", "any": "required", "validated": "auto",
    "mode_unspecified": "auto",
}


class ToolChoice(NamedTuple):
    """`word`: one of `CHOICES`; `allowed`: the names of the tools that may be called, None: all that are offered.
    `single`: one call at most.  `named`: a tool was named, which is one call unless more are asked for.
    """

    word: str
    allowed: tuple[str, ...] | None = None
    single: bool = False
    named: bool = False


def read_choice(choice: object, offered: Collection[str]) -> ToolChoice:
    """Return what a tool choice means.

    Raises: GrammarError: it is none of the above, or names a tool that is not offered.

    >>> read_choice({"type": "tool", "name": "add"}, ["add"])
    ToolChoice(word='required', allowed=('add',), single=False, named=True)
    """
    if choice is None:
        return ToolChoice("auto")
    if isinstance(choice, str):
        if choice in offered and choice not in CHOICES:
            return ToolChoice("required", (choice,), named=True)
        if choice.lower() in _WORDS:
            return ToolChoice(_WORDS[choice.lower()])
        raise _unknown(choice, offered)
    if not isinstance(choice, Mapping):
        raise _unknown(choice, offered)
    choice_read = _of_mapping(choice, offered)
    single = choice.get("disable_parallel_tool_use", False)
    if choice_read is None or not isinstance(single, bool):
        raise _unknown(choice, offered)
    for name in choice_read.allowed or ():
        if name not in offered:
            raise _unknown(name, offered)
    return choice_read._replace(single=single)


def _of_mapping(choice: Mapping[Any, Any], offered: Collection[str]) -> ToolChoice | None:
    if len(choice) == 1:
        (key, inner), = choice.items()
        if key in ("function_calling_config", "functionCallingConfig") and isinstance(inner, Mapping):
            return _of_gemini(inner)
        if key in ("auto", "any", "tool") and isinstance(inner, Mapping):  # Bedrock
            return _named(inner) if key == "tool" else ToolChoice(_WORDS[key])
    kind = choice.get("type")
    inner = next((choice[key] for key in ("function", "custom", "allowed_tools") if key in choice), None)
    if "mode" in choice and kind is None:
        return _of_gemini(choice)
    if kind == "allowed_tools":
        return _of_allowed(inner if isinstance(inner, Mapping) else choice)
    if kind in ("function", "tool", "custom", None):
        return _named(inner if isinstance(inner, Mapping) else choice)
    return ToolChoice(_WORDS[kind]) if isinstance(kind, str) and kind in _WORDS and "name" not in choice else None


def _named(choice: Mapping[Any, Any]) -> ToolChoice | None:
    name = choice.get("name")
    return ToolChoice("required", (name,), named=True) if isinstance(name, str) else None


def _of_allowed(choice: Mapping[Any, Any]) -> ToolChoice | None:
    choices = [
        _named(tool.get("function", tool)) if isinstance(tool, Mapping) else None for tool in choice.get("tools", ())
    ]
    word = _WORDS.get(str(choice.get("mode", "auto")))
    if word is None or not choices or None in choices:
        return None
    return ToolChoice(word, tuple(name for each in choices if each is not None for name in each.allowed or ()))


def _of_gemini(choice: Mapping[Any, Any]) -> ToolChoice | None:
    names = choice.get("allowed_function_names", choice.get("allowedFunctionNames"))
    word = _WORDS.get(str(choice.get("mode", "auto")).lower())
    if word is None or not (
        names is None or isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names)
    ):
        return None
    return ToolChoice(word, tuple(names) if names else None)


def _unknown(choice: object, offered: Collection[str]) -> GrammarError:
    names = list(dict.fromkeys(offered))
    listed = ", ".join((*CHOICES, *names[:20], *(["…"] if len(names) > 20 else [])))
    return GrammarError(f"unknown tool_choice {shown(choice, 200)}", instead=f"one of: {listed}")
