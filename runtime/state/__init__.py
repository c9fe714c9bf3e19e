"""The local state of tasks: stores, their rows as bytes, their changelogs, and their directories."""
