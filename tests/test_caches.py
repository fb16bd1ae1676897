"""The caches of the process: one bound, one `clear`, and nothing lost but time."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import constrained as c
from constrained import caches
from constrained.regex import expr, parse_python, repeat
from constrained.schema.reading.keywords import Dialect

VOCABULARY = c.Vocabulary(
    [bytes([byte]) for byte in range(128)] + [b'":', b'", "', b"ab", b"12"], {"<end>": 140}, [140]
)
SCHEMA = {
    "type": "object",
    "required": ["a", "b"],
    "additionalProperties": False,
    "properties": {
        "a": {"type": "string", "pattern": r"^(?!x)[a-z]+-\d{2,5}$"},
        "b": {"type": "array", "items": {"multipleOf": 7}},
        "c": {"type": "string"},
    },
}


def masks(constraint: c.Constraint, text: bytes) -> list[bytes]:
    vocabulary, found = constraint.vocabulary, []
    matcher, row = constraint.matcher(), np.zeros((1, vocabulary.words), np.int32)
    for byte in text:
        matcher.fill_mask(row)
        found.append(row.tobytes())
        matcher.advance(vocabulary.tokens.index(bytes((byte,))))
    return found


@pytest.mark.parametrize("most", [0, 2_000, 20_000])
def test_caches_that_are_emptied_all_the_time_change_no_mask(monkeypatch, most):
    text = b'{"a": "abc-123", "b": [14, 7.0], "c": "d"'
    expected = masks(c.compile(c.Grammar.from_json_schema(SCHEMA), VOCABULARY), text)
    caches.clear()
    VOCABULARY.kernels.clear()
    VOCABULARY.kernels.masks.clear()
    monkeypatch.setattr(caches, "MOST_BYTES", most)
    assert masks(c.compile(c.Grammar.from_json_schema(SCHEMA), VOCABULARY), text) == expected


def test_threads_compile_while_others_empty_the_caches():
    """Nodes of expressions move between tables while they are looked for."""
    text, grammar = b'{"a": "abc-123", "b": [14', c.Grammar.from_json_schema(SCHEMA)
    expected, done = masks(c.compile(grammar, VOCABULARY), text), threading.Event()

    def anew(kernel: str | None) -> bool:
        vocabulary = c.Vocabulary(VOCABULARY.tokens, {"<end>": 140}, [140])
        return masks(c.compile(c.Grammar.from_json_schema(SCHEMA), vocabulary, kernel=kernel), text) == expected

    def empty() -> None:
        while not done.is_set():
            caches.clear()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as pool:
            emptied = [pool.submit(empty) for _ in range(2)]
            compiled = [pool.submit(anew, kernel) for kernel in (None, "plain") * 30]
            try:
                assert [each.result() for each in compiled] == [True] * len(compiled)
            finally:
                done.set()
            assert [each.result() for each in emptied] == [None, None]
    finally:
        sys.setswitchinterval(interval)


def test_shared_masks_stay_below_their_bound_and_are_counted_while_they_live():
    """A mask for each pair of lengths that a text may have: what goes from the store lives on in a kernel, and no
    longer than it.
    """
    vocabulary = c.Vocabulary([*VOCABULARY.tokens[:133], b"long" * 20], {"<end>": 140}, [140])
    store, row = vocabulary.kernels.masks, np.zeros((1, vocabulary.words), np.int32)
    store.most_bytes = store._room = 50_000
    matchers = []
    for least in range(40):
        for most in range(least + 1, 80, 9):
            schema = {"type": "string", "minLength": least, "maxLength": most}
            matchers.append(c.compile(c.Grammar.from_json_schema(schema), vocabulary).matcher())
            for token in (ord('"'), ord("x")):
                matchers[-1].advance(token)
                matchers[-1].fill_mask(row)
            assert sum(size for _, size in store.entries.values()) <= store.most_bytes
    if store.counter is None:
        pytest.skip("the plain kernel shares no masks")
    assert store.counter.bytes > store.most_bytes
    store.clear()
    vocabulary.kernels.clear()
    del matchers
    gc.collect()
    assert store.held() == 0


@pytest.mark.parametrize("text", ["start: A+", "start: A A", 'start: (A | "-" A "-")+'])
def test_words_beside_words_take_no_part_of_a_mask_for_each_end_of_a_word(text):
    """Each of the 700 prefixes of tokens ends a word, behind which another one begins."""
    letters, few = [bytes((byte,)) for byte in range(ord("a"), ord("z") + 1)], (b"a", b"b", b"c", b"d", b" ", b"-")
    pairs = [one + two for one in letters for two in letters]
    tokens = [*letters, *pairs, *(pair + last for pair in pairs for last in few), b" ", b"-", b" a"]
    grammar = c.Grammar.from_lark(text + "\nA: /[a-z]+/\n%ignore / +/\n")
    found = []
    for kernel in ("compiled", "plain"):
        vocabulary = c.Vocabulary(tokens, {"<end>": len(tokens)}, [len(tokens)])
        found.append(masks(c.compile(grammar, vocabulary, kernel=kernel), b"a b"))
        assert len(vocabulary.kernels.masks.entries) < 400
    assert found[0] == found[1]


def test_what_is_charged_stays_below_the_bound(monkeypatch):
    monkeypatch.setattr(caches, "MOST_BYTES", 1 << 16)
    caches.clear()
    for number in range(300):
        parse_python(f"never{number}[seen]{{2,{number + 3}}}before")
        assert caches.held() <= 2 << 16  # what others left, and what the operation keeps itself


def test_an_operation_forgets_what_others_left_when_it_begins_and_then_only_its_own(monkeypatch):
    monkeypatch.setattr(caches, "MOST_BYTES", 1 << 16)
    caches.clear()
    caches.charge(1 << 16)
    caches.begin()
    caches.charge(1 << 16)
    assert caches.held() == 2 << 16
    caches.begin()
    assert caches.held() == 0
    for _ in range(5):
        caches.charge(1 << 15)
        assert caches.held() <= 1 << 16


def test_who_waits_for_a_mask_leaves_it_to_a_compile_to_forget(monkeypatch):
    monkeypatch.setattr(caches, "MOST_BYTES", 1 << 20)
    caches.clear()
    matcher, row = c.compile(SCHEMA, VOCABULARY).matcher(), np.zeros((1, VOCABULARY.words), np.int32)
    returned: list[int] = []
    monkeypatch.setattr(caches, "_give_back", lambda: returned.append(caches.held()))

    def work(times: int) -> None:
        for _ in range(times):
            caches.begin(hurried=True)
            caches.charge(1 << 19)

    work(3)
    held = caches.held()
    matcher.fill_mask(row)
    assert (caches.held() >= held, returned) == (True, [])
    c.compile({"enum": ["c"]}, VOCABULARY)
    assert (caches.held() < held, returned) == (True, [])
    caches.charge(1 << 19)  # two bounds with what was forgotten: now free memory is returned
    c.compile({"enum": ["d"]}, VOCABULARY)
    assert len(returned) == 1 and 1 << 19 < returned[0] < held
    work(3)
    assert caches.held() > 2 << 20
    caches.begin(hurried=True)
    assert caches.held() == 0


def test_what_is_forgotten_goes_as_operations_begin(monkeypatch):
    monkeypatch.setattr(caches, "_PARTS", 100)
    caches.clear()
    gone = [weakref.ref(parse_python(f"[0-9]gone{number}x*")) for number in range(200)]
    for _ in range(2):
        caches._forget()
    left = []
    for _ in range(100):
        left.append(sum(node() is not None for node in gone))
        caches.begin()
    assert left[0] == 200 and left[-1] == 0 and len(set(left)) > 3


def test_equal_expressions_are_one_object_across_one_turn():
    language = parse_python("(ab|cd)*e")
    caches._forget()
    assert repeat(parse_python("ab|cd")) is repeat(parse_python("ab|cd"))
    assert parse_python("(ab|cd)*e") is language


def test_results_are_kept_until_the_caches_are_emptied():
    calls = []

    @caches.cached(4)
    def twice(number: int) -> int:
        calls.append(number)
        return 2 * number

    assert [twice(1), twice(1), twice(2)] == [2, 2, 4]
    caches.clear()
    assert twice(1) == 2
    assert calls == [1, 2, 1]


def test_idle_kernels_give_their_memory_back_and_matchers_come_back():
    """Constraints that are all alive and have a kernel each hold no more than the bound together."""
    bound, row = 3 << 23, np.zeros((1, VOCABULARY.words), np.int32)
    constraint = c.compile(c.Grammar.from_json_schema(SCHEMA), VOCABULARY, cache_bytes=bound)
    matcher = constraint.matcher()
    for byte in b'{"a": "ab':
        matcher.advance(byte)
    matcher.fill_mask(row)
    expected, kernel = row.copy(), constraint.place()[0]
    kernel.was_used()
    if not kernel.drop_all():
        pytest.skip("the plain kernel is not emptied")
    assert kernel.is_gone()
    assert kernel.is_full()
    assert kernel.cached_bytes() == 0
    twin = matcher.copy()
    assert not twin.is_accepting()
    c.fill_masks([matcher], row)
    assert (row == expected).all()
    twin.fill_mask(row)
    assert (row == expected).all()
    assert matcher.accepts(ord("c"))
    assert constraint.place()[0] is not kernel


def test_a_kernel_counts_what_its_roots_keep_alive():
    """A large document fills a kernel sooner than its states: it lives as long as the kernel does."""
    pytest.importorskip("constrained.engine.kernel._kernel")
    vocabulary = c.Vocabulary([bytes([byte]) for byte in range(256)], stop=[], size=256)
    small = c.Grammar.from_json_schema({"type": "integer"})
    names = {f"name {at}": {"type": "array", "items": {"minimum": at}} for at in range(2_000)}
    large = c.Grammar.from_json_schema({"properties": names})
    assert large.weight > 100 * len(names) > small.weight > 0
    kernel, _ = c.compile(small, vocabulary).place()
    before = kernel.cached_bytes()
    constraint = c.compile(large, vocabulary)
    assert constraint.place()[0] is kernel and kernel.cached_bytes() - before > large.weight
    before = kernel.cached_bytes()
    c.compile(large, vocabulary)
    assert kernel.cached_bytes() == before, "counted once"


def test_what_outlives_the_caches_gives_up_its_automaton():
    """A mask's key holds an expression for as long as the mask is kept; a thousand states behind it would stay too."""
    kept = parse_python("of[a-c]{2,90}nothing|else")
    edges = kept.edges()
    caches.clear()
    assert kept._raw is None
    assert kept._public is None
    assert [(low, high) for low, high, _ in kept.edges()] == [(low, high) for low, high, _ in edges]
    assert expr.matches(kept, "ofabcanothing")
    assert not expr.matches(kept, "ofanothing")


