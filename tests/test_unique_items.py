"""uniqueItems over arrays and objects: by value, in both kernels, on both surfaces, without dead ends; `jsonschema` is
the oracle.
"""

from __future__ import annotations

import ast
import itertools
import json
import random
from fractions import Fraction
from typing import Any

import jsonschema
import numpy as np
import pytest
from laws import assert_kernels_agree, assert_mask_is_accepts, hard_vocabulary, separating_vocabulary, unpacked, varied

from constrained import Grammar, Rejected, SchemaError, UnsupportedSchema, Vocabulary, caches, compile
from constrained.schema.machines.distinct import Built, OpenItem, Place
from constrained.schema.number_sets import contains, number_key, number_text, reach, whole_number
from constrained.schema.values import NumberRange

BYTES = Vocabulary([bytes([byte]) for byte in range(256)], special={"<end>": 256}, stop=[256], size=257)
KERNELS = ["compiled", "plain"]


def distinct(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "uniqueItems": True, "items": items, **more}


def closed(properties: dict[str, Any], required: list[str] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required or [],
        "additionalProperties": False,
        **more,
    }


BIT = {"type": "boolean"}
SCHEMAS = {
    "anything": {"type": "array", "uniqueItems": True},
    "closed objects": distinct(closed({"a": {"type": "integer"}, "b": {"type": "string", "maxLength": 2}}, ["a"])),
    "bits": distinct(closed({"a": BIT, "b": BIT, "c": BIT, "d": BIT})),  # 81 values, one of three each
    "pairs of bits": distinct({"type": "array", "items": BIT, "maxItems": 6}),  # 127
    "a value that later items need": distinct(
        {"enum": [[1], [2]]}, prefixItems=[{"enum": [[1], [4]]}], minItems=3, maxItems=3
    ),
    "all the bits": distinct({"type": "array", "items": BIT, "maxItems": 6}, minItems=127),
    "one way out": distinct(
        {
            "anyOf": [
                closed({"k": {"const": "a"}}, ["k"]),
                closed({"k": {"const": "b"}, "x": {"type": "string"}}, ["k", "x"]),
            ]
        }
    ),
    "a pattern with an end": distinct(closed({"s": {"pattern": "^(a|b+)$", "type": "string"}}, ["s"]), minItems=3),
    "numbers in arrays": distinct({"type": "array", "prefixItems": [{"enum": [1, 2.5, 100]}], "items": False}),
    "numbers of a range": distinct(
        {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}, "minItems": 1, "maxItems": 2}
    ),
    "open objects": distinct({"type": "object", "maxProperties": 2, "propertyNames": {"maxLength": 1}}),
    "keys that run out": distinct(
        {"type": "object", "propertyNames": {"enum": ["a", "b", "c", "d"]}, "additionalProperties": {"enum": [0, 1]}}
    ),
    "distinct in distinct": distinct(distinct(distinct({"enum": [1, 2]}))),
    "mixed": distinct(
        {
            "anyOf": [
                {"type": "null"},
                {"enum": ["a", 1]},
                {"type": "array", "items": {"type": "null"}},
                {"type": "object", "maxProperties": 1},
            ]
        }
    ),
    "prefix": {
        "type": "array",
        "uniqueItems": True,
        "prefixItems": [{"enum": [[1], {"a": 1}]}, {"type": "array"}],
        "items": {"type": "object"},
        "minItems": 2,
    },
    "one that is counted": distinct({"enum": [0, 1, "a", [1], {"a": 1}]}, contains={"const": 1}),
    "counted of few": distinct(
        {"enum": [0, 1, 2.5, "a", "b", None, True]},
        allOf=[{"contains": {"type": "number"}, "minContains": 2, "maxContains": 2}, {"contains": {"const": "a"}}],
        minItems=4,
        maxItems=5,
    ),
    "counted inside of counted": distinct(
        {"type": ["integer", "boolean", "array"], "minimum": 0, "maximum": 9, "items": BIT, "maxItems": 1},
        allOf=[{"contains": {"type": "integer", "maximum": 4}, "maxContains": 2}, {"contains": {"const": 1}}],
    ),
    "counted objects": distinct(
        {"type": "object", "additionalProperties": BIT, "maxProperties": 1, "propertyNames": {"maxLength": 1}},
        contains={"minProperties": 1},
        minContains=2,
    ),
    "counted texts": distinct({"type": "string", "maxLength": 2}, contains={"pattern": "^[ab0]"}, maxContains=2),
    "not only integers": distinct({"enum": [0, 1, "a", [1], {"a": 1}]}, **{"not": {"items": {"type": "integer"}}}),
    "not only integers, or one": distinct(
        {"enum": [0, 1, "a", [1], {"a": 1}]}, **{"not": {"items": {"type": "integer"}, "minItems": 2}}
    ),
    "one of two lists": {
        "oneOf": [distinct({"enum": [0, 1, [1]]}), distinct({"enum": [0, 1, "a"]}, minItems=1, maxItems=2)]
    },
    "recursive": {"$defs": {"t": closed({"v": BIT, "c": distinct({"$ref": "#/$defs/t"})}, ["v"])}, "$ref": "#/$defs/t"},
    "clauses": distinct(
        {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": BIT},
            "dependentRequired": {"a": ["b"]},
            "minProperties": 1,
            "maxProperties": 2,
        }
    ),
}


