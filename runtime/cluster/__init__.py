"""What executes epochs: this process (`local.py`), or Spark."""
