"""Grammars in other notations say here what they say to their own engines, and mistakes stand at their place.

A row: a notation, a text and the characters of a small world.  Each text of at most LENGTH of these is put to us and to the
notation's own engine: llguidance, XGrammar (which reads GBNF, too), and for ABNF the package `abnf`; ISO EBNF has none, so
rows say their words.
"""

from __future__ import annotations

import itertools
import random

import pytest
from constrained.benchmarks import exports
from constrained.export.engines import export
from constrained.notations import NOTATIONS, translated

import constrained as c
from constrained.errors import ConstrainedError

LENGTH = 4
LETTERS = c.Vocabulary([bytes([byte]) for byte in range(256)], special={"<think>": 256}, stop=[256], size=257)
BNF = {
    "choice, brackets, repeats": ('root ::= ("a" | "b" "c")* d?\nd ::= "d"{2,3} # twice or more\n', "abcd"),
    "classes": ('root ::= [a-c] [^b\\n] [\\x41\\]-]? | "\\u0061"', "ab-]A"),
    "recursion at both ends": ('root ::= "a" root "b" | x\nx ::= "" | x "c"', "abc"),
    "over lines": ('root ::= (\n  "a" |\n  # or\n  b\n)+\nb ::= "b"', "ab"),
    "counts": ('root ::= "a"{2} "b"{1,} ("c" "a"){0,1}', "abc"),
    "blanks in counts and an empty text": ('root ::= "a"{ 1 , 2 } "" | ""', "ab"),
    "quotes": ('root ::= "\\"" [^"\\\\]* "\\""', 'a"\\'),
    "a range that a dash ends": ("root ::= [a-]+ [a-c-]", "ab-c"),
}
ABNF = {
    "cases": ('r = "aB" / %s"aB" %i"c"', "aAbBcC"),
    "numbers": ('r = %x61-62 %d98.99 / %b1100001 *"b"', "abc"),
    "repeats": ('r = *2"a" 1*"b" [ 2"c" ]', "abc"),
    "more alternatives": ('r = "a"\nr =/ "b" r ; and so on\n', "ab"),
    "core rules": ("r = ALPHA DIGIT / HEXDIG SP", "aF1 "),
    "groups and names": ('r = (a-b / "c") A-B\na-b = 1*2( "a" / "b" )', "abc"),
    "over lines": ('r =\n  "a" ; one\n  / "b"\n', "ab"),
}
LLGUIDANCE = {
    "rules and terminals": ('start: "a" x{1,2} | Y\nx: "b" | "c"~2\nY: "c" /[ab]/', "abc"),
    "ends as soon as it can": ('start: x "b"\nx[lazy]: /a*c|ab*/', "abc"),
    "a suffix": ('start: x "b"?\nx[suffix="c", capture]: /[ac]*/', "abc"),
    "and, not": ('start: A\nA: /[ab]+/ & ~B | "c"\nB: "ab" | /b+/', "abc"),
    "any case, ranges": ('start: "a"i "b".."c" [ "d" ]', "aAbd"),
    "classes of Rust": (r'start: /\w/ "!" /\p{Lu}/', "a\u0301A!"),
    "blanks of Rust": (r'start: "a" /\s/ /[^\S ]/', "a \n\u2003"),
    "flags": ("start: /(?i:a)b/i /./s", "aAb\n"),
    "a library": ('start: INT "x" LETTER?\n%import common.INT\n%import common (LETTER)', "1xa"),
    "a schema": ('start: "a" %json {"enum": [1,\n true]}', "a1tru"),
    "anchors at the ends of what is matched in full": (r'start: /^(?i:a)|b$/ /(?i)^[$^]$/', "aAb$^"),
    "named groups, an escape of two digits": (r'start: /(?P<n>a)(?<m>b)?/ "\x41\u0062"', "abA"),
    "quotes": ('start: Q "!"\nQ: %regex {"substring_chars": "ab"}', "ab!"),
}
ISO = {
    "without": ("a = letter, ( {letter}- ) - 'ab' ;\nletter = 'a' | 'b' | 'c' ;", {"aab": False, "aabc": True, "a": False, "ab": True}),
    "counts and signs": ('a b = 2 * "x", [ "y" ] / (: "z" :) ! ? (* comment *) ;'.replace(" ! ?", ""), {"xx": True, "xxy": True, "zz": True, "": True, "x": False}),
    "comments in comments, spaces in names": ("a b = c d (* it's (* one *) *), '(*' ; cd = 'x' ; (* (* *) *)", {"x(*": True, "x": False}),
    "one after the other": ("first = second, third . second = 'a' | ; third = {'b'};", {"abb": True, "": True, "ba": False}),
    "but computed from computed": ("a = x - 'b' ; x = y - 'c' ; y = 'a' | 'b' | 'c' ;", {"a": True, "b": False, "c": False}),
}  # fmt: skip


