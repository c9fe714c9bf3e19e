"""Simulates an assignor while clients join and leave. No topology is run.

Simulated clients have copies of state, counted in changelog records, and restore them at a given rate.
"""
