"""Runs a topology on its own log, with records and time from a test, and compares the results."""
