"""Tool definitions in every shape that serving stacks and model cards use → named JSON Schemas."""

from constrained.formats.tools.definitions import Tool, read_tools
from constrained.formats.tools.relaxed import parse_relaxed

__all__ = ["Tool", "parse_relaxed", "read_tools"]
