"""A project's `functions/` that run in its topologies: their code, and rows as functions see them."""
