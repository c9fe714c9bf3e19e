"""Tasks: their ids, their states, who owns them, and the plan of what they do in an epoch."""
