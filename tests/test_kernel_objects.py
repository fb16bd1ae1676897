"""Objects that the compiled kernel runs natively: masks, ends and successors of the plain twin, bit by bit."""

from __future__ import annotations

import random

import pytest
from laws import assert_kernels_agree, hard_vocabulary

import constrained as c
from constrained.engine.compiled import kernel_class
from constrained.schema import embed


@pytest.mark.parametrize("count", [1, 31, 32, 33, 63, 64, 65, 130])
def test_a_key_that_is_written_is_not_offered_again(count):
    names = [f"{number:03}".encode() for number in range(count)]
    schema = {
        "type": "object", "properties": {name.decode(): {"const": 1} for name in names}, "additionalProperties": False,
    }  # fmt: skip
    constraint = c.compile(c.Grammar.from_json_schema(schema, whitespace="compact"), hard_vocabulary(pairs=0))
    kernel, start = constraint.place()
    for name in names:
        behind = kernel.step_bytes(start, b'{"' + name + b'":1')
        after = kernel.step_bytes(behind, b',"')
        offered = [other for other in names if kernel.step_bytes(after, other + b'"')]
        assert behind and offered == [other for other in names if other != name]


def _ordered_object(picks, count):
    """Return the schema of an object of so many names, in an order that is not theirs, and how it is written."""
    names = [f"k{number:02}" if number % 3 else f"k{number:02}</a>" for number in range(count)]
    picks.shuffle(names)
    schema = {"type": "object", "properties": {name: picks.choice([{"const": 1}, {"const": 1}, {}, False]) for name in names}}
    allowed = [name for name, part in schema["properties"].items() if part is not False]
    schema["required"] = [name for name in allowed if picks.random() < picks.choice([0, 0, 0.1, 0.9])]
    schema["additionalProperties"] = picks.choice([False, False, {"const": 2}, True])
    if picks.random() < 0.3:
        schema["maxProperties"] = len(schema["required"]) + picks.randint(1, 3)
    if picks.random() < 0.5:
        schema["minProperties"] = picks.randint(0, min(2, len(allowed)))
    ways = [{}, {"spelling": "canonical"}, {"spelling": "canonical", "avoid": ("</a>",)}, {"surface": "python"}]
    return names, schema, {"property_order": "schema", "whitespace": "compact", **picks.choice(ways)}


@pytest.mark.parametrize("count", [1, 3, 32, 33, 65])
def test_kernels_agree_on_keys_in_order(count):
    pytest.importorskip("constrained.engine.kernel._kernel")
    tables = 0
    for seed in range(4 if count > 3 else 30):
        picks = random.Random(100 * count + seed)
        names, schema, options = _ordered_object(picks, count)
        texts = [bytes((byte,)) for byte in range(256)]
        texts += [text.encode() for name in names for text in (name, f'"{name}', f'{{"{name}":1', f',"{name}":1', f'"{name}":1,"')]
        texts += [b'":1,"', b'":1}', b'{"', b'x":2,"', b'"y":2,', *(f'"y":2,"{name}"'.encode() for name in names[:3])]
        vocabulary = c.Vocabulary(texts, special={"<eos>": len(texts)}, stop=[len(texts)])
        try:
            machine = embed(schema, **options)
        except c.SchemaError:
            continue
        tables += machine.state().then.object_table is not None
        kernels = [kernel_class(engine)(vocabulary, machine.state(), nullable=False, specials={}) for engine in ("plain", "compiled")]
        for walk in range(2):
            places = [(kernel, kernel.step_bytes(kernel.start, b"{")) for kernel in kernels]
            assert_kernels_agree(vocabulary, places, min(count, 20) + 12, walk)
    assert tables > 1


def _choosing_object(picks, count):
    """Return an object of which each of some clauses wants one of some names, a few of which have no value."""
    names = [f"k{number}" for number in range(count)]
    properties = {name: picks.choice([{"type": "integer"}, {}, {"enum": [1, "x"]}, False]) for name in names}
    choices = [
        {"anyOf": [{"required": [name]} for name in picks.sample(names, picks.randint(1, 3))]}
        for _ in range(picks.randint(1, 3))
    ]
    schema = {"type": "object", "properties": properties, "allOf": choices, "required": picks.sample(names, picks.randint(0, 1))}
    more = [{}, {"additionalProperties": False}, {"patternProperties": {"^k": True}, "additionalProperties": {"const": 1}}, {"minProperties": 3}]
    return names, schema | picks.choice(more)


@pytest.mark.parametrize("count", [3, 5, 33, 70])
def test_kernels_agree_on_objects_that_want_one_of_some_names(count):
    """One name of each clause is all that is asked for: the object is native from its start."""
    pytest.importorskip("constrained.engine.kernel._kernel")
    choosing = 0
    for seed in range(12):
        picks = random.Random(100 * count + seed)
        names, schema = _choosing_object(picks, count)
        texts = [bytes((byte,)) for byte in range(256)]
        texts += [text.encode() for name in names for text in (name, f'{{"{name}":', f',"{name}":1', f'"{name}":1}}')]
        texts += [b'":1,"', b'":1}', b'{"', b'x":1,"', b'"y":1,']
        vocabulary = c.Vocabulary(texts, special={"<eos>": len(texts)}, stop=[len(texts)])
        try:
            machine = embed(schema, whitespace="compact")
        except c.SchemaError:
            continue
        table = machine.state().then.object_table
        choosing += table is not None and len(table.choices) > 0
        kernels = [kernel_class(engine)(vocabulary, machine.state(), nullable=False, specials={}) for engine in ("plain", "compiled")]
        for walk in range(2):
            places = [(kernel, kernel.step_bytes(kernel.start, b"{")) for kernel in kernels]
            assert_kernels_agree(vocabulary, places, min(count, 20) + 6, walk)
    assert choosing > 1


