"""Placing tasks by racks (KIP-925): less of their data crosses from one rack to another."""
