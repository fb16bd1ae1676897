"""From automaton states to masks: drafts, walks of the token trie, context-independent masks, their composition."""
