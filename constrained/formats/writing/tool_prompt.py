"""Tools → the words in which a conversation lists them, those of the format (`Definition.tool_prompt`).

The words are a definition's; only in them are special tokens tokens.  What the tools say of themselves is text, as all
messages are.  A conversation that says it already, to the letter, as one that was read does, is not told twice.

A format whose sources print no such words has none.  Its model would not know of the tools, so they are refused unless
the system's messages name them and their parameters, as one does in which the caller lists them.

Where prompts declare tools instead of printing their JSON, `declaration` writes them.  A declaration shows a model what
it may call; nothing is judged by it.  What a language has no words for (patterns, `allOf`) is left out there, as in the
sources, which are templates and renderers of the vendors:

* "python": ``def f(city: str):`` with its docstring, Seed-OSS;  "signature": ``f(city: str) - …``, Hermes;
* "xml": a tag for each key, Qwen3-Coder;
* "quoted": keys without quotes and strings between tokens, Gemma 4;
* "typescript": ``type f = (_: {city: string}) => any;`` with comments, as OpenAI's harmony renderer writes it, after
  src/encoding.rs of openai/harmony; "typescript with bounds": as MeetKai's Functionary does, which tells formats and
  bounds in comments, after functionary/schema.py of MeetKai/functionary.  A function without properties takes no
  argument, as their documents have it.

Tested in tests/test_tool_prompt.py against conversations that the vendors' templates printed.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from constrained.errors import ConstrainedError, SchemaError
from constrained.formats.definition import Definition, ToolPrompt
from constrained.formats.message import Message, Piece, Worded, pieces_of
from constrained.formats.payload.json_text import write_json
from constrained.formats.tools import enveloped, read_tools

# -- TypeScript --------------------------------------------------------------------------------------------------------

_BOUNDS = (
    ("maximum", "Maximum"), ("minimum", "Minimum"), ("maxLength", "Maximum length"), ("minLength", "Minimum length"),
)  # fmt: skip
_NUMBERS = {"integer": "number", "float": "number"}
_INDENT = "    "


def properties_of(schema: Any) -> dict[str, Mapping[str, Any]]:
    """Return the schemas of an object's properties; one that is not a mapping says nothing."""
    found = schema.get("properties") if isinstance(schema, Mapping) else None
    found = found if isinstance(found, Mapping) else {}
    return {str(name): value if isinstance(value, Mapping) else {} for name, value in found.items()}


def required_by(schema: Any) -> Sequence[Any]:
    """Return the names of the properties that an object must have."""
    found = schema.get("required") if isinstance(schema, Mapping) else None
    return found if isinstance(found, (list, tuple)) else ()


def typescript(function: Mapping[str, Any]) -> str:
    """Return the declaration as gpt-oss is told it."""
    lines = [f"// {line}" for line in str(function.get("description") or "").splitlines()]
    schema = function.get("parameters")
    argument = f"_: {_type(schema, '')}" if properties_of(schema) else ""
    return "\n".join([*lines, f"type {function['name']} = ({argument}) => any;"])


def bounded_typescript(function: Mapping[str, Any]) -> str:
    """Return the declaration as Functionary is told it."""
    schema = function.get("parameters")
    head = f"// {function.get('description') or ''}\ntype {function['name']} = ("
    if not properties_of(schema):
        return f"{head}) => any;"
    return "\n".join([f"{head}_: {{", *_members(schema, 0), "}) => any;"])


# -- harmony ---------------------------------------------------------------------------------------------------------


def _type(schema: Any, indent: str) -> str:
    """Return a type; nested objects are indented."""
    if not isinstance(schema, Mapping):
        return "any"
    if isinstance(schema.get("oneOf"), (list, tuple)):
        return "".join(
            f"\n{indent} | {_nullable(variant, f'{indent}   ')}{_remark(variant, described=True)}"
            for variant in schema["oneOf"]
        )
    kind = schema.get("type")
    if isinstance(kind, (list, tuple)) and kind:
        return " | ".join("number" if one == "integer" else str(one) for one in kind)
    if kind == "object":
        return _object(schema, indent)
    if kind == "string":
        return " | ".join(f'"{value}"' for value in schema.get("enum") or () if isinstance(value, str)) or "string"
    if kind == "array":
        return f"{_type(schema['items'], indent)}[]" if "items" in schema else "Array<any>"
    return {"number": "number", "integer": "number", "boolean": "boolean"}.get(str(kind), "any")


