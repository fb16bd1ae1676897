"""Fuzzers: commands that run for as long as one likes, and of which the suite runs a seeded slice."""
