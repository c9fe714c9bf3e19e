"""From a laid-out topology to files: job.py, runner.py, manifest.json."""
