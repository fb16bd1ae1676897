"""The compiled kernel: automaton and masks in flat arrays, put together of parts; docs/kernel.md explains it.

`_kernel` is the object that matchers hold; `engine.plain` says the same things plainly.
"""
