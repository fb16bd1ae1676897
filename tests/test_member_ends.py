"""Masks behind the values of keys: blanks, commas and brackets that are walked without states of the object."""

from __future__ import annotations

from itertools import product

import pytest
from laws import assert_kernels_agree

from constrained import Grammar, Vocabulary, compile

TEXT, ANY = {"type": "string"}, {}
NAMED = {"properties": {"a": TEXT, "b": {"type": "integer"}, "c": ANY, "d": {"enum": ["x", 12]}}}
ONE = {**NAMED, "required": ["a"], "additionalProperties": False}
SCHEMAS = {
    "open": NAMED,
    "names only": {**NAMED, "additionalProperties": False},
    "a name is missing": {**NAMED, "required": ["d"]},
    "keys are missing": {**NAMED, "minProperties": 3},
    "one key only": {**ONE, "maxProperties": 1},
    "one of two names": {**NAMED, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "objects inside": {"properties": {"a": NAMED, "b": ONE}, "additionalProperties": ONE},
    "items that differ": {"type": "array", "items": ONE, "uniqueItems": True},
    "items": {"type": "array", "items": NAMED, "minItems": 2, "maxItems": 3},
    "several shapes": {"anyOf": [{**ONE, "required": [name]} for name in "abd"]},
    "counted texts": {"additionalProperties": {"type": "string", "maxLength": 3}},
}
VALUES = ('"', 'x"', '""', "{}", "[]", "1", "12", "true", "null", "")
BEHIND = (
    ",", ", ", ",\n", ",  ", "\n", "  ", "\n\n\n", " ,", "\n,\n", "}", " }", "\n}", "}}", "},", "}]", "} ]", "},{", "}, {",
    "}\n}\n", ',"', ', "', ',\n "', ',"a', ', "a":', ',"q":', ' , "b": 1', ",,", ",}", "}\"", "]", "],", "\t\t\t\t\t", ",\t\t",
)  # fmt: skip


def _vocabulary():
    texts = [bytes((byte,)) for byte in range(256)]
    texts += [text for value, behind in product(VALUES, BEHIND) if len(text := f"{value}{behind}".encode()) > 1]
    texts += [f'{opening}"{name}": '.encode() for opening in ("", "{", ", ") for name in "abcdq"]
    texts = list(dict.fromkeys(texts))
    return Vocabulary(texts, special={"<eos>": len(texts)}, stop=[len(texts)])


VOCABULARY = _vocabulary()


@pytest.mark.sampled(5)
@pytest.mark.parametrize("whitespace", ["compact", "canonical", "flexible"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_masks_behind_values_are_those_of_the_twin(name, whitespace):
    pytest.importorskip("constrained.engine.kernel._kernel")
    schema = SCHEMAS[name] if "type" in SCHEMAS[name] else {"type": "object", **SCHEMAS[name]}
    for surface, order in (("json", "any"), ("json", "schema"), ("python", "any")):
        described = Grammar.from_json_schema(schema, surface=surface, whitespace=whitespace, property_order=order)
        # what follows the whole tells whether anything but the object itself was read
        for grammar in (described, Grammar.from_lark('start: "<" part "}" | part ","', define={"part": described})):
            places = [compile(grammar, VOCABULARY, kernel=kind).place() for kind in ("compiled", "plain")]
            for seed in range(2):
                assert_kernels_agree(VOCABULARY, places, 14, seed)
