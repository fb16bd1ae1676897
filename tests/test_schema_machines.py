"""Schema machines against `json`, `ast` and `jsonschema`: what is accepted, what can still be completed, what is
refused by name.

The machines run byte by byte, on the fastest kernel; masks, and the agreement of the kernels, have tests of their own
(`laws`).
"""

from __future__ import annotations

import ast
import itertools
import json
import pickle
import random
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from constrained.engine.kernels import kernel_class
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.engine.twin.automaton import DEAD
from constrained.errors import SchemaError, UnsupportedSchema
from constrained.schema import embed
from constrained.work import Budget, metered

BYTES = b"\"'}]):,0123456789abcxnulsretTFNo[{(=-.eE+_ \\/\n"


VOCABULARY = Vocabulary([bytes([byte]) for byte in range(256)], special={"<end>": 256}, stop=[256], size=257)


def kernel(schema: Any, engine: str | None = None, **options: Any) -> Any:
    return kernel_of(embed(schema, **options), engine)


def kernel_of(machine: Any, engine: str | None = None) -> Any:
    return kernel_class(engine)(VOCABULARY, machine.state(), nullable=False, specials={})


def accepts(machine: Any, text: str) -> bool:
    state = machine.step_bytes(machine.start, text.encode("utf-8", "surrogatepass"))
    return state != DEAD and machine.is_final(state)


# -- oracles
# ----------------------------------------------------------------------------------------------------------------


