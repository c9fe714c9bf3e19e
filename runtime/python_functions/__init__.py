"""A project's `functions/`, as topologies run them: their code, and rows as functions see them."""
