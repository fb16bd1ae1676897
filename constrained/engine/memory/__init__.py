"""What the compiled kernel asks of the system: checked blocks, arenas, and a meter for its work."""
