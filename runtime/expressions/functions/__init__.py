"""Kernels for string functions and casts of Spark SQL: composed of Arrow's, or in Python where Arrow differs."""
