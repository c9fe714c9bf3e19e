"""Reads the rows of stores and the records of topics for people, as of the last commit."""
