"""States that few tokens tell apart, or none: their masks are the twin's, with such tokens and without."""

from __future__ import annotations

import random

import numpy as np
import pytest

from constrained import ConstrainedError, Grammar, Vocabulary, compile

pytest.importorskip("constrained.engine.kernel._kernel")

LETTERS = [*map(chr, range(32, 127)), "\n", "é"]
OPEN = {"properties": {"a": {"type": "string"}, "bb": {"type": "string"}, "c": {"type": "integer"}}}
CLOSED = {**OPEN, "additionalProperties": False}
MIXED = {**OPEN, "patternProperties": {"^x": {"type": "integer"}}}
NEEDED = {**OPEN, "required": ["bb"]}
TEXT = {"type": "string"}
PAIR = {"properties": {"ab": TEXT, "ac": TEXT}, "additionalProperties": False, "type": "object"}
NESTED = {"properties": {"n": {**OPEN, "type": "object"}, "m": PAIR, "k": TEXT, "s": {"minLength": 1}}}
ROWS = {"properties": {
    "p": {"type": "array", "items": {**OPEN, "type": "object"}}, "q": {**OPEN, "type": "object"},
    "r": {"type": "array", "items": {"anyOf": [{**OPEN, "type": "object"}, TEXT]}},
    "s": {"type": "array", "items": {"type": "array", "items": {**OPEN, "type": "object"}}},
}}  # fmt: skip
OTHER_PAIR = {**PAIR, "properties": {"cb": TEXT, "d": TEXT}}
VARIED = {
    "properties": {"p": PAIR, "q": OTHER_PAIR, "r": {**PAIR, "required": ["ab"]}, "s": {"type": "array", "items": PAIR}}
}
NEEDY = {**OPEN, "type": "object", "required": ["c"]}
HELD = {"properties": {"n": NEEDY, "m": {"properties": {"k": NEEDY}, "type": "object"}, "l": {"items": NEEDY, "type": "array"}}}
COUNTED = {"properties": {
    name: {"properties": {"k": {**OPEN, "type": "object", "minProperties": 2}}, "type": "object", "required": required}
    for name, required in (("n", []), ("m", ["k", "j"]))
}}  # fmt: skip
WORDS = {
    name: {"properties": {key: {"enum": [word, "other"]}, "q": TEXT}, "additionalProperties": False, "type": "object"}
    for name, key, word in (("n", "kxy", "vxy"), ("m", "lxy", "wxy"))
}
DISTINCT = {"items": TEXT, "uniqueItems": True, "type": "array"}
SIDES = {"properties": {
    name: {"type": "object", "patternProperties": {"^x": TEXT, pattern: TEXT}, "additionalProperties": False}
    for name, pattern in (("n", "^a"), ("m", "^b"))
}}  # fmt: skip
EITHER = {"anyOf": [
    {"type": "array", "items": {"type": "object", "properties": {"k": {"const": 1}}, "additionalProperties": {"type": "integer"}}},
    {"type": "array", "items": {"type": "object", "properties": {"k": {"const": 2}}, "additionalProperties": {"type": "string"}}},
]}  # fmt: skip

