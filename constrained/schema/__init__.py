"""JSON Schema: from documents to normal forms to machines.

    documents ── reading ──► nodes ── normal: plans, sketches ──► values
    values ── machines, surfaces ──► states of the engine

The folders are these stations; docs/architecture.md names what is in each.
"""

from constrained.schema.embedding import EmbeddedSchema, embed

__all__ = ["EmbeddedSchema", "embed"]
