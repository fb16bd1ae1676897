"""The compiled kernel: masks, ends and successors of the plain twin, bit by bit; what it keeps once; looking into it."""

from __future__ import annotations

import gc
import random
from itertools import islice, product

import numpy as np
import pytest
from laws import assert_kernels_agree, hard_vocabulary
from machines import nested_values
from reference import ReferenceKernel

import constrained as c
from constrained.engine.memory import registry
from constrained.engine.plain import PlainKernel
from constrained.machine import END, Edges, MarkerSafe, Quoting
from constrained.work import CHECK, Budget, Preempted, metered, spend

VOCABULARY = hard_vocabulary()


@pytest.mark.sampled(5)
@pytest.mark.parametrize("quoting", Quoting.__members__.values(), ids=lambda quoting: quoting.name)
@pytest.mark.parametrize("seed", range(4))
def test_kernels_agree_on_texts(quoting, seed):
    """All quotings, with counted, patterned, recorded and literal texts, over tokens that cross every boundary."""
    if quoting is Quoting.RAW:
        pytest.skip("bare texts have no end; the grammars below cover them")
    compiled = pytest.importorskip("constrained.engine.kernel._kernel").Kernel
    kinds = (compiled, PlainKernel, ReferenceKernel)
    kernels = [kind(VOCABULARY, nested_values(quoting), nullable=False, specials=VOCABULARY.special) for kind in kinds]
    for walk in range(4):
        assert_kernels_agree(VOCABULARY, [(kernel, kernel.start) for kernel in kernels], 14, 100 * seed + walk)


def vocabulary_of_characters():
    """Return a vocabulary in which many characters begin with one byte, and words of them with one character."""
    points = [
        *range(0x3000, 0x3030),
        *range(0x2020, 0x2030),
        0xD7FF,
        0xE000,
        *range(0x1F600, 0x1F610),
        *range(0xC0, 0xE0),
    ]
    texts = [bytes([byte]) for byte in range(256)] + [chr(point).encode() for point in points]
    texts += [(chr(0x3042) + chr(point)).encode() for point in points] + [
        ("ab" + chr(point) + "c").encode() for point in points
    ]
    texts += [text[:-1] for text in texts if len(text) > 4] + [b"abc", b"abcd", b"ab.cd", b"abc1", b'abc"', b"abc\\"]
    return c.Vocabulary(list(dict.fromkeys(texts)), special={"<eos>": 2000}, stop=[2000])


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "^[^\\u3000-\\u3005]*$",
        "^.{0,7}$",
        "^[^.]*[.]md$",
        "^[\\u3000-\\u9fff]*$",
        "^[a-z]+\\u3001?[a-z\\u0080-\\uffff]*$",
        "^[^\\ud800-\\udfff]{2,4}$",
        "\\u3042",
    ],
)
@pytest.mark.parametrize("surface", ["json", "python"])
@pytest.mark.parametrize("spelling", ["any", "canonical"])
def test_kernels_agree_on_characters_that_change_nothing(pattern, surface, spelling):
    pytest.importorskip("constrained.engine.kernel._kernel")
    vocabulary = vocabulary_of_characters()
    grammar = c.Grammar.from_json_schema({"type": "string", "pattern": pattern}, surface=surface, spelling=spelling)
    for seed in range(2):
        assert_kernels_agree(
            vocabulary, [c.compile(grammar, vocabulary, kernel=kind).place() for kind in ("plain", "compiled")], 7, seed
        )


@pytest.mark.parametrize("characters", ["a", "[ab]", "[^a\\ud800-\\udfff]", "[\\u3000-\\u9fff]"])
@pytest.mark.parametrize("counts", ["?", "{2}", "{1,2}", "{2,5}", "+", "{3,}", "{1,1000}", "{2,3000000000}"])
def test_kernels_agree_on_counted_characters(characters, counts):
    """Counted down by the kernel itself, but where the counts are too large for it."""
    pytest.importorskip("constrained.engine.kernel._kernel")
    grammar = c.Grammar.from_json_schema({"type": "string", "pattern": f"^{characters}{counts}$"})
    for vocabulary in (VOCABULARY, vocabulary_of_characters()):
        places = [c.compile(grammar, vocabulary, kernel=kind).place() for kind in ("plain", "compiled")]
        assert_kernels_agree(vocabulary, places, 7, 3)


