"""Vocabularies: tokenizers and their files read into exact bytes per id, the token trie, bitmasks."""
