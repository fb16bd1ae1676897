"""`python -m constrained` is the command line."""

from constrained.cli import main

main()
