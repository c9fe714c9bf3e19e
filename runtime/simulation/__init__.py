"""Simulates assignments: what an assignor does when clients come and go. No topology is run.

The model's clients hold copies of state, counted in changelog records, and restore at a given rate.
"""
