"""Rounds of assignment on a model: what an assignor does as clients come and go. Nothing is run.

Plain Python. The model's clients hold copies of state as numbers of changelog records, and restore at a given rate.
"""
