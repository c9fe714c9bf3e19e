"""What generated code declares: the topology, its operators, windows and functions."""
