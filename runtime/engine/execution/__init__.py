"""What a Python stage does with the rows of a task's epoch: the array code of the operators."""
