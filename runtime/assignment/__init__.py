"""Assignment: which client runs which task. What an assignor sees and answers (KIP-924), and the built-in assignors."""
