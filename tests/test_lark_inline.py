"""JSON Schemas and quotes inside Lark texts, as llguidance spells them, and against llguidance itself where it is
installed.
"""

from __future__ import annotations

import pytest

import constrained as c

VOCABULARY = c.Vocabulary([bytes([byte]) for byte in range(256)], special={"<end>": 256}, stop=[256], size=257)
INTEGER = '%json {"type": "integer", "minimum": 0, "maximum": 99}'
TEXTS = {
    "a schema": (f'start: "<" {INTEGER} ">"', {"<1>": True, "<99>": True, "<100>": False, "<>": False}),
    "in a rule": (f'start: "a" n | n\nn: {INTEGER}', {"a1": True, "2": True, "b": False}),
    "two in one line": (f'start: {INTEGER} "," {INTEGER}', {"1,2": True, "1,": False}),
    "over several lines": (
        'start: %json {\n  "enum": ["a",\n "b"]\n} "!" | "x"\nother: "y"',
        {'"a"!': True, "x": True, '"a"': False},
    ),
    "in a comment and in a text": ('start: "%json {" // %json {\n', {"%json {": True, "{": False}),
    "repeated": ('start: (%json {"type": "boolean"} ";")+', {"true;false;": True, "true;": True, "": False}),
    "characters": ('start: "<" %regex {"substring_chars": "abcd"} ">"', {"<>": True, "<bc>": True, "<bd>": False}),
    "words": (
        'start: "<" q ">"\nq: %regex {"substring_words": "the big  dog, no!?"}',
        {
            "<>": True,
            "<the>": True,
            "<the big>": True,
            "<the big >": False,
            "<big  dog,>": True,
            "<he>": False,
            "<, no!?>": True,
            "<!>": False,
        },
    ),
    "chunks": (
        'start: "<" q ">"\nq: %regex {"substring_chunks": ["ab", "cd", "ab"]}',
        {"<>": True, "<ab>": True, "<abcdab>": True, "<cdab>": True, "<bc>": False, "<abab>": False},
    ),
    "a terminal": (
        'start: "<" Q ">" Q\nQ: %regex {"substring_words": "a b"}',
        {"<a>b": True, "<a b>": True, "<c>": False},
    ),
}


def accepts(grammar, text: str) -> bool:
    matcher = c.compile(grammar, VOCABULARY).matcher()
    try:
        for byte in text.encode():
            matcher.advance(byte)
    except c.Rejected:
        return False
    return matcher.is_accepting()


@pytest.mark.parametrize("name", TEXTS)
def test_words(name):
    text, expected = TEXTS[name]
    grammar = c.Grammar.from_lark(text)
    assert {word: accepts(grammar, word) for word in expected} == expected


@pytest.mark.parametrize("name", TEXTS)
def test_as_llguidance(name):
    llguidance = pytest.importorskip("llguidance")
    text, expected = TEXTS[name]
    for word, verdict in expected.items():
        matcher = llguidance.LLMatcher(llguidance.LLTokenizer("byte"), text)
        assert not matcher.is_error(), matcher.get_error()
        read = matcher.try_consume_tokens(list(word.encode()))
        assert (read == len(word.encode()) and matcher.is_accepting()) is verdict, word


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('start: "a"\n  | %json {"type": }', "line 2 column 5"),
        ("start: %json", "no JSON"),
        ('start: %regex "a"', "none of substring_chars"),
        ('start: %regex {"substring_words": ["a"]}', "takes a text"),
        ('start: %regex {"substring_chunks": "a"}', "takes a list of texts"),
        ('start: %json {\n"type": "integer"\n}\nother: missing', "line 4"),
        ('start: %json {"type": "integers"}', "type"),
    ],
)
def test_messages(text, message):
    with pytest.raises(c.ConstrainedError, match=message):
        c.Grammar.from_lark(text)
