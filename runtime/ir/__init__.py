"""The declarations of generated code: the topology, windows and functions."""
