"""The compiler: from YAML to checked topologies and generated code, without Spark. `pipeline` runs its stages."""
