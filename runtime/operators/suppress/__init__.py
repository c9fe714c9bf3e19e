"""Holds changes of a table back: what waits, when each goes on, and where they are stored."""
