"""Records from outside: appended by a user, or the seeds that a topic begins with."""