def accepts(grammar: c.Grammar):
    constraint = c.compile(grammar, LETTERS)

    def judge(text: str) -> bool:
        matcher = constraint.matcher()
        try:
            for byte in text.encode():
                matcher.advance(byte)
        except c.Rejected:
            return False
        return matcher.is_accepting()

    return judge


def texts(alphabet: str) -> list[str]:
    return ["".join(found) for size in range(LENGTH + 1) for found in itertools.product(alphabet, repeat=size)]


def engine_of(name: str):
    judge = exports.ENGINES[name]()
    return judge if judge is not None else pytest.skip("the engine is not installed")


@pytest.mark.parametrize("notation", ["gbnf", "ebnf"])
@pytest.mark.parametrize("name", BNF)
def test_bnf_as_xgrammar(name, notation):
    text, alphabet = BNF[name]
    theirs, ours = engine_of("xgrammar")(text), accepts(c.Grammar.of(translated(text, notation).grammar()))
    assert [word for word in texts(alphabet) if ours(word) != theirs(word)] == []
    assert any(map(ours, texts(alphabet)))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", LLGUIDANCE)
def test_lark_as_llguidance(name):
    text, alphabet = LLGUIDANCE[name]
    theirs, grammar = engine_of("llguidance")(text), c.Grammar.from_llguidance(text)
    ours = accepts(grammar)
    assert grammar.widened == ()
    assert [word for word in texts(alphabet) if ours(word) != theirs(word)] == []
    assert any(map(ours, texts(alphabet)))


@pytest.mark.parametrize(("text", "alphabet", "pointers"), [
    ('start: /a+/ "ab"', "ab", ["lexeme /a+/"]),
    ('start: "if" x | ID\nx: "x"\nID: /[f-x]+/', "ifx", ['lexeme "if"']),
    ('start: "a" "b"+\n%ignore /[ ]/', "ab ", ["%ignore"]),
    ('start: "a" "b"?\n%ignore /[ ]/\n%llguidance {"allow_initial_skip": true}', "ab ", ["%ignore"]),
    ('start: "b"+ x "a"*\nx[lazy]: /[ab]*c|b/', "abc", ['lexeme "b"']),
    ('start: /[ab]+/ "a" | "b"', "ab", ["lexeme /[ab]+/"]),
])  # fmt: skip
def test_what_llguidance_reads_on_is_listed_and_only_ever_wider(text, alphabet, pointers):
    theirs, grammar = engine_of("llguidance")(text), c.Grammar.from_llguidance(text)
    ours = accepts(grammar)
    assert [entry.pointer for entry in grammar.widened] == pointers
    wider = [word for word in texts(alphabet) if ours(word) and not theirs(word)]
    assert [word for word in texts(alphabet) if theirs(word) and not ours(word)] == []
    assert pointers or not wider


def package_abnf():
    """Return what loads a grammar into the package `abnf`; it does not end on rules that begin with themselves."""
    package = pytest.importorskip("abnf")

    def load(text: str):
        rules = type("Rules", (package.Rule,), {})
        rules.load_grammar(text.strip().replace("\n", "\r\n") + "\r\n")

        def judge(word: str) -> bool:
            try:
                rules("r").parse_all(word)
            except package.ParseError:
                return False
            return True

        return judge

    return load


@pytest.mark.parametrize("name", ABNF)
def test_abnf_as_the_package_abnf(name):
    text, alphabet = ABNF[name]
    ours, theirs = accepts(c.Grammar.from_abnf(text)), package_abnf()(text)
    assert [word for word in texts(alphabet) if ours(word) != theirs(word)] == []
    assert any(map(ours, texts(alphabet)))


