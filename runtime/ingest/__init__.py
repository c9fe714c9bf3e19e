"""Records of external topics: seeds, with which a topic starts, and appended records."""
