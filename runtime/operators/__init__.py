"""runtime/operators."""