def test_loops_close_on_what_is_alive_and_the_rest_goes():
    kept = parse_python("(?:al)*ive")
    middle = expr.step(kept, ord("a"))
    gone = weakref.ref(parse_python("no[b]{3,70}ody"))
    caches.clear()
    assert expr.step(middle, ord("l")) is kept
    assert parse_python("(?:al)*ive") is kept
    assert gone() is None


def test_texts_of_a_frame_keep_the_edges_that_they_begin_with():
    caches.clear()  # what other tests have met
    grammar = c.ChatFormat.load("llama3.1-builtin").grammar(tool_choice="required")
    [text] = [symbol.language for symbol in grammar.symbols() if isinstance(getattr(symbol, "language", None), expr.Expr)]
    beginning = [text, *(target for _, _, target in text.edges())]
    behind = [target for state in beginning for _, _, target in state.edges() if target not in beginning]
    known = [state.edges() for state in beginning]
    assert behind and [target.edges() for target in behind]
    caches.clear()
    assert [state._raw is not None for state in beginning] == [True] * len(beginning)
    assert {target._raw for target in behind} == {None}
    assert [state.edges() for state in beginning] == known


def test_metaschemas_that_strangers_bring_go_with_their_schemas():
    """A dialect of its own, and all that is cut from its rules, lives as long as its schema."""
    draft = "https://json-schema.org/draft/2020-12"
    metaschema = {"$id": "https://example.org/m", "$schema": f"{draft}/schema", "$vocabulary": {
        f"{draft}/vocab/{name}": True for name in ("core", "applicator", "validation")}}

    def dialects() -> int:
        caches.clear()
        gc.collect()
        return sum(type(found) is Dialect for found in gc.get_objects())

    counts = []
    for number in range(3):
        schema = {"$schema": "https://example.org/m", "properties": {f"a{number}": {"items": {"type": "string"}}}}
        grammar = c.Grammar.from_json_schema(schema, documents={"https://example.org/m": metaschema})
        masks(c.compile(grammar, VOCABULARY), b'{"a')
        del grammar
        VOCABULARY.kernels.clear()
        counts.append(dialects())
    assert len(set(counts)) == 1
