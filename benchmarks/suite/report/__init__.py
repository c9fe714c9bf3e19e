"""The page `docs/benchmarks.md`, made of the figures that are kept."""