@pytest.mark.parametrize("seed", range(3))
def test_kernels_agree_on_words_beside_words(seed):
    """Words, keywords and numbers without anything between, over so many tokens that most is put off below nodes."""
    pytest.importorskip("constrained.engine.kernel._kernel")
    words = ["".join(letters) for size in range(4) for letters in product("abdo1é", repeat=size)]
    tokens = {first + word + last for first in ("", " ", "(", "a b") for word in words for last in ("", "(", ".")} - {""}
    vocabulary = c.Vocabulary([token.encode() for token in sorted(tokens)], special={"<end>": len(tokens)}, stop=[len(tokens)])
    grammar = c.Grammar.from_lark(
        'start: ("do" "(" start ")" | WORD "."? NUMBER? | WORD "(" WORD? | OTHER)*\n'
        "WORD: /[a-c][a-z0-9]*/\nOTHER: /[do]é*b?/\nNUMBER: /1+/\n%ignore / +/"
    )
    places = [c.compile(grammar, vocabulary, kernel=kind).place() for kind in ("plain", "compiled")]
    assert_kernels_agree(vocabulary, places, 6, seed)


def test_what_is_counted_down_to_is_what_a_schema_names():
    """Two bounds on one text share the languages of all its rests, whichever is met first; a mask makes none."""
    inspection = pytest.importorskip("constrained.engine.kernel._kernel")
    vocabulary = c.Vocabulary([bytes((byte,)) for byte in range(256)], stop=[], size=256)
    kernel, start = c.compile(c.Grammar.from_json_schema({"type": "string", "maxLength": 9}), vocabulary, kernel="compiled").place()
    end = kernel.step_bytes(start, b'"12345')
    known = kernel.sizes()["languages"]
    kernel.mask(end)
    again, start = c.compile(c.Grammar.from_json_schema({"type": "string", "maxLength": 4}), vocabulary, kernel="compiled").place()
    (position, _), = inspection.configurations(kernel, again.step_bytes(start, b'"'))
    assert again is kernel and kernel.sizes()["languages"] == known
    assert [position] == [place for place, _ in inspection.configurations(kernel, end)]
    assert inspection.edges(kernel, position)["language"].counted[1:] == (0, 4)


def test_a_large_kernel_is_joined_where_it_knows_the_grammar(monkeypatch):
    """A text that was read before is the same grammar, which finds its masks; any other begins a kernel of its own."""
    pytest.importorskip("constrained.engine.kernel._kernel")
    monkeypatch.setattr(registry, "YOUNG_BYTES", 0)
    vocabulary = hard_vocabulary()
    (first, _), (other, _), (again, _) = (
        c.compile(c.Grammar.from_lark(f'start: "{word}"+'), vocabulary).place() for word in ("a", "b", "b")
    )
    assert first is not other and other is again


@pytest.mark.sampled(2)
@pytest.mark.parametrize("texts", [["été", "日本", "日", "🎉", "a", "\\u2028"], ["é"], ["\u3042", "\u3043x", "ab"]])
@pytest.mark.parametrize("surface", ["json", "python"])
@pytest.mark.parametrize("spelling", ["any", "canonical"])
def test_kernels_agree_on_listed_texts_beyond_ascii(texts, surface, spelling):
    pytest.importorskip("constrained.engine.kernel._kernel")
    named = {"type": "object", "properties": {key: {"enum": texts} for key in texts}, "additionalProperties": False}
    for number, schema in enumerate(({"enum": texts}, named, {**named, "additionalProperties": True})):
        grammar = c.Grammar.from_json_schema(schema, surface=surface, spelling=spelling)
        for vocabulary in (VOCABULARY, vocabulary_of_characters()):
            places = [c.compile(grammar, vocabulary, kernel=kind).place() for kind in ("plain", "compiled")]
            assert_kernels_agree(vocabulary, places, 7, number)



