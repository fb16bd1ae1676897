"""Sequences as hosts show them → the matchers behind them: rows of a batch, one sequence, and which call of `generate`
asks.
"""
