"""Generations of at most n tokens that always finish: shortest ways out, and matchers that keep one open."""
