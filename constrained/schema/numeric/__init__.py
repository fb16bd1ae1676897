"""Sets of numbers, and number texts as languages that are exact by value."""
