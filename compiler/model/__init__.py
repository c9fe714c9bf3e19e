"""A project as typed data, built from its files, and the meaning of its names."""
