"""Documents → nodes: the dialects and their keywords' forms, resources and references, the checks before anything is
compiled.
"""
