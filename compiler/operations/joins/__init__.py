"""The joins of the language: their checks and their layouts."""
