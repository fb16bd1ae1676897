"""What the tables of the shipped formats say, for tests that are made from them: their grammars are not read for that."""

from __future__ import annotations

from constrained.formats.definition import read_definition
from constrained.formats.pairs import shipped_names
from constrained.grammar.lark import shipped_folder

DEFINITIONS = {name: read_definition(shipped_folder() / f"{name}.toml", shipped_folder()) for name in shipped_names()}
