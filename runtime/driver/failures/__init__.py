"""What goes wrong while an application runs, and what becomes of it."""
