"""From automaton states to masks: buffers, walks of the token trie, context-independent masks, their composition."""
