"""Lark files → rules, and rules → Lark files: directives, imports, terminals with context, what the lexer prefers."""