# (schema, two beginnings, a token that tells one from the other; "": none can, None: letters do)
PAIRS = [
    (OPEN, '{"a":"', '{"bb":"', '","a"'),
    (OPEN, '{"a":"x","d":"', '{"bb":"x","d":"', '","a"'),
    (OPEN, '{"d":1,"', '{"e":1,"', 'd":'),
    (OPEN, '{"x', '{"y', 'x":1,"x":'),
    (OPEN, '{"a', '{"bb', 'a"'),
    (OPEN, '{"a":"","a', '{"c":0,"c', 'xa"'),
    (OPEN, '{"a":"",', '{"bb":"",', '"a"'),
    (OPEN, '{"c":', '{"a":"x","c":', '0,"a"'),
    (CLOSED, '{"a":"', '{"bb":"', '","a'),
    (CLOSED, '{"a":"","bb":"', '{"bb":"","c":1,"a":"', None),
    (CLOSED, '{"a":"","bb":"', '{"c":0,"bb":"', '","a'),
    (CLOSED, '{"a":"","c":', '{"bb":"","c":', '0,"b'),
    (CLOSED, '{"a', '{"bb', '","a'),
    (CLOSED, '{"a":"', '{"a":"","bb":"","c":1', None),
    (CLOSED, '{"a":"', '{"a":"","c":1,"bb":"', None),
    (MIXED, '{"a":"', '{"bb":"', '","a'),
    (MIXED, '{"a":"', '{"bb":"', '","a"'),
    (MIXED, '{"aq', '{"bq', 'a"'),
    (MIXED, '{"b', '{"q', 'b"'),
    (MIXED, '{"a', '{"bb', 'a"'),
    (MIXED, '{"x":0,"a":"', '{"a":"","y":0,"bb":"', '","x"'),
    (NEEDED, '{"a":"', '{"bb":"', None),
    (NEEDED, '{"a":"', '{"x":"', '","a"'),
    ({**CLOSED, "required": ["bb"]}, '{"a":"', '{"bb":"', None),
    ({**CLOSED, "required": ["bb"]}, '{"bb":"","a":"', '{"c":1,"bb":"', '","a'),
    ({**CLOSED, "minProperties": 2}, '{"a":"', '{"a":"","bb":"', None),
    ({**CLOSED, "minProperties": 2}, '{"a":"","bb":"', '{"c":1,"a":"', '","b'),
    ({**OPEN, "minProperties": 3}, '{"a":"', '{"bb":"', '","a"'),
    ({**OPEN, "minProperties": 3}, '{"a":"', '{"a":"","x":"', None),
    ({**OPEN, "minProperties": 2}, '{"a":"","x":"', '{"c":1,"y":1,"bb":"', '","a"'),
    (EITHER, '[{"q', '[{"k":1,"q', None),
    (EITHER, '[{"q', '[{"k":2,"q', None),
    (EITHER, '[{"k":1,"q', '[{"k":1,"p', ""),
    (OPEN, '{"a', '{"c', '":"'),
    (OPEN, '{"a', '{"x', None),
    (NESTED, '{"n":{"zz', '{"zz', '":""}}'),
    (NESTED, '{"k', '{"s', '":""'),
    (NESTED, '{"n":{"a', '{"k', '":"","k":"'),
    (NEEDED, '{"a', '{"bb":"","a', '":""}'),
    (SIDES, '{"n":{"x', '{"m":{"x', '":"","a'),
    (CLOSED, '{"bb', '{"a":"","c":1,"bb', '":"",'),
    (CLOSED, '{"a":"",', '{"bb":"",', '"a'),
    (CLOSED, '{"a":"",', '{"bb":"",', ' "b'),
    (CLOSED, '{"a":"",', '{"bb":"",', '"a"'),
    (CLOSED, '{"a":"",', '{"bb":"",', '"\\u0061'),
    (MIXED, '{"a":"",', '{"bb":"",', '"a'),
    (MIXED, '{"a":"",', '{"bb":"",', '\t"b'),
    ({**CLOSED, "properties": {"": {}, "a": {}, "b": {}}}, '{"":"",', '{"b":"",', None),
    ({**CLOSED, "properties": {"\n": {}, "a": {}, "b": {}}}, '{"\\n":"",', '{"a":"",', None),
    (ROWS, '{"p":[{"a":"', '{"r":[{"a":"', '"},"'),
    (ROWS, '{"p":[{"a":', '{"r":[{"a":', '""},"'),
    (ROWS, '{"p":[{"a":"', '{"s":[[{"a":"', '"}]]'),
    (ROWS, '{"p":[{"a":"', '{"s":[[{"a":"', '"}],"'),
    (ROWS, '{"p":[{"a":"', '{"s":[[{"a":"', '"":""}]]'),
    (ROWS, '{"p":[{"a":"', '{"q":{"a":"', None),
    (ROWS, '{"p":[{"c":', '{"s":[[{"c":', "0}]]"),
    (VARIED, '{"p":', '{"q":', '{"a'),
    (VARIED, '{"p":', '{"q":', '{\n"d'),
    (VARIED, '{"p":', '{"q":', '{"\\u0061'),
    (VARIED, '{"p":', '{"q":', ',"d'),
    (VARIED, '{"p":{', '{"q":{', '"a'),
    (VARIED, '{"p":{', '{"q":{', '"d'),
    (VARIED, '{"p":', '{"r":', None),
    (VARIED, '{"p":', '{"s":', None),
    (PAIR, '{"ab":"",', '{"ac":"",', '"a\\u0063'),
    (SIDES, '{"n":{"x1":"",', '{"m":{"x1":"",', None),
    (SIDES, '{"n":{"x1":"",', '{"n":{"a":"",', '"x1":"","x1'),
    (NESTED, '{"n":{"zz":"",', '{"zz":"",', '"":""}}'),
    (NESTED, '{"n":{"zz":"",', '{"zz":"",', '"":"' + 99 * "x" + '"}}'),
    (NESTED, '{"x":1,"m":{"a', '{"y":1,"m":{"a', 'b":""},"x"'),
    (HELD, '{"n":{"a":"', '{"m":{"k":{"a":"', '","c":1}'),
    (HELD, '{"n":{"a":"', '{"l":[{"a":"', '","c":1}'),
    (HELD, '{"n":{"a":', '{"l":[{"a":', '"","c":1}'),
    (HELD, '{"n":{', '{"m":{"k":{', '"c":1}'),
    (HELD, '{"n":{"a":""', '{"l":[{"a":""', ',"c":1}'),
    (HELD, '{"n":{"c":1,"a":"', '{"l":[{"c":1,"a":"', None),
    (HELD, '{"n":{"c":', '{"l":[{"c":', None),
    (COUNTED, '{"n":{"k":{"a":"', '{"m":{"k":{"a":"', '","c":1}'),
    (COUNTED, '{"n":{"k":{"a":"', '{"m":{"k":{"a":"', '","q":1}}'),
    (COUNTED, '{"n":{"k":{"c":1,"a":"', '{"m":{"k":{"c":1,"a":"', None),
    (COUNTED, '{"n":{"k":{"c":1,"a":"', '{"n":{"k":{"q":1,"a":"', '","q"'),
    (COUNTED, '{"m":{"k":{"c":1,"a":"","x":"', '{"m":{"x":1,"k":{"q":1,"a":"', '","q"'),
    ({"properties": WORDS}, '{"n":{"kx', '{"m":{"lx', 'y"'),
    ({"properties": WORDS}, '{"n":{"kx', '{"m":{"lx', '9"'),
    ({"properties": WORDS}, '{"n":{"kxy":"vx', '{"m":{"lxy":"wx', ""),
    ({"properties": WORDS}, '{"n":{"kxy":"vxy', '{"n":{"q":"","kxy":"vxy', None),
    ({"properties": WORDS}, '{"n":{"kxy', '{"m":{"lxy', '":"v'),
    (DISTINCT, '["a', '["b', 'a","a"'),
    (DISTINCT, '["ab","q', '["ab","a', 'b"'),
    (DISTINCT, '["ab","q', '["ab","ab', None),
    (DISTINCT, '["ab","q', '["cd","q', None),
    (DISTINCT, '["ab","qqqqq', '["ab","zzzzz', ""),
    ({"enum": ["axy", "bxy", "bxz"]}, '"ax', '"bxz', None),
    ({"items": {"type": "string", "maxLength": 3}}, '["', '["a', "abcd"),
    ({"items": {"type": "string", "maxLength": 3}}, '["a', '["abc', None),
    ({"items": {"enum": ["axy", "bxy", "c"]}}, '["ax', '["axy","bx', ""),
]
# the same where a comma is followed by a blank and a colon too
SPACED = [
    (NESTED, '{"n": {"zz": "",', '{"zz": "",', ' "": ""}}'),
    (SIDES, '{"n": {"x1": "",', '{"m": {"x1": "",', None),
    (CLOSED, '{"a": "",', '{"bb": "",', ' "a'),
]
# where as many blanks may come as 1,024
BLANK = [
    (OPEN, '{"a":', '{"a": ', 1024 * " "),
    (CLOSED, '{"a":', '{"a":\n\t', 1023 * " "),
    (CLOSED, '{"c":', '{"c":' + 900 * " ", 125 * " "),
    ({"items": TEXT}, '["a",', '["a", ', 1024 * " "),
    (OPEN, '{"a":"",', '{"a":"", ', 1024 * " "),
]


