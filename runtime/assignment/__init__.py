"""runtime/assignment."""
