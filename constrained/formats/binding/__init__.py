"""A format, tools and a choice bound into one grammar: what this turn may hold."""
