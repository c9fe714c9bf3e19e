"""The local state of tasks: stores, the encoding of rows, catching up from changelogs, and state directories."""
