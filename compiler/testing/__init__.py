"""The tests of a project: read from `tests/`, checked against its topologies, and written again by `--update`."""