def _tied_object(picks):
    """Return an object with keys that clauses tie together until one of them is met, or one of many shapes."""
    names = ["t", *picks.sample(["a", "b", "cc", "ca", "d1", "é"], picks.randint(2, 5))]
    values = [{"type": "integer"}, {}, {"enum": [1, "x"]}, {"type": "string", "maxLength": 2}, {"type": "object"}]

    def shape(tag):
        shape = {"properties": {name: picks.choice(values) for name in names[1:]} | {"t": {"const": tag}}}
        for chance, more in [
            (0.5, {"required": ["t", *names[1:2]]}), (0.4, {"additionalProperties": picks.choice(values)}),
            (0.2, {"additionalProperties": False}), (0.3, {"patternProperties": {"^c": picks.choice(values)}}),
            (0.3, {"minProperties": picks.randint(1, 3)}), (0.3, {"maxProperties": picks.randint(2, 4)}),
        ]:
            if picks.random() < chance:
                shape |= more
        return shape

    ties = [
        {"dependentRequired": {names[1]: [names[2]]}}, {"anyOf": [{"required": [names[1]]}, {"required": [names[2]]}]},
        {"if": {"required": [names[1]]}, "then": {"properties": {names[2]: {"const": 7}}, "required": [names[2]]}},
        {"not": {"required": [names[1], names[2]]}}, {"contains": {}},
    ]
    if picks.random() < 0.5:
        return names, {"type": "object", **shape("x"), **picks.choice(ties)}
    return names, {"type": "object", "required": ["t"], "oneOf": [shape(f"x{number}") for number in range(51)]}


def _kinds_below(look, kernel, stack, depth=0):
    for after, _, parent in look.frames(kernel, stack):
        if after >= 0 and not after & 1:
            yield look.edges(kernel, after)["kind"]
        if parent >= 0 and depth < 9:
            yield from _kinds_below(look, kernel, parent, depth + 1)


@pytest.mark.parametrize("order", ["any", "schema"])
def test_kernels_agree_on_objects_that_are_native_from_some_key_on(order):
    """Where the last clause is met, and where one shape of many is left."""
    pytest.importorskip("constrained.engine.kernel._kernel")
    look, native, walks = pytest.importorskip("constrained.engine.kernel._kernel"), 0, 0
    for seed in range(12):
        picks = random.Random(seed)
        names, schema = _tied_object(picks)
        texts = [*map(chr, range(32, 127)), *(f'"{name}":' for name in names), '"t":"x', '1"', ',"', '","', '":1,"', '":1}', "},", '"}', 'q":1,', '"q":']
        vocabulary = c.Vocabulary([text.encode() for text in texts], special={"<eos>": len(texts)}, stop=[len(texts)])
        try:
            machine = embed(schema, property_order=order, whitespace="compact")
        except c.SchemaError:
            continue
        kernels = [kernel_class(engine)(vocabulary, machine.state(), nullable=False, specials={}) for engine in ("plain", "compiled")]
        for walk in range(2):
            places = [(kernel, kernel.step_bytes(kernel.start, b'{"')) for kernel in kernels]
            read, walks = assert_kernels_agree(vocabulary, places, 30, walk), walks + 1
            state = kernels[1].step_bytes(kernels[1].start, b'{"' + read)
            native += any("POSITION" in _kinds_below(look, kernels[1], stack) for _, stack in look.configurations(kernels[1], state))
    assert native > walks // 20 > 0, (native, walks)


@pytest.mark.parametrize("whitespace", ["compact", "flexible"])
def test_what_was_written_before_an_object_is_native_counts(whitespace):
    pytest.importorskip("constrained.engine.kernel._kernel")
    schema = {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": {}, "b": {}}, "maxProperties": 4}
    vocabulary = c.Vocabulary([bytes((byte,)) for byte in range(256)], stop=[], size=256)
    kernel, start = c.compile(c.Grammar.from_json_schema(schema, whitespace=whitespace), vocabulary, kernel="compiled").place()
    refused = {text for text in ['"q"', '"r"', '"a"', '"b"', '"s":1,', '"s":1,"t":1,', '}', ' "s"', "\t"] if not kernel.step_bytes(start, b'{"r":1,"q":1,"a":1,' + text.encode())}
    assert refused == {'"q"', '"r"', '"a"', '"s":1,', '"s":1,"t":1,', "}"} | ({' "s"', "\t"} if whitespace == "compact" else set())
    assert bool(kernel.step_bytes(start, b'{"r":1,"q":1,"a":1 ,')) is (whitespace == "flexible")
