"""Results that are computed again beside those that are there, and take their place once they are caught up."""