# Random grammars: how each notation writes choices, repeats and texts, and what its engine makes of a grammar.
PIECES = {
    "gbnf": (" | ", ["{0}", "{0}*", "{0}+", "{0}?", "{0}{{1,2}}"], ['"a"', '"ab"', "[ab]", "[^a]", '""']),
    "abnf": (" / ", ["{0}", "*{0}", "1*{0}", "*1{0}", "1*2{0}"], ['"a"', '%s"Ab"', "%x61-62", "%x61.62"]),
    "llguidance": (" | ", ["{0}", "{0}*", "{0}+", "{0}?", "{0}{{1,2}}"], ['"a"', '"b"i', "/[ab]/", "/b?c/"]),
}


def random_grammar(notation: str, picks: random.Random) -> str:
    bar, repeats, atoms = PIECES[notation]

    def alternatives(depth: int, names: str) -> str:
        def atom() -> str:
            if depth and picks.random() < 0.3:
                return f"({alternatives(depth - 1, names)})"
            return picks.choice([*atoms, *names])

        count = picks.randint(1, 2)
        return bar.join(" ".join(picks.choice(repeats).format(atom()) for _ in range(picks.randint(1, 3))) for _ in range(count))

    first, sign = {"gbnf": ("root", "::="), "abnf": ("r", "="), "llguidance": ("start", ":")}[notation]
    bodies = {first: alternatives(2, "xy"), "x": alternatives(1, "y"), "y": f'"c"{bar}"b"'}
    return "".join(f"{name}{'' if sign == ':' else ' '}{sign} {body}\n" for name, body in bodies.items())


@pytest.mark.parametrize("notation", PIECES)
def test_random_grammars_mean_what_they_mean_to_their_engine(notation):
    picks = random.Random(notation)
    load = engine_of("xgrammar" if notation == "gbnf" else notation) if notation != "abnf" else package_abnf()
    for _ in range(40):
        text = random_grammar(notation, picks)
        grammar = c.Grammar.of(translated(text, notation).grammar())
        ours, theirs = accepts(grammar), load(text)
        differs = [word for word in picks.sample(texts("abcA"), 40) if ours(word) != theirs(word)]
        assert not [word for word in differs if not (grammar.widened and ours(word))], text


@pytest.mark.parametrize("name", ISO)
def test_words_of_iso(name):
    text, words = ISO[name]
    ours = accepts(c.Grammar.from_iso_ebnf(text))
    assert {word: ours(word) for word in words} == words


@pytest.mark.parametrize("name", BNF)
def test_what_is_imported_exported_and_imported_is_the_same(name):
    text, alphabet = BNF[name]
    grammar = c.Grammar.from_gbnf(text)
    ours, again = accepts(grammar), accepts(c.Grammar.from_gbnf(str(export(grammar, "gbnf"))))
    lark = accepts(c.Grammar.from_lark(translated(text, "gbnf").text))
    assert [word for word in texts(alphabet) if not ours(word) == again(word) == lark(word)] == []


def test_special_tokens_are_those_that_the_caller_gives():
    grammar = c.Grammar.from_gbnf('root ::= <think> "<think>"', specials=["<think>"])
    matcher = c.compile(grammar, LETTERS).matcher()
    for token in [256, *b"<think>"]:
        matcher.advance(token)
    assert matcher.is_accepting()
    inner = c.Grammar.from_regex("[0-9]+")
    grammar = c.Grammar.from_llguidance("start: <think> @n", ["<think>"], {"n": inner})
    assert grammar.specials == {"<think>"}


def test_a_constraint_of_an_imported_grammar_can_be_saved(tmp_path):
    grammar = c.Grammar.from_iso_ebnf(ISO["without"][0])
    c.compile(grammar, LETTERS).save(tmp_path / "saved")
    assert c.Constraint.load(tmp_path / "saved", LETTERS).grammar.fingerprint == grammar.fingerprint


