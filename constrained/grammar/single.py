"""Grammars that are nothing but an embedded machine, as all of JSON Schemas are, made without looking at their parts.

PERF: the checks of rules that somebody wrote by hand, and what `compile` asks of any rules, are twenty functions of
Python, about a fifteenth of the time in which a small schema compiles where none of them is in the processor's cache.
Compared with the checked way, field by field, in tests/test_compose.py.
"""

from __future__ import annotations

from typing import Any

from constrained.grammar.ir import Grammar
from constrained.grammar.lower import Alone
from constrained.grammar.symbols import Embedded, Rule

_NO_NAMES: frozenset[str] = frozenset()


def of_machine(machine: Any) -> Grammar:
    """Return the grammar of a schema's machine, as of a rule "start" that is nothing but the symbol of the machine.

    What is computed of a grammar when it is first asked for is entered at once.
    """
    symbol = Embedded("value", machine)
    symbols, specials = (symbol,), machine.specials
    grammar = Grammar.__new__(Grammar)
    grammar.__dict__.update(
        rules={"start": Rule("start", (symbols,))},
        start="start",
        specials=specials,
        widened=machine.widened,
        source=None,
        adopts=True,
        stops=_NO_NAMES,
        cut=(),
        recipe=("schema", machine),
        _symbols=symbols,
        _texts=machine.markers - specials,
        _lowering=Alone(symbol, specials),
        heavy=symbols if machine.heavy else (),
        reading_units=machine.reading_units,
        has_own_rules=False,
    )
    return grammar
