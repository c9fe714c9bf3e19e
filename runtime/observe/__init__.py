"""What other programs are told of a run: metrics, lineage, traces."""
