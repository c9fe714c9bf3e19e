"""Values of columns as JSON and as text, there and back."""