def _kernel(schema, texts, kind="compiled", whitespace="compact"):
    ids = len(texts)
    vocabulary = Vocabulary([text.encode() for text in texts], special={"<eos>": ids}, stop=[ids], size=ids + 1)
    return compile(Grammar.from_json_schema(schema, whitespace=whitespace), vocabulary, kernel=kind).place()


WRITTEN = [
    *[(*pair, ("compact", "flexible")[at % 2]) for at, pair in enumerate(PAIRS)],
    *[(*pair, "canonical") for pair in SPACED],
    *[(*pair, "flexible") for pair in BLANK],
    (VARIED, '{"p":{\n ', '{"q":{\n ', ' "d', (",", ":", 2)),
]


@pytest.mark.parametrize(("schema", "one", "other", "telling", "whitespace"), WRITTEN)
def test_masks_of_states_that_few_tokens_tell_apart(schema, one, other, telling, whitespace):
    schema = schema if {"enum", "items", "anyOf"} & schema.keys() else {"type": "object", **schema}
    texts = [*LETTERS, telling] if telling else LETTERS
    (kernel, start), (plain, beginning) = (_kernel(schema, texts, kind, whitespace) for kind in ("compiled", "plain"))
    for read in (one, other):
        state, twin = kernel.step_bytes(start, read.encode()), plain.step_bytes(beginning, read.encode())
        assert state and twin and (kernel.mask(state) == plain.mask(twin)).all()


