"""Rows by key: grouped, looked up in stores, and turned into the changes of a table."""
