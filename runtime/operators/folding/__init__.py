"""Aggregations by Python of the project: `reduce`, and `aggregate` with a class. They go from record to record."""
