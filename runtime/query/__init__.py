"""Reads rows of stores and records of topics, as of the last commit."""
