"""Rows that steps in SQL cannot process: the epoch's job marks them, and says afterwards at which step and why."""
