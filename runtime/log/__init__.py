"""The log: topics, commits and seeds, all that is durable. `docs/log.md` describes it."""
