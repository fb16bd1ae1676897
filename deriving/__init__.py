"""Formats out of chat templates and response templates, and response templates out of formats.

Installed as `constrained.deriving`.
"""
