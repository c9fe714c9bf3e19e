"""Functions of the project: the seeds, and the Python in its flows."""
