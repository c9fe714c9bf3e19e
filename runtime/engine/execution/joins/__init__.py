"""Operators of joins: stream-table, stream-stream, table-table, and by a foreign key."""
