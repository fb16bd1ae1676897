"""`python -m constrained` is the command line."""

from .cli import main

main()
