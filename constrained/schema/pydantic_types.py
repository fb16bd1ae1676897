"""Types that say by themselves what they are to pydantic → their JSON Schemas, as pydantic writes them.

These are models, pydantic's own dataclasses, its types (`UUID4`, `HttpUrl`, `SecretStr`, …), annotations with its
hooks, and a `TypeAdapter` of anything.

Practical: what pydantic's schemas leave to its validators, but a schema can say, is in them: digits of decimals,
versions of UUIDs, URLs of the schemes that a type takes, with a plain host name, addresses of the internet, dates and
times without an offset, Base64, numbers as keys, and of dates that are past or to come those that are so on the day
the schema is made, of times two days from it.  Left out: what depends on files (`FilePath`) or on code of the
model's own.

Tested in tests/test_profiles.py, against pydantic.
"""

from __future__ import annotations

import datetime
import enum
import inspect
import typing
from collections.abc import Callable, Iterable
from typing import Any

from constrained.schema.practical import PATTERNS

Schema = dict[str, Any]

BOUNDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}
BOUNDS_OF_NUMBERS = frozenset(BOUNDS.values())
_HOOKS = ("__get_pydantic_core_schema__", "__get_pydantic_json_schema__", "__pydantic_core_schema__")
_TEXT: Schema = {"type": "string"}
_IPV4: Schema = {"type": "string", "format": "ipv4"}
_IPV6: Schema = {"type": "string", "format": "ipv6"}
_HEX = "[0-9a-f]"
# what pydantic means by formats of its own
_FORMATS: dict[str, Schema] = {
    "ipvanyaddress": {"anyOf": [_IPV4, _IPV6]},
    "ipvanyinterface": {"anyOf": [_IPV4, _IPV6]},
    "ipvanynetwork": {"anyOf": [_IPV4, _IPV6]},
    "ipv4network": _IPV4,
    "ipv4interface": _IPV4,
    "ipv6network": _IPV6,
    "ipv6interface": _IPV6,
    "path": {**_TEXT, "pattern": r"^[^\x00]*$"},
    "binary": _TEXT,
    "password": _TEXT,
    "base64": {**_TEXT, "pattern": PATTERNS["byte"]},
    **{
        f"uuid{number}": {
            **_TEXT,
            "pattern": rf"^{_HEX}{{8}}-{_HEX}{{4}}-{number}{_HEX}{{3}}-[89ab]{_HEX}{{3}}-{_HEX}{{12}}$",
        }
        for number in range(1, 9)
    },
}
_NUMBERED = r"^(?:0|-?[1-9]\d{0,17})$"
_KEYS: dict[str, Schema] = {
    "integer": {"pattern": _NUMBERED},
    "number": {"pattern": r"^-?(?:0|[1-9]\d{0,14})(?:\.\d{1,10})?$"},
    "boolean": {"enum": ["false", "true"]},
}
_NO_KEYS = frozenset({"none", "list", "tuple", "set", "frozenset", "dict"})  # of which no text is one
_MOST_KEYS = 1000  # numbers that are listed
_HOST = r"[a-z]{1,20}(?:-[a-z0-9]{1,20})?(?:\.[a-z]{2,10}){1,2}"
_DAY = r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))"
_LOCAL = rf"^[1-9]\d{{3}}-{_DAY}T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{{1,6}})?$"


def is_adapter(value: object) -> bool:
    """Return whether a value is a `TypeAdapter`, or is used like one."""
    return not isinstance(value, type) and hasattr(value, "json_schema") and hasattr(value, "validate_json")


def is_alias(value: object) -> bool:
    """Return whether a value is another name of a type, as a ``type`` statement gives it or typing_extensions."""
    return type(value).__name__ == "TypeAliasType"


def is_own(kind: Any) -> bool:
    """Return whether a type has hooks of pydantic's, which say how it is validated."""
    if typing.get_origin(kind) is typing.Annotated:
        return any(hasattr(note, hook) for note in kind.__metadata__ for hook in _HOOKS)
    if is_alias(kind):
        return is_own(kind.__value__)
    return is_adapter(kind) or (isinstance(kind, type) and any(hasattr(kind, hook) for hook in _HOOKS))


def schema_of_own(kind: Any, *, practical: bool) -> Schema | None:
    """Return the schema of a type that says by itself what it is to pydantic, with "$defs"; None: pydantic, which may
    not be installed, knows of none.
    """
    make = getattr(kind, "model_json_schema", None) or (kind.json_schema if is_adapter(kind) else None)
    try:
        from pydantic import PydanticUserError, TypeAdapter

        if make is None:
            make = TypeAdapter(kind).json_schema
        options = {"schema_generator": _practical(make)} if practical else {}
        found: Schema = make(ref_template="#/$defs/{model}", **options)
    except (ImportError, PydanticUserError):
        return None
    return found


