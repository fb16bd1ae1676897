"""What is charged for work that inputs make large: about a unit a microsecond, counted and not timed."""

from __future__ import annotations

from fractions import Fraction

import pytest
from constrained.export.engines import _CharacterWriter, export
from constrained.export.lark import _LarkWriter

from constrained import Grammar, GrammarError, LimitExceeded, Vocabulary, compile, regex
from constrained.formats.tools import read_tools
from constrained.schema.embedding import EmbeddedSchema
from constrained.schema.machines.distinct import whole_of
from constrained.schema.normal.counts import matched
from constrained.schema.number_texts import JSON_NUMBERS, number_language
from constrained.schema.strings.sets import listed
from constrained.schema.values import NumberRange
from constrained.work import Budget, metered


def units(work) -> int:
    """Return the units that a call spends."""
    budget = Budget()
    with metered(budget):
        work()
    return Budget().left - budget.left


@pytest.mark.parametrize("step", [Fraction(1), Fraction(1, 10)])
def test_listed_numbers_are_charged_one_by_one(step):
    listed = tuple([NumberRange(low=step * at, high=step * at) for at in range(-100, 100)])
    assert 1_000 <= units(lambda: number_language.__wrapped__(listed, JSON_NUMBERS)) <= 3_000


def test_listed_texts_are_charged_by_their_letters():
    language = regex.literal("a" * 300)
    listed(language, 9)  # derivatives are made once
    assert 300 <= units(lambda: listed(language, 9)) <= 400


def test_values_that_are_matched_are_charged_one_by_one():
    domains = [[*range(50)]] * 20
    assert 1_000 <= units(lambda: matched(domains)) <= 2_000


def test_values_that_are_spelled_out_are_charged_part_by_part():
    assert 1_000 <= units(lambda: whole_of(("array", tuple([("null", None)] * 100)))) <= 2_000


def test_ways_of_counted_items_are_charged_one_by_one():
    counted = [{"contains": {"required": [name]}, "maxContains": 3} for name in "abcdefgh"]
    (opening, _), *_ = Grammar.from_json_schema({"type": "array", "allOf": counted}).start_state().expand().calls
    opening.then.expand()  # values are made once
    assert units(opening.then.expand) >= 1_000


VOCABULARY = Vocabulary([bytes([byte]) for byte in range(128)], special={"<end>": 128}, stop=[128])


def test_short_numbers_are_searched_for_state_by_state():
    constraint = compile(Grammar.from_json_schema({"type": "integer", "minimum": 1, "multipleOf": 997}), VOCABULARY)
    before = constraint.budget.left
    assert constraint.min_tokens == 3
    assert before - constraint.budget.left >= 100_000


def test_what_the_names_of_an_object_lead_to_is_not_prepared_by_the_square_of_their_number():
    held = []
    for count in (10_000, 20_000):
        names = {f"key{number}": {"type": "string"} for number in range(count)}
        VOCABULARY.kernels.clear()
        kernel, _ = compile(Grammar.from_json_schema({"type": "object", "properties": names}), VOCABULARY)._place
        held.append(kernel.cached_bytes())
    assert held[1] < 2.5 * held[0]


def test_shortest_words_of_2_to_the_30_items_are_refused():
    definitions = {
        f"d{level}": {"type": "array", "minItems": 2, "prefixItems": [{"$ref": f"#/$defs/d{level + 1}"}] * 2}
        for level in range(30)
    }
    schema = {"$ref": "#/$defs/d0", "$defs": {**definitions, "d30": {"const": 0}}}
    with pytest.raises(LimitExceeded, match="too much work"):
        _ = compile(Grammar.from_json_schema(schema), VOCABULARY).min_tokens


LONG = ["a" * 9_000 + str(number) for number in range(100)]


def test_what_is_too_long_as_lark_is_refused_while_it_is_written():
    with pytest.raises(GrammarError, match=r"schema needs [1-4]\d,\d{3} Lark symbols"):
        Grammar.from_json_schema({"enum": LONG}).to_lark()


class Counted(set):
    """A set that counts how often it is asked."""

    asked = 0

    def __contains__(self, name):
        self.asked += 1
        return super().__contains__(name)


def test_states_are_named_without_trying_the_numbers_of_those_before():
    grammar = Grammar.choice(["a"])
    printer, exporter = _LarkWriter(grammar, lookahead=False), _CharacterWriter(grammar, "gbnf")
    printer._taken, exporter._taken = Counted(printer._taken), Counted(exporter._taken)
    printed = [printer._fresh("text") for _ in range(1_000)]
    exported = [exporter._name(number, "text") for number in range(1_000)]
    assert printed[-1] == "text_999"
    assert exported[-1] == "text-999"
    assert printer._taken.asked + exporter._taken.asked < 5_000


def test_classes_that_are_exported_are_charged_range_by_range():
    language = regex.parse_python(r"\w")
    ranges = len(language.edges())
    writer = _CharacterWriter(Grammar.choice(["a"]), "gbnf")
    assert ranges > 500
    assert units(lambda: writer._steps(language)) >= 2 * ranges


def test_an_export_that_is_too_large_says_so():
    with pytest.raises(LimitExceeded) as caught:
        export(Grammar.from_regex(r"(?:\w[^\w]){2400}"), "gbnf")
    assert "export to gbnf" in caught.value.where


def test_text_that_is_cut_into_tokens_is_charged_before_it_is_all_cut():
    vocabulary = Vocabulary([bytes([byte]) for byte in range(256)])
    assert 29_000 <= units(lambda: vocabulary.tokenize(b"ab" * 5_000)) <= 31_000


def test_the_limit_of_a_list_of_tools_names_the_tool():
    tools = [{"name": f"f{number}", "parameters": {}} for number in range(200)]
    with metered(Budget(1_500)), pytest.raises(LimitExceeded) as caught:
        read_tools(tools)
    assert caught.value.where is not None
    assert caught.value.where.startswith("tool 1")


def test_schemas_beside_each_other_are_not_compared_with_each_other(monkeypatch):
    compared = []
    same = EmbeddedSchema.__eq__
    monkeypatch.setattr(EmbeddedSchema, "__eq__", lambda one, other: compared.append(other) or same(one, other))
    parts = {f"s{number}": Grammar.from_json_schema({"const": number}) for number in range(100)}
    Grammar.from_lark("start: " + " | ".join(parts), define=parts).start_state().expand()
    assert len(compared) < 500
