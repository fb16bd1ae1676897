"""Messages → canonical text, token ids, and what of them a model learns."""
