"""What a run tells of itself: events, the status of its tasks, and its results."""
