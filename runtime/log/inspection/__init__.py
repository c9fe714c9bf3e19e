"""Looks at a whole log, for people: what is in it, what of it is damaged, and how to go on without that."""