def read_json(text: str) -> Any:
    """Read strict JSON: no duplicate keys, no NaN, no lone surrogates, nothing around it."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("duplicate key")
        return found

    def refuse(name: str) -> Any:
        raise ValueError(name)

    if text != text.strip():
        raise ValueError("padded")
    value = json.loads(text, object_pairs_hook=unique, parse_constant=refuse)
    json.dumps(value, ensure_ascii=False).encode()
    return value


def read_python(text: str) -> Any:
    """Read a Python literal as the JSON value it stands for."""
    tree = ast.parse(text, mode="eval").body

    def convert(node: ast.AST) -> Any:
        if isinstance(node, ast.Dict):
            found = {ast.literal_eval(key): convert(value) for key, value in zip(node.keys, node.values, strict=True)}  # type: ignore[arg-type]
            if len(found) < len(node.keys) or not all(isinstance(key, str) for key in found):
                raise ValueError("keys")
            return found
        if isinstance(node, (ast.List, ast.Tuple)):
            return [convert(item) for item in node.elts]
        value = ast.literal_eval(node)
        if not (value is None or isinstance(value, (bool, int, float, str))):
            raise ValueError("no JSON value")
        if isinstance(value, str):
            value.encode()
        return value

    return convert(tree)


def valid(schema: Any, value: Any) -> bool:
    return Draft202012Validator(schema).is_valid(value)


# -- a small world
# ----------------------------------------------------------------------------------------------------------

SCALARS = [None, True, False, 0, 1, 2, -1, 1.0, 1.5, "", "a", "b", "ab"]
SHORT = [None, True, 0, 1, 1.5, "a", "b"]


def _world() -> list[Any]:
    nested = [[], {}, [1], {"a": 1}, {"a": "a"}]
    arrays = [list(items) for size in range(4) for items in itertools.product([0, 1, "a"], repeat=size)]
    arrays += (
        [[item] for item in SCALARS + nested]
        + [[1, item] for item in SHORT + nested]
        + [[0, 1, "a", True], [1, 1, 1, 1], ["a", "b", "ab", ""]]
    )
    objects: list[Any] = [{}]
    for size in range(1, 4):
        for keys in itertools.permutations(("a", "b", "c"), size):
            values = [0, "a"] if size == 3 else [0, 1, "a", None]
            objects += [dict(zip(keys, chosen, strict=True)) for chosen in itertools.product(values, repeat=size)]
    objects += [{"a": item} for item in SHORT + nested] + [
        {"x": 1},
        {"x": 1, "y": "a"},
        {"a": 1, "xa": 2, "b": 0, "c": 1},
        {"": 0},
        {"a b": 1},
    ]
    return SCALARS + arrays + objects


WORLD = _world()
TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"]

SCHEMAS: list[Any] = [
    True,
    {},
    *({"type": name} for name in TYPES),
    {"type": ["integer", "string", "null"]},
    {"enum": [1, "a", None, [1], {"a": 1}]},
    {"const": {"a": [1, 0]}},
    {"const": 1.0},
    {"minimum": 1},
    {"exclusiveMaximum": 1, "type": "number"},
    {"multipleOf": 0.5},
    {"not": {"type": "integer"}},
    {"not": {"type": ["array", "object"]}},
    {"minLength": 1, "type": "string"},
    {"pattern": "^a"},
    {"type": "array", "items": {"type": "integer"}},
    {"prefixItems": [{"const": 0}, {"type": "string"}]},
    {"type": "array", "prefixItems": [{"type": "integer"}], "items": False},
    {"type": "array", "minItems": 1, "maxItems": 2},
    {"type": "array", "minItems": 3},
    {"type": "array", "contains": {"const": 1}},
    {"type": "array", "contains": {"const": 1}, "minContains": 2},
    {"type": "array", "contains": {"const": 1}, "maxContains": 1},
    {"type": "array", "contains": {"type": "string"}, "minContains": 0, "maxContains": 0},
    {"type": "array", "contains": {"const": 1}, "minContains": 2, "maxContains": 2, "minItems": 3, "maxItems": 3},
    {"type": "array", "allOf": [{"contains": {"const": 1}}, {"contains": {"const": "a"}}], "maxItems": 2},
    {"type": "array", "not": {"items": {"type": "integer"}}},
    {"type": "array", "not": {"maxItems": 1}},
    {"type": "array", "not": {"prefixItems": [{"const": 1}], "minItems": 2}},
    {"not": {"contains": {"const": 1}}, "type": "array"},
    {"type": "array", "items": {"type": ["integer", "string"]}, "uniqueItems": True},
    {"type": "array", "items": {"enum": [0, 1, True]}, "uniqueItems": True},
    {"type": "array", "items": {"enum": [0, [1], {"a": 1}]}, "uniqueItems": True},
    {
        "type": "array",
        "prefixItems": [{"enum": [0, 1]}, {"const": 0}],
        "items": {"type": "null"},
        "minItems": 2,
        "uniqueItems": True,
    },
    {"type": "array", "items": {"enum": ["a", "b", "ab"]}, "uniqueItems": True, "minItems": 2},
    {"type": "object", "properties": {"a": {"type": "integer"}}},
    {"type": "object", "required": ["a", "b"]},
    {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
        "additionalProperties": False,
    },
    {
        "type": "object",
        "properties": {"a": {}, "b": {}},
        "required": ["b"],
        "additionalProperties": {"type": "integer"},
    },
    {"type": "object", "properties": {"a": False}},
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": False}, "maxProperties": 1},
    {"type": "object", "minProperties": 2},
    {"type": "object", "maxProperties": 1},
    {"type": "object", "minProperties": 1, "maxProperties": 2},
    {"type": "object", "properties": {"a": {}, "b": {}}, "additionalProperties": False, "minProperties": 2},
    {
        "type": "object",
        "properties": {"a": {}, "b": {}, "c": {}},
        "required": ["c"],
        "additionalProperties": False,
        "maxProperties": 2,
    },
    {"type": "object", "patternProperties": {"^a": {"type": "integer"}}},
    {"type": "object", "patternProperties": {"a": {"minimum": 1}, "^x": {}}, "additionalProperties": False},
    {"type": "object", "propertyNames": {"enum": ["a", "b"]}},
    {"type": "object", "propertyNames": {"maxLength": 1}},
    {"type": "object", "propertyNames": {"pattern": "^[ab]$"}, "minProperties": 1},
    {"type": "object", "dependentRequired": {"a": ["b"]}},
    {"type": "object", "dependentRequired": {"a": ["b", "c"]}, "maxProperties": 2},
    {"type": "object", "dependentSchemas": {"a": {"properties": {"b": {"type": "integer"}}}}},
    {"type": "object", "not": {"required": ["a"]}},
    {"type": "object", "not": {"properties": {"a": {"type": "integer"}}}},
    {"type": "object", "not": {"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}},
    {"type": "object", "not": {"additionalProperties": {"type": "integer"}}},
    {"type": "object", "not": {"properties": {"a": {"const": 0}}, "required": ["a", "b"]}, "maxProperties": 2},
    {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    {
        "oneOf": [
            {"properties": {"a": {"const": 0}}, "required": ["a"]},
            {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
        ]
    },
    {"oneOf": [{"type": "integer"}, {"minimum": 1}]},
    {
        "anyOf": [
            {"type": "integer", "minimum": 1},
            {"type": "string", "maxLength": 1},
            {"items": {"const": 1}, "type": "array"},
        ]
    },
    {
        "if": {"properties": {"a": {"const": 0}}, "required": ["a"]},
        "then": {"required": ["b"]},
        "else": {"not": {"required": ["c"]}},
        "type": "object",
    },
    {
        "allOf": [
            {"properties": {"a": {"type": "integer"}}},
            {"properties": {"a": {"minimum": 1}, "b": {"type": "null"}}},
        ],
        "type": "object",
        "unevaluatedProperties": False,
    },
    {"type": "array", "prefixItems": [{}], "contains": {"const": "a"}, "unevaluatedItems": False},
    {
        "$defs": {
            "t": {
                "type": "object",
                "properties": {"a": {"$ref": "#/$defs/t"}, "b": {"type": "integer"}},
                "additionalProperties": False,
            }
        },
        "$ref": "#/$defs/t",
    },
    {"type": "array", "items": {"$ref": "#"}, "maxItems": 2},
    {"required": ["a"], "type": "object", "properties": {"a": {"type": ["array", "object"]}}},
]

IDS = [json.dumps(schema)[:70] for schema in SCHEMAS]


@pytest.mark.parametrize("schema", SCHEMAS, ids=IDS)
def test_a_value_is_accepted_exactly_if_it_is_valid(schema: Any) -> None:
    free, canonical = kernel(schema), kernel(schema, whitespace="canonical", spelling="canonical")
    python = kernel(schema, surface="python")
    for value in WORLD:
        expected, text = valid(schema, value), json.dumps(value)
        assert accepts(free, text) == expected, text
        assert accepts(free, json.dumps(value, indent=4)) == expected, text
        assert accepts(python, repr(value)) == expected, repr(value)
        integral = "1.0" not in text or not expected  # a canonical integer has no fraction
        assert not integral or accepts(canonical, text) == expected, text


def _edits(text: str, rng: random.Random, alphabet: str) -> str:
    chars = list(text)
    for _ in range(rng.randint(1, 2)):
        at = rng.randint(0, len(chars))
        kind = rng.random()
        if kind < 0.4:
            chars.insert(at, rng.choice(alphabet))
        elif chars:
            at = min(at, len(chars) - 1)
            if kind < 0.7:
                del chars[at]
            else:
                chars[at] = rng.choice(alphabet)
    return "".join(chars)


@pytest.mark.parametrize("schema", SCHEMAS[::2], ids=IDS[::2])
def test_damaged_json_is_accepted_exactly_if_it_reads_as_a_valid_value(schema: Any) -> None:
    rng, machine = random.Random(1), kernel(schema)
    for value in rng.sample(WORLD, 150):
        text = _edits(json.dumps(value, indent=rng.choice((None, 1))), rng, '{}[]",:01.eE-+a \n\\ut')
        try:
            expected = valid(schema, read_json(text))
        except (ValueError, RecursionError):
            expected = False
        assert accepts(machine, text) == expected, text


@pytest.mark.parametrize("schema", SCHEMAS[1::2], ids=IDS[1::2])
def test_damaged_python_is_accepted_only_if_it_reads_as_a_valid_value(schema: Any) -> None:
    """Completeness is left to the other test: some spellings of Python are left out (see `surfaces.python`)."""
    rng, machine = random.Random(2), kernel(schema, surface="python")
    for value in rng.sample(WORLD, 150):
        text = _edits(repr(value), rng, "{}[](),:01.e-a'\"_ \n\\x")
        if accepts(machine, text):
            assert valid(schema, read_python(text)), text


PYTHON = [
    (
        {"type": "array"},
        ["()", "(1,)", "(1, 2)", "(1, 2,)", "[1,]", "[\n1\n]", "[(1,), [], {'a': ()}]", "[ ]"],
        ["(1)", "(,)", "[,]", "(1 2)", "[1,,]"],
    ),
    (
        {"type": "object"},
        ["{'a': 1}", '{"a":1,}', "{'a' : 1 , 'b':None}", "{}", "{'\\x61': True}"],
        ["{'a': 1, 'a': 2}", "{1: 2}", "{,}", "{'a': true}", "{'\\x61': 1, 'a': 2}"],
    ),
    (
        {"type": "number"},
        ["1", "1.", ".5", "1_000", "1e5", "1_0.0_1e1_0", "-1", "0", "0.0"],
        ["1__0", "_1", "01", "1_", "1e", "+1", ".", "0x1", "1._0"],
    ),
    ({"type": "integer"}, ["1.0", "1e2", "100e-2", "1_0."], ["1.5", "1e-1"]),
    ({"enum": [None, True, "a"]}, ["None", "True", "'a'", '"a"', "'\\141'"], ["null", "true", "a", "False", "'''a'''"]),
]


@pytest.mark.parametrize(("schema", "yes", "no"), PYTHON, ids=lambda part: str(part)[:30])
def test_python_spellings(schema: Any, yes: list[str], no: list[str]) -> None:
    machine = kernel(schema, surface="python")
    for text in yes:
        assert valid(schema, read_python(text)), text
        assert accepts(machine, text), text
    for text in no:
        assert not accepts(machine, text), text


ARGUMENTS = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "n": {"type": "integer"}, "tags": {"type": "array"}},
    "required": ["city"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("whitespace", ["canonical", "compact", "flexible"])
def test_keyword_arguments(whitespace: str) -> None:
    machine = kernel(ARGUMENTS, surface="arguments", whitespace=whitespace)
    comma = "," if whitespace == "compact" else ", "
    for text in (
        "(city='Oslo')",
        "(n=3,city='Oslo')",
        "(city='a',tags=[1,(2,)])",
        "(city='a',tags={'a':1})",
        "()",
        "(n=1)",
        "(city='a',city='b')",
        "(city='a',x=1)",
        "city='a'",
        "('a')",
        "(city=='a')",
    ):
        text = text.replace(",", comma).replace(":", ":" if whitespace == "compact" else ": ")
        try:
            compile("f" + text, "", "eval")  # refuses a repeated name
            call = ast.parse("f" + text, mode="eval").body
            assert isinstance(call, ast.Call)
            assert not call.args
            value = {str(entry.arg): read_python(ast.unparse(entry.value)) for entry in call.keywords}
            expected = valid(ARGUMENTS, value)
        except (SyntaxError, AssertionError):
            expected = False
        if "(2" + comma + ")" in text and whitespace == "canonical":
            continue  # ", )" is how the canonical style would write it
        assert accepts(machine, text) == expected, text
    assert accepts(kernel({"type": "object"}, surface="arguments", whitespace=whitespace), "()")


def test_names_that_are_not_listed_are_identifiers() -> None:
    machine = kernel({"type": "object", "additionalProperties": {"type": "integer"}}, surface="arguments")
    assert accepts(machine, "(a=1, _b2=2)")
    for text in ("(1a=1)", "(class=1)", "(a b=1)", "(a=1, a=2)", "(=1)"):
        assert not accepts(machine, text)


# -- no dead ends
# -----------------------------------------------------------------------------------------------------------


def _ends(machine: Any, state: int, known: set[int], most: int = 150) -> bool:
    """Say whether a word can be completed from a state: depth first, closing what is open before anything else."""
    seen, stack = {state}, [state]
    while stack:
        at = stack.pop()
        most -= 1
        if machine.is_final(at) or at in known:
            known.add(state)
            return True
        for byte in reversed(BYTES):  # the last one pushed is tried first
            after = machine.step_byte(at, byte)
            if after != DEAD and after not in seen:
                seen.add(after)
                stack.append(after)
        if most == 0:
            return True  # undecided
    return False


WALKS = [{}, {"whitespace": "canonical", "spelling": "canonical", "property_order": "schema"}, {"surface": "python"}]


@pytest.mark.parametrize("schema", SCHEMAS, ids=IDS)
def test_random_walks_meet_no_dead_end(schema: Any) -> None:
    for options in WALKS:
        _walk(kernel(schema, **options))


def _walk(machine: Any) -> None:
    rng, known = random.Random(3), set()
    for _ in range(5):
        state = machine.start
        for _ in range(25):
            following = [after for byte in BYTES if (after := machine.step_byte(state, byte)) != DEAD]
            if not following:
                assert machine.is_final(state)
                break
            state = rng.choice(following)
            assert _ends(machine, state, known)


# -- options
# ----------------------------------------------------------------------------------------------------------------

POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}, "z": {"type": "integer"}},
    "required": ["y"],
}


def test_schema_order() -> None:
    machine = kernel(POINT, property_order="schema")
    for text in ('{"x":1,"y":2,"z":3}', '{"y":2}', '{"y":2,"z":3,"q":null}', '{"x":1,"y":2,"q":1,"r":2}'):
        assert accepts(machine, text), text
    for text in ('{"y":2,"x":1}', '{"x":1,"z":3}', '{"q":1,"y":2}', '{"z":1,"y":1}', '{"y":1,"q":1,"z":1}'):
        assert not accepts(machine, text), text


WHITESPACE = [
    ("canonical", '{"x": 1, "y": [2, 3]}', ['{"x":1,"y":[2,3]}', '{"x": 1,"y": [2, 3]}', '{ "x": 1, "y": [2, 3]}']),
    ("compact", '{"x":1,"y":[2,3]}', ['{"x": 1, "y": [2, 3]}', '{"x":1,"y":[2, 3]}']),
    ("flexible", '{ "x"\t:\n1 ,\r\n"y":[ 2 , 3 ] }', [' {"x":1}', '{"x":1} ', '{"x":1\f}', "\n{}"]),
]


@pytest.mark.parametrize(("style", "yes", "no"), WHITESPACE, ids=[row[0] for row in WHITESPACE])
def test_whitespace(style: str, yes: str, no: list[str]) -> None:
    machine = kernel({"type": "object"}, whitespace=style)
    assert accepts(machine, yes)
    assert not any(accepts(machine, text) for text in no)


def test_whitespace_does_not_go_on_for_ever() -> None:
    machine = kernel({"type": "array"})
    assert accepts(machine, "[" + "\n" + " " * 1000 + "]")
    assert not accepts(machine, "[" + " " * 2000 + "]")


def test_closed_objects_have_only_the_keys_they_mention() -> None:
    schema = {
        "type": "object", "properties": {"p": {"$ref": "#/$defs/p"}, "free": {"type": "object"}},
        "$defs": {"p": {"type": "object", "properties": {"x": {"type": "integer"}}}},
        "allOf": [{"properties": {"q": {"type": "integer"}}}],
    }
    machine = kernel(schema, closed=True)
    for text in ('{"p":{"x":1},"q":2}', '{"free":{"anything":1}}', "{}"):
        assert accepts(machine, text), text
    for text in ('{"r":1}', '{"p":{"y":1}}', '{"p":{"x":1},"y":2}'):
        assert not accepts(machine, text), text
    assert accepts(kernel(schema), '{"r":1,"p":{"y":1}}')


def test_machines_are_compared_by_content() -> None:
    one, other = embed(POINT), embed(json.loads(json.dumps(POINT)))
    assert one == other
    assert hash(one) == hash(other)
    assert one != embed(POINT, whitespace="compact")
    copy = pickle.loads(pickle.dumps(one))
    assert copy == one
    assert accepts(kernel_of(copy), '{"y":1}')


UNSUPPORTED = [
    (
        {"properties": {"a": {"type": "array", "contains": {"const": 1}, "uniqueItems": True}}},
        "#/properties/a",
        "#/properties/a/uniqueItems",
    ),
    ({"type": "array", "items": {"not": {"uniqueItems": True, "type": "array"}}}, "#/items", "#/items/not"),
    (
        {"oneOf": [{"type": "array", "contains": {"const": 1}, "uniqueItems": True}, {"type": "string"}]},
        "#/oneOf/0",
        "#/oneOf #/oneOf/0/uniqueItems",
    ),
]


@pytest.mark.parametrize(("schema", "where", "keywords"), UNSUPPORTED, ids=[row[2] for row in UNSUPPORTED])
def test_what_cannot_be_compiled_is_refused_or_listed(schema: Any, where: str, keywords: str) -> None:
    with pytest.raises(UnsupportedSchema) as caught:
        embed(schema)
    assert (caught.value.where or "").startswith(where)
    assert caught.value.because
    widened = embed(schema, unsupported="widen")
    assert [entry.pointer for entry in widened.widened] == keywords.split()
    machine = kernel_of(widened)
    assert all(accepts(machine, json.dumps(value)) for value in WORLD if valid(schema, value))


WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (False, {}, "schema allows no value"),
    ({"allOf": [{"type": "string"}, {"type": "integer"}]}, {}, "schema allows no value"),
    ({}, {"surface": "yaml"}, "unknown surface 'yaml'"),
    ({}, {"whitespace": "none"}, "unknown whitespace 'none'"),
    ({}, {"spelling": "short"}, "unknown spelling 'short'"),
    ({}, {"property_order": "sorted"}, "unknown property_order 'sorted'"),
    ({}, {"spelling": "any", "avoid": ("<x>",)}, "the spelling is 'any'"),
    ({"type": "string"}, {"surface": "arguments"}, "keyword arguments cannot be written"),
    ({"type": "object", "properties": {"a-b": {}}}, {"surface": "arguments"}, "parameter 'a-b'"),
    ({"type": "object", "properties": {"class": {}}}, {"surface": "arguments"}, "parameter 'class'"),
]


@pytest.mark.parametrize(("schema", "options", "message"), WRONG, ids=[row[2] for row in WRONG])
def test_wrong_uses(schema: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        embed(schema, **options)


CONFLICTS = [
    (
        {"type": "object", "required": ["a"], "properties": {"a": {"minimum": 2, "maximum": 1, "type": "integer"}}},
        "#/properties/a",
        "these keywords contradict each other: minimum, maximum, type",
    ),
    (
        {"title": "t", "type": "array", "minItems": 2, "maxItems": 1, "items": {}},
        "#",
        "these keywords contradict each other: type, minItems, maxItems",
    ),
    ({"oneOf": [{"type": "string"}, {"type": "string"}]}, "#", "no value satisfies oneOf"),
    (
        {
            "$defs": {"a": {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#/$defs/a"}}}},
            "$ref": "#/$defs/a",
        },
        "#/$defs/a",
        "these keywords contradict each other: type, required, properties",
    ),
    (False, "#", "it is false"),
]


@pytest.mark.parametrize(("schema", "where", "because"), CONFLICTS, ids=[row[2] for row in CONFLICTS])
def test_a_schema_without_values_is_an_error_that_names_the_conflict(schema: Any, where: str, because: str) -> None:
    with pytest.raises(SchemaError, match="schema allows no value") as caught:
        embed(schema)
    assert (caught.value.where, caught.value.because) == (where, because)


# -- cost
# -------------------------------------------------------------------------------------------------------------------


def test_large_schemas_cost_what_is_used_of_them() -> None:
    """Bounds are generous: the tests must not fail on a busy machine, and a cliff is a factor of a thousand."""
    large: list[tuple[Any, str]] = [
        (
            {
                "properties": {f"p{n}": {"type": "integer"} for n in range(1000)},
                "additionalProperties": False,
                "type": "object",
            },
            "{" + ",".join(f'"p{n}":{n}' for n in range(100)) + "}",
        ),
        ({"enum": [f"value {n}" for n in range(10_000)]}, '"value 9999"'),
        ({"enum": list(range(2_000))}, "1999"),
        ({"type": "array", "maxItems": 100_000, "minItems": 10, "items": {"type": "integer"}}, str(list(range(40)))),
        ({"type": "integer", "minimum": -(10**300), "maximum": 10**300}, "1" + "0" * 300),
        ({"items": {"$ref": "#"}, "type": "array"}, "[" * 1000 + "]" * 1000),
    ]
    for schema, text in large:
        with metered(Budget()):  # the work of a constraint; more is LimitExceeded
            assert accepts(kernel(schema), text)