def _nullable(schema: Any, indent: str) -> str:
    text = _type(schema, indent)
    return f"{text} | null" if isinstance(schema, Mapping) and schema.get("nullable") and "null" not in text else text


def _object(schema: Mapping[str, Any], indent: str) -> str:
    text = f"{indent}// {schema['description']}\n" if isinstance(schema.get("description"), str) else ""
    text += "{\n"
    for name, value in properties_of(schema).items():
        text += "".join(f"{indent}{line}\n" for line in _comments(value))
        text += f"{indent}{name}{'' if name in required_by(schema) else '?'}:"
        if isinstance(value.get("oneOf"), (list, tuple)):
            text += _variants(value, indent)
        else:
            text += f" {_nullable(value, indent + _INDENT)},{_remark(value, described=False)}\n"
    return f"{text}{indent}}}"


def _comments(schema: Mapping[str, Any]) -> list[str]:
    """Return what stands before a property."""
    lines = [f"// {schema['title']}", "//"] if isinstance(schema.get("title"), str) else []
    variants = schema.get("oneOf")
    first = variants[0] if isinstance(variants, (list, tuple)) and variants else {}
    told = schema.get("description")
    if isinstance(told, str) and told != (first.get("description") if isinstance(first, Mapping) else None):
        lines.append(f"// {told}")
    examples = schema.get("examples")
    if isinstance(examples, (list, tuple)) and examples:
        lines += ["// Examples:", *(f'// - "{example}"' for example in examples if isinstance(example, str))]
    if isinstance(variants, (list, tuple)) and "default" in schema:
        lines.append(f"// {_default(schema)}")
    return lines


def _variants(schema: Mapping[str, Any], indent: str) -> str:
    told, text = schema.get("description"), "\n"
    for at, variant in enumerate(schema["oneOf"]):
        first = variant.get("description") if isinstance(variant, Mapping) else None
        described = first != told and not (at == 0 and isinstance(told, str))
        text += f"{indent} | {_nullable(variant, f'{indent}   ')}{_remark(variant, described=described)}\n"
    return f"{text}{indent},\n"


def _remark(schema: Any, *, described: bool) -> str:
    """Return the comment behind a type: what it is, where that is not said before it, and the default."""
    if not isinstance(schema, Mapping):
        return ""
    told = [str(schema["description"])] if described and isinstance(schema.get("description"), str) else []
    told += [_default(schema)] if "default" in schema else []
    return f" // {' '.join(told)}" if told else ""


def _default(schema: Mapping[str, Any]) -> str:
    value = schema["default"]
    bare = isinstance(value, str) and bool(schema.get("enum"))
    return f"default: {value if bare else json.dumps(value, ensure_ascii=False, separators=(',', ':'))}"


# -- Functionary -----------------------------------------------------------------------------------------------------


def _members(schema: Any, depth: int) -> list[str]:
    """Return the lines of an object's properties."""
    lines, offset = list[str](), _INDENT * depth
    for name, value in properties_of(schema).items():
        lines += [offset + line for line in (*_info(value), *_examples(name, value))]
        optional = "" if name in required_by(schema) else "?"
        declared = f"{offset}{name}{optional}: "
        if value.get("type") == "object":
            lines += [f"{declared}{{", *_members(value, depth + 1), f"{offset}}},"]
        elif value.get("type") == "array":
            lines += [f"{declared}{_array(value, depth)},"]
        else:
            lines.append(f"{declared}{_simple(value)}{' | null' if value.get('nullable') is True else ''},")
    return lines


