"""What an assignor would do to an application as clients come and go: rounds of assignment on a model, nothing is run.

Plain Python. The model's clients hold copies of state as numbers of changelog records, and restore at a given rate.
"""
