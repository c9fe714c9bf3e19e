"""Processors that share stores: which are together, what keeps them from that, and how they stand in a stage."""