def _practical(make: Callable[..., Any]) -> Any:
    """Return the generator of schemas that pydantic's `make` uses, with what a schema can say beside."""
    generator: Any = inspect.signature(make).parameters["schema_generator"].default

    class Practical(generator):  # type: ignore[misc]  # pydantic's class
        def generate_inner(self, schema: Any) -> Schema:
            found: Schema = super().generate_inner(schema)
            meant = _FORMATS.get(str(found.get("format")))
            return found if meant is None else {word: part for word, part in found.items() if word != "format"} | meant

        def decimal_schema(self, schema: Any) -> Schema:
            return _decimals(schema)

        def url_schema(self, schema: Any) -> Schema:
            return _address(schema, super().url_schema(schema))

        def multi_host_url_schema(self, schema: Any) -> Schema:
            return _address(schema, super().multi_host_url_schema(schema))

        def datetime_schema(self, schema: Any) -> Schema:
            naive = schema.get("tz_constraint") == "naive"
            found: Schema = {**_TEXT, "pattern": _LOCAL} if naive else super().datetime_schema(schema)
            return _on_a_side(found, schema.get("now_op"), 2)

        def date_schema(self, schema: Any) -> Schema:
            return _on_a_side(super().date_schema(schema), schema.get("now_op"), 0)

        def dict_schema(self, schema: Any) -> Schema:
            found: Schema = super().dict_schema(schema)
            names = self._names(schema.get("keys_schema", {}))
            return found if names is None else {**found, "propertyNames": names}

        def _names(self, keys: Any) -> Schema | bool | None:
            """Return which texts are read as keys; None: those that the schema of the keys says."""
            kind = str(keys.get("type"))
            if kind == "nullable":
                return self._names(keys["schema"])
            if kind == "union":
                choices = [choice[0] if isinstance(choice, tuple) else choice for choice in keys["choices"]]
                names = [self._names(choice) for choice in choices]
                said = zip(names, choices, strict=True)
                return {"anyOf": [self.generate_inner(choice) if name is None else name for name, choice in said]}
            if kind in ("enum", "literal"):
                numbers = keys.get("sub_type") in ("int", "float")
                return listed_keys(keys.get("members", keys.get("expected", ())), numbers=numbers)
            if kind in ("int", "float", "bool"):
                return written_keys(self.generate_inner(keys))
            return _KEYS["number"] if kind == "decimal" else False if kind in _NO_KEYS else None

    return Practical


def listed_keys(members: Iterable[Any], *, numbers: bool) -> Schema:
    """Return the keys that constants or members of an enumeration are read from: texts, and numbers if asked."""
    values = [member.value if isinstance(member, enum.Enum) else member for member in members]
    return {"enum": [str(value) for value in values if numbers or isinstance(value, str)]}


def written_keys(schema: Schema) -> Schema | None:
    """Return how numbers and booleans are written as keys; None: the schema is of other values, or they cannot be."""
    found = _KEYS.get(str(schema.get("type")))
    if found is None or BOUNDS_OF_NUMBERS.isdisjoint(schema):
        return found
    low = schema.get("minimum", schema.get("exclusiveMinimum", -1) + ("exclusiveMinimum" in schema))
    high = schema.get("maximum", schema.get("exclusiveMaximum", 0) - 1)
    if schema["type"] == "integer" and "multipleOf" not in schema:
        if ("maximum" in schema or "exclusiveMaximum" in schema) and 0 <= high - low < _MOST_KEYS:
            return {"enum": [str(number) for number in range(low, high + 1)]}
        if low in (0, 1) and "maximum" not in schema and "exclusiveMaximum" not in schema:
            return {"pattern": r"^[1-9]\d{0,17}$" if low else r"^(?:0|[1-9]\d{0,17})$"}
    return None


def _on_a_side(found: Schema, side: str | None, days: int) -> Schema:
    """Return dates of the past or of the future only, by so many days."""
    if side is None:
        return found
    sign = 1 if side == "future" else -1
    day = datetime.date.today() + datetime.timedelta(days=days * sign)
    return {**found, "allOf": [{"pattern": f"^(?:{_beyond(day.isoformat(), sign)})"}]}


def _beyond(text: str, sign: int) -> str:
    """Return the pattern of digits that are higher (1) or lower (-1) than those of a text at the first place where they
    differ.

    >>> _beyond("12", 1)
    '[2-9]|1[3-9]'
    """
    found = []
    for at, digit in enumerate(text):
        if not digit.isdigit():
            continue
        first, last = (int(digit) + 1, 9) if sign > 0 else (0, int(digit) - 1)
        found += [f"{text[:at]}[{first}-{last}]"] if first <= last else []
    return "|".join(found)


def _decimals(schema: Any) -> Schema:
    """Return numbers of so many digits as a decimal may have."""
    found: Schema = {"type": "number"}
    for name, keyword in BOUNDS.items():
        if name in schema:
            found[keyword] = float(schema[name])
    places, digits = schema.get("decimal_places"), schema.get("max_digits")
    if digits is not None:
        places = min(digits, 10) if places is None else places
        most = 10 ** (digits - min(digits, places)) - 10**-places  # 999.99
        found["allOf"] = [{"minimum": -most, "maximum": most}]
    if places is not None and "multipleOf" not in found:
        found["multipleOf"] = float(f"1e-{places}") if places else 1
    return found


def _address(schema: Any, found: Schema) -> Schema:
    """Return URLs of the schemes that a type takes, on a plain host."""
    schemes = "|".join(scheme.replace("+", r"\+") for scheme in schema.get("allowed_schemes") or ("https", "http"))
    return {**_TEXT, "pattern": f"^(?:{schemes})://{_HOST}(?:/[A-Za-z0-9._-]{{1,40}})*/?$"} | {
        word: found[word] for word in ("maxLength",) if word in found
    }
