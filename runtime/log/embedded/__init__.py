"""The log in a directory of a local file system: its files, its id, and the removal of files of dead processes."""
