"""`tool_choice` as callers of different interfaces write it → one of `CHOICES`, or the names that may be called.

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
from typing import Any, NamedTuple

from constrained.errors import GrammarError, shown

CHOICES = ("auto", "required", "none")
_WORDS = {
    "auto": "auto",
    "required": "required",
    "none": "none",
    "any": "required",
    "validated": "auto",
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
    found = _of_mapping(choice, offered)
    single = choice.get("disable_parallel_tool_use", False)
    if found is None or not isinstance(single, bool):
        raise _unknown(choice, offered)
    for name in found.allowed or ():
        if name not in offered:
            raise _unknown(name, offered)
    return found._replace(single=single)


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
    found = [
        _named(tool.get("function", tool)) if isinstance(tool, Mapping) else None for tool in choice.get("tools", ())
    ]
    word = _WORDS.get(str(choice.get("mode", "auto")))
    if word is None or not found or None in found:
        return None
    return ToolChoice(word, tuple(name for each in found if each is not None for name in each.allowed or ()))


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
