"""Tool definitions in every shape that serving stacks and model cards use → named JSON Schemas."""

from .definitions import Tool, read_tools
from .relaxed import parse_relaxed

__all__ = ["Tool", "parse_relaxed", "read_tools"]
