"""Schemas printed as Lark rules: the `lark` library reads them, as the same language."""

from __future__ import annotations

import json
import random
from typing import Any

import lark
import pytest

from constrained import GrammarError
from constrained.engine.compiled import kernel_class
from constrained.engine.plain import DEAD
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.schema import embed

VOCABULARY = Vocabulary([bytes([byte]) for byte in range(256)], special={"<end>": 256}, stop=[256], size=257)
CANONICAL = {"whitespace": "canonical", "spelling": "canonical"}
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 3},
        "n": {"type": "integer", "minimum": 1, "maximum": 120},
        "ok": {"type": "boolean"},
    },
    "required": ["name"],
    "additionalProperties": False,
}
SAFE = {"spelling": "canonical", "avoid": ("</", "<e>", "<<>", "\u65e5\u672c")}
STRINGS = [
    "<e>",
    "<e",
    "a<<e>>",
    "<<>",
    "<<<>",
    "\u65e5\u65e5\u672c",
    "\u65e5\n\u672c",
    "",
    "a",
    "é",
    '"',
    "'",
    "\"'",
    "\\",
    "/",
    "</a>",
    "\n",
    "\x00",
    "\x7f",
    "😀",
    "\u2028",
    "a/b",
    "<<",
]

SAME: list[tuple[Any, dict[str, str], list[str]]] = [
    (
        PERSON,
        CANONICAL,
        [
            '{"name": "a"}',
            '{"n": 7, "name": "abc"}',
            '{"name": "a", "n": 120, "ok": true}',
            '{"name": "abcd"}',
            '{"n": 0}',
            '{"name":"a"}',
        ],
    ),
    (
        PERSON,
        {},
        ['{"name":"a"}', ' {"name":"a"}', '{\n  "n" : 7,\n  "name": "\\u0061"\n}', '{"name": "a", "name": "b"}'],
    ),
    (
        PERSON,
        {"surface": "python"},
        [
            "{'name': 'a'}",
            '{"name":"a",}',
            "{'name': '\\x61\\\n'}",
            "{'name': 'a', 'ok': True}",
            "{'ok': true, 'name': ''}",
        ],
    ),
    (PERSON, {"surface": "arguments", **CANONICAL}, ["(name='a')", "(name='a', n=3)", "(n=3)", "()", "(name='a',n=3)"]),
    (
        {"type": "array", "items": {"enum": [None, "x", 1, [2]]}, "minItems": 1, "maxItems": 3},
        CANONICAL,
        ["[null]", '["x", 1, [2]]', "[]", "[1, 1, 1, 1]", "[2]"],
    ),
    (
        {"type": "array", "items": {"type": "null"}},
        {"surface": "python"},
        ["()", "(None)", "(None,)", "[None, None,]", "[,]"],
    ),
    ({"type": "number"}, {}, ["0", "-1.5e+3", "01", "1.", "1e", "-0"]),
    (
        {"type": "number", "minimum": -2, "exclusiveMaximum": 10},
        CANONICAL,
        ["-2", "-2.5", "9.99", "10", "0.0", "1e-07", "1e+16", "-0.0", "0.50"],
    ),
    (
        {"$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}, "$ref": "#/$defs/t"},
        {"whitespace": "compact"},
        ["[]", "[[],[[]]]", "[[]", "[ ]"],
    ),
    *(
        ({"type": "string"}, {"surface": surface, "spelling": spelling}, [])
        for surface, spelling in (("json", "any"), ("json", "canonical"), ("python", "any"), ("python", "canonical"))
    ),
    *(({"type": "string"}, {"surface": surface, **SAFE}, []) for surface in ("json", "python")),
    (
        {"type": "string", "pattern": "^<?[/e]*>*$", "maxLength": 6},
        SAFE,
        ['"<\\/>"', '"</>"', '"<e"', '"<e>"', '"<e\\u003e"', '"\\/"', '"e>>"'],
    ),
    (
        {"type": "string", "pattern": "^[a-c😀]+$", "maxLength": 2},
        {},
        ['"a"', '"\\u0061\\ud83d\\ude00"', '"😀b"', '"d"', '"abc"', '"\\ud83d"'],
    ),
    (
        {"type": "string", "maxLength": 4},
        {"spelling": "canonical", "avoid": ("<e>", "<<>")},
        ['"<e\\u003e"', '"<<\\u003e"', '"<e>"', '"<<>"', '"a<e\\u003e"', '"ab<e\\u003e"', '"<e\\u0065"', '"<<\\u003c"', '"<e<"'],
    ),
    ({"enum": ["a'b", "</x>", "é"]}, SAFE, ['"a\'b"', '"<\\/x>"', '"</x>"', '"é"', '"\\u00e9"']),
    (
        {"enum": ["a'b", '"', "\u00e9\u0301"]},
        {"surface": "python", "spelling": "canonical"},
        ['"a\'b"', "'a\\'b'", "'\"'", "'é\u0301'"],
    ),
]


def spellings(text: str) -> list[str]:
    written = [
        json.dumps(text),
        json.dumps(text, ensure_ascii=False),
        repr(text),
        ascii(text),
        json.dumps(text).replace("</", "<\\/"),
    ]
    written += [
        each.replace("<e>", f"<e{escape}").replace("<<>", f"<<{escape}")
        for each in written
        for escape in ("\\u003e", "\\x3e")
    ]
    written += [each.replace("\u672c", "\\u672c") for each in written]
    return [
        *written,
        f"'{text}'",
        f'"{text}"',
        '"' + "".join(f"\\u{ord(char):04X}" for char in text if ord(char) < 65536) + '"',
    ]


@pytest.mark.parametrize(("schema", "options", "texts"), SAME, ids=lambda part: json.dumps(part)[:50])
def test_lark_reads_the_same_language(schema: Any, options: dict[str, str], texts: list[str]) -> None:
    machine = embed(schema, **options)
    lines = machine.to_lark("value")
    assert lines[0].startswith("value: ")
    parser = lark.Lark("\n".join(lines), start="value", parser="earley", lexer="dynamic_complete")
    kernel = kernel_class()(VOCABULARY, machine.state(), nullable=False, specials={})
    rng = random.Random(0)
    texts = texts or [spelling for text in STRINGS for spelling in spellings(text)]
    for text in dict.fromkeys(texts + [_damaged(text, rng) for text in texts]):
        state = kernel.step_bytes(kernel.start, text.encode())
        expected = state != DEAD and kernel.is_final(state)
        try:
            parser.parse(text)
            read = True
        except lark.exceptions.LarkError:
            read = False
        assert read == expected, text


def _damaged(text: str, rng: random.Random) -> str:
    at = rng.randrange(len(text))
    return text[:at] + rng.choice(["", "0", '"', ",", "\\"]) + text[at + 1 :]


def test_what_is_not_exact_says_so() -> None:
    lines = embed({"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}}).to_lark("value")
    assert [line.split()[1] for line in lines if line.startswith("//")] == ["wider:", "narrower:"]
    assert not [line for line in embed(PERSON, **CANONICAL).to_lark("value") if line.startswith("//")]


def test_too_many_rules_are_refused() -> None:
    schema = {
        "type": "object",
        "properties": {f"p{n}": {"type": "null"} for n in range(30)},
        "additionalProperties": False,
    }
    with pytest.raises(GrammarError, match="more than 5,000 Lark rules"):
        embed(schema).to_lark("value")
    assert len(embed(schema, property_order="schema", **CANONICAL).to_lark("value")) < 500