def test_equal_masks_are_kept_once():
    """Each item of a bounded array leads to a state of its own, but the same tokens may follow."""
    pytest.importorskip("constrained.engine.kernel._kernel")
    # its own, with no masks of other tests
    vocabulary = c.Vocabulary([bytes((byte,)) for byte in range(256)], stop=[], size=256)
    schema = {"type": "array", "items": {"type": "integer"}, "maxItems": 1000}
    matcher = c.compile(c.Grammar.from_json_schema(schema), vocabulary, kernel="compiled").matcher()
    bitmask, masks = np.zeros((1, vocabulary.words), np.int32), set()
    for byte in b"[" + b"12345," * 100:
        matcher.advance(byte)
        matcher.fill_mask(bitmask)
        masks.add(bitmask.tobytes())
    sizes = matcher._kernel.sizes()
    assert sizes["states"] > 200 and sizes["masks"] == len(masks) < 10


@pytest.mark.parametrize("depth", range(700, 7000, 450))
def test_what_a_growing_table_holds_is_found(depth):
    """Another way to the same stacks makes none anew, however much of a table has moved to a larger one by then."""
    pytest.importorskip("constrained.engine.kernel._kernel")
    vocabulary = c.Vocabulary([bytes((byte,)) for byte in range(256)], stop=[], size=256)
    grammar = c.Grammar.from_lark('start: ("[" | "(") start "]" | "x"')
    kernel, start = c.compile(grammar, vocabulary, kernel="compiled").place()
    kernel.step_bytes(start, b"[(" * (depth // 2))
    known = kernel.sizes()
    end = kernel.step_bytes(start, b"([" * (depth // 2))
    sizes = kernel.sizes()
    assert sizes["stacks"] == known["stacks"] > depth // 2 and sizes["states"] == known["states"]
    assert kernel.step_bytes(end, b"x" + b"]" * depth) != 0


MEMBERS = {
    "any value": {},
    "named, required and other keys": {
        "properties": {"a": {}, "b": {"properties": {"a": {"type": "string"}, "c": {"enum": ["a", "ab", 1]}}}},
        "required": ["b"],
    },
    "nothing else": {
        "$defs": {"p": {"properties": {"a": {"type": "integer"}, "b": {"$ref": "#/$defs/p"}}, "additionalProperties": False}},
        "properties": {"a": {"$ref": "#/$defs/p"}, "b": {"items": {"$ref": "#/$defs/p"}}},
        "maxProperties": 2,
    },
}


@pytest.mark.parametrize("schema", MEMBERS.values(), ids=MEMBERS)
@pytest.mark.parametrize("whitespace", ["compact", "flexible"])
def test_kernels_agree_on_members_that_are_alike(schema, whitespace):
    """States in members that differ in what lies around them share a mask, and what lies below a trie node; tokens
    leave several members at once, and enter others.
    """
    pytest.importorskip("constrained.engine.kernel._kernel")
    texts = [bytes((byte,)) for byte in b'{}[]",: abc01truefalsn\\']
    texts += [a + b + d for a in (b'"', b'a"', b'1', b'}', b"") for b in (b":", b",", b"}", b"},", b": ", b"}}") for d in (b"", b'"', b'"a":', b"{", b'{"b":1}', b"[")]
    vocabulary = c.Vocabulary(list(dict.fromkeys(texts)), special={"<eos>": 500}, stop=[500], size=512)
    grammar = c.Grammar.from_json_schema({"type": "object", **schema}, whitespace=whitespace)
    places = [c.compile(grammar, vocabulary, kernel=kind).place() for kind in ("plain", "compiled")]
    for seed in range(3):
        assert_kernels_agree(vocabulary, places, 20, seed)


@pytest.mark.parametrize("value", [{"type": "integer"}, {"type": "string"}, {}], ids=["integer", "string", "any"])
@pytest.mark.parametrize("whitespace", ["compact", "flexible"])
def test_masks_that_come_together_again_are_those_of_the_plain_automaton(value, whitespace):
    """What stays inside a key and what goes on behind it, from the second key on, also for the next grammar."""
    vocabulary = hard_vocabulary()  # its own, with no masks of other tests
    for name in ("\u0394a", "\u0394b"):  # which no token completes
        schema = {"type": "object", "properties": {name: {"const": name}}, "additionalProperties": value}
        grammar = c.Grammar.from_json_schema(schema, whitespace=whitespace)
        places = [c.compile(grammar, vocabulary, kernel=kind).place() for kind in ("compiled", "plain")]
        for text in (b'{"', b'{"a', *(b"{" + b"".join(b'"k%d":1,' % n for n in range(count)) + b'"' for count in (1, 2, 3))):
            text = text.replace(b"1", b'""') if value == {"type": "string"} else text
            masks = [kernel.mask(kernel.step_bytes(start, text)) for kernel, start in places]
            assert masks[0].tolist() == masks[1].tolist(), text


@pytest.mark.parametrize("written", [(), ("x",), ("x", "y"), ("y", "xy"), ("xy", "x", "z")], ids="-".join)
def test_a_written_key_without_a_name_is_refused_where_it_would_end(written):
    """The exits of names are looked up once for an object, those of its other written keys each time."""
    pytest.importorskip("constrained.engine.kernel._kernel")
    keys = ("x", "y", "z", "xy", "yx")
    vocabulary = c.Vocabulary([bytes((byte,)) for byte in range(256)] + [f'{key}"'.encode() for key in keys], stop=[], size=261)
    schema = {"type": "object", "properties": {"y": {"const": 1}}, "additionalProperties": {"const": 1}}
    grammar = c.Grammar.from_json_schema(schema, whitespace="compact")
    kernel, start = c.compile(grammar, vocabulary, kernel="compiled").place()
    for count in range(len(written) + 1):
        text = "{" + "".join(f'"{key}":1,' for key in written[:count]) + '"'
        mask = kernel.mask(kernel.step_bytes(start, text.encode()))
        offered = [key for at, key in enumerate(keys, 256) if mask[at >> 5] >> (at & 31) & 1]
        assert offered == [key for key in keys if key not in written[:count]]


@pytest.mark.parametrize("schema", [{"const": "abcdefgh"}, {"type": "string", "pattern": "^ab+cdefgh$"}], ids=["const", "pattern"])
def test_one_text_is_a_set_of_texts(schema):
    """It is searched, not asked for its edges character by character, and needs no mask of its own."""
    pytest.importorskip("constrained.engine.kernel._kernel")
    vocabulary = hard_vocabulary()  # its own, with no masks of other tests
    grammar = c.Grammar.from_json_schema(schema, whitespace="compact", spelling="canonical")
    places = [c.compile(grammar, vocabulary, kernel=kind).place() for kind in ("compiled", "plain")]
    for count in range(11):
        masks = [kernel.mask(kernel.step_bytes(start, b'"abcdefgh"'[:count])) for kernel, start in places]
        assert masks[0].tolist() == masks[1].tolist(), count
    # of a pattern, what is read before one text is left: ab+cdefgh and b*cdefgh, whole and from some nodes on
    made = [key for key in vocabulary.kernels.masks.entries if key[0] != "quotes"]
    assert len(made) == (0 if "const" in schema else 4)


KEYED = {
    "open clauses": {"dependentRequired": {"a": ["b"]}, "additionalProperties": {"type": ["string", "integer"]}},
    "a union": {"anyOf": [{"properties": {"t": {"const": n}, "a": {}}, "required": ["t"]} for n in range(3)]},
}


@pytest.mark.parametrize("schema", KEYED.values(), ids=KEYED)
def test_only_tokens_with_a_second_key_are_tried_by_themselves(schema):
    """`x":""` holds two texts, but one key: it is not stepped through once more; `x":"","x"` is, and refused."""
    pytest.importorskip("constrained.engine.kernel._kernel")
    once, again = b'x":""', b'x":"","x"'
    texts = [bytes((byte,)) for byte in range(256)] + [b'x":"', b'":""', b'":"', once, b'":"","a"', again]
    vocabulary = c.Vocabulary(texts, stop=[], size=len(texts))
    grammar = c.Grammar.from_json_schema({"type": "object", **schema}, whitespace="compact")
    recorded = []
    for words in (vocabulary, c.Vocabulary(texts[:-2], stop=[], size=len(texts) - 2)):
        kernel, start = c.compile(grammar, words, kernel="compiled").place()
        state = kernel.step_bytes(start, b'{"')
        before = kernel.sizes()["records"]
        mask = kernel.mask(state)
        recorded.append(kernel.sizes()["records"] - before)
        assert [mask[at >> 5] >> (at & 31) & 1 for at, text in enumerate(words.tokens) if text in (once, again)] in ([1, 0], [1])
    assert recorded[1] == 0 < recorded[0], recorded
    places = [c.compile(grammar, vocabulary, kernel=kind).place() for kind in ("plain", "compiled")]
    for seed in range(2):
        assert_kernels_agree(vocabulary, places, 12, seed)


@pytest.mark.parametrize("base", [Quoting.JSON_CANONICAL, Quoting.PYTHON_CANONICAL], ids=lambda quoting: quoting.name)
@pytest.mark.parametrize("seed", range(3))
def test_kernels_agree_on_guarded_texts(base, seed):
    """As above, with markers of one, two and three characters, of which one must be escaped wherever it stands."""
    quoting = MarkerSafe(base, ("a\"", "b", "\u00e9a", "<a>"))
    compiled = pytest.importorskip("constrained.engine.kernel._kernel").Kernel
    kernels = [
        kind(VOCABULARY, nested_values(quoting), nullable=False, specials=VOCABULARY.special)
        for kind in (compiled, PlainKernel)
    ]
    for walk in range(2):
        assert_kernels_agree(VOCABULARY, [(kernel, kernel.start) for kernel in kernels], 12, 100 * seed + walk)


@pytest.mark.parametrize(
    ("look", "number"),
    [
        ("configurations", 999_999),
        ("configurations", -1),
        ("split", 999_999),
        ("frames", 999_999),
        ("frames", -1),
        ("behind", 999_999),
        ("edges", 999_999),
        ("edges", 999_998),
        ("edges", -2),
        ("text_mask", 999_999),
        ("text_mask", 2),
    ],
)
def test_looking_for_what_is_not_there(look, number):
    inspection = pytest.importorskip("constrained.engine.kernel._kernel")
    kernel, _ = c.compile(c.Grammar.from_lark('start: "a" /b+/'), VOCABULARY, kernel="compiled").place()
    with pytest.raises(IndexError, match=r"no \w+ -?[\d,]+: there are [\d,]+"):
        getattr(inspection, look)(kernel, number)


def test_small_operations_do_not_wear_a_budget_out():
    """Each key of an open object is some dozens of units; a constraint is asked for millions of them."""
    letters = [bytes([byte]) for byte in b"abcdefghijklmnopqrstuvwxyz"]
    tokens = [bytes([byte]) for byte in range(256)] + [b"".join(three) for three in product(letters, repeat=3)]
    tokens += [b"".join(two) + b'":' for two in product(letters, repeat=2)]
    words = c.Vocabulary([*tokens, None], special={"<s>": len(tokens)}, stop=[len(tokens)])
    constraint = c.compile(
        c.Grammar.from_json_schema({"type": "object", "additionalProperties": {"type": "integer"}}), words
    )
    matcher, bitmask, left = constraint.matcher(), np.zeros((1, words.words), np.int32), constraint.budget.left
    for number, key in enumerate(islice(product(letters, repeat=3), 100)):
        for byte in (b'{"' if number == 0 else b',"') + b"".join(key) + b'":1':
            matcher.fill_mask(bitmask)
            matcher.advance(byte)
    assert constraint.budget.left > left - 2_000


@pytest.mark.parametrize("stand", ["side by side", "all in one place", "by twos", "anywhere"])
def test_tables_know_what_was_added(stand):
    """Also while entries move to a larger table, and where more keys are near than stand there."""
    look = pytest.importorskip("constrained.engine.kernel._kernel")
    draw, table, known = random.Random(stand), look.HashTable(), {}
    near = {"side by side": int, "all in one place": lambda _: 7, "by twos": lambda number: number // 2 - 9 & 0xFFFFFFFF}
    for number in range(6_000):
        key = draw.getrandbits(64), number % 3, near.get(stand, lambda _: draw.getrandbits(32))(number)
        assert table.find(*key) == -1
        table.add(*key, number)
        known[key] = number
        if number % 199 == 0 or number < 70:
            assert all(table.find(*key) == value for key, value in known.items())
    assert all(table.find(a ^ 1, b, near) == table.find(a, b + 3, near) == -1 for a, b, near in known)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(3))
def test_kernels_agree_on_masks_of_many_blocks(seed):
    """Eleven thousand tokens: what differs from a base is spread over all of a mask."""
    pytest.importorskip("constrained.engine.kernel._kernel")
    texts = [bytes(text) for count in range(1, 5) for text in product(b'ab",:{}[]1', repeat=count)]
    vocabulary = c.Vocabulary([*texts, None], special={"<eos>": len(texts)}, stop=[len(texts)])
    grammar = c.Grammar.from_json_schema(
        {
            "type": "object",
            "properties": {"a": {"type": "array", "items": {"type": "string", "maxLength": 3}}},
            "additionalProperties": {"enum": [1, "b", {"b": 1}]},
        }
    )
    places = [c.compile(grammar, vocabulary, kernel=kind).place() for kind in ("plain", "compiled")]
    assert_kernels_agree(vocabulary, places, 9, seed)


class Laborious:
    """A machine state that takes fifty milliseconds and keeps all that it makes meanwhile."""

    def __init__(self):
        self.kept, self.young = [], 0

    def expand(self):
        for _ in range(50):
            self.kept += [[] for _ in range(1000)]
            self.young = max(self.young, sum(len(gc.get_objects(generation)) for generation in (0, 1)))
            spend(CHECK)
        return Edges(ranges=((97, 97, END),))


def test_no_work_in_a_kernel_leaves_the_collector_a_long_stretch():
    compiled = pytest.importorskip("constrained.engine.kernel._kernel").Kernel
    kernel, state = compiled(VOCABULARY, specials=VOCABULARY.special), Laborious()
    gc.collect()
    with metered(Budget()):
        kernel.step_byte(kernel.start_at(state, False), 97)
    assert gc.isenabled() and state.young < 5_000


def test_what_the_collector_ends_in_a_kernel_does_not_wait_for_it():
    compiled = pytest.importorskip("constrained.engine.kernel._kernel").Kernel
    kernel, outcomes = compiled(VOCABULARY, specials=VOCABULARY.special), []
    known = kernel.start_at(nested_values(Quoting.JSON), False)

    class Last:
        def __del__(self):
            assert not gc.isenabled()
            try:
                outcomes.append(kernel.step_byte(known, 91))
            except Preempted:
                outcomes.append(None)

    state, last = Laborious(), Last()
    last.itself = last
    state.kept.append(last)
    state.expand, expand = lambda: (state.kept.clear(), expand())[1], state.expand
    del last
    with metered(Budget()):
        kernel.step_byte(kernel.start_at(state, False), 97)
    assert outcomes == [None] and kernel.step_byte(known, 91) >= 0
