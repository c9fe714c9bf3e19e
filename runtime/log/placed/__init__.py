"""Names of applications, and the places where a log keeps them: one commit renames applications, or switches them."""