def _simple(schema: Mapping[str, Any]) -> str:
    if isinstance(schema.get("enum"), (list, tuple)):
        return " | ".join(f'"{value}"' if isinstance(value, str) else str(value) for value in schema["enum"])
    kind = schema.get("type", "any")
    if isinstance(kind, (list, tuple)):
        return " | ".join(map(str, kind))
    variants = schema.get("oneOf") if "type" not in schema else None
    if isinstance(variants, (list, tuple)):
        kinds = [variant["type"] for variant in variants if isinstance(variant, Mapping) and "type" in variant]
        return " | ".join(dict.fromkeys(_NUMBERS.get(str(one), str(one)) for one in kinds)) or "any"
    return _NUMBERS.get(str(kind), str(kind))


def _array(schema: Mapping[str, Any], depth: int) -> str:
    items = schema.get("items")
    if not isinstance(items, Mapping) or "type" not in items:
        return "[]"
    if items["type"] == "object":
        return "\n".join(["{", *_members(items, depth + 1), f"{_INDENT * depth}}}[]"])
    if items["type"] == "array":
        return f"{_array(items, depth + 1)}[]"
    inner = _simple(items)
    return f"({inner})[]" if isinstance(items.get("enum"), (list, tuple)) else f"{inner}[]"


def _info(schema: Mapping[str, Any]) -> list[str]:
    """Return the comment on a property: its description as a sentence, default, format and bounds."""
    told: list[str] = []
    if isinstance(schema.get("description"), str):
        told.append(schema["description"] + ("" if schema["description"].endswith(".") else "."))
    if "default" in schema:
        value = schema["default"]
        told.append(f'Default="{value}".' if schema.get("type") == "string" else f"Default={value}.")
    if isinstance(schema.get("format"), str):
        told.append(f"Format={schema['format']}")
    told += [f"{word}={schema[key]}" for key, word in _BOUNDS if key in schema]
    return ["// " + " ".join(told).replace("\n", " ")] if told else []


def _examples(name: str, schema: Mapping[str, Any]) -> list[str]:
    examples = schema.get("examples")
    if not isinstance(examples, (list, tuple)):
        return []
    told = [json.dumps(one, ensure_ascii=False) if isinstance(one, (Mapping, list)) else str(one) for one in examples]
    return [f"// Example {name}:", *("// " + one.replace("\n", "\\n") for one in told)]


# -- declarations ------------------------------------------------------------------------------------------------------

_PYTHON_TYPES = {"string": "str", "number": "int", "integer": "int", "boolean": "bool", "array": "list"}
_SIGNED_TYPES = {"string": "str", "number": "float", "integer": "int", "boolean": "bool"}


def declaration(language: str, function: Mapping[str, Any], quote: str | None) -> list[Piece]:
    """Return the declaration of a function, {"name": …, "description": …, "parameters": …}; quote: the special token
    around strings, of the language "quoted".
    """
    if language == "quoted":
        return _quoted(function, quote or '"')
    return [(_WRITERS[language](function), False)]


def _described(function: Mapping[str, Any]) -> str:
    return str(function.get("description") or "")


def _python(function: Mapping[str, Any]) -> str:
    schema = function.get("parameters")
    properties = properties_of(schema)
    kinds = {name: _PYTHON_TYPES.get(_kind(value), "Any") for name, value in properties.items()}
    lines = [f"def {function['name']}({','.join(f'{name}: {kind}' for name, kind in kinds.items())}):", '    """']
    lines += [f"    {_described(function).strip()}", ""]
    if properties:
        lines.append("    Args:")
        for name, value in properties.items():
            needed = "必填" if name in required_by(schema) else "选填"
            lines.append(f"    - {name} ({kinds[name]}) [{needed}]: {value.get('description') or ''}")
    return "\n".join([*lines, *([""] if properties else ["", ""]), '    """'])


def _kind(schema: Mapping[str, Any]) -> str:
    return schema["type"] if isinstance(schema.get("type"), str) else ""


def _signature(function: Mapping[str, Any]) -> str:
    kinds = {name: _signed(value) for name, value in properties_of(function.get("parameters")).items()}
    text = f"{function['name']}({', '.join(f'{name}: {kind}' for name, kind in kinds.items())})"
    text += f" - {_described(function)}\n\n"
    if kinds:
        text += "    Args:\n"
    for name, value in properties_of(function.get("parameters")).items():
        text += f"        {name}({kinds[name]}): {str(value.get('description') or '').strip()}"
    return text


