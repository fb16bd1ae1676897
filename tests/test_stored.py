"""`Constraint.save`, `load` and `warm`: what is written, what is checked, and that masks stay what they were."""

from __future__ import annotations

import json
import random
import re
from typing import Literal

import numpy as np
import pytest

import constrained as c
from constrained.formats import ChatFormat

LETTERS = [bytes([byte]) for byte in range(256)]
NAMES = [
    "<|im_end|>",
    "<|im_start|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|python_tag|>",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
]
VOCABULARY = c.Vocabulary(
    [*LETTERS, b"true", b"fals", b'", "', b'": ', b"abc"], {name: 261 + at for at, name in enumerate(NAMES)}, [261], 300
)
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 9}, "n": {"type": "integer", "minimum": -5}},
    "required": ["n"],
}
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": SCHEMA}}, {"name": "ping"}]
NUMBER = c.Grammar.from_regex("[0-9]{1,4}")


def _format(name, **options):
    return ChatFormat.load(name).grammar(TOOLS, **options)


GRAMMARS = {
    "regex": NUMBER,
    "lark": c.Grammar.from_lark('start: "a" start "b" | WORD\nWORD: /[a-z]+/'),
    "lark with tokens": c.Grammar.from_lark(
        'start: "<think>" /[^<]*/ _END\n%declare _END', specials={"_END": "</think>", "<think>": "<think>"}
    ),
    "lark with parts": c.Grammar.from_lark(
        'start: "n=" answer "," other', define={"answer": NUMBER, "other": c.Grammar.from_json_schema(SCHEMA)}
    ),
    "lark with json": c.Grammar.from_lark('start: "x" %json {"type": "boolean"}'),
    "schema": c.Grammar.from_json_schema(SCHEMA),
    "schema, practical": c.Grammar.from_json_schema(SCHEMA, profile="practical", whitespace="compact"),
    "schema with documents": c.Grammar.from_json_schema(
        {"$ref": "https://x.test/s"}, documents={"https://x.test/s": SCHEMA}
    ),
    "type": c.Grammar.from_json_schema(dict[str, Literal["a", "b"] | list[int]]),
    "python": c.Grammar.from_json_schema(SCHEMA, surface="python"),
    "choice": c.Grammar.choice(["yes", "no", ""]),
    "text": c.Grammar.text(),
    "until": c.Grammar.text(until="</think>"),
    "quotes": c.Grammar.substring_of("to be or not to be"),
    "composed": (NUMBER | c.Grammar.choice(["-"])).optional()
    + c.Grammar.text(until=";").repeat(1, 3)
    + NUMBER.repeat(0, None),
    "hermes": _format("hermes"),
    "hermes, required": _format("hermes", tool_choice="required", parallel_tool_calls=False),
    "llama": _format("llama3.1-json", preface=True),
    "answer by schema": _format("hermes", response_schema=SCHEMA),
    "format in a sum": c.Grammar.text(until=":") + _format("hermes"),
}


def _masks(constraint, seed=0):
    """Return the masks along a walk."""
    random_ = random.Random(seed)
    matcher, row, found = constraint.matcher(), np.zeros((1, VOCABULARY.words), np.int32), []
    for _ in range(40):
        matcher.fill_mask(row)
        found.append(row.tobytes())
        allowed = np.flatnonzero(np.unpackbits(row[0].view(np.uint8), bitorder="little"))
        if not len(allowed) or matcher.is_finished():
            break
        matcher.advance(int(random_.choice(allowed)))
    return found


@pytest.mark.parametrize("name", GRAMMARS)
def test_what_is_loaded_is_what_was_saved(name, tmp_path):
    constraint = c.compile(GRAMMARS[name], VOCABULARY)
    constraint.save(tmp_path / "c.json")
    again = c.Constraint.load(tmp_path / "c.json", VOCABULARY)
    assert again.grammar.fingerprint == constraint.grammar.fingerprint
    assert (again.widened, again.narrowed, again.stop) == (constraint.widened, constraint.narrowed, constraint.stop)
    assert [_masks(again, seed) for seed in range(3)] == [_masks(constraint, seed) for seed in range(3)]
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "c.json").read_bytes()


