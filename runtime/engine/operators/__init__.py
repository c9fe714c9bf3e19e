"""The operators of a Python stage: what each does with the rows of a task's epoch."""
