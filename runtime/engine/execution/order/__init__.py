"""Which committed records a task takes in an epoch, and in which order; those that it leaves out."""
