"""What has changed between a project and what is committed, and what the next run makes of it. Plain data, no Spark."""