def matcher_of(schema: Any, kernel: str = "compiled", vocabulary: Vocabulary = BYTES, **options: Any) -> Any:
    return compile(Grammar.from_json_schema(schema, **options), vocabulary, kernel=kernel).matcher()


def accepts(schema: Any, text: str, kernel: str = "compiled", **options: Any) -> bool:
    matcher = matcher_of(schema, kernel, **options)
    try:
        for byte in text.encode():
            matcher.advance(byte)
    except Rejected:
        return False
    return matcher.is_accepting()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ('[{"a": 1}, {"a": 1}]', False),
        ('[{"a": 1}, {"a": 1.0}]', False),
        ('[{"a": 1}, {"a": 10e-1}]', False),
        ('[{"a": 1}, {"a": true}]', True),
        ('[{"a": 1, "b": 2}, {"b": 2, "a": 1}]', False),
        ('[{"a": 1, "b": 2}, {"b": 2}]', True),
        ('[["\\u0061"], ["a"]]', False),
        ('[["a"], ["ab"]]', True),
        ("[[], {}]", True),
        ("[[], [ ]]", False),
        ("[[[]], [[], []]]", True),
        ("[[1, 2], [2, 1]]", True),
        ("[0, [0], [[0]], [[-0.0]]]", False),
        ('[{"a": {"b": []}}, {"a": {"b": [null]}}, {"a": {"b": [ ]}}]', False),
        ('[{"a": "1"}, {"a": 1}]', True),
        ("[[1e400], [10e399]]", False),
        ("[[123456789012345678901234567890], [123456789012345678901234567891]]", True),
        ('[{"": 0}, {}]', True),
        ('[[null], [false], [0], [""]]', True),
        ('[["e", 1], ["e", 1]]', False),
        ('[["a", 1e5000], ["a", 10e4999]]', False),
        ('[["a", 1e5000], ["a", 1e5001]]', True),
        ("[[1e99999999], [1]]", True),
        ("[[17], [17.0]]", False),
        ("[[17], [170], [1.7], [18, 17]]", True),
        ("[[17, 18], [17, 18e0]]", False),
        ("[[17, 18], [17, 19]]", True),
        ("[1810e-0001, 181]", False),
        ("[181E+0000001, 1810]", False),
        ("[1e-99, 10e-100]", False),
        ("[1000e998, 1e+1001]", False),
        ("[1e1002, 10e1001]", False),
        ("[1e99999999, 1e99999998]", True),
        ("[-0e99999999, 0]", False),
        ("[1e-0001, 1]", True),
        (f"[[1e{'7' * 450}], [1e{'7' * 450}]]", False),
        (f"[[1e-{'7' * 4500}], [10e-{'7' * 4499}8]]", False),
        (f"[[1e{'7' * 450}], [1e{'7' * 449}8]]", True),
        (f"[[{'7' * 4500}], [{'7' * 4500}.0]]", False),
        ("[[1, 1e1101010], [1, 1e1101010]]", False),
    ],
)
def test_items_are_compared_by_value(text, valid, kernel):
    assert accepts({"type": "array", "uniqueItems": True}, text, kernel) is valid


