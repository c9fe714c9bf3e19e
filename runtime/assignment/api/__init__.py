"""What an assignor is given and what it answers, by the names of KIP-924; for assignors of one's own."""
