"""Tasks: their states, the tasks of a client, and the plan of an epoch."""
