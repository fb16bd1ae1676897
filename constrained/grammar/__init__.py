"""Grammars: one form for all (`ir`), read from Lark files, lowered to machine states, printed as Lark again."""

from constrained.grammar.grammar import Grammar
from constrained.grammar.ir import Embedded, Literal, Pattern, Ref, Rule, Special, Symbol

__all__ = ["Embedded", "Grammar", "Literal", "Pattern", "Ref", "Rule", "Special", "Symbol"]
