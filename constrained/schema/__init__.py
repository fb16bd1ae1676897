"""JSON Schema: from documents to normal forms to machines.

documents ── check ──► nodes ── plans, alternatives ──► drafts ── shapes, live ──► Value ── machines ──► states of the engine
"""

from constrained.schema.embedding import EmbeddedSchema, embed

__all__ = ["EmbeddedSchema", "embed"]
