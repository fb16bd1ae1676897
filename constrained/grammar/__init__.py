"""Grammars: one form for all (`ir`), read from Lark files, lowered to machine states, printed as Lark again.

The methods of `Grammar` that read, print, lower and combine are here given what does so; what is not needed by
everybody loads when it is first asked for.
"""

from __future__ import annotations

from typing import Any

from constrained.grammar import compose
from constrained.grammar.ir import Embedded, Grammar, Literal, Pattern, Ref, Rule, Special, Symbol, operations

__all__ = ["Embedded", "Grammar", "Literal", "Pattern", "Ref", "Rule", "Special", "Symbol"]


def _read(*given: Any) -> Any:
    from constrained.grammar.lark.reader import read

    return read(*given)


def _read_file(*given: Any) -> Any:
    from constrained.grammar.lark.reader import read_file

    return read_file(*given)


def _write(grammar: Grammar, **options: Any) -> Any:
    from constrained.grammar.lark.printer import write

    return write(grammar, **options)


def _lower(grammar: Grammar) -> Any:
    from constrained.grammar.lower import lowered

    operations["lower"] = lowered  # from now on: to ask for a module takes longer than to call it
    return lowered(grammar)


def _of_machine(machine: Any) -> Any:
    from constrained.grammar.compose import of_machine

    operations["of_machine"] = of_machine  # as above
    return of_machine(machine)


def _machine_of(*given: Any) -> Any:
    from constrained.schema.embedding import machine_of  # of a layer above, which loads only when a schema is asked for

    operations["machine_of"] = machine_of  # as above
    return machine_of(*given)


operations.update(
    read=_read,
    read_file=_read_file,
    write=_write,
    lower=_lower,
    machine_of=_machine_of,
    of_machine=_of_machine,
    choice=compose.choice,
    text=compose.text,
    substring_of=compose.substring_of,
    sequence=compose.sequence,
    either=compose.either,
    optional=compose.optional,
    repeated=compose.repeated,
    marked=compose.with_specials,
)
