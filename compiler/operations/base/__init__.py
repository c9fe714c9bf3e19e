"""What an operation is, what it is given and what it gives back. Nothing here knows a single operation."""
