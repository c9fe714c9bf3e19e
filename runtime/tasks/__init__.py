"""runtime/tasks."""
