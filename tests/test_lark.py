"""Lark files: the same language as the lark library, in the file's reading, in the machines and in what is printed
again.
"""

from __future__ import annotations

import pickle
import random
import re
import tomllib
from pathlib import Path

import pytest
from oracles import Acceptor, LarkOracle, all_texts, derived, mutated, words

from constrained.errors import GrammarError, LimitExceeded
from constrained.grammar import Grammar, Literal, Ref, Rule
from constrained.grammar.analysis import Facts
from constrained.grammar.lark.match_preference import preferred
from constrained.machine import END, Bytes
from constrained.regex import matches

CORPUS = Path(__file__).with_name("corpus")
CASES = tomllib.loads((CORPUS / "lark.toml").read_text())["case"]
ERRORS = tomllib.loads((CORPUS / "errors_lark.toml").read_text())["case"]


def _texts(case: dict, grammar: Grammar) -> list[str]:
    """Return the texts of a row, words of its grammar and near misses."""
    chance = random.Random(case["id"])
    found = [derived(grammar, chance, size) for size in (3, 10, 30) for _ in range(4)]
    alphabet = "".join(sorted({char for text in [*found, *case["accept"], *case["reject"]] for char in text})) or "a"
    return [
        text
        for text in [*found, *(mutated(text, chance, alphabet) for text in [*found, *case["accept"]])]
        if len(text) < 200
    ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_acceptance_equals_lark(case):
    grammar = Grammar.from_lark(case["grammar"])
    acceptor = Acceptor(grammar.start_state())
    assert [text for text in case["accept"] if not acceptor.accepts(text)] == []
    assert [text for text in case["reject"] if acceptor.accepts(text)] == []
    if "oracle" in case:
        return
    oracle = LarkOracle(case["grammar"])
    drawn, all_short = _texts(case, grammar), all_texts(case.get("alphabet", ""), case.get("longest", 0))
    texts = dict.fromkeys([*case["accept"], *case["reject"], *drawn, *all_short])
    assert [text for text in texts if acceptor.accepts(text) != oracle.accepts(text)] == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_printed_grammar_is_the_same_language(case):
    grammar = Grammar.from_lark(case["grammar"])
    printed = grammar.to_lark()
    oracle, again = LarkOracle(printed), Acceptor(Grammar.from_lark(printed).start_state())
    acceptor = Acceptor(grammar.start_state())
    texts = list(dict.fromkeys([*case["accept"], *case["reject"], *_texts(case, grammar)[::3]]))
    expected = [text for text in texts if acceptor.accepts(text)]
    assert [text for text in texts if oracle.accepts(text)] == expected
    assert [text for text in texts if again.accepts(text)] == expected


@pytest.mark.parametrize("case", ERRORS, ids=lambda case: case["id"])
def test_wrong_files_are_explained(case):
    grammar = case["grammar"] if "grammar" in case else eval(case["expression"])
    with pytest.raises((GrammarError, LimitExceeded)) as caught:
        Grammar.from_lark(grammar)
    assert str(caught.value) == case["message"]
    assert type(caught.value).__name__ == case["error"]


def test_errors_in_imported_files_name_the_file(tmp_path):
    main = tmp_path / "main.lark"
    main.write_text("start: x\n%import .part.x\n")
    with pytest.raises(GrammarError, match=r"cannot import 'part' at .*main\.lark line 2 column 10"):
        Grammar.from_lark_file(main)
    (tmp_path / "part.lark").write_text('y: "b"\nx: (y\n')
    with pytest.raises(GrammarError, match=r"part\.lark line 2 column 6"):
        Grammar.from_lark_file(main)
    (tmp_path / "part.lark").write_text('y: "b"\nx: y z\n')
    with pytest.raises(
        GrammarError, match=r"'z' is used but not defined at .*part\.lark line 2 column 6\n  because: 'x' needs it"
    ):
        Grammar.from_lark_file(main)
    (tmp_path / "part.lark").write_text('y: "b"\nx: y\n')
    assert Acceptor(Grammar.from_lark_file(str(main)).start_state()).accepts("b")


def test_a_missing_file_is_a_grammar_error(tmp_path):
    with pytest.raises(GrammarError, match="no such file"):
        Grammar.from_lark_file(tmp_path / "none.lark")
    with pytest.raises(GrammarError, match="no such file"):
        Grammar.from_lark_file("none.lark")


# -- machines against brute force --------------------------------------------------------------------------------------


def _random_grammar(chance: random.Random) -> Grammar:
    names = ["start", "p", "q", "r"][: chance.randint(1, 4)]

    def symbol() -> Literal | Ref:
        return (
            Ref(chance.choice(names))
            if chance.random() < 0.45
            else Literal(chance.choice(["a", "b", "a", "b", "ab", "ba"]))
        )

    def sequence() -> tuple[Literal | Ref, ...]:
        return tuple(symbol() for _ in range(chance.choice([0, 1, 1, 2, 2, 3])))

    return Grammar({name: Rule(name, tuple(sequence() for _ in range(chance.randint(1, 3)))) for name in names})


@pytest.mark.parametrize("seed", range(8))
def test_tiny_grammars_equal_their_words(seed):
    """Left-recursive, nullable, cyclic, ambiguous: all happen among these."""
    chance = random.Random(seed)
    for _ in range(100):
        grammar = _random_grammar(chance)
        expected = words(grammar, 5)
        try:
            acceptor = Acceptor(grammar.start_state())
        except GrammarError:
            assert not expected
            continue
        assert {text for text in all_texts("ab", 5) if acceptor.accepts(text)} == expected, grammar.rules
        assert grammar.nullable == ("" in expected)


def _fixpoint(rules, quantifier, holds):
    """Return the rules with an alternative all or any of whose symbols hold, looked at until nothing changes."""
    found, known = set(), None
    while known != found:
        known = set(found)
        for name, sequences in rules.items():
            if any(quantifier(s.rule in known if isinstance(s, Ref) else holds(s) for s in way) for way in sequences):
                found.add(name)
    return found


def test_facts_are_fixpoints():
    chance, looked_at = random.Random(1), 0
    for _ in range(400):
        grammar = _random_grammar(chance)
        rules = {name: rule.alternatives for name, rule in grammar.rules.items()}
        rules = {name: (*ways, *chance.sample(ways, chance.randint(0, 1))) for name, ways in rules.items()}
        rules["p"] = (*rules.get("p", ()), (Literal(""),), (Literal("c"),))
        alive = _fixpoint(rules, all, lambda _: True)
        if "start" not in alive:
            continue
        looked_at += 1
        facts = Facts(Grammar({name: Rule(name, ways) for name, ways in rules.items()}))
        for name, ways in facts.rules.items():
            useful = [way for way in rules[name] if all(not isinstance(s, Ref) or s.rule in alive for s in way)]
            assert ways == tuple(dict.fromkeys(useful))
        nullable = _fixpoint(facts.rules, all, lambda symbol: symbol.text == "")
        filled = _fixpoint(facts.rules, any, lambda symbol: symbol.text != "")
        assert {name for name in facts.rules if facts.nullable(Ref(name))} == nullable
        assert {name for name in facts.rules if facts.filled(Ref(name))} == filled
    assert looked_at > 300


def test_every_prefix_that_is_read_can_be_completed():
    chance = random.Random(0)
    for _ in range(200):
        grammar = _random_grammar(chance)
        try:
            acceptor = Acceptor(grammar.start_state())
        except GrammarError:
            continue
        prefixes = {word[:length] for word in words(grammar, 9) for length in range(4)}
        read = {text for text in all_texts("ab", 3) if acceptor.prefix_is_viable(text.encode())}
        assert prefixes <= read
        for text in read - prefixes:  # its completions are longer than 9
            assert any(
                acceptor.prefix_is_viable((text + more).encode()) for more in all_texts("ab", 6) if len(more) == 6
            ), (text, grammar.rules)


@pytest.mark.parametrize(
    "source",
    ['start: "a" start | "b"', 'start: start "a" | "b"', 'start: start "+" start | "b"', 'start: ("a" | "b" "c")*'],
)
def test_recursion_at_an_end_needs_no_stack(source):
    acceptor = Acceptor(Grammar.from_lark(source).start_state())
    current = acceptor.closed({(acceptor.start, ())})
    for byte in {"start: start": b"b+b+b+b+b+b+"}.get(source[:12], b"bc" * 6 if "c" in source else b"aaaaaaaaaaaa"):
        current = acceptor.closed(set(acceptor._moved(current, byte))) or current
        assert max(len([frame for frame in stack if frame.expand() != END.expand()]) for _, stack in current) == 0


# -- terminals ---------------------------------------------------------------------------------------------------------


def _random_pattern(chance: random.Random, depth: int) -> str:
    kind = chance.random()
    if depth == 0 or kind < 0.3:
        return chance.choice(["a", "b", "ab", "ba", "aa", ".", "[ab]"])
    if kind < 0.5:
        return _random_pattern(chance, depth - 1) + _random_pattern(chance, depth - 1)
    if kind < 0.75:
        return f"(?:{'|'.join(chance.choice([_random_pattern(chance, depth - 1), '']) for _ in range(chance.choice([2, 2, 3])))})"
    if kind < 0.8:
        return f"(?{chance.choice(['=', '!', '<!', '<='])}{chance.choice(['a', 'b', 'ab'])})"
    return f"(?:{_random_pattern(chance, depth - 1)}){chance.choice(['*', '+', '?', '*?', '+?', '??', '{1,2}', '{2}', '{1,2}?', '{2,}', '{,3}?'])}"


# What follows a counted repeat begins as its body does: how many rounds are left decides whether one more can be
# followed.
COUNTED = [
    "(?:b?a){1,2}(?:aab|b)a?|b", "(?:a|b){1,3}(?:aab|b)(?:a|ab)", "(?:a|ab){1}b?", "(?:a|ab){2}b?", "(?:a|ab){0}b?",
    "(?:b|a{2}){0,60}", "(?:a{2}b?){1,60}a?", "(?:(?:a|ab){2}b?){1,9}", "(?:a*){2}b", "(?:a+?){2}b?",
]


def test_preferred_texts_are_those_that_match_finds():
    chance, refused = random.Random(7), 0
    for pattern in [*COUNTED, *(_random_pattern(chance, 3) for _ in range(600))]:
        try:
            language = preferred(pattern)
        except GrammarError:
            refused += 1
            continue
        for text in all_texts("ab", 6):
            found = re.match(pattern, text)
            assert matches(language, text) == (found is not None and found.group() == text), (pattern, text)
    assert refused < 60


@pytest.mark.parametrize(("rounds", "works"), [(50, True), (51, False)])
def test_rounds_that_differ_are_written_out_up_to_a_limit(rounds, works):
    pattern = f"(?:a|ab){{{rounds}}}b?"
    if works:
        assert matches(preferred(pattern), rounds * "a" + "b")
    else:
        with pytest.raises(LimitExceeded, match=f"repeats an ambiguous part {rounds} times"):
            preferred(pattern)


# -- specials, functional update, pickling -----------------------------------------------------------------------------


def test_special_tokens_are_no_text():
    grammar = Grammar.from_lark('start: TEXT? END\nEND: "<end>" | "<stop>"\nTEXT: /[a-z<>]+/', specials=["<end>"])
    acceptor = Acceptor(grammar.start_state())
    assert acceptor.accepts([b"ab", "<end>"])
    assert acceptor.accepts(["<end>"])
    assert acceptor.accepts(b"ab<stop>")
    assert not acceptor.accepts(b"ab<end>")
    assert not acceptor.accepts([b"ab", "<stop>"])
    assert grammar.without_specials(["<end>"]) is grammar.without_specials(["<end>", "<pad>"]) is not grammar
    assert Acceptor(grammar.without_specials(["<end>"]).start_state()).accepts(b"ab<end>")
    assert Acceptor(grammar.with_specials(["<stop>", "<pad>"]).start_state()).accepts(["<stop>"])
    assert grammar.with_specials(["<stop>", "<pad>"]).specials == {"<end>", "<stop>"}


def test_declared_terminals_are_special_tokens():
    source = '%declare _EOT\nstart: "a" _EOT'
    assert Acceptor(Grammar.from_lark(source, specials=["_EOT"]).start_state()).accepts([b"a", "_EOT"])
    assert Acceptor(Grammar.from_lark(source, declare={"_EOT": "."}).start_state()).accepts("a.")
    with pytest.raises(
        GrammarError, match="terminal _EOT is declared, but nothing is given for it at line 1 column 10"
    ):
        Grammar.from_lark(source)
    grammar = Grammar.from_lark(source, specials={"_EOT": "<|eot|>"})
    assert grammar.specials == {"<|eot|>"}
    assert Acceptor(grammar.start_state()).accepts([b"a", "<|eot|>"])
    with pytest.raises(GrammarError, match=r"special token '<\|eot\|>' has no spelling"):
        grammar.without_specials(["<|eot|>"])


def test_rules_can_be_replaced():
    grammar = Grammar.from_lark('start: "<" inner ">"\ninner: "x"')
    changed = grammar.replace("inner", [(Literal("y"), Ref("more"))], [Rule("more", ((Literal("z"),), ()))])
    assert [text for text in ("<x>", "<y>", "<yz>") if Acceptor(changed.start_state()).accepts(text)] == ["<y>", "<yz>"]
    assert Acceptor(grammar.start_state()).accepts("<x>")
    with pytest.raises(GrammarError, match="rule 'other' is not defined"):
        grammar.replace("other", [()])
    with pytest.raises(GrammarError, match="rule 'more' is used but not defined"):
        grammar.replace("inner", [(Ref("more"),)])


@pytest.mark.parametrize("case", CASES[::5], ids=lambda case: case["id"])
def test_grammars_pickle(case):
    grammar = Grammar.from_lark(case["grammar"])
    copy = pickle.loads(pickle.dumps(grammar))
    assert copy.fingerprint == grammar.fingerprint
    acceptor = Acceptor(copy.start_state())
    assert all(acceptor.accepts(text) for text in case["accept"])


def test_fingerprints_tell_grammars_apart():
    sources = ['start: "a"', 'start: "b"', 'start: /a/', 'start: "a" |', 'start: "a"\nx: "b"', '%declare A\nstart: A']
    assert len({Grammar.from_lark(source, specials=["A"]).fingerprint for source in sources}) == len(sources)


def test_regular_expressions_match_in_full():
    acceptor = Acceptor(Grammar.from_regex("a|ab|b*?").start_state())
    assert [text for text in all_texts("ab", 3) if acceptor.accepts(text)] == ["", "a", "b", "ab", "bb", "bbb"]
    printed = Grammar.from_regex("a|ab|b*?").to_lark()
    oracle = LarkOracle(printed)
    assert [text for text in all_texts("ab", 3) if oracle.accepts(text)] == ["", "a", "b", "ab", "bb", "bbb"]


def test_many_alternatives_with_one_beginning_are_one_edge():
    grammar = Grammar.from_lark("start: " + " | ".join(f'"call_number_{number} " /x/' for number in range(500)))
    edges = grammar.start_state().expand()
    assert [(chr(low), chr(high)) for low, high, _ in edges.ranges] == [("c", "c")]
    assert isinstance(edges.ranges[0][2], Bytes)
    assert edges.ranges[0][2].data == b"all_number_"


def test_huge_repeats_stay_small():
    grammar = Grammar.from_lark('start: (("a" | "b")~1000000 "c")~0..1000000')
    assert len(grammar.rules) < 150
    acceptor = Acceptor(grammar.start_state())
    assert acceptor.accepts("")
    assert acceptor.prefix_is_viable(b"ab" * 50)
    assert not acceptor.prefix_is_viable(b"abc")


def test_printed_text_spells_no_special_token():
    source = 'start: TEXT END | "x" CODE END\nEND: "<end>"\nTEXT: /[^\\n]+/\nCODE: /(?!;)((?!\\n;)[\\s\\S])+/'
    oracle = LarkOracle(Grammar.from_lark(source, specials=["<end>"]).to_lark())
    assert [text for text in ("a<end>", "x\n<end>", "<en<end>") if oracle.accepts(text)] == [
        "a<end>",
        "x\n<end>",
        "<en<end>",
    ]
    assert [text for text in ("a<end><end>", "x\n<end>\n<end>", "a") if oracle.accepts(text)] == []


def test_a_pattern_that_may_spell_a_special_token_is_printed_as_a_pattern():
    source = 'start: TEXT END\nEND: "<end>"\nTEXT: /(?:(?!;)[^\\n]|;;)+/'
    assert (
        Grammar.from_lark(source, specials=["<end>"]).to_lark()
        == 'start: T1 "<end>"\nT1: /(?:(?!;)(?:(?!<end>)[^\\n])|;;)+/\n'
    )
