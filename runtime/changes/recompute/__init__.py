"""Which results a run computes again, and what else it does for that: topics that move, flows that change hands."""
