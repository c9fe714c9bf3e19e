"""Which executors there are, and which of them are silent."""
