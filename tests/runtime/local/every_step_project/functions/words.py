"""The words that functions say."""

SEEN = "seen"
