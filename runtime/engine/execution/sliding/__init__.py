"""Sliding windows: which windows a record makes and updates, and their aggregates."""
