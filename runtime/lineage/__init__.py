"""Tells OpenLineage what runs: which topics an application reads and writes, and how its runs begin and end."""
