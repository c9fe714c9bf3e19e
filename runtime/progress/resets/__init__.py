"""What people ask of committed progress: to start again, to read elsewhere, to remove, to compute stores again."""
