"""Who runs which task: what an assignor sees (KIP-924), what it answers, and the built-in assignors."""
