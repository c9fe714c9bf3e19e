"""Restores a client's stores to the committed position: plans the work and sends it to where the stores are."""
