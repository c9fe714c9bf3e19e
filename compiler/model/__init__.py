"""A project as typed data, built from its files, and what its names mean."""