def test_lists_and_tuples_are_one_in_python():
    schema = {"type": "array", "uniqueItems": True}
    assert not accepts(schema, "[(1,), [1]]", surface="python")
    assert accepts(schema, "[(1,), [2], {'a': 1 }]", surface="python")
    assert not accepts(schema, "[{'a': 1, 'b': None}, {\"b\": None, 'a': 1_0e-1,}]", surface="python")


def values_like(schema: Any, picks: random.Random, depth: int = 3) -> Any:
    """Return a small value; often one that another draw returns too."""
    kind = picks.choice(("atom", "atom", "array", "object")) if depth else "atom"
    if kind == "array":
        return [values_like(schema, picks, depth - 1) for _ in range(picks.choice((0, 1, 1, 2)))]
    if kind == "object":
        return {picks.choice("abk"): values_like(schema, picks, depth - 1) for _ in range(picks.choice((0, 1, 2)))}
    return picks.choice((1, 1.0, 2.5, 0, -0.0, True, False, None, "a", "b", "é", 100))


def spelled(value: Any, picks: random.Random) -> str:
    """Return JSON text of a value in one of its spellings."""
    gap = picks.choice(("", "", " ", "\n "))
    if isinstance(value, list):
        return "[" + gap + ("," + gap).join(spelled(part, picks) for part in value) + "]"
    if isinstance(value, dict):
        entries = list(value.items())
        picks.shuffle(entries)
        return "{" + ",".join(f"{spelled(key, picks)}{gap}:{spelled(part, picks)}" for key, part in entries) + gap + "}"
    if isinstance(value, str):
        return '"' + "".join(picks.choice((char, f"\\u{ord(char):04x}")) for char in value) + '"'
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    return (
        picks.choice((repr(value), f"{value}e0", f"{value * 10}e-1")) if value else picks.choice(("0", "-0.0", "0e5"))
    )


@pytest.mark.parametrize("name", SCHEMAS)
def test_arrays_are_accepted_as_jsonschema_validates_them(name):
    picks, schema = random.Random(name), SCHEMAS[name]
    validator = jsonschema.Draft202012Validator(schema)
    seen = set()
    for _ in range(60):
        value = [values_like(schema, picks) for _ in range(picks.choice((1, 2, 2, 3)))]
        if picks.random() < 0.4:
            value.append(picks.choice(value))
        if name == "recursive":
            value = {"v": True, "c": [{"v": picks.random() < 0.5, "c": []} for _ in value]}
        valid = validator.is_valid(value)
        seen.add(valid)
        assert accepts(schema, spelled(value, picks)) is valid, value


