"""The conformance laboratory: does a reader find in the text of a turn what the format says is in it?

    constrained conform --format qwen3-coder --reader transformers [--markdown report.md]

`laboratory` draws turns of a format, gives their texts to a reader and shrinks each difference; `readers` holds the
readers; `report` prints. It needs Hypothesis, and the package of each reader, here or in another interpreter.
"""

from .laboratory import Difference, Host, Outcome, examine

__all__ = ["Difference", "Host", "Outcome", "examine"]