@pytest.mark.parametrize(("grammar", "surface", "tokens", "allowed"), [
    ('start: "1" a "2" | "3" a "4"\na: part "!"?', "json", ['"}2', '"}4'], "10 01"),
    ('start: "1" part "!2" | "3" part "!4"', "json", ['"}!2', '"}!4'], "10 01"),
    ('start: "1" part ",2" | "3" part ",4"', "json", ['"},2', '"},4'], "10 01"),
    ('start: "1" a "x" | "3" b "x"\na: part "}" | part "}" a\nb: part "}}" | part "}}" b', "json", ['"}}x'], "1 0"),
    ('start: "1" part ",2" | "3" part ",4"', "arguments", ['"),2', '"),4'], "10 01"),
])
def test_what_is_behind_an_object_is_looked_at(grammar, surface, tokens, allowed):
    described = Grammar.from_json_schema({"type": "object", **OPEN}, whitespace="compact", surface=surface)
    texts = [*LETTERS, *tokens]
    vocabulary = Vocabulary([text.encode() for text in texts], special={"<eos>": 200}, stop=[200], size=201)
    kernel, start = compile(Grammar.from_lark(grammar, define={"part": described}), vocabulary, kernel="compiled").place()
    begun = b'{"a":"' if surface == "json" else b'(a="'
    for state in (b"1", b"3"):
        found = _allowed(kernel, kernel.step_bytes(start, state + begun), texts)
        assert "".join(str(int(token in found)) for token in tokens) == allowed.split()[state == b"3"]


def _allowed(kernel, state, texts):
    mask = kernel.mask(state)
    return [text for token, text in enumerate(texts) if mask[token >> 5] >> np.uint32(token & 31) & 1]


