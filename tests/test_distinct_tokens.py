"""Tokens that end a text of a distinct item and go on, into the next item perhaps: masks as the plain twin's, which
tries each token, on all walks of a few tokens.

A mask asks of most such tokens what follows any text (`machine.Dispatch`).  Each row has tokens that could tell more: that
write an item again, or begin one that could only be written again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from laws import unpacked

from constrained import Grammar, Vocabulary, compile

TEXT = {"type": "string"}


def distinct(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, "uniqueItems": True, **more}


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def row(*parts: Any) -> dict[str, Any]:
    return {"type": "array", "prefixItems": [*parts], "items": False, "minItems": len(parts)}


ROWS: dict[str, tuple[Any, str]] = {
    "texts": (distinct(TEXT), r'[ " " x y , ] "x" ","x" ","xy" "," ","x"," x","x" y"," ","","x ","\u0078" ","\u0078y"'),
    "texts that run out": (distinct({"enum": ["x", "y"]}), '[ " x y , ] ", ","y" x", y","x'),
    "texts of a pattern that run out": (distinct({**TEXT, "pattern": "^[xy]$"}), '[ " x y , ] ", ","y" x", y","x'),
    "objects": (
        distinct(closed(a=TEXT)),
        r'[ { } " a : x y , ] [{"a":" "},{"a":"x" "},{"a":"xy"} "}] "}, "},{"a":" x"},{"a":"x "},{"\u0061":"x"}',
    ),
    "objects with more behind the text": (
        distinct(closed(a=TEXT, b={"type": "boolean"})),
        '[ { } " a : x , ] true false "b":true "b":false [{"a":" [{ "},{"a":"x" ","b":true},{"a":"x" "},{"b":true,"a":"x"}',
    ),
    "free keys": (
        distinct({"type": "object", "additionalProperties": {"const": 1}}),
        '[ { } " x y : 1 , ] [{" x":1},{"x":1} ":1},{"x":1 ":1},{"x" ":1,"x" ":1},{ },{} }]',
    ),
    "a first item beside fewer": (
        distinct(closed(a={"const": "x"}), prefixItems=[closed(a=TEXT)]),
        '[ { } " a : x y , ] [{"a":" "}, "},{ x"}, x"} y"}, "}]',
    ),
    "a first item that the last one needs": (
        distinct(closed(a={"const": "x"}), prefixItems=[closed(a=TEXT)], minItems=2),
        '[ { } " a : x y , ] [{"a":" "}, "},{ x"}, x"} y"}, "}]',
    ),
    "rows that a number decides": (
        distinct({"anyOf": [row({"const": 1}, {**TEXT, "pattern": "^(xy|xz)$"}), row({"const": 2}, TEXT)]}),
        '[ ] " x y z 1 2 , [[1," "],[1 "],[ "],[1,"xy"] "],[1,"x "],[2,"x" "]]',
    ),
    "rows of one text that a number decides": (
        distinct({"anyOf": [row({"const": 1}, {**TEXT, "pattern": "^xx?$", "minLength": 2}), row({"const": 2}, TEXT)]}),
        '[ ] " x y 1 2 , [[1," "],[1 "],[ "],[1,"x "],[2,"x" "]]',
    ),
    "objects that another key decides": (
        distinct({"anyOf": [closed(a={"const": "x"}, b={**TEXT, "pattern": "^y+$", "maxLength": 1}), closed(a={"const": "y"}, b=TEXT)]}),
        '[ { } " a b : x y , ] [{"a":"x" [{"b":" ,"b":"y" "},{"a":"x" "a":"y" ,"a":"x"}, "},{ "},{"b":"y" ","a":"x"}',
    ),
    "distinct inside of distinct": (
        distinct(closed(a=distinct(TEXT))),
        '[ { } " a : x y , ] [{"a":[" "]},{"a":["x"] "]},{"a":["x"]} "]}, "]} "] ","x" ","y","x" "]},{"a":["x","y"]}',
    ),
    "counted": (
        distinct(closed(a=TEXT), contains=closed(a={"const": "x"}), maxContains=1),
        '[ { } " a : x y , ] [{"a":" "},{"a":"x" "},{"a":"y"} "}] "}, "},{"a":" x"},{"a":"x',
    ),
    "as many as there are": (
        distinct(closed(a={**TEXT, "pattern": "^[xy]$"}), minItems=2),
        '[ { } " a : x y , ] [{"a":" "},{"a":"x" "},{"a":"y"} "}] "}, x"}, x"},{"a":"',
    ),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("order", ["any", "schema"])
@pytest.mark.parametrize("name", ROWS)
def test_tokens_behind_a_text_are_those_that_the_plain_twin_finds(name: str, order: str) -> None:
    schema, written = ROWS[name]
    tokens = sorted({token.encode() for token in written.split()})
    vocabulary = Vocabulary(tokens, special={"<end>": len(tokens)}, stop=[len(tokens)], size=len(tokens) + 1)
    grammar = Grammar.from_json_schema(schema, whitespace="compact", property_order=order)
    (one, start), (other, begin) = (compile(grammar, vocabulary, kernel=kernel).place() for kernel in ("compiled", "plain"))
    seen, level = set[tuple[int, int]](), {(start, begin): b""}
    for _ in range(9):
        seen.update(level)
        following: dict[tuple[int, int], bytes] = {}
        for (state, twin), read in level.items():
            mask, plain = (unpacked(kernel.mask(at), vocabulary.size) for kernel, at in ((one, state), (other, twin)))
            wrong = {tokens[token]: bool(mask[token]) for token in np.flatnonzero(mask != plain)}
            assert not wrong, (read, wrong)
            for token in map(int, np.flatnonzero(mask[:-1])):
                place = one.step_token(state, token), other.step_token(twin, token)
                if place not in seen and len(seen) + len(following) < 500:
                    following.setdefault(place, read + tokens[token])
        level = following
    assert len(seen) > 10
