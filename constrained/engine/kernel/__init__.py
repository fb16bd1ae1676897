"""The compiled kernel: automaton, texts, objects and masks in flat arrays.

`_kernel` is the object that matchers hold; `engine.twin` says the same things plainly.
"""
