"""What the page asks: readings, masks, diagrams; the page as one file."""
from dataclasses import dataclass
from typing import Any


@dataclass
class Context:
    """What answers need."""

    vocabulary: Any
    deadline: float
ANSWERS = {}
def page(served): return "<p>page"
