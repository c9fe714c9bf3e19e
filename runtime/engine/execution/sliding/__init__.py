"""Sliding windows: the windows that a record creates and updates, and their aggregates."""
