"""Cleaning of a log: merges of small segments, compaction by key, deletion of expired records.

Plans depend on segments alone; a file that is read as a whole is read only by a job. Rewritten files replace segments
once a `RewriteRecord` lists them.
"""