@pytest.mark.sampled(2)
@pytest.mark.parametrize("surface", ["json", "python"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_walks_end_in_valid_arrays(name, surface):
    """From every position on a walk something goes on or the text is complete; what is complete is valid."""
    schema = SCHEMAS[name]
    validator, picks = jsonschema.Draft202012Validator(schema), random.Random(7)
    complete = 0
    for _ in range(4):
        matcher = matcher_of(schema, surface=surface, whitespace="compact", spelling="canonical")
        for step in range(400):
            mask = np.zeros((1, BYTES.words), np.int32)
            matcher.fill_mask(mask)
            allowed = np.flatnonzero(unpacked(mask, 257)).tolist()
            assert allowed, matcher.text()
            if matcher.is_accepting():
                complete += 1
                value = json.loads(matcher.text()) if surface == "json" else ast.literal_eval(matcher.text().decode())
                assert validator.is_valid(value), matcher.text()
                break
            closing = [byte for byte in allowed if chr(byte) in '"]}01'] if step > 40 else []
            matcher.advance(picks.choice(closing or [byte for byte in allowed if byte < 128] or allowed))
    assert complete or name in ("all the bits",)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SCHEMAS)
def test_kernels_agree_and_masks_are_what_is_accepted(name):
    for seed, vocabulary in enumerate((hard_vocabulary(pairs=40), separating_vocabulary(700))):
        grammar = Grammar.from_json_schema(SCHEMAS[name], whitespace="compact", spelling=("any", "canonical")[seed])
        constraints = [compile(grammar, vocabulary, kernel=kernel) for kernel in KERNELS]
        assert_kernels_agree(vocabulary, [constraint.place() for constraint in constraints], steps=14, seed=seed)
        matcher, picks = constraints[0].matcher(), random.Random(seed)
        for _ in range(5):
            allowed = [token for token in assert_mask_is_accepts(matcher) if token not in vocabulary.stop]
            if not allowed:
                break
            matcher.advance(varied(vocabulary, allowed, picks))


def test_what_runs_out_is_refused_before_it_is_begun():
    schema = SCHEMAS["one way out"]
    matcher = matcher_of(schema, whitespace="compact")
    for byte in b'[{"k":"a"},{"k":"':
        matcher.advance(byte)
    assert not matcher.accepts(ord("a"))
    assert matcher.accepts(ord("b"))


def test_a_text_that_leads_nowhere_else_is_not_begun():
    matcher = matcher_of(SCHEMAS["a pattern with an end"], whitespace="compact", spelling="canonical")
    for byte in b'[{"s":"a"},{"s":"':
        matcher.advance(byte)
    assert [chr(byte) for byte in range(256) if matcher.accepts(byte)] == ["b"]


def test_too_many_items_of_too_few_values_are_an_error():
    few = [
        ({"type": "array", "items": BIT, "minItems": 4, "maxItems": 4}, 17),
        ({"type": "array", "items": BIT, "minItems": 2, "uniqueItems": True}, 3),
        ({"type": "array", "items": {"enum": [1, 2, 3]}, "minItems": 2, "maxItems": 2, "uniqueItems": True}, 7),
        ({"type": "array", "maxItems": 0}, 2),
        ({"type": "array", "items": False}, 2),
        ({"type": "array", "prefixItems": [BIT], "items": False}, 4),
    ]
    for items, least in few:
        with pytest.raises(SchemaError, match="allows no value"):
            Grammar.from_json_schema(distinct(items, minItems=least))
        Grammar.from_json_schema(distinct(items, minItems=least - 1))


def test_what_is_written_is_compared_by_content():
    built = Built(None, "array", ())
    begun = [built, built.byte(ord("[")), built.byte(ord("{")), built.byte(ord("[")).byte(ord("["))]
    assert built.byte(ord("[")) == begun[1] and hash(built.byte(ord("["))) == hash(begun[1])
    for left, right in itertools.combinations(begun, 2):
        assert left != right


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", "1.0"),
        ("100", "1e2"),
        ("-0.5", "-5e-1"),
        ("0", "-0e7"),
        ("1" + "0" * 5000, "1e5000"),
        ("12e" + "9" * 5000, "120e" + "9" * 4999 + "8"),
    ],
)
def test_numbers_have_one_key_for_all_spellings(one, other):
    assert number_key(one) == number_key(other)
    assert number_key(one) != number_key("3" + other.lstrip('-'))
    assert number_key(number_text(number_key(one))) == number_key(one)