def test_a_format_of_ones_own_is_handed_over(tmp_path):
    own = (
        ChatFormat.load("hermes").respell({"im_end": "</think>"})
        if "im_end" in ChatFormat.load("hermes").tokens
        else ChatFormat.load("hermes")
    )
    own = ChatFormat("mine", own.definition, own.generic)
    constraint = c.compile(own.grammar(TOOLS), VOCABULARY)
    with pytest.raises(c.GrammarError, match="unknown format 'mine'"):
        constraint.save(tmp_path / "c.json")
    constraint.save(tmp_path / "c.json", formats={"mine": own})
    with pytest.raises(c.GrammarError, match="the file names a format of the one who wrote it"):
        c.Constraint.load(tmp_path / "c.json", VOCABULARY)
    assert (
        c.Constraint.load(tmp_path / "c.json", VOCABULARY, formats={"mine": own}).grammar.fingerprint
        == constraint.grammar.fingerprint
    )


def test_grammars_changed_by_hand_are_refused(tmp_path):
    changed = GRAMMARS["lark"].replace("start", GRAMMARS["lark"].rules["start"].alternatives[1:])
    for grammar in (changed, c.Grammar(GRAMMARS["lark"].rules), changed + NUMBER):
        with pytest.raises(c.GrammarError, match="cannot be saved"):
            c.compile(grammar, VOCABULARY).save(tmp_path / "c.json")
    assert not list(tmp_path.iterdir())


