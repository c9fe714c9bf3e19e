"""Chooses the committed records that a task takes in an epoch, their order, and the records that it skips."""
