"""From YAML to checked topologies and rendered code. Knows neither Spark nor the engine; see `pipeline`."""
