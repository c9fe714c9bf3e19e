"""Headwater: declarative topologies of stateful stream processing, compiled to and run on Spark."""

__version__ = "0.1.0"
