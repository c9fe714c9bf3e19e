"""The API for writing assignors: what an assignor is given and what it answers, with the names of KIP-924."""
