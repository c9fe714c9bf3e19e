"""runtime/restore."""