# What a stranger may have changed in a file → what `load` says.
DAMAGES = {
    "no JSON": (lambda _: b"\x80\x04K\x01.", "not a saved constraint"),
    "deep": (lambda _: b"[" * 200_000, "not a saved constraint"),
    "another shape": (lambda _: b"[1]", "not a saved constraint"),
    "another version": (lambda d: {**d, "constrained": 2}, "not a saved constraint"),
    "no parts": (lambda d: {**d, "grammar": {"fingerprint": "x", "parts": []}}, "a grammar of 0 parts"),
    "another part": (
        lambda d: {**d, "grammar": {"fingerprint": "x", "parts": [["os.system", "ls"]]}},
        "no grammar is made by 'os.system'",
    ),
    "a list of lists": (
        lambda d: {**d, "grammar": {"fingerprint": "x", "parts": [[["lark"], "x"]]}},
        "no grammar is made by",
    ),
    "parts that are none": (
        lambda d: {**d, "grammar": {"fingerprint": "x", "parts": [7]}},
        "its grammar cannot be made again",
    ),
    "a part before itself": (
        lambda d: {**d, "grammar": {"fingerprint": "x", "parts": [["sequence", 0, 0]]}},
        "no part 0",
    ),
    "too few arguments": (
        lambda d: {**d, "grammar": {"fingerprint": "x", "parts": [["lark", 'start: "a"']]}},
        "its grammar cannot be made again",
    ),
    "a wrong schema": (
        lambda d: {**d, "grammar": {"fingerprint": "x", "parts": [["schema", {"type": "objct"}, None, d["options"]]]}},
        "type",
    ),
    "a path for a format": (
        lambda d: {**d, "grammar": {"fingerprint": "x", "parts": [["format", "/etc/passwd", {}]]}},
        "unknown format",
    ),
    "another grammar": (
        lambda d: {**d, "grammar": {**d["grammar"], "parts": [["regex", "[0-9]{1,5}"]]}},
        "the file's grammar is another one today",
    ),
    "another vocabulary": (
        lambda d: {**d, "vocabulary": {"fingerprint": "00", "size": 300}},
        "the file is for another vocabulary",
    ),
    "spell_missing": (lambda d: {**d, "spell_missing": "yes"}, "spell_missing is missing"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_files_are_told_from_sound_ones(name, tmp_path):
    change, message = DAMAGES[name]
    path = tmp_path / "c.json"
    c.compile(NUMBER, VOCABULARY).save(path)
    changed = change({**json.loads(path.read_bytes()), "options": {"avoid": []}})
    path.write_bytes(changed if isinstance(changed, bytes) else json.dumps(changed).encode())
    with pytest.raises(c.ConstrainedError, match=re.escape(message)):
        c.Constraint.load(path, VOCABULARY)


@pytest.mark.parametrize("kind", ["sequence", "either"])
def test_a_file_of_grammars_that_double_meets_a_limit(kind, tmp_path):
    """Each part had a budget of its own: some kilobytes took ten seconds and 460 MB."""
    path = tmp_path / "doubling.json"
    c.compile(NUMBER, VOCABULARY).save(path)
    content = json.loads(path.read_text())
    content["grammar"]["parts"] += [[kind, at, at] for at in range(30)]
    path.write_text(json.dumps(content))
    with pytest.raises(c.LimitExceeded, match=r"part 1\d of a saved grammar") as error:
        c.Constraint.load(path, VOCABULARY)
    assert len(str(error.value)) < 2048


def test_places_that_the_grammar_does_not_allow_are_passed_over(tmp_path):
    path = tmp_path / "c.json"
    c.compile(NUMBER, VOCABULARY).save(path)
    path.write_text(
        json.dumps({**json.loads(path.read_text()), "visited": [[-1, 49], [0, 299], [-1, 10**9], [2, 49], [0, 49]]})
    )
    assert _masks(c.Constraint.load(path, VOCABULARY)) == _masks(c.compile(NUMBER, VOCABULARY))


def test_load_names_what_is_wrong_with_a_path_or_an_option(tmp_path):
    with pytest.raises(c.ConstrainedError, match="cannot read the constraint"):
        c.Constraint.load(tmp_path / "none.json", VOCABULARY)
    with pytest.raises(c.ConstrainedError, match="load takes no 'max_wrk'"):
        c.Constraint.load(tmp_path / "none.json", VOCABULARY, max_wrk=1)


def test_the_bounds_are_those_of_the_reader(tmp_path):
    c.compile(c.Grammar.from_json_schema(SCHEMA), VOCABULARY, max_work=None).save(tmp_path / "c.json")
    with pytest.raises(c.LimitExceeded):
        c.Constraint.load(tmp_path / "c.json", VOCABULARY, max_work=0).matcher().advance(ord("{"))


@pytest.mark.parametrize("name", ["schema, practical", "hermes", "lark", "composed"])
@pytest.mark.parametrize("kernel", ["plain", None])
def test_warming_changes_no_mask_and_can_be_interrupted(name, kernel):
    cold, warm = (
        c.compile(GRAMMARS[name], c.Vocabulary(VOCABULARY.tokens, VOCABULARY.special, VOCABULARY.stop), kernel=kernel)
        for _ in range(2)
    )
    calls = []
    warm.warm(states=100, cancelled=lambda: calls.append(0) or len(calls) > 3)
    assert len(calls) <= 4
    warm.warm(states=20)
    assert [_masks(warm, seed) for seed in range(3)] == [_masks(cold, seed) for seed in range(3)]


def test_warming_ends_where_nothing_is_new_and_needs_a_bound():
    constraint = c.compile(NUMBER, VOCABULARY)
    assert constraint.warm(10) == 2
    assert constraint.warm(10) == 0
    for wrong in ({}, {"seconds": -1}, {"states": True}, {"seconds": float("nan")}):
        with pytest.raises(c.ConstrainedError, match="cannot warm for"):
            constraint.warm(**wrong)


@pytest.mark.parametrize("kernel", ["compiled", "plain"])
def test_warming_reads_a_shortest_word(kernel):
    schema = {"type": "object", "properties": {"id": {"type": "string", "pattern": "^[0-9]{3}$"}}, "required": ["id"]}
    constraint = c.compile(c.Grammar.from_json_schema(schema, whitespace="compact"), VOCABULARY, kernel=kernel)
    constraint.warm(states=80)
    assert constraint._warming()._cursor.text() == b'{"id":"000"}'


@pytest.mark.parametrize("name", GRAMMARS)
def test_what_masks_are_made_of_is_made_ahead(name):
    preparation = pytest.importorskip("constrained.engine.kernel._kernel")
    grammar, vocabulary = GRAMMARS[name], c.Vocabulary(VOCABULARY.tokens, VOCABULARY.special, VOCABULARY.stop)
    prepared = c.compile(grammar, vocabulary, kernel="compiled")
    kernel, _ = prepared.place()
    found = preparation.Preparation(kernel, prepared._root)
    while found.go_on(None):
        assert kernel.sizes()["machines"] < 5_000
    for kind in ("compiled", "plain"):
        other = c.compile(grammar, c.Vocabulary(VOCABULARY.tokens, VOCABULARY.special, VOCABULARY.stop), kernel=kind)
        assert [_masks(prepared, seed) for seed in range(2)] == [_masks(other, seed) for seed in range(2)]


def test_a_property_is_made_ahead_whatever_stands_before_it():
    preparation = pytest.importorskip("constrained.engine.kernel._kernel")
    names = [f"p{number}" for number in range(30)]
    schema = {"type": "object", "properties": {name: {"enum": [name, [name]]} for name in names}}
    constraint = c.compile(c.Grammar.from_json_schema(schema), VOCABULARY, kernel="compiled")
    kernel, state = constraint.place()
    found = preparation.Preparation(kernel, constraint._root)
    while found.go_on(None):
        pass
    behind = kernel.step_bytes(state, b'{"p1": ["p1"], "p29": ')
    known = kernel.sizes()["machines"]
    assert kernel.next_bytes(kernel.step_bytes(behind, b"[")).strip() == b'"'
    assert kernel.sizes()["machines"] == known


@pytest.mark.parametrize("bounds", [{}, {"minProperties": 2}, {"maxProperties": 9}])
def test_of_an_object_the_first_key_is_made_ahead_and_not_each_set_of_keys(bounds):
    preparation = pytest.importorskip("constrained.engine.kernel._kernel")
    names = [f"name {number}" for number in range(12)]
    schema = {"type": "object", "properties": {name: {"enum": [name]} for name in names}, **bounds}
    vocabulary = c.Vocabulary(VOCABULARY.tokens, VOCABULARY.special, VOCABULARY.stop)
    constraint = c.compile(c.Grammar.from_json_schema(schema), vocabulary, kernel="compiled")
    kernel, start = constraint.place()
    found = preparation.Preparation(kernel, constraint._root)
    while found.go_on(None):
        pass
    assert kernel.sizes()["machines"] < 300
    before = kernel.sizes()["machines"]
    kernel.next_bytes(kernel.step_bytes(start, b'{"name 7":"name'))
    assert kernel.sizes()["machines"] == before  # its value as well


def test_warming_leaves_the_work_of_generations_alone():
    constraint = c.compile(GRAMMARS["schema"], VOCABULARY, max_work=20_000)
    left = constraint.budget.left
    constraint.warm(states=50)
    assert constraint.budget.left == left


def _damaged(random_, value, depth=0):
    """Return a copy of some JSON with one thing changed."""
    if isinstance(value, dict) and value and random_.random() < 0.9:
        key = random_.choice(list(value))
        return (
            {name: inner for name, inner in value.items() if name != key}
            if random_.random() < 0.1
            else {**value, key: _damaged(random_, value[key])}
        )
    if isinstance(value, list) and value and random_.random() < 0.9:
        at = random_.randrange(len(value))
        return (
            value[:at] + value[at + 1 :]
            if random_.random() < 0.1
            else [*value[:at], _damaged(random_, value[at]), *value[at + 1 :]]
        )
    return random_.choice(
        [None, True, -1, 0, 1.5, 10**30, "", "x", "start", "\ud800", [], [value], {}, {"a": value}, "a" * 1000]
    )


@pytest.mark.parametrize("name", ["lark with parts", "schema", "hermes", "composed"])
def test_whatever_is_changed_in_a_file_the_error_is_ours(name, tmp_path):
    path, random_ = tmp_path / "c.json", random.Random(7)
    constraint = c.compile(GRAMMARS[name], VOCABULARY)
    constraint.save(path)
    sound = json.loads(path.read_text())
    # never right: the grammar is made, and refused at the very end
    sound["grammar"]["fingerprint"] = sound["vocabulary"]["fingerprint"]
    for _ in range(60):
        path.write_text(json.dumps(_damaged(random_, sound)))
        with pytest.raises(c.ConstrainedError):
            c.Constraint.load(path, VOCABULARY, max_work=100_000)
