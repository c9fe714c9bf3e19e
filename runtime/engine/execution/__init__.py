"""The array code of operators: runs a Python stage on the rows of a task's epoch."""
