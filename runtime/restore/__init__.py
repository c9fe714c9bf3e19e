"""Restore strategies: which committed records bring a store to its target, and in which steps."""