BITS = [
    *"ab\"\",,::{}[] \n\\1-", "ab", "u0061", "u00", "61", "null", '""', '","', '":"', '":1', ',"', '",', 'a"', '"a', '"a"',
    '"b":1', '{"a', '\\"', "}}", '":{"', '":{}', "é", "\\n", ".", ',"a":1', '":1}', '},"', "true", "x", "/",
]  # fmt: skip
NAMES = ["a", "b", "ab", "a.", "", '"', "\\", "/", "é", "x", "aa", "\n", ",", ":", "x1"]
PATTERNS = [
    {"^a": {"type": "integer"}},
    {"b$": {}},
    {"^x": {"type": "integer"}, "[.]$": {}},
    {"^[ab]{1,3}$": {"const": 1}},
]
LEAVES = [
    {"type": "string"}, {"type": "integer"}, {}, {"enum": ["a", "b.", 1]}, {"const": "x"}, {"type": "string", "maxLength": 2},
]  # fmt: skip


def _texts(luck):
    """Return tokens, some of which have any byte before a quote, or no letter, or no hexadecimal digit."""
    more = {"".join(luck.choices(BITS, k=luck.randrange(1, 4))) for _ in range(luck.randrange(60))}
    forbidden = luck.choice(["", "0123456789abcdefABCDEF", "0123456789abcdefuxABCDEF"])
    return sorted({*LETTERS, *(text for text in more if not any(digit + '"' in text for digit in forbidden))})


def _schema(luck, level=0):
    kind = luck.randrange(9) if level <= 2 else 0
    if kind < 2:
        return luck.choice(LEAVES)
    if kind == 2:
        return {"type": "array", "items": _schema(luck, level + 1), "uniqueItems": luck.random() < 0.4}
    if kind == 3:
        return {"anyOf": [_schema(luck, level + 1), _schema(luck, level + 1)]}
    names = luck.sample(NAMES, luck.randrange(5))
    schema = {"type": "object", "properties": {name: _schema(luck, level + 1) for name in names}}
    for chance, more in [
        (0.5, {"required": names[: luck.randrange(5)]}), (0.2, {"additionalProperties": False}),
        (0.3, {"additionalProperties": _schema(luck, level + 1)}), (0.15, {"minProperties": luck.randrange(4)}),
        (0.15, {"maxProperties": luck.randrange(1, 4)}), (0.3, {"patternProperties": luck.choice(PATTERNS)}),
        (0.1, {"dependentRequired": dict.fromkeys(names[:1], names[1:2])}),
        (0.1, {"anyOf": [{"required": names[:1]}, {"minProperties": 2}]}),
        (0.2, {"anyOf": [{"required": [name]} for name in names[:3]] or [True]}),
    ]:  # fmt: skip
        if luck.random() < chance:
            schema |= more
    return schema


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(24))
def test_masks_along_random_ways_are_those_of_the_twin(seed):
    luck = random.Random(seed)
    schema = {"type": "object", "properties": {"a": _schema(luck), "b": {}, "x": _schema(luck)}}
    schema |= luck.choice([{}, {}, {"additionalProperties": False}])
    texts, whitespace = _texts(luck), luck.choice(["compact", "canonical", "flexible"])
    try:
        (kernel, start), (plain, beginning) = (
            _kernel(schema, texts, kind, whitespace) for kind in ("compiled", "plain")
        )
    except ConstrainedError:  # such as a schema that nothing fits
        return
    for _ in range(6):
        state, twin, read = start, beginning, ""
        for _ in range(25):
            mask, expected = kernel.mask(state), plain.mask(twin)
            assert (mask == expected).all(), (schema, whitespace, read, texts)
            allowed = [token for token in range(len(texts)) if expected[token >> 5] >> np.uint32(token & 31) & 1]
            if not allowed:
                break
            telling = [token for token in allowed if set('",:{}').intersection(texts[token])]
            token = luck.choice(telling if telling and luck.random() < 0.5 else allowed)
            state, twin, read = kernel.step_token(state, token), plain.step_token(twin, token), read + texts[token]
