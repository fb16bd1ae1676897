"""Patterns as people write them: Python's `re` and ECMA-262, assertions and Unicode properties."""
