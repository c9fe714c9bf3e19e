"""runtime/log."""
