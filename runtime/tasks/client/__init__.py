"""The tasks of one client, as assignments come and go."""
