"""Jinja in the scalars of a tree: templates and their expressions, rendered with places."""
