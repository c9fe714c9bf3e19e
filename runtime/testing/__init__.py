"""Runs a topology on a log of its own, with records and a time that a test gives it, and compares what comes out."""
