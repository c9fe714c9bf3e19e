"""Reports of a run for other programs: metrics, lineage, traces."""
