"""Topics, commits and seeds: everything that is durable. `docs/log.md` tells how it fits together."""
