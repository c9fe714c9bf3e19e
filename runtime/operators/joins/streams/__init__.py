"""The join of two streams: which records match, which wait for a match, and what comes out in which order."""
