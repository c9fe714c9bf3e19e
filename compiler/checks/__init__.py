"""Checks of a project: all rules of the language that a schema cannot express."""
