"""How `exports` writes grammars: as rules over single characters, and as structural tags around such rules."""
