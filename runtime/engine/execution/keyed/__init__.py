"""Rows by key: grouping, reading and writing of stores, and changes of tables."""
