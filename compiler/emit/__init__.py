"""Generates files from a laid-out topology: job.py, runner.py, manifest.json."""
