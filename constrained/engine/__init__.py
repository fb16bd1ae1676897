"""The engine: bytes in, state out; masks over a vocabulary.  Import its modules by name."""
