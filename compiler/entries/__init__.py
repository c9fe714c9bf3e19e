"""Entries of a project's files as typed data: topics, tables, stores, uses of plugins; what several kinds share."""
