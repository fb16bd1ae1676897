"""Grammars that a template is filled to are those whose rules were written out."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import constrained as c
from constrained.grammar import Embedded, Grammar, Literal, Ref, Rule, lower
from constrained.grammar.ir import fill
from constrained.machine import END, Bytes, Widened


class Machine:
    """Some bytes; texts that can be tokens, and special tokens that it writes."""

    notes = narrowed = ()
    weight = 7

    def __init__(self, data, markers=(), specials=(), widened=()):
        self.data, self.widened = data, tuple(widened)
        self.markers, self.specials = frozenset(markers), frozenset(specials)

    def with_specials(self, names):
        return self

    def state(self):
        return Bytes(self.data, END)

    def to_lark(self, prefix, *, lookahead=True):
        return [f'{prefix}: "{self.data.decode()}"']


HOLE = Embedded("hole", Machine(b"?"))
RULES = {
    "start": ((Ref("list"), Literal("<end>")),),
    "list": ((Ref("list"), Literal(","), Ref("item")), (Ref("item"),)),
    "item": ((Literal("("), HOLE, Literal(")")), (Literal("[x]"),), (Literal("-"), HOLE), (Literal("("), Literal("y)"))),
}
VOCABULARY = c.Vocabulary(
    [bytes([byte]) for byte in range(256)] + [b"(a", b"a)", b"),", b",(", b"b),-"],
    special={name: 261 + at for at, name in enumerate(["<end>", "[x]", "<m>", "<s>"])},
)  # fmt: skip


def _template(**more):
    rules = {name: Rule(name, alternatives) for name, alternatives in RULES.items()}
    return Grammar(rules, specials=frozenset({"<end>"}), stops=frozenset({"<end>"}), **more)


def _written_out(template, machine):
    symbol = Embedded("hole", machine)
    alternatives = tuple(tuple(symbol if read is HOLE else read for read in way) for way in RULES["item"])
    return template.replace("item", alternatives)


def _masks(grammar, text):
    matcher, row, found = c.compile(grammar, VOCABULARY).matcher(), np.zeros((1, VOCABULARY.words), np.int32), []
    for token in text:
        matcher.fill_mask(row)
        found.append(row.tobytes())
        if not matcher.accepts(token):
            break
        matcher.advance(token)
    return found


MACHINES = [
    Machine(b"a"),
    Machine(b"ab"),
    Machine(b"a", markers={"<m>", "other"}),
    Machine(b"a", specials={"<end>"}),
    Machine(b"a", specials={"<s>"}),
    Machine(b"a", widened=[Widened("#", "not", "too much")]),
]


@pytest.mark.parametrize("machine", MACHINES, ids=range(len(MACHINES)))
def test_filled_is_written_out(machine):
    template = _template()
    made, plain = fill(template, "item", HOLE, machine), _written_out(template, machine)
    assert (made.filling is None) is bool(machine.widened or "<s>" in machine.specials)
    for marked in (False, True):
        for field in ("rules", "start", "specials", "widened", "source", "adopts", "stops", "cut", "recipe", "narrowed"):
            assert getattr(made, field) == getattr(plain, field), field
        for fact in ("weight", "heavy", "has_own_rules", "nullable", "fingerprint"):
            assert getattr(made, fact) == getattr(plain, fact), fact
        assert list(made.symbols()) == list(plain.symbols())
        assert made.to_lark() == plain.to_lark()
        for text in (b"(a),-a,(y)", b"(ab),-ab", b"(y),(a", [262, 44, 45, 97, 261], [256, 258, 45, 97, 261], b"(?"):
            assert _masks(made, text) == _masks(plain, text)
        if not marked:
            made, plain = (grammar.with_specials(VOCABULARY.special) for grammar in (made, plain))
            assert "[x]" in made.specials and ("<m>" in made.specials) is ("<m>" in machine.markers)
            assert made.filling is None or "<m>" not in machine.markers, "its symbols are looked at again"


def test_a_template_is_looked_at_once(monkeypatch):
    template = _template()
    first, second = (fill(template, "item", HOLE, Machine(data)) for data in (b"a", b"bb"))
    found = [_masks(made, text) for made, text in ((first, b"(a),-a"), (second, b"(bb),-"))]
    monkeypatch.setattr(lower, "Facts", lambda *_: pytest.fail("the rules were looked at again"))
    monkeypatch.setattr(Grammar, "__post_init__", lambda *_: pytest.fail("the rules were checked again"))
    third = fill(template, "item", HOLE, Machine(b"bb"))
    assert _masks(third, b"(bb),-") == found[1] != found[0] == _masks(first, b"(a),-a")
    assert third.with_specials(VOCABULARY.special).filling.template is second.with_specials(VOCABULARY.special).filling.template


def test_what_is_filled_can_be_changed_and_copied():
    template = _template()
    made = fill(template, "item", HOLE, Machine(b"a")).made_by("lark", "text")
    assert template.recipe is None and fill(template, "item", HOLE, Machine(b"a")).recipe is None
    copied = pickle.loads(pickle.dumps(fill(template, "item", HOLE, Machine(b"a"))))
    assert copied.filling is None and _masks(copied, b"(a),") == _masks(made, b"(a),")
    changed = made.replace("item", ((Literal("z"),),))
    assert changed.filling is None and _masks(changed, b"z,z") != _masks(made, b"z,z")
    bare, plain = (grammar.without_specials(["<end>"]) for grammar in (made, _written_out(template, Machine(b"a"))))
    assert bare.specials == plain.specials == frozenset() and bare.fingerprint == plain.fingerprint
