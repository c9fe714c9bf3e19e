"""Restores a client's stores to their committed positions: the driver plans the work, the client does it."""
