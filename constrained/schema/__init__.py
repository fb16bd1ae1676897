"""JSON Schema: from documents to normal forms to machines.

documents ── reading ──► nodes ── keywords ──► drafts ── normal, satisfiability ──► values
values ── machines, surfaces ──► states of the engine
"""

from constrained.schema.embedding import EmbeddedSchema, embed

__all__ = ["EmbeddedSchema", "embed"]
