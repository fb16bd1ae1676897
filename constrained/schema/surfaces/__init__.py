"""Surfaces: how values are spelled, as JSON, as Python, with quotes of their own, or between tags."""
