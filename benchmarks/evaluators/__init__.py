"""What could evaluate the expressions of filters and projections in a task's Python process: speed, size, answers."""
