"""Expressions with their types and functions; entries of a project's files as typed data; stores."""
