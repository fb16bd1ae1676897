"""The texts that hold arguments → JSON values: JSON and Python literals, read piece by piece.

Both readers are fed characters as they come and never look back, so that one class serves whole turns, cut turns and
streams.  Every fault has its place, a reason and the JSON pointer of the value in which it stands.  Nothing is ever
evaluated.
"""

# The rules of a text that holds elements, and whether they are an object's or an array's, where the tag says it.
ELEMENTS = {"elements": None, "object_elements": "object", "array_elements": "array"}
