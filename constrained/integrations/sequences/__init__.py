"""Sequences as hosts show them → matchers: rows of a batch, a single sequence, and the `generate` call behind them."""
