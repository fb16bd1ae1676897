"""Text values: their languages, and positions inside the spelling of a character."""
