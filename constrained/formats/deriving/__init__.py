"""Chat templates → formats, by comparing what they print of different messages."""
