"""The log in a directory of a local file system: its files, its id, and what dead processes left in it."""
