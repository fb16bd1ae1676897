"""Schemas for people and other tools: described in words, blamed for contradictions, printed as Lark rules."""
