"""Puts the records of topics that are fed from outside into other partitions, by another number or another key."""