def test_keys_of_long_exponents_are_those_of_exact_arithmetic():
    picks = random.Random(8)
    exponents = ["1" + "0" * 99, "9" * 101, "9" * 6000, *("".join(picks.choices("095", k=150)) for _ in range(40))]
    for exponent in exponents:
        for sign in ("", "-", "+"):
            for mantissa in ("1", "10", "0.001", "250", "-1.50", "1" + "0" * 40, "0." + "0" * 40 + "1"):
                whole, _, fraction = mantissa.removeprefix("-").partition(".")
                written = (whole + fraction).lstrip("0")
                value = whole_number(sign + exponent) + len(written) - len(written.rstrip("0")) - len(fraction)
                key = number_key(f"{mantissa}e{sign}{exponent}")
                assert key == (mantissa.startswith("-"), written.rstrip("0"), value)
                assert number_key(number_text(key)) == key


def test_numbers_with_long_exponents_lie_where_the_others_beyond_all_bounds_do():
    bounds = [None, *map(Fraction, ("0", "-7", "35", "0.04", "1e6"))]
    steps = [(), *[(Fraction(step),) for step in ("7", "0.3", "32", "3e5", "0.0125")]]
    ranges = [
        NumberRange(integer=integer, low=low, high=high, multiples=multiples, not_multiples=others)
        for integer in (None, True, False) for low in bounds for high in bounds for multiples in steps
        for others in steps[:2]
    ]
    for numbers in random.Random(1).sample(ranges, 300):
        for digits in ("1", "-21", "75", "-64"):
            size = len(digits) + reach((numbers,))
            for exponent in (size, -size):
                nearest = contains(numbers, Fraction(f"{digits}e{exponent}"))
                for further in (1, 2, 9):
                    farther = Fraction(f"{digits}e{exponent + further * (1 if exponent > 0 else -1)}")
                    assert contains(numbers, farther) == nearest, (numbers, digits, exponent, further)


