"""Grammar → railroad diagrams."""
