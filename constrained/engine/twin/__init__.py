"""The readable twin of the compiled kernel: a pushdown automaton over bytes, determinised lazily."""