def test_what_follows_a_number_is_not_asked_for_behind_each_of_a_thousand(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = [b"%03d" % number for number in range(1000)]
    vocabulary = Vocabulary([*(bytes([byte]) for byte in range(256)), *numbers], special={"<end>": 1256}, stop=[1256])
    note = {"type": "object", "properties": {"r": {"type": "number"}}}
    schema = distinct({"type": "object", "properties": {"notes": distinct(note)}})
    matcher = matcher_of(schema, vocabulary=vocabulary)
    for byte in b'[{"notes": [{"r":':
        matcher.advance(byte)
    asked: list[Any] = []
    expand = OpenItem.expand
    monkeypatch.setattr(OpenItem, "expand", lambda item: asked.append(item) or expand(item))
    row = np.zeros((1, vocabulary.words), np.int32)
    matcher.fill_mask(row)
    assert len(asked) < 100 and row[0, 800 >> 5] >> (800 & 31) & 1


REFUSED = [
    ({"contains": {"uniqueItems": True}, "maxContains": 1}, "#/contains/uniqueItems"),
    (
        {"properties": {"x": {"contains": {"uniqueItems": True}, "maxContains": 1}}},
        "#/properties/x/contains/uniqueItems",
    ),
    ({"not": {"properties": {"b": {"items": {"uniqueItems": True}}}}}, "#/not/properties/b/items/uniqueItems"),
    (
        {"dependentSchemas": {"a": {"not": {"properties": {"b": {"uniqueItems": True}}}}}},
        "#/dependentSchemas/a/not/properties/b/uniqueItems",
    ),
]


@pytest.mark.parametrize(("schema", "pointer"), REFUSED)
def test_what_only_conditions_on_one_part_make_together_is_refused_before_generation(schema, pointer):
    with pytest.raises(UnsupportedSchema) as caught:
        Grammar.from_json_schema(schema)
    assert caught.value.where == pointer


def test_conditions_that_never_meet_refuse_nothing():
    Grammar.from_json_schema({"items": {"type": "integer"}, "contains": {"uniqueItems": True}, "maxContains": 1})


FLAGS = {"a": BIT, "b": {"enum": [1, 2, 3]}}
CONDITIONS = {  # items under conditions, and how many there are
    "one key asks for another": (closed({"a": BIT, "b": BIT}, dependentRequired={"a": ["b"]}), 7),
    "if a is true, b": (closed(FLAGS, **{"if": {"properties": {"a": {"const": True}}, "required": ["a"]},
                                         "then": {"required": ["b"]}}), 11),
    "not both": (closed(FLAGS, **{"not": {"required": ["a", "b"]}}), 6),
    "a one among bits": ({"type": "array", "items": {"enum": [0, 1]}, "contains": {"const": 1}, "maxItems": 3}, 11),
    "two ones": ({"type": "array", "items": {"enum": [0, 1]}, "contains": {"const": 1}, "minContains": 2,
                  "maxItems": 3}, 5),
    "not only a one": ({"type": "array", "items": {"enum": [0, 1]}, "maxItems": 2, "not": {"items": {"const": 1}}}, 4),
}  # fmt: skip


@pytest.mark.parametrize("name", CONDITIONS)
def test_values_under_conditions_are_counted(name):
    items, number = CONDITIONS[name]
    found = {
        json.dumps(value, sort_keys=True)
        for value in itertools.chain(
            ({k: v for k, v in zip("ab", pair, strict=True) if v is not None}
             for pair in itertools.product((None, True, False, 1, 2, 3), repeat=2)),
            (list(bits) for length in range(4) for bits in itertools.product((0, 1), repeat=length)),
        )
        if jsonschema.Draft202012Validator(items).is_valid(value)
    }
    assert len(found) == number
    matcher_of(distinct(items, minItems=number))
    with pytest.raises(SchemaError, match="allows no value"):
        matcher_of(distinct(items, minItems=number + 1))


@pytest.mark.parametrize(("items", "reason"), [
    ({"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, None),
    ({"type": "array", "contains": {"const": 1}}, None),
    ({"type": "array", "items": {"enum": [1]}, "contains": {"const": 1}, "maxContains": 1}, "conditions on its items"),
    ({"$ref": "#/$defs/t"}, "nest more than 64 levels"),
])
def test_what_is_not_counted_says_why(items, reason):
    schema = distinct(items, minItems=70, **{"$defs": {"t": {"type": "array", "maxItems": 1, "items": {"$ref": "#/$defs/t"}}}})
    if reason is None:
        matcher_of(schema)
    else:
        with pytest.raises(UnsupportedSchema, match=reason):
            matcher_of(schema)


PLACES = {
    "free texts": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "boolean"}}},
    "few values": {"type": "object", "properties": {"a": {"enum": [1, 2]}, "b": {"type": "boolean"}}, "required": ["a"],
                   "additionalProperties": False},
    "a free text at the end": {"type": "object", "properties": {"a": {"enum": ["x"]}, "b": {"type": "integer"}},
                               "required": ["a", "b"], "additionalProperties": False},
    "lists": {"type": "array", "items": {"enum": ["x", "y"]}, "maxItems": 2},
    "lists of free numbers": {"type": "array", "items": {"type": "number", "minimum": 3}, "maxItems": 1},
}


@pytest.mark.parametrize("item", PLACES.values(), ids=PLACES)
def test_what_is_known_of_places_changes_no_mask(item: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def masks() -> list[bytes]:
        caches.clear()
        vocabulary = Vocabulary(BYTES.tokens, special={"<end>": 256}, stop=[256], size=257)
        constraint = compile(Grammar.from_json_schema(distinct(item, maxItems=5), whitespace="compact"), vocabulary)
        row, found = np.zeros((1, vocabulary.words), np.int32), []
        for seed in range(6):
            matcher, picks = constraint.matcher(), random.Random(seed)
            for _ in range(80):
                matcher.fill_mask(row)
                found.append(row.tobytes())
                going = [token for token in np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
                         if 32 < token < 127]
                if not going:
                    break
                matcher.advance(int(picks.choice(going)))
        return found

    known = masks()
    monkeypatch.setattr(Place, "leads_on", lambda self: False)
    assert masks() == known
