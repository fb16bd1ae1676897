"""Chat formats: how models write text and tool calls.

A format is two files in ``grammars/``: a Lark grammar and a small definition.  From here on:

    tools ──► JSON Schemas ─┐
    options, tool_choice ───┴─ bind ──► Grammar ──► (engine) ──► masks
    what was generated ─────── parse ─► Message ──► write ─► the same text
"""

from __future__ import annotations

from constrained.formats.load import ChatFormat
from constrained.formats.message import Message, ToolCall
from constrained.formats.tools import Tool, read_tools

__all__ = ["ChatFormat", "Message", "Tool", "ToolCall", "read_tools"]
