"""Chat formats as data.  A package only so that `importlib.resources` finds the files however this is installed."""
