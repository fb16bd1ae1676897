"""The texts that hold arguments → JSON values: JSON and Python literals, read piece by piece.

Both readers are fed characters as they come and never look back, so that one class serves whole turns, cut turns and
streams.  Every fault has its place, a reason and the JSON pointer of the value in which it stands.  Nothing is ever
evaluated.
"""

from __future__ import annotations

from constrained.formats.payload.json_text import JsonReader
from constrained.formats.payload.python_text import KeywordsReader
from constrained.formats.payload.value_reader import Fault, ValueReader

__all__ = ["Fault", "JsonReader", "KeywordsReader", "ValueReader"]
