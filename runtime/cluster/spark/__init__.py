"""Spark: the epoch's job, clients on executors, SQL steps, and the analyzer of expressions."""
