"""States and masks in signed files: masks stay what they were wherever a text goes, and nothing unsigned is believed."""

from __future__ import annotations

import random

import numpy as np
import pytest
from laws import hard_vocabulary
from test_stored import GRAMMARS, NUMBER, SCHEMA, VOCABULARY

import constrained as c
from constrained.engine import saved_states, signed

pytest.importorskip("constrained.engine.kernel._kernel")

KEY = b"a key of 16 byte"
OPEN = {"type": "object", "properties": {"a": {"type": ["string", "null"]}, "b": {"items": {"enum": ["é", 12, None]}}}}


# so large that masks differ from others in few blocks, and a table has numbers of each kind
LARGE = c.Vocabulary(
    [*VOCABULARY.tokens[:256], *(b"w%d" % at for at in range(4_000))], {"<think>": 4_300, "</think>": 4_301}, [4_301])
ANSWER = c.Grammar.from_lark(
    'start: "<think>" /[^<]{0,9}/ _END answer\n%declare _END', specials={"_END": "</think>", "<think>": "<think>"},
    define={"answer": c.Grammar.from_json_schema(SCHEMA)})


def fresh(vocabulary=VOCABULARY):
    """Return a vocabulary with kernels of its own."""
    return c.Vocabulary(vocabulary.tokens, vocabulary.special, vocabulary.stop, vocabulary.size)


def told(matcher):
    """Return what a matcher says of its place: the mask, and whether the text may end or must."""
    row = np.zeros((1, matcher.constraint.vocabulary.words), np.int32)
    matcher.fill_mask(row)
    return row.tobytes(), matcher.is_accepting(), matcher.is_exhausted(), matcher.is_finished()


def allowed(matcher):
    row = np.zeros((1, matcher.constraint.vocabulary.words), np.int32)
    matcher.fill_mask(row)
    return np.flatnonzero(np.unpackbits(row[0].view(np.uint8), bitorder="little"))


def walk(matcher, seed, steps=25):
    """Go on at random; return the tokens, and what was told before each and after the last."""
    random_, tokens, found = random.Random(seed), [], [told(matcher)]
    for _ in range(steps):
        choice = allowed(matcher)
        if not len(choice) or matcher.is_finished():
            break
        token = int(random_.choice(choice))
        matcher.advance(token)
        tokens.append(token)
        found.append(told(matcher))
    return tokens, found


def follow(matcher, tokens):
    """Return what is told along a text."""
    found = [told(matcher)]
    for token in tokens:
        matcher.advance(token)
        found.append(told(matcher))
    return found


def visited(grammar, vocabulary, path, seeds=3):
    """Save a constraint, visited at random and by `warm`; return the texts and what was told along them."""
    constraint = c.compile(grammar, vocabulary, kernel="compiled")
    walks = [walk(constraint.matcher(), seed) for seed in range(seeds)]
    constraint.warm(states=20)
    constraint.save(path, key=KEY)
    return walks


