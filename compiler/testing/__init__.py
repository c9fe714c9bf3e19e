"""The tests of a project: read from `tests/*.yml`, checked against its topologies, and written again by `--update`."""
