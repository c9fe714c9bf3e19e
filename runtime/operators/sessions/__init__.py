"""Session windows: which records of a key belong together, how their sessions are stored, and their aggregates."""
