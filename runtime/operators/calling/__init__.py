"""Calls of Python functions that expressions name."""
