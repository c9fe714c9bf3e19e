"""Tests of a project: read from `tests/`, checked against its topologies, and updated by `--update`."""
