"""Probes of tools → `Words`: what a conversation tells of them, and where.

The tools are looked for as JSON, in the few ways that `ToolPrompt` can write; what stands around them is the words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from constrained.formats.deriving.probes import (
    SYSTEM,
    TOOLS,
    USER,
    Shape,
    Unexplained,
    Words,
    gaps,
    user,
    without_end,
    without_start,
)

if TYPE_CHECKING:
    from constrained.formats.deriving.probes import Probing

_TOOLS = "\0tools"
_SLOT = re.compile(r"\{(tools|json|parameters|declaration|name|description)\}")


class _Spelling(NamedTuple):
    """A way to write tools: as OpenAI has them or the functions alone, indented or not, as a list or one by one."""

    enveloped: bool
    indent: int | None
    is_list: bool


def words_of(probing: Probing, shape: Shape) -> Shape:
    """Return the shape with what is told of tools.  Raises: Unexplained: they are not told as JSON, or elsewhere."""
    asked = [user()]
    if "wname0" not in probing.text(asked, TOOLS[:2]):
        raise Unexplained("the template does not list them; here they are the caller's to say", asked)
    spelling, between, alone = _found(probing, asked)
    pre, post = gaps(alone, [f"{USER}0"])
    if post != shape.user.close:
        raise Unexplained("what closes a user's message depends on tools", asked)
    told: dict[str, Any] = {"enveloped": spelling.enveloped, "indent": spelling.indent, "between": between}
    tool = None if spelling.is_list else "{json}"
    if shape.system is None:
        text = without_start(
            pre, shape.begin + shape.default_system + shape.user.open, "tools are told before all messages"
        )
        return replace(shape, words=Words("user", "before", "", _template(text), "", tool=tool, **told))
    system = shape.system
    spoken = [{"role": "system", "content": f"{SYSTEM}0"}, user()]
    before, behind, _ = gaps(_slotted(probing.text(spoken, TOOLS[:2]), spelling, between), [f"{SYSTEM}0", f"{USER}0"])
    opening = shape.begin + system.open
    inner = without_end(behind, system.close + shape.user.open, "tools are told in the user's message", spoken)
    ahead = without_start(before, opening, "tools are told before all messages", spoken)
    otherwise = without_start(pre, opening, "tools are told elsewhere where nobody says anything", asked)
    otherwise = without_end(
        otherwise, system.close + shape.user.open, "tools are told elsewhere where nobody says anything"
    )
    if bool(ahead) == bool(inner):
        raise Unexplained("tools are told around what the system says", spoken)
    text = ahead or inner
    place = "before" if ahead else "behind"
    bare = text.rstrip("\n") if ahead else text.lstrip("\n")
    joined = text[len(bare) :] if ahead else text[: len(text) - len(bare)]
    alike = "" if otherwise == bare else _template(otherwise)
    return replace(shape, words=Words("system", place, joined, _template(bare), alike, tool=tool, **told))


def _found(probing: Probing, asked: list[Any]) -> tuple[_Spelling, str, str]:
    """Return how tools are spelled, what stands between two, and a conversation with a slot in their place."""
    text = probing.text(asked, TOOLS[:2])
    for spelling in _spellings():
        first, second = (_spelled(tool, spelling) for tool in TOOLS[:2])
        if spelling.is_list:
            if text.count(_listed(spelling)) == 1:
                return spelling, "", text.replace(_listed(spelling), _TOOLS)
        elif text.count(first) == text.count(second) == 1 and text.index(first) < text.index(second):
            between = text[text.index(first) + len(first) : text.index(second)]
            return spelling, between, text.replace(first + between + second, _TOOLS)
    raise Unexplained("they are told in words that are not derived; here they are the caller's to say", asked)


def _spellings() -> Iterator[_Spelling]:
    for is_list in (False, True):
        for enveloped in (True, False):
            for indent in (None, 4, 2):
                yield _Spelling(enveloped, indent, is_list)


def _listed(spelling: _Spelling) -> str:
    tools = [tool if spelling.enveloped else tool["function"] for tool in TOOLS[:2]]
    return json.dumps(tools, ensure_ascii=False, indent=spelling.indent)


def _spelled(tool: Any, spelling: _Spelling) -> str:
    return json.dumps(tool if spelling.enveloped else tool["function"], ensure_ascii=False, indent=spelling.indent)


def _slotted(text: str, spelling: _Spelling, between: str) -> str:
    pieces = [_spelled(tool, spelling) for tool in TOOLS[:2]]
    return text.replace(_listed(spelling) if spelling.is_list else between.join(pieces), _TOOLS)


def _template(text: str) -> str:
    """Return words with the slot of tools, as a definition has them."""
    if re.search(r"\{\{\w+\}\}", text):
        raise Unexplained("the words about tools hold a word in two pairs of braces")
    return _SLOT.sub(lambda found: "{" + found[0] + "}", text).replace(_TOOLS, "{tools}")
