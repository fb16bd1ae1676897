"""Grammars and schemas written down for other readers; installed as `constrained.export`.

lark           a grammar as one Lark file
schema_rules   the machine of a schema as Lark rules
declarations   tools in the languages that prompts show models: TypeScript, Python, XML, …
engines        a grammar for other engines: GBNF, XGrammar's EBNF and structural tags, llguidance's Lark, …
"""
