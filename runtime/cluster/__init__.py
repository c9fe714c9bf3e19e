"""Clusters, which execute epochs: this process (`local.py`), or Spark."""
