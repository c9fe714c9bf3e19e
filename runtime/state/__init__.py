"""Local state of tasks: stores, their rows as bytes, their changelogs, and the directory they live in."""
