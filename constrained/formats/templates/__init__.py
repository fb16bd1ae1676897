"""Chat templates: which format one is of, and formats derived by comparing what it prints of different messages."""
