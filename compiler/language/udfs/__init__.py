"""Python functions that expressions call: their declarations in headwater.yml, and their calls in expressions."""
