"""Records from outside: seeds, with which a topic begins, and appended records."""
