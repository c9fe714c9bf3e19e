"""Inspection of a whole log for users: its contents, its damage, and repair."""
