"""Whether a shape has a value at all, and how many, as far as somebody needs to know."""
