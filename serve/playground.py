"""stub"""
from dataclasses import dataclass
from typing import Any
@dataclass
class Context:
    vocabulary: Any
    deadline: float
ANSWERS = {}
def page(served): return "<p>page"
