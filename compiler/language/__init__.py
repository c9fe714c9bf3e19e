"""What a project says: the typed model, its references, its expressions and their types."""