@pytest.mark.parametrize(("notation", "text", "where", "because"), [
    ("gbnf", 'root ::= "a"\nx ::= ruel "b"\nrule ::= "c"', "line 2 column 7", "rule 'ruel' is used but not defined"),
    ("gbnf", 'root ::= "a" )', "line 1 column 14", "unexpected ')'"),
    ("gbnf", 'root ::= ("a"\n', "line 1 column 14", "unexpected end of text"),
    ("gbnf", 'root ::= "a"\nroot ::= "b"', "line 2 column 1", "rule 'root' is defined twice, first at line 1 column 1"),
    ("gbnf", 'root ::= "a" x\nx ::= "b" x', "line 1 column 1", "needs a rule that never ends, such as 'root'"),
    ("gbnf", 'root ::= "\\q"', "line 1 column 10", "no escape of GBNF"),
    ("gbnf", 'root ::= "a" [z-a]', "line 1 column 14", "no range of characters"),
    ("gbnf", 'root ::= <think> "a"', "line 1 column 10", "a special token that nobody gave"),
    ("gbnf", 'root ::= !<[12]>', "line 1 column 10", "the token set !<[12]>"),
    ("gbnf", 'root ::= "a"{3,2}', "line 1 column 13", "bounds of a repeat are 3 and 2"),
    ("gbnf", 'root ::= "a"{1,99999999999}', "line 1 column 13", "more than 9 digits"),
    ("gbnf", 'x ::= "a"', "line 1 column 1", "no rule 'root' to start with"),
    ("gbnf", "", "line 1 column 1", "there is no rule in it"),
    ("ebnf", 'root ::= TagDispatch(("a", x))', "line 1 column 10", "the macro TagDispatch"),
    ("ebnf", 'root[max_tokens=3] ::= "a"', "line 1 column 1", "attributes [max_tokens=3] of rule 'root'"),
    ("ebnf", 'root ::= "a" (= "b")', "line 1 column 14", "an assertion of what follows"),
    ("ebnf", 'root ::= .', "line 1 column 10", "unexpected '.'"),
    ("abnf", 'r = "a"\ns = <any prose>', "line 2 column 5", "is prose"),
    ("abnf", "r = %x110000", "line 1 column 5", "is no character"),
    ("abnf", 'r =/ "a"', "line 1 column 1", "there is no rule 'r' yet"),
    ("abnf", "r = digits", "line 1 column 5", "rule 'digits' is used but not defined"),
    ("iso-ebnf", "a = 'x', ? prose ? ;", "line 1 column 10", "special sequence"),
    ("iso-ebnf", "a = 'x' - a ;", "line 1 column 9", "without recursion"),
    ("iso-ebnf", "a = 'x' - 'x' ;", "line 1 column 9", "no text is left"),
    ("llguidance", 'start: "a"\nx[stop="b"]: /.*/', "line 2 column 3", "attribute 'stop'"),
    ("llguidance", 'start[max_tokens=3]: /a+/', "line 1 column 7", "attribute 'max_tokens'"),
    ("llguidance", 'start: "a" <[12]>', "line 1 column 12", "the token set <[12]>"),
    ("llguidance", 'start: @n', "line 1 column 8", "nobody gave the grammar @n"),
    ("llguidance", 'start: "a" @{ x: "b" @}', "line 1 column 12", "a grammar inside another"),
    ("llguidance", 'start: /a(?=b)/', "line 1 column 8", "(?=b) is not read"),
    ("llguidance", 'start: A\nA: "a" A', "line 2 column 1", "without recursion"),
    ("llguidance", 'start: %json {"type": }', "line 1 column 8", "no JSON"),
    ("llguidance", 'start: "a" %json {"type": 5}', "line 1 column 12", "type"),
    ("llguidance", 'start: "a"\nx{p}: p', "line 2 column 1", "parameters of rule 'x'"),
    ("llguidance", '%llguidance {"skip_repetition": "once"}\nstart: "a"', "line 1 column 1", "skip_repetition"),
])  # fmt: skip
def test_mistakes_stand_at_their_place(notation, text, where, because):
    with pytest.raises(ConstrainedError) as caught:
        translated(text, notation).grammar()
    assert caught.value.where == where, caught.value
    assert because in str(caught.value)


@pytest.mark.parametrize("given", [
    {"text": 5}, {"text": "root ::= x", "start": 5}, {"text": 'root ::= "a"', "specials": "<s>"}, {"text": 'root ::= "a"', "specials": [5]},
    {"text": 'root ::= "a"', "define": 5},
])  # fmt: skip
def test_wrong_arguments_are_errors_of_the_tree(given):
    with pytest.raises(c.GrammarError):
        translated(**{"notation": "gbnf", **given})


def test_an_error_names_its_file_and_an_unknown_notation_is_one():
    with pytest.raises(c.GrammarError, match=r"at my\.gbnf line 1 column 10"):
        translated("root ::= )", "gbnf", file="my.gbnf")
    with pytest.raises(c.GrammarError, match="one of: gbnf"):
        translated("", "bnf")
    assert set(NOTATIONS) == {"gbnf", "ebnf", "abnf", "iso-ebnf", "llguidance"}
