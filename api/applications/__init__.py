"""The applications of the selected topologies: run, paused, planned, started again, removed; their tasks."""
