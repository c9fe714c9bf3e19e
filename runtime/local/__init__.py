"""This process as what executes a run: the same loop, operators, stores and log, without Spark."""