def _signed(schema: Any) -> str:
    if not isinstance(schema, Mapping):
        return "Any"
    if isinstance(schema.get("type"), (list, tuple)):
        return f"Union[{','.join(_signed({'type': kind}) for kind in schema['type'])}]"
    kind = _kind(schema)
    if kind == "array":
        return f"list[{_signed(schema.get('items'))}]"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"dict[str, {_signed(values)}]" if isinstance(values, Mapping) else "dict"
    return _SIGNED_TYPES.get(kind, "Any")


def _xml(function: Mapping[str, Any]) -> str:
    schema = function.get("parameters")
    lines = ["<function>", f"<name>{function['name']}</name>"]
    if function.get("description") is not None:
        lines.append(f"<description>{_described(function).strip()}</description>")
    lines.append("<parameters>")
    for name, value in properties_of(schema).items():
        lines += ["<parameter>", f"<name>{name}</name>"]
        if "type" in value:
            lines.append(f"<type>{value['type']}</type>")
        if "description" in value:
            lines.append(f"<description>{str(value['description']).strip()}</description>")
        lines += [*_tags(value, ("name", "type", "description")), "</parameter>"]
    lines += [*_tags(schema, ("type", "properties")), "</parameters>"]
    return "\n".join([*lines, *_tags(function, ("type", "name", "description", "parameters")), "</function>"])


def _tags(schema: Any, told: Sequence[str]) -> list[str]:
    """Return a tag for each key that is not told; lists and objects are JSON, other values as Python prints them."""
    found = schema if isinstance(schema, Mapping) else {}
    return [
        f"<{key}>{write_json(value) if isinstance(value, (Mapping, list, tuple)) else value}</{key}>"
        for key, value in found.items()
        if key not in told
    ]


_WRITERS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "python": _python,
    "signature": _signature,
    "xml": _xml,
    "typescript": typescript,
    "typescript with bounds": bounded_typescript,
}


# -- "quoted": members in the order of their names, types in capitals ------------------------------------------------


def _quoted(function: Mapping[str, Any], quote: str) -> list[Piece]:
    pieces = [*_plain(f"declaration:{function['name']}{{description:"), *_string(_described(function), quote)]
    schema = function.get("parameters")
    if isinstance(schema, Mapping) and schema:
        members = [*_nested(schema, quote), *_typed(schema, quote)]
        pieces += [*_plain(",parameters:{"), *_comma_joined(members), *_plain("}")]
    return [*pieces, *_plain("}")]


def _plain(text: str) -> list[Piece]:
    return [(text, False)]


def _string(text: object, quote: str) -> list[Piece]:
    return [(quote, True), (str(text), False), (quote, True)]


def _comma_joined(members: Sequence[list[Piece]]) -> list[Piece]:
    """Return members with commas between them."""
    return [piece for at, member in enumerate(members) for piece in [*(_plain(",") if at else ()), *member]]


def _typed(schema: Mapping[str, Any], quote: str) -> list[list[Piece]]:
    return [[*_plain("type:"), *_string(str(schema.get("type", "")).upper(), quote)]]


def _nested(schema: Mapping[str, Any], quote: str, *, inner: bool = False) -> list[list[Piece]]:
    """Return what an object says of its properties; inner: one inside of another, which says so if it has none."""
    found: list[list[Piece]] = []
    properties = properties_of(schema)
    if properties or inner:
        members = [
            [*_plain(f"{name}:{{"), *_comma_joined(_property(properties[name], quote)), *_plain("}")]
            for name in sorted(properties, key=str.lower)
        ]
        found.append([*_plain("properties:{"), *_comma_joined(members), *_plain("}")])
    if required := required_by(schema):
        found.append([*_plain("required:["), *_comma_joined([_string(name, quote) for name in required]), *_plain("]")])
    return found


