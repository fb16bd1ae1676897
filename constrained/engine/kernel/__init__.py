"""The compiled kernel: automaton, texts, objects and masks in flat arrays; who shares it, and how much memory that may take.

`_kernel` is the object that matchers hold; `engine.twin` says the same things plainly.
"""