@pytest.mark.parametrize("name", GRAMMARS)
def test_masks_are_the_same_wherever_a_text_goes(name, tmp_path):
    grammar, path, random_ = GRAMMARS[name], tmp_path / "c", random.Random(name)
    walks, plain = visited(grammar, fresh(), path), c.compile(grammar, fresh())
    constraint = c.Constraint.load(path, fresh(), key=KEY)
    assert constraint.loaded_states > 1
    known = constraint.place()[0].count_states()
    assert [follow(constraint.matcher(), tokens) for tokens, _ in walks] == [found for _, found in walks]
    assert constraint.place()[0].count_states() == known  # nothing was stepped
    places = [(tokens, at) for tokens, _ in walks for at in range(len(tokens) + 1)]
    for tokens, at in random_.sample(places, min(len(places), 12)):
        again, other = (found.matcher() for found in (c.Constraint.load(path, fresh(), key=KEY), plain))
        for matcher in (again, other):
            for token in tokens[:at]:
                matcher.advance(token)
        assert walk(again, at, 8) == walk(other, at, 8)
        again.rollback(len(again.tokens) // 2)
        assert follow(again.copy(), ()) == follow(plain.matcher(), again.tokens)[-1:]
    for tokens, at in places:
        one, two = constraint.matcher(), plain.matcher()
        assert follow(one, tokens[:at]) == follow(two, tokens[:at])
        assert walk(one, at, 3) == walk(two, at, 3)


ENDS = c.Grammar.from_lark('start: "a" _END ("b" _END)?\n%declare _END', specials={"_END": "<|im_end|>"})
NAMES = c.Grammar.from_lark('start: "ab" ("c" | _END) "e"\n%declare _END', specials={"_END": "<think>"})
KEYS = {"type": "object", "properties": {"kind": {"enum": ["aa", "ab", "b"]}, "kin": {"items": SCHEMA}}}
INSIDE = {**GRAMMARS, "a stop token that does not stop": ENDS, "bytes and names": NAMES,
          "keys": c.Grammar.from_json_schema(KEYS)}


def in_pieces(vocabulary, tokens, random_):
    """Return a text as longer tokens, those of a vocabulary made for it, and that vocabulary."""
    texts, pieces = list(vocabulary.tokens[:256]), []
    for token in tokens:
        text = vocabulary.tokens[token]
        if text is not None and pieces and isinstance(pieces[-1], bytes) and random_.random() < 0.8:
            pieces[-1] += text
        else:
            pieces.append(token if text is None else text)
    numbers = {text: at for at, text in enumerate(dict.fromkeys([*texts, *(p for p in pieces if isinstance(p, bytes))]))}
    special = {name: 2_000 + at for name, at in vocabulary.special.items()}
    longer = c.Vocabulary(list(numbers), special, [2_000 + at for at in vocabulary.stop], 2_400)
    return [numbers[piece] if isinstance(piece, bytes) else 2_000 + piece for piece in pieces], longer


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", INSIDE)
def test_places_inside_of_tokens_that_were_read_are_as_any_other(name, seed, tmp_path):
    """Their states have successors, and no masks: what else is asked of them is found when it is asked."""
    grammar, random_ = INSIDE[name], random.Random(seed)
    tokens, vocabulary = in_pieces(VOCABULARY, walk(c.compile(grammar, fresh()).matcher(), seed, 40)[0], random_)
    constraint = c.compile(grammar, fresh(vocabulary))
    matcher = constraint.matcher()
    for at, token in enumerate(tokens):
        if random_.random() < 0.2 or at == len(tokens) - 1:
            told(matcher)
        matcher.advance(token)
    told(matcher)
    constraint.save(tmp_path / "c", key=KEY)
    plain = c.compile(grammar, fresh(vocabulary))
    texts = [vocabulary.tokens[token] for token in tokens]
    spelled = [byte for text, token in zip(texts, tokens, strict=True) for byte in (text or [token])]
    asks = [told, lambda found: found.forced_bytes(), lambda found: [found.explain(token) for token in (34, 97, 2_261)],
            lambda found: found._kernel.named_tokens(found._path[-1]), lambda found: found._kernel.next_bytes(found._path[-1])]
    for ask in asks:
        loaded = c.Constraint.load(tmp_path / "c", fresh(vocabulary), key=KEY)
        for text in (tokens, spelled):
            one, two = loaded.matcher(), plain.matcher()
            for token in text:
                if not one.is_finished():
                    assert ask(one) == ask(two)
                assert one.is_finished() == two.is_finished()
                one.advance(token)
                two.advance(token)
            assert told(one) == told(two)


@pytest.mark.parametrize("first", ["one", "other", "twice"])
def test_a_table_is_laid_over_what_a_kernel_knows(first, tmp_path):
    grammars = {"one": GRAMMARS["schema"], "other": GRAMMARS["hermes, required"]}
    walks = {name: visited(grammar, fresh(), tmp_path / name) for name, grammar in grammars.items()}
    vocabulary, plain = fresh(), {name: c.compile(grammar, fresh()) for name, grammar in grammars.items()}
    met = c.compile(grammars["other" if first == "other" else "one"], vocabulary)
    walk(met.matcher(), 1, 9)
    if first == "twice":
        c.Constraint.load(tmp_path / "one", vocabulary, key=KEY)
    loaded = {name: c.Constraint.load(tmp_path / name, vocabulary, key=KEY) for name in grammars}
    kernel = loaded["one"].place()[0]
    assert kernel is loaded["other"].place()[0] is met.place()[0]
    texts = [(name, tokens[:at]) for name in grammars for tokens, _ in walks[name] for at in range(0, len(tokens), 3)]
    matchers = [[constraints[name].matcher() for name, _ in texts] for constraints in (loaded, plain)]
    for group in matchers:
        for matcher, (_, tokens) in zip(group, texts, strict=True):
            for token in tokens:
                matcher.advance(token)
    for step in range(4):
        rows = [np.zeros((len(texts), VOCABULARY.words), np.int32) for _ in matchers]
        for group, array in zip(matchers, rows, strict=True):
            c.fill_masks(group, array)
        assert (rows[0] == rows[1]).all()
        for one, two in zip(*matchers, strict=True):
            assert walk(one, step, 1) == walk(two, step, 1)
    assert kernel.drop_all()
    assert [walk(one, 7, 3) for one in matchers[0]] == [walk(two, 7, 3) for two in matchers[1]]


@pytest.mark.parametrize("name", ["hard", "llama3"])
def test_masks_of_other_vocabularies(name, tmp_path, request):
    make = (
        (lambda: hard_vocabulary(3))
        if name == "hard"
        else (lambda: c.Vocabulary.from_tokenizer(request.getfixturevalue("llama3_path")))
    )
    vocabulary = make()
    grammar = c.Grammar.from_json_schema(OPEN)
    walks, plain = visited(grammar, vocabulary, tmp_path / "c", 2), c.compile(grammar, make())
    constraint = c.Constraint.load(tmp_path / "c", make(), key=KEY)
    assert constraint.loaded_states > 1
    for tokens, found in walks:
        assert follow(constraint.matcher(), tokens) == found == follow(plain.matcher(), tokens)
        for at in range(0, len(tokens), 5):
            one, two = constraint.matcher(), plain.matcher()
            assert follow(one, tokens[:at]) == follow(two, tokens[:at])
            assert walk(one, at, 5) == walk(two, at, 5)


def test_what_is_loaded_can_be_saved_and_loaded_again(tmp_path):
    walks = visited(GRAMMARS["answer by schema"], fresh(), tmp_path / "one")
    first = c.Constraint.load(tmp_path / "one", fresh(), key=KEY)
    first.save(tmp_path / "two", key=KEY)
    second = c.Constraint.load(tmp_path / "two", fresh(), key=KEY)
    assert second.loaded_states == first.loaded_states
    walk(first.matcher(), 99)  # reads some of the states
    first.save(tmp_path / "three", key=KEY)
    third = c.Constraint.load(tmp_path / "three", fresh(), key=KEY)
    for constraint in (second, third):
        assert [follow(constraint.matcher(), tokens) for tokens, _ in walks] == [found for _, found in walks]


# -- what is believed --------------------------------------------------------------------------------------------------


def refused(path, message="", vocabulary=None, key=KEY):
    with pytest.raises(c.ConstrainedError, match=message or None) as error:
        c.Constraint.load(path, vocabulary or fresh(), key=key)
    return error.value.what, error.value.because, error.value.instead


def test_a_file_with_any_byte_changed_is_refused_or_without_a_key_says_the_same(tmp_path):
    path, random_ = tmp_path / "c", random.Random(3)
    visited(GRAMMARS["schema"], VOCABULARY, path)
    data, plain = path.read_bytes(), walk(c.compile(GRAMMARS["schema"], fresh()).matcher(), 5)
    begin = data.index(0)
    places = {*range(begin, begin + 60), len(data) - 1, *random_.sample(range(len(data)), 120)}
    for at in sorted(places):
        path.write_bytes(data[:at] + bytes((data[at] ^ 1 << random_.randrange(8),)) + data[at + 1 :])
        refused(path)
        try:
            found = c.Constraint.load(path, VOCABULARY)
        except c.ConstrainedError:
            assert at <= begin
        else:
            assert found.loaded_states == 0
            assert at > begin or found.grammar.fingerprint == GRAMMARS["schema"].fingerprint
            assert at < begin or walk(found.matcher(), 5) == plain


@pytest.mark.parametrize("cut", [1, 9, 200, -1, -30, -300])
def test_a_file_that_was_cut_or_grew_is_refused(cut, tmp_path):
    visited(NUMBER, VOCABULARY, tmp_path / "c")
    data = (tmp_path / "c").read_bytes()
    (tmp_path / "c").write_bytes(data[:-cut] if cut > 0 else data + bytes(-cut))
    refused(tmp_path / "c")


def test_who_has_no_key_or_another_one_is_told(tmp_path):
    visited(NUMBER, VOCABULARY, tmp_path / "signed")
    c.compile(NUMBER, VOCABULARY).save(tmp_path / "unsigned")
    otherwise = "load it without a key, as a stranger's; or save it"
    assert refused(tmp_path / "signed", key=KEY + b"s") == (
        "the signature of the saved constraint is wrong", "it was saved with another key, or changed since",
        f"{otherwise} again")
    assert refused(tmp_path / "unsigned") == (
        "the saved constraint is not signed", "it was saved without a key, or cut", f"{otherwise} with one")
    refused(tmp_path / "signed", "another vocabulary", c.Vocabulary([*VOCABULARY.tokens[:256], b"other"]))
    for wrong, why in (b"too short", "has 9 bytes"), ("text", "is a str"), (7, "is a int"), (bytearray(16), "is a byte"):
        what, _, instead = refused(tmp_path / "signed", f"because: it {why}", key=wrong)
        assert (what, instead) == ("no key to sign with", "16 bytes or more: secrets.token_bytes(32)")
        with pytest.raises(c.ConstrainedError, match=f"no key to sign with\n  because: it {why}"):
            c.compile(NUMBER, VOCABULARY).save(tmp_path / "never", key=wrong)
    assert not (tmp_path / "never").exists()
    assert c.Constraint.load(tmp_path / "signed", fresh()).loaded_states == 0


LEFT = {
    "other code": ({}, lambda patch: patch.setattr(saved_states, "code", lambda: bytes(32))),
    "another bound": ({"max_configurations": 999}, lambda patch: None),
    "the plain kernel": ({"kernel": "plain"}, lambda patch: None),
    "a small cache": ({"cache_bytes": 1_000}, lambda patch: None),
}


@pytest.mark.parametrize("name", LEFT)
def test_a_table_of_no_use_here_is_left_and_the_calls_serve(name, tmp_path, monkeypatch):
    options, change = LEFT[name]
    walks = visited(NUMBER, fresh(), tmp_path / "c")
    assert c.Constraint.load(tmp_path / "c", fresh(), key=KEY).loaded_states > 1
    change(monkeypatch)
    constraint = c.Constraint.load(tmp_path / "c", fresh(), key=KEY, **options)
    assert constraint.loaded_states == 0
    assert [follow(constraint.matcher(), tokens) for tokens, _ in walks] == [found for _, found in walks]
    constraint.save(tmp_path / "again", key=KEY)
    refused(tmp_path / "again", "is wrong", key=KEY * 2)


def test_where_not_all_fits_the_nearest_states_are_saved(tmp_path, monkeypatch):
    walks = visited(GRAMMARS["schema"], fresh(), tmp_path / "c")
    most = c.Constraint.load(tmp_path / "c", fresh(), key=KEY).loaded_states
    constraint = c.Constraint.load(tmp_path / "c", fresh(), key=KEY)
    monkeypatch.setattr(saved_states, "MOST_STATES", 64)
    constraint.save(tmp_path / "less", key=KEY)
    less = c.Constraint.load(tmp_path / "less", fresh(), key=KEY)
    assert 1 < less.loaded_states < most
    assert [follow(less.matcher(), tokens) for tokens, _ in walks] == [found for _, found in walks]


def parts(table):
    """Return {name: (where it begins, numbers, bytes of each)} of the arrays of a table, and of its sizes."""
    names = saved_states._SIZES
    sizes = dict(zip(names, np.frombuffer(table, np.int32, len(names)).tolist(), strict=True))
    width = -(-LARGE.words // 4) * 4
    each = {"targets": "runs", "named": 3, "masks": 2, "records": 5, "wholes": 3, "changes": 2, "raw": width}
    lengths = {"targets": "runs", "named": "names", "records": "blocks", "bytes": "runs"}
    each |= {"targets": 1, "bytes": 2, "maps": 32}
    at, found = 4 * len(names), {"sizes": (0, len(names), 4)}
    for name in (*saved_states._INTS, *saved_states._BYTES):
        size = 4 if name in saved_states._INTS else 1
        count = sizes[lengths.get(name, name if name in names else "states")] * each.get(name, 1)
        found[name] = at, count, size
        at += count * size
    assert at == len(table)
    return found


@pytest.mark.parametrize("name", ["sizes", *saved_states._INTS, *saved_states._BYTES])
def test_a_table_that_was_damaged_before_it_was_signed_ends_no_process(name, tmp_path):
    path, random_ = tmp_path / "c", random.Random(name)
    visited(ANSWER, fresh(LARGE), path)
    data = path.read_bytes()
    text, body = signed.text_of(data), signed.opened(path, data, KEY)
    table = body[40:]
    begin, count, size = parts(table)[name]
    assert count
    believed = 0
    for _ in range(40):
        changed = bytearray(table)
        for _ in range(random_.choice((1, 1, 3))):
            at = begin + size * random_.randrange(count)
            value = random_.choice((-1, -2, 0, 1, 4, 255, 256, 2**31 - 1, -(2**31), random_.randrange(500)))
            changed[at : at + size] = (value % 256**size).to_bytes(size, "little")
        path.write_bytes(b"".join(signed.sealed(text, body[:40] + bytes(changed), KEY)))
        constraint = c.Constraint.load(path, fresh(LARGE), key=KEY)
        believed += constraint.loaded_states > 0
        for seed in range(2):
            matcher = constraint.matcher()
            try:
                walk(matcher, seed, 12)
                matcher.forced_tokens()
            except (c.ConstrainedError, IndexError):
                continue  # what a mask allows may be rejected, or no token at all
    assert believed < 40 or name in ("raw", "changes", "records", "flags", "maps", "bytes")


def test_a_state_that_the_grammar_does_not_have_is_told(tmp_path):
    """The way to a state is stepped for real before anything is made of it."""
    path = tmp_path / "c"
    visited(c.Grammar.from_regex("[ab]{20}"), fresh(), path)
    data = path.read_bytes()
    text, body = signed.text_of(data), signed.opened(path, data, KEY)
    begin, count, _ = parts(body[40:])["symbols"]
    changed = bytearray(body)
    for at in range(1, count):
        changed[40 + begin + 4 * at] = ord("z")
    path.write_bytes(b"".join(signed.sealed(text, bytes(changed), KEY)))
    matcher = c.Constraint.load(path, fresh(), key=KEY).matcher()
    with pytest.raises(c.ConstrainedError, match="a saved state is none of this grammar"):
        for _ in range(20):
            matcher.advance(ord("b") if matcher.accepts(ord("b")) else ord("a"))


def test_a_long_way_back_is_work_that_is_counted(tmp_path):
    constraint = c.compile(c.Grammar.from_regex("[a-c]{9000}"), fresh())
    matcher = constraint.matcher()
    for byte in b"abc" * 2_900:
        matcher.advance(byte)
    told(matcher)
    constraint.save(tmp_path / "c", key=KEY)
    loaded = c.Constraint.load(tmp_path / "c", fresh(), key=KEY, max_work=600)
    tokens, again = matcher.tokens, loaded.matcher()
    for token in tokens:
        again.advance(token)
    assert told(again) == told(matcher)
    before = again.tokens
    with pytest.raises(c.LimitExceeded):
        again.advance(ord("a"))
    assert again.tokens == before
    assert told(again) == told(matcher)


def test_a_load_that_memory_ends_leaves_the_kernel_as_good_as_before(tmp_path):
    memory = pytest.importorskip("constrained.engine.memory._memory")
    walks = visited(GRAMMARS["answer by schema"], fresh(), tmp_path / "c")
    vocabulary, met, after = fresh(), [], -1
    while not met or isinstance(met[-1], MemoryError):
        after += 1
        memory.refuse(after)
        try:
            met.append(c.Constraint.load(tmp_path / "c", vocabulary, key=KEY))
        except MemoryError as error:
            met.append(error)
        finally:
            memory.refuse(-1)
        constraint = c.compile(GRAMMARS["answer by schema"], vocabulary)
        tokens, found = walks[after % len(walks)]
        assert follow(constraint.matcher(), tokens[: after % 20]) == found[: after % 20 + 1]
        vocabulary = fresh() if after % 2 else vocabulary
    assert after > 2
    assert [follow(met[-1].matcher(), tokens) for tokens, _ in walks] == [found for _, found in walks]
