"""Exports for other engines: rules over single characters, and structural tags around such rules."""
