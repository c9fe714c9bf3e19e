"""Strict YAML: from text to nodes with places."""
