"""What the dynamic lexer of `lark` finds: which match a terminal prefers, and what it demands of the text behind it."""
