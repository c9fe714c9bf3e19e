"""Prints the results of a project's tests: as tables for people, and in the forms of other programs."""
