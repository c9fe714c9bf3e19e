"""Reads a project's files into trees with places: strict YAML, rendered Jinja, checked against the schemas."""
