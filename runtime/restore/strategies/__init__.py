"""The built-in restore strategies."""
