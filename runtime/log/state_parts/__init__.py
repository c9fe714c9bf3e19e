"""What a LogState is made of."""
