"""What stands inside a text: its language, and where in the spelling of a character a reader is."""
