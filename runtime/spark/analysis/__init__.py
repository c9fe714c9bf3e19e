"""Spark's own analyzer of expressions: their types, and all that is wrong with them before a record is read."""
