"""The dynamic lexer of `lark` as languages: which match a terminal prefers, what it demands of the text behind it."""
