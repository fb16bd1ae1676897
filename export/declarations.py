"""A tool → its declaration in a language that prompts show models: what they may call; nothing is judged by it.

What a language has no words for (patterns, `allOf`) is left out, as in the sources, which are templates and renderers
of the vendors:

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

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

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


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=dict)


# -- declarations ------------------------------------------------------------------------------------------------------

_PYTHON_TYPES = {"string": "str", "number": "int", "integer": "int", "boolean": "bool", "array": "list"}
_SIGNED_TYPES = {"string": "str", "number": "float", "integer": "int", "boolean": "bool"}


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
    properties = properties_of(function.get("parameters"))
    kinds = {name: _signed(value) for name, value in properties.items()}
    text = f"{function['name']}({', '.join(f'{name}: {kind}' for name, kind in kinds.items())})"
    text += f" - {_described(function)}\n\n"
    if kinds:
        text += "    Args:\n"
    told = {name: str(value.get("description") or "").strip() for name, value in properties.items()}
    return text + "".join([f"        {name}({kinds[name]}): {said}" for name, said in told.items()])


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
        f"<{key}>{_json(value) if isinstance(value, (Mapping, list, tuple)) else value}</{key}>"
        for key, value in found.items()
        if key not in told
    ]


# -- "quoted": members in the order of their names, types in capitals ------------------------------------------------

QUOTE = "\udfff"  # stands for the token around strings: half of a surrogate pair, which no text of a message may hold


def _quoted(function: Mapping[str, Any]) -> str:
    schema = function.get("parameters")
    told = [f"description:{_string(_described(function))}"]
    if isinstance(schema, Mapping) and schema:
        told.append(_braced("parameters:", [*_nested(schema), _typed(schema)]))
    return _braced(f"declaration:{function['name']}", told)


def _string(text: object) -> str:
    return f"{QUOTE}{str(text).replace(QUOTE, chr(0xD800))}{QUOTE}"


def _braced(name: str, members: Sequence[str]) -> str:
    return f"{name}{{{','.join(members)}}}"


def _typed(schema: Mapping[str, Any]) -> str:
    return f"type:{_string(str(schema.get('type', '')).upper())}"


def _nested(schema: Mapping[str, Any], *, inner: bool = False) -> list[str]:
    """Return what an object says of its properties; inner: one inside of another, which says so if it has none."""
    properties, required = properties_of(schema), required_by(schema)
    members = [_braced(f"{name}:", _property(properties[name])) for name in sorted(properties, key=str.lower)]
    found = [_braced("properties:", members)] if properties or inner else []
    return [*found, *([f"required:[{','.join(map(_string, required))}]"] if required else [])]


def _property(schema: Mapping[str, Any]) -> list[str]:
    kind, found = _kind(schema).upper(), list[str]()
    if schema.get("description"):
        found.append(f"description:{_string(schema['description'])}")
    if kind == "STRING" and schema.get("enum"):
        found.append(f"enum:{_value(schema['enum'])}")
    if kind == "ARRAY" and isinstance(schema.get("items"), Mapping) and schema["items"]:
        found.append(_braced("items:", _items(schema["items"])))
    if schema.get("nullable"):
        found.append("nullable:true")
    if kind == "OBJECT":
        found += _nested(schema, inner=True)
    return [*found, _typed(schema)]


def _items(schema: Mapping[str, Any]) -> list[str]:
    """Return what an array says of its items: every key, in the order of the names."""
    found: list[str] = []
    for key in sorted(schema, key=str.lower):
        if key in ("properties", "required"):
            found += _nested({key: schema[key]})
        elif key == "type":
            kinds = schema[key]
            upper = [str(kind).upper() for kind in kinds] if isinstance(kinds, (list, tuple)) else str(kinds).upper()
            found.append(f"type:{_value(upper)}")
        elif schema[key] is not None:
            found.append(f"{key}:{_value(schema[key])}")
    return found


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, Mapping):
        return _braced("", [f"{_string(key)}:{_value(value[key])}" for key in sorted(value, key=str.lower)])
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(_value, value))}]"
    return _json(value) if isinstance(value, bool) else str(value)


LANGUAGES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "python": _python,
    "quoted": _quoted,
    "signature": _signature,
    "typescript": typescript,
    "typescript with bounds": bounded_typescript,
    "xml": _xml,
}


def declaration(language: str, function: Mapping[str, Any]) -> str:
    """Return the declaration of a function, {"name": …, "description": …, "parameters": …}, in one of `LANGUAGES`;
    `QUOTE` is where the token around strings belongs, in the language "quoted".
    """
    return LANGUAGES[language](function)