def _property(schema: Mapping[str, Any], quote: str) -> list[list[Piece]]:
    kind, found = _kind(schema).upper(), list[list[Piece]]()
    if schema.get("description"):
        found.append([*_plain("description:"), *_string(schema["description"], quote)])
    if kind == "STRING" and schema.get("enum"):
        found.append([*_plain("enum:"), *_value(schema["enum"], quote)])
    if kind == "ARRAY" and isinstance(schema.get("items"), Mapping) and schema["items"]:
        found.append([*_plain("items:{"), *_comma_joined(_items(schema["items"], quote)), *_plain("}")])
    if schema.get("nullable"):
        found.append(_plain("nullable:true"))
    if kind == "OBJECT":
        found += _nested(schema, quote, inner=True)
    return [*found, *_typed(schema, quote)]


def _items(schema: Mapping[str, Any], quote: str) -> list[list[Piece]]:
    """Return what an array says of its items: every key, in the order of the names."""
    found: list[list[Piece]] = []
    for key in sorted(schema, key=str.lower):
        if key in ("properties", "required"):
            found += _nested({key: schema[key]}, quote)
        elif key == "type":
            kinds = schema[key]
            upper = [str(kind).upper() for kind in kinds] if isinstance(kinds, (list, tuple)) else str(kinds).upper()
            found.append([*_plain("type:"), *_value(upper, quote)])
        elif schema[key] is not None:
            found.append([*_plain(f"{key}:"), *_value(schema[key], quote)])
    return found


def _value(value: Any, quote: str) -> list[Piece]:
    if isinstance(value, str):
        return _string(value, quote)
    if isinstance(value, Mapping):
        members = [
            [*_string(key, quote), *_plain(":"), *_value(value[key], quote)] for key in sorted(value, key=str.lower)
        ]
        return [*_plain("{"), *_comma_joined(members), *_plain("}")]
    if isinstance(value, (list, tuple)):
        return [*_plain("["), *_comma_joined([_value(item, quote) for item in value]), *_plain("]")]
    return _plain(write_json(value) if isinstance(value, bool) else str(value))


# -- the prompt --------------------------------------------------------------------------------------------------------

_SLOT = re.compile(r"\{\{\w+\}\}|\{(?:tools|json|parameters|declaration|name|description)\}")  # {{word}} is {word}
_LIST = re.compile(r"^[\[{]", re.M)  # where a list of tools may begin
_GAP = re.compile(r"[\s,]*")
_SPOKEN = ("user", "assistant", "tool", "observation", "ipython", "environment")  # by them, a conversation has begun


def told_of_tools(
    messages: list[Message], tools: object, own: Sequence[str], definition: Definition
) -> list[Message]:
    """Return the messages with what the format tells a model of its tools; own: names of those of the format itself.

    Raises: ConstrainedError: the format has no words for them, and the messages do not name them.
    """
    listed = _listed(tools, definition)
    if not listed and not own:
        return messages
    if listed:
        if definition.tool_list is None and not definition.tool_prompt:
            _check_named(messages, listed, definition)
        messages = _with_list(messages, listed, definition.tool_list)
    payload = definition.payload
    quote = definition.tokens[payload.quote] if payload is not None and payload.quote is not None else None
    for part in definition.tool_prompt:
        tools = [name for name in own if name in part.own] if part.own else listed
        if not tools and (part.own or "{tools}" in part.text):
            continue
        speaker = None if part.name is None else definition.tokens.get(part.name, part.name)
        text = _filled(part, part.text, tools, quote)
        otherwise = _filled(part, part.otherwise, tools, quote) if part.otherwise else text
        messages = _told(_taken_over(messages, part), replace(part, name=speaker), text, otherwise)
    return messages


def tools_told(
    messages: Sequence[Message | Any], definition: Definition
) -> tuple[frozenset[str] | None, frozenset[str]]:
    """Return the names of the tools that messages list in JSON, as `told_of_tools` does or with other words around the
    list, None where they list none; and those of the format's own that are missing from a list of their names.
    """
    said = [message.content for message in messages if message.role == "tools"]
    named, unnamed = set[str](), set[str]()
    for part in definition.tool_prompt:
        before, slot, behind = part.text.partition("{tools}")
        head, tail = _last_line(before), behind.strip().partition("\n")[0]
        texts = [message.content for message in messages if message.role == part.role and head in message.content]
        texts = [text[text.index(head) + len(head) :] for text in texts]
        lists = [text[: text.find(tail)] if tail and tail in text else text for text in texts]
        if slot and part.own and lists:
            unnamed |= set(part.own)
            named |= {name.strip() for text in lists for name in text.partition("\n")[0].split(part.between.strip())}
        elif slot and part.tool in (None, "{json}"):
            said += lists
    listed = [names for names in map(_names, said) if names is not None]
    return frozenset().union(*listed) if listed else None, frozenset(unnamed - named)


