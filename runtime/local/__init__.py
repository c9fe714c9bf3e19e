"""Runs topologies in this process, without Spark, with the same loop, operators, stores and log."""
