"""The Python in the flows of the project."""
