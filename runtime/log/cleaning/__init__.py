"""Cleaning of a log: merging of small segments, compaction by key, deletion of what has expired.

Plans are made from segments, as a file that is read whole costs nothing that is asked for. What is written takes the
place of segments once a `RewriteRecord` lists it.
"""
