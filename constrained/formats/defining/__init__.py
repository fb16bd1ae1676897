"""A format's two files as objects, and the names and tokenizers by which a format is found."""
