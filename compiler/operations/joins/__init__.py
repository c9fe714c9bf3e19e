"""The joins of the language: what each kind checks, and how it is laid out."""
