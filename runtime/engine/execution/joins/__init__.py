"""The operators that join: a stream with tables, and what else has the same key."""
