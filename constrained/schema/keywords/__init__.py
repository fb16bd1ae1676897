"""The meaning of keywords: one function each, sorted by the types that they are about."""
