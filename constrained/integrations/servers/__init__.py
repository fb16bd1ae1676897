"""Serving engines: vLLM and SGLang ask for the same few things, in their own words; what a request says, a cursor,
masks on a device.
"""
