"""Output of commands: tables, progress and diagnostics, as text for people and as lines of JSON for programs."""