def _last_line(text: str) -> str:
    return text.rstrip("\n").rpartition("\n")[2] + text[len(text.rstrip("\n")) :]


def _names(text: str) -> frozenset[str] | None:
    """Return the names of the tools in a text: a list of them, or one behind the other; None: it has none."""
    begin = _LIST.search(text)
    if begin is None:
        return None
    values, at = list[Any](), begin.start()
    with contextlib.suppress(ValueError, RecursionError):
        while at < len(text):
            value, end = json.JSONDecoder().raw_decode(text, at)
            values.append(value)
            at = end + len(_GAP.match(text, end)[0])  # type: ignore[index]
    for listed in (values[0] if len(values) == 1 else values, text[begin.start() :]):
        with contextlib.suppress(SchemaError):
            return frozenset(tool.name for tool in read_tools(listed)) or None
    return None


def _listed(tools: object, definition: Definition) -> list[Any]:
    """Return the definitions of tools one by one, whatever holds them."""
    if definition.payload is None:
        return []
    if isinstance(tools, (list, tuple)):
        return [*tools]
    return [] if tools is None else [*read_tools(tools)]


def _check_named(messages: Sequence[Message], tools: Sequence[Any], definition: Definition) -> None:
    """Raise `ConstrainedError` where the messages before the first by a user do not name all tools and parameters."""
    begun = next((at for at, message in enumerate(messages) if message.role in _SPOKEN), len(messages))
    said = "\n".join(message.content for message in messages[:begun])
    for tool in read_tools(tools):
        names = [tool.name, *properties_of(tool.parameters)]
        unsaid = next((name for name in names if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", said)), None)
        if unsaid is not None:
            of_it = "" if unsaid == tool.name else f" of {tool.name!r}"
            raise ConstrainedError(
                f"the format '{definition.title}' has no words that tell a model of its tools",
                because=f"no message of the system's names {unsaid!r}{of_it}, so the model would not know of it",
                instead="list the tools in a system message, or tool_prompt=False, which leaves them out",
            )


def _with_list(messages: list[Message], tools: Sequence[Any], place: str | None) -> list[Message]:
    """Return the messages with the list of tools as a message of its own, in formats that have one; one that is there
    already stays.
    """
    if place is None or any(message.role == "tools" for message in messages):
        return messages
    users = [at for at, message in enumerate(messages) if message.role == "user"]
    at = 0 if place == "first" or not users else users[0] if "first" in place else users[-1]
    return [*messages[:at], Message(write_json(enveloped(tools)), role="tools"), *messages[at:]]


def _taken_over(messages: list[Message], part: ToolPrompt) -> list[Message]:
    """Return the messages with what the system says said by the role that tells, where that speaks for callers."""
    if part.takes_over is None or any(message.role == part.role for message in messages):
        return messages
    found = next((at for at, message in enumerate(messages) if message.role == "system"), None)
    if found is None or part.takes_over in messages[found].content:
        return messages
    return [*messages[:found], replace(messages[found], role=part.role), *messages[found + 1 :]]


def _told(messages: list[Message], part: ToolPrompt, pieces: list[Piece], otherwise: list[Piece]) -> list[Message]:
    text, alone = Worded.of(pieces), Worded.of(otherwise)
    for at, message in enumerate(messages):
        content = message.content
        joined = part.place in ("before", "behind")
        if message.role == part.role and (content in (text, alone) or joined and text in content):
            said = next((words for words in (text, alone) if content == words), None)
            if said is None:
                start = content.index(text)
                said = Worded.of(
                    [*_pieces(content, 0, start), *pieces, *_pieces(content, start + len(text), len(content))]
                )
            return [*messages[:at], replace(message, content=said), *messages[at + 1 :]]
    if part.place == "first":
        return [Message(text, role=part.role, name=part.name), *messages]
    if part.place == "own":
        at = next((at for at, message in enumerate(messages) if message.role != "system"), len(messages))
        return [*messages[:at], Message(text, role=part.role, name=part.name), *messages[at:]]
    at = _place(messages, part.role)
    if at == len(messages) or messages[at].role != part.role:
        return [*messages[:at], Message(alone, role=part.role), *messages[at:]]
    own = _pieces(messages[at].content, 0, len(messages[at].content))
    return [*messages[:at], replace(messages[at], content=Worded.of(_joined(part, own, pieces))), *messages[at + 1 :]]


def _place(messages: Sequence[Message], role: str) -> int:
    """Return where the first message by a role stands, or else where one is put: the system's before all others."""
    begun = next((at for at, message in enumerate(messages) if message.role in _SPOKEN), len(messages))
    if role == "user":
        return begun
    found = next((at for at, message in enumerate(messages[:begun]) if message.role == role), None)
    return found if found is not None else 0 if role == "system" else begun


def _joined(part: ToolPrompt, own: list[Piece], pieces: list[Piece]) -> list[Piece]:
    said: list[Piece] = [(part.opened, True), *own] if own else []
    gap: list[Piece] = [(part.joined, True)] if own else []
    return [*said, *gap, *pieces] if part.place == "behind" else [*pieces, *gap, *said]


def _pieces(content: str, start: int, end: int) -> list[Piece]:
    """Return a part of a content in pieces."""
    found, at = list[Piece](), 0
    for text, is_structure in pieces_of(content):
        part = text[max(start - at, 0) : max(end - at, 0)]
        found += [(part, is_structure)] if part else []
        at += len(text)
    return found


def _filled(part: ToolPrompt, text: str, tools: Sequence[Any], quote: str | None) -> list[Piece]:
    """Return a text of a part with the tools in it; quote: the special token around strings, if the format has one."""
    listed = [_shaped(tool, enveloped=part.enveloped) for tool in tools]
    if part.tool is None:
        return _with(text, {"tools": [(_json(listed, part), False)]})
    inner: list[Piece] = []
    for at, tool in enumerate(listed):
        inner += [(part.between, True)] if at else []
        function = tool.get("function", tool)
        values: dict[str, Callable[[], str]] = {
            "json": partial(_json, tool, part),
            "parameters": partial(_json, function.get("parameters") or {}, part),
            "name": partial(str, function["name"]),
            "description": partial(str, function.get("description") or ""),
        }
        slots = {name: [(value(), False)] for name, value in values.items() if f"{{{name}}}" in part.tool}
        if part.declared is not None:
            slots["declaration"] = declaration(part.declared, function, quote)
        inner += _with(part.tool, slots)
    return _with(text, {"tools": inner})


def _with(template: str, values: Mapping[str, list[Piece]]) -> list[Piece]:
    """Return the pieces of a text with its slots filled; a word in two pairs of braces is one in braces, no slot."""
    pieces, at = list[Piece](), 0
    for slot in _SLOT.finditer(template):
        pieces.append((template[at : slot.start()], True))
        pieces += [(slot[0][1:-1], True)] if slot[0].startswith("{{") else values.get(slot[0][1:-1], [(slot[0], True)])
        at = slot.end()
    return [piece for piece in [*pieces, (template[at:], True)] if piece[0]]


def _json(value: Any, part: ToolPrompt) -> str:
    if part.compact:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return write_json(value) if part.indent is None else json.dumps(value, ensure_ascii=False, indent=part.indent)


def _shaped(tool: Any, *, enveloped: bool) -> dict[str, Any]:
    """Return a tool as OpenAI's interface has it, as it was given if it is one already, or without the envelope."""
    if isinstance(tool, str):  # of a format's own
        return {"name": tool}
    inner = tool["function"] if isinstance(tool, Mapping) and isinstance(tool.get("function"), Mapping) else None
    if inner is None:
        (read,) = read_tools([tool])
        inner = {"name": read.name, "description": read.description or "", "parameters": read.parameters}
        tool = {"type": "function", "function": inner}
    return dict(tool) if enveloped else dict(inner)
