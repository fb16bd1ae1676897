"""Grammars: one form for all (`ir`), read from Lark files, lowered to machine states, printed as Lark again."""

from __future__ import annotations

from .ir import Embedded, Grammar, Literal, Pattern, Ref, Rule, Special, Symbol

__all__ = ["Embedded", "Grammar", "Literal", "Pattern", "Ref", "Rule", "Special", "Symbol"]
