"""Expressions with their types and functions; the Python functions that files name."""
